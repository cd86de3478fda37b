"""The page of a run: it needs nothing else, says what the report says, and escapes names."""

import base64
import html
import logging
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views import html_page
from subsample_mcmc.runs.views.html_page import page
from tests.runs.test_trace import made

NASTY = "<script>alert('a & b')</script>"
VOID = {"meta", "img", "link", "br", "hr"}
HEADS = {"made": "draws", "summary": "mean", "costs": "steps"}


class Read(HTMLParser):
    """Tables as lists of texts, headings, pictures; what is opened must be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tables, self.pictures, self.titles, self.items = [], [], [], [], []
        self.tags, self.names = set(), []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.names += [value for key, value in attrs if key == "id"]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")
        elif tag in {"img", "svg"}:
            self.pictures.append(dict(attrs))
        elif tag in {"h1", "h2", "summary"}:
            self.titles.append("")
        elif tag == "li":
            self.items.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in {"td", "th", "b"} and "table" in self.open:
            self.tables[-1][-1][-1] += data
        elif self.open and self.open[-1] in {"h1", "h2", "summary"}:
            self.titles[-1] += data
        elif self.open and self.open[-1] == "li":
            self.items[-1] += data

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def table(self, name):
        """The one that has this word in its first row or column, wherever it stands."""
        words = HEADS[name]
        (found,) = [t for t in self.tables if words in {*t[0], *(row[0] for row in t)}]
        return found

    def labels(self):
        """What pictures show, in words."""
        return [picture.get("alt") or picture.get("aria-label") for picture in self.pictures]


def run(rng, kernel="g", block="theta", **meta):
    racing = {
        "steps": 1, "decisions": 1, "pulls": 50, "everything": 400, "accepted": 1, "early": 1,
        "raced": 1, "audited": 1, "margin": rng.gamma(1.0, 5.0, (4, 200)), "variance": 2.0,
    }  # fmt: skip
    draws = {block: rng.normal(size=(4, 200)), "k": rng.integers(0, 3, size=(4, 200, 2))}
    return made(draws, {kernel: racing}, {kernel: {"note": "it is a note."}}, **meta)


@pytest.fixture(scope="module")
def trace():
    return run(np.random.default_rng(8))


@pytest.fixture(scope="module")
def text(trace):
    return page(trace)


@pytest.fixture(scope="module")
def found(text):
    return Read(text)


@pytest.fixture
def bare(monkeypatch):
    """As if matplotlib were not installed: what is not about pictures is quicker so."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def test_it_needs_nothing_else(text, found):
    assert text.startswith("<!DOCTYPE html>") and 'name="viewport"' in text
    assert not found.tags & {"script", "link", "iframe", "object"}
    assert not re.search(r"https?:|url\((?!#)|@import", re.sub(r"base64,[^\"]+", "", text))
    for picture, label in zip(found.pictures, found.labels(), strict=True):
        assert label
        if "src" in picture:
            head, data = picture["src"].split(",")
            assert head == "data:image/png;base64"
            assert base64.b64decode(data).startswith(b"\x89PNG\r\n")
    assert any("viewbox" in picture for picture in found.pictures)  # drawn by the browser
    assert len(set(found.names)) == len(found.names)
    assert {*re.findall(r"(?:url\(|href=\")#([\w.-]+)", text)} <= {*found.names}
    assert len(found.pictures) == 6 + 3  # the panels of trace.plot; theta, k[0] and k[1]


def test_it_says_how_the_run_was_made(found):
    made_by = dict(found.table("made"))
    assert made_by["draws"] == "200 in each of 4 chains" and made_by["guarantee"] == "asymptotic"
    assert made_by["seed"] == str(2**100) and made_by["audited"] == "1% of decisions"
    assert made_by["warm-up"] == "10 steps, not kept" and made_by["subsample_mcmc"] == "0.1.0"
    assert "of a planned" not in made_by


@pytest.mark.usefixtures("bare")
def test_an_unfinished_run_says_so(rng):
    assert dict(Read(page(run(rng, draws=5000))).table("made"))["of a planned"] == "5,000"


def test_it_says_what_the_report_says(trace, found):
    report = trace.report()
    assert found.table("costs") == report.costs()
    assert found.table("summary") == report.summary.cells()
    assert ["audited", "800"] in found.table("costs")
    assert found.items == report.warnings + report.notes
    assert "g: it is a note." in found.items
    shown = [t for t in found.titles if not t.startswith("Notes")]
    assert shown == ["A run of g", "Summary", "Draws", "Details", "Decisions and their cost",
                     "How it was made"]  # fmt: skip


def test_the_verdict_comes_first_and_details_are_folded(trace, text):
    verdict = [answer for _, answer in trace.report().verdict.lines()]
    places = [text.index(html.escape(answer)) for answer in verdict]
    places += [text.index("<h2>Summary"), text.index("<details>")]
    assert places == sorted(places)
    assert text.index("error per decision") > text.index("<details>")
    assert "<details open" not in text


def test_names_are_shown_as_they_are(rng):
    trace = run(rng, NASTY, "<i>&$x$", describe=f"Gibbs({NASTY!r})")
    text = page(trace)
    found = Read(text)
    assert not found.tags & {"script", "i"}
    assert found.titles[0] == f"A run of {NASTY}"
    assert found.table("costs")[0] == ["", NASTY]
    assert found.table("summary")[1][0] == "<i>&$x$"
    assert found.labels()[0] == "<i>&$x$"


def test_the_summary_is_that_of_arviz(trace, found):
    head, *rows = found.table("summary")
    assert [row[0] for row in rows] == ["theta", "k[0]", "k[1]"]
    known = trace.summary()
    for name, column, digits in (
        ("mean", "mean", 1e-3), ("sd", "sd", 1e-3), ("ESS", "ess_bulk", 1e-2),
        ("R-hat", "r_hat", 1e-3),
    ):  # fmt: skip
        shown = [float(row[head.index(name)].strip(" !").replace(",", "")) for row in rows]
        np.testing.assert_allclose(shown, known[column], rtol=digits, atol=5e-4)


def test_wide_blocks_are_cut(rng):
    draws = {"wide": rng.normal(size=(2, 100, 1000)), "last": rng.normal(size=(2, 100))}
    draws["wide"][1, :, 500] += 2.0  # one of a thousand, among those looked at or not
    draws["wide"][1, :, 999] += 2.0
    text = page(made(draws, {"g": {}}))
    found = Read(text)
    names = [row[0] for row in found.table("summary")]
    assert names[:4] == ["", "wide[0]", "wide[1]", "wide[2]"] and names[-1] == "last"
    assert names[6:8] == ["wide[999]", "... 994 more of wide, 1,000 in all"]
    assert found.table("summary")[6][-1].endswith(" !") and "! R-hat above 1.01" in text
    shown = [label for label in found.labels() if "[" in label or label == "last"]
    assert shown == ["wide[0]", "wide[1]", "wide[2]", "wide[3]", "last"]
    assert "the first 4 of each block" in text


@pytest.mark.usefixtures("bare")
def test_labels_of_clusters_have_no_means(rng):
    draws = {"last": rng.normal(size=(2, 100))}
    labels = {"y": rng.integers(0, 5, size=(2, 100, 10))}
    assert "y[0]" in page(made(draws | labels, {"g": {}}))
    trace = made(draws | labels, {"g": {}, "p": {}}, {"p": {"labels": True, "writes": ["y"]}})
    assert "y[0]" not in page(trace)


@pytest.mark.slow
def test_runs_that_are_hardly_any(rng, caplog, capfd):
    import arviz

    arviz.ess(np.full((1, 8), np.nan))  # what has spoken once is harder to keep silent
    capfd.readouterr()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "arviz"):
        for shape in ((1, 100), (2, 3), (1, 1), (1, 0)):
            draws = {"a": np.ones(shape), "k": np.ones((*shape, 2), dtype=int)}
            Read(page(made(draws, {"g": {"decisions": 1, "raced": 1, "everything": 1}})))
        bad = {"a": np.full((2, 100), np.nan), "none": np.zeros((2, 100, 0))}
        assert "a: it has draws that are not finite" in "".join(
            Read(page(made(bad, {"g": {}}))).items
        )
    assert capfd.readouterr() == ("", "") and not caplog.records
    assert not logging.getLogger("arviz").disabled


def test_without_matplotlib_it_has_no_pictures_and_says_so(trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    text = page(trace)
    assert (
        "pip install &#x27;subsample-mcmc[plots]&#x27;" in text or "subsample-mcmc[plots]" in text
    )
    found = Read(text)
    assert not found.pictures and found.table("costs") == trace.report().costs()


def test_a_notebook_sums_up_what_is_quick(trace, monkeypatch):
    told = trace._repr_html_()
    assert "Converged" in told and "R-hat" in told and "trace.report() shows what to do" not in told
    monkeypatch.setattr(html_page, "QUICK", 4 * 200 * 3 - 1)  # one less than theta, k[0] and k[1]
    assert trace._repr_html_() == f"<p>{html.escape(repr(trace))}</p>"


@pytest.mark.slow
def test_it_is_written_and_the_same_every_time(trace, text, tmp_path):
    path = tmp_path / "run.html"
    assert trace.to_html(path) == path.read_text(encoding="utf-8") == text


def test_bins_of_whole_numbers_are_even(rng):
    figure = pytest.importorskip("matplotlib.figure").Figure
    for high in (1, 5, 39, 40, 95, 1000):
        values = np.arange(2 * (high + 1)).reshape(2, high + 1) % (high + 1)
        beside = html_page.pictured(figure, "k", values).axes[1]
        whole = [bar for bar in beside.patches if bar.get_y() + bar.get_height() < high]
        assert len({round(bar.get_width(), 12) for bar in whole}) <= 1
        assert sum(bar.get_width() for bar in beside.patches) == pytest.approx(1.0)


def test_pictures_count_draws_where_not_each_was_kept(monkeypatch):
    """Of every 7th of 50 draws the last stood at draw 7, under an axis called draw."""
    pytest.importorskip("matplotlib.figure")
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.m[0] - state.w[1]) ** 2,
        {"y": np.zeros(5)}, {"m": 0.0, "w": np.zeros(2)},
        lambda state: -0.5 * (state.m[0] ** 2 + state.w[0] ** 2 + state.w[1] ** 2),
    )  # fmt: skip
    kernel = sm.Slice("m", selector=sm.Exact()) >> sm.Slice("w", selector=sm.Exact())
    keep = {"m": 7, "w": 4, "f": lambda state: state.m[0]}
    trace = sm.sample(model, kernel, 50, 50, chains=2, seed=1, keep=keep, progress=False)
    made, original = {}, html_page.pictured

    def noted(figure, label, *given):
        made[label] = original(figure, label, *given)
        return made[label]

    monkeypatch.setattr(html_page, "pictured", noted)
    page(trace)
    ends = {label: drawn.axes[0].lines[1].get_xdata()[-1] for label, drawn in made.items()}
    assert ends == {"f": 49, "m": 49, "w[0]": 48, "w[1]": 48}
