"""README and the pages of docs/: their code runs, names exist, links lead somewhere. No Sphinx."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.each import each

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MADE = {"_build", "made"}  # by `make docs`
README = ROOT / "README.md"
PAGES = [README, *(p for p in sorted(DOCS.rglob("*.md")) if not MADE & set(p.parts))]
COMING_FROM = DOCS / "start" / "coming-from.md"
LINKED = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
OTHERS = ("pymc", "numpyro", "blackjax")  # code of theirs runs where they are installed
NEEDED = {"pymc": "needs PyMC: `make pymc`", "pyarrow": "needs pyarrow: `make clusters`"}


def name(path):
    return path.relative_to(ROOT).as_posix()


def text_of(path):
    return path.read_text(encoding="utf-8")


def prose(path):
    """A page without its code."""
    return re.sub(r"^(`{3,})[^`].*?^\1", "", text_of(path), flags=re.MULTILINE | re.DOTALL)


def blocks(path):
    """The code of a page that can be run, with names: what it imports of others, and its place."""
    found = re.findall(r"^```python\n(.*?)^```", text_of(path), flags=re.MULTILINE | re.DOTALL)
    for place, block in enumerate(found):
        other = next(
            (o for o in (*OTHERS, "pyarrow") if re.search(rf"^import {o}\b", block, re.MULTILINE)),
            "",
        )
        stem = name(path).removesuffix(".md")
        yield pytest.param(block, other, id=f"{stem}-{place}" + (f"-{other}" if other else ""))


BLOCKS = [block for page in PAGES for block in blocks(page)]


def run(block, capsys):
    """What a program has made, and what it has printed."""
    made = {"__name__": "docs"}
    exec(compile(block, "a page of docs", "exec"), made)
    printed = capsys.readouterr().out
    assert printed
    return made, printed


@pytest.mark.parametrize(("block", "other"), [b for b in BLOCKS if not b.values[1]])
def test_code_of_pages_runs(block, other, capsys):
    run(block, capsys)


COMING = dict(re.findall(r"^## (.+)\n((?:.*\n)*?)(?=## |\Z)", text_of(COMING_FROM), re.MULTILINE))
COMPARED = {"Logistic regression": "beta", "Mixture": "mu", "Change point": "tau"}
OF_OTHERS = [b for b in BLOCKS if b.values[1]]
BESIDE_OURS = [b for b in OF_OTHERS if b.id.startswith("docs/start/coming-from-")]


@pytest.mark.parametrize(("block", "other"), [b for b in OF_OTHERS if b not in BESIDE_OURS])
@pytest.mark.filterwarnings("ignore")  # of others
def test_code_with_other_tools_runs(block, other, capsys):
    """Of each page but the one whose programs are compared: they run there."""
    pytest.importorskip(other, reason=NEEDED.get(other))
    run(block, capsys)


def test_all_programs_beside_ours_are_compared():
    told = {(title, other) for title in COMPARED for other in OTHERS}
    assert len(BESIDE_OURS) == len(told)
    for title, other in told:
        assert any(b.values[0] in COMING[title] and b.values[1] == other for b in BESIDE_OURS)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("title", COMPARED)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of others
def test_other_tools_find_the_same(title, other, capsys):
    """The same data and model: means within .6 of a posterior sd, 200 draws and more."""
    pytest.importorskip(other, reason=NEEDED.get(other))
    ours, *theirs = re.findall(r"^```python\n(.*?)^```", COMING[title], re.MULTILINE | re.DOTALL)
    (theirs,) = (block for block in theirs if re.search(rf"^import {other}\b", block, re.MULTILINE))
    draws = run(ours, capsys)[0]["trace"].draws[COMPARED[title]]
    draws = draws.reshape(draws.shape[0] * draws.shape[1], -1).astype(float)
    told = np.array(re.findall(r"-?\d+\.\d+", run(theirs, capsys)[1]), float)[-draws.shape[1] :]
    assert np.all(np.abs(told - draws.mean(axis=0)) < 0.6 * draws.std(axis=0)), (told, draws)


# ------------------------------------------------------------------------------------- what is said
def test_readme_is_short():
    assert len(text_of(README).splitlines()) <= 200


def test_there_is_code_to_run():
    """A regular expression that finds nothing would pass all else."""
    assert len(BLOCKS) >= 20
    assert {block.values[1] for block in BLOCKS} == {"", "pyarrow", *OTHERS}


@each(PAGES, name)
def test_names_exist(path):
    for dotted in sorted(set(re.findall(r"\bsm\.(\w+(?:\.\w+)*)", text_of(path)))):
        value, at = sm, "sm"
        for part in dotted.split("."):
            assert part in {*dir(value)}, f"{name(path)} names {at}.{part}, which does not exist"
            if at == "sm.pymc":
                break  # its step methods need PyMC
            value, at = getattr(value, part), f"{at}.{part}"


@each(PAGES, name)
def test_files_that_are_named_exist(path):
    for named in re.findall(
        r"`((?:examples|notebooks|tests|docs|subsample_mcmc)/[\w./-]+)`", prose(path)
    ):
        assert (ROOT / named).exists(), f"{name(path)} names {named}, which does not exist"
    for module in re.findall(r"python -m (tests[\w.]+)", text_of(path)):
        there = ROOT / (module.replace(".", "/") + ".py")
        assert there.exists(), f"{name(path)} runs {module}, which does not exist"


def known_commits():
    """The commits that git knows; empty where it does not know all, as in a source distribution."""

    def git(*words):
        found = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, check=True, text=True
        )
        return found.stdout.split()

    try:
        shallow = git("rev-parse", "--is-shallow-repository") == ["true"]
        return [] if shallow else git("rev-list", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return []


def test_commits_that_are_named_exist():
    """Figures and tables say at which commit they were made."""
    named = {c for p in PAGES for c in re.findall(r"\bcommit ([0-9a-f]{7})\b", text_of(p))}
    assert len(named) > 10
    if len(known := known_commits()) < 2:
        pytest.skip("no history of commits here")
    assert all(any(commit.startswith(name) for commit in known) for name in named), named


def test_figures_of_papers_say_how_and_when():
    """Each stands in a section whose command makes it, and which says at which commit it did."""
    text = text_of(DOCS / "papers.md")
    figures = re.findall(r"\((papers/[\w-]+\.png)\)", text)
    assert sorted(figures) == sorted(f"papers/{p.name}" for p in DOCS.glob("papers/*.png"))
    for paper, section in re.findall(r"^## (.+)\n((?:.*\n)*?)(?=## |\Z)", text, re.MULTILINE):
        for part in re.split(r"^### (?=Fig)", section, flags=re.MULTILINE):
            if "](papers/" in part:
                assert "subsample-mcmc reproduce" in part, paper
                assert re.search(r"Made at\s+commit [0-9a-f]{7}, 20\d\d-\d\d-\d\d", part), paper


SECTIONS = re.findall(r"^## (.+)\n((?:.*\n)*?)(?=## |\Z)", text_of(DOCS / "benchmarks.md"), re.M)


@each(SECTIONS, "{0[0]}".format)
def test_benchmarks_say_how_when_and_of_what(titled):
    """The command that makes a table again, its date, and the commit that has its numbers."""
    _, section = titled
    assert re.search(r"python -m tests\.benchmarks\.\w+", section)
    assert re.search(r"20\d\d-\d\d-\d\d, commit [0-9a-f]{7}\b", section)


def test_commands_exist():
    listed = {"demo", "compile", "reproduce", "bench", "report", "resume", "cite"}
    for path in PAGES:
        told = set(re.findall(r"subsample-mcmc (\w+)", text_of(path)))
        assert told <= listed, name(path)
    makefile = text_of(ROOT / "Makefile")
    for path in PAGES:
        for target in re.findall(r"`make ([\w-]+)|^make ([\w-]+)", prose(path), flags=re.MULTILINE):
            assert re.search(rf"^{target[0] or target[1]}:", makefile, re.MULTILINE), name(path)


# ---------------------------------------------------------------------------------------- links
def anchors(path):
    """Of the headings of a page, as GitHub and MyST make them; of what it includes, too."""
    found = set()
    for heading in re.findall(r"^#{1,4} (.+)$", prose(path), flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower().replace("`", "")
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain)))
    return found


@each(LINKED, name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if target.startswith(("https://", "http://")):
            continue
        place, _, anchor = target.partition("#")
        there = (path.parent / place).resolve() if place else path
        assert there.exists(), f"{name(path)} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors(there), f"{name(path)} links to {target}: no such heading"


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A heading: `sm.Gibbs`, twice\n\n```python\n# no heading\n```\n")
    assert anchors(page) == {"a-heading-smgibbs-twice"}


@each([p for p in PAGES if p != README], name)
def test_pages_are_in_a_table_of_contents(path):
    if path == DOCS / "index.md":
        return
    folder, stem = (path.parent.parent, f"{path.parent.name}/index") if path.stem == "index" else (
        path.parent, path.stem
    )  # fmt: skip
    assert re.search(rf"^{stem}$", text_of(folder / "index.md"), re.MULTILINE), name(path)


# ---------------------------------------------------------------------------- gallery, reference
def cells(path):
    """The code cells of a page of the gallery that are seen; others are folded."""
    if path.suffix == ".md":
        found = re.findall(
            r"^```\{code-cell\}.*?\n(.*?)^```", text_of(path), re.MULTILINE | re.DOTALL
        )
        files = re.findall(r"^```\{literalinclude\} (\S+)", text_of(path), re.MULTILINE)
        found += ["\n" + text_of(path.parent / file) for file in files]
        return [cell for cell in found if not cell.startswith(":tags: [hide-input]")]
    parts = re.split(r"^# %%", text_of(path), flags=re.MULTILINE)[1:]
    folded = (" [markdown]", ' tags=["hide-input"]')
    return [p for p in parts if not p.startswith(folded) and "plt.subplots(" not in p]


GALLERY = [*sorted(ROOT.glob("notebooks/*.py")), *sorted(DOCS.glob("gallery/*.md"))]


@each(GALLERY, name)
def test_a_page_of_the_gallery_shows_little_code(path):
    """Cells that draw are folded (docs/_ext/gallery.py); of what is seen a page has 60 lines."""
    shown = sum(1 for cell in cells(path) for line in cell.splitlines()[1:] if line.strip())
    assert shown <= 60, f"{name(path)} shows {shown} lines of code"
    assert shown > 0 or path.stem == "index"


@pytest.fixture
def reference(monkeypatch):
    """What makes the reference, docs/_ext/reference.py."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    yield importlib.import_module("reference"), importlib.import_module("docstrings")
    for module in ("reference", "docstrings"):
        sys.modules.pop(module, None)


def test_the_reference_has_every_public_name_once(reference):
    made, _ = reference
    groups = made.groups()
    names = [name for group in groups.values() for name in group]
    assert sorted(names) == sorted(n for n in sm.__all__ if n[0] != "_")
    assert "Metropolis" in groups["Kernels"] and "Betting" in groups["Rules of races"]
    assert "CompileError" in groups["Errors"]


def test_the_table_of_promises_is_what_classes_say(reference):
    made, _ = reference
    assert made.promise("Exact", sm.Exact)[1] == "*exact*"
    assert made.promise("Betting", sm.Betting)[1] == "*bounded*"
    assert made.promise("Metropolis", sm.Metropolis)[1:4] == (
        "*asymptotic*",
        "*exact*",
        "*bounded*",
    )
    assert made.promise("Racing", sm.Racing)[1:4] == ("*asymptotic*", "", "*bounded*")
    assert made.promise("laplace", sm.laplace) is None


def test_names_by_room_are_the_same(reference):
    """sm.rules.Normal is sm.Normal; its page says so, and links lead there."""
    made, _ = reference
    lines = made.rooms()
    for room in made.ALIASES:
        for name in dir(getattr(sm, room)):
            assert f"   * - ``sm.{room}.{name}``" in lines
            here = getattr(getattr(sm, room), name)
            assert name not in sm.__all__ or here is getattr(sm, name)


def test_signatures_show_defaults(reference):
    made, _ = reference
    assert made.signature(sm.Gibbs).startswith("(block, selector=Racing(), scan='fixed'")
    assert "draws=1000" in made.signature(sm.sample)
    assert "reach=no_reach, " in made.signature(sm.extend.ControlFunctions)


def test_docstrings_become_markup(reference):
    made, docstrings = reference
    lines = docstrings.rendered(sm.Metropolis)
    assert "``scale``" in lines and ".. rubric:: Example" in lines
    assert any("``sm.pcn(fit)``" in line for line in lines)
    assert '    >>> kernel = sm.Metropolis("beta", scale=0.05)  # scales adapt in warm-up' in lines
    plain = docstrings.rendered(None, "A *b* and c_ |d|.\n\n    x = 1\n\nNext: `y_`.\n")
    assert plain == [
        "A \\*b\\* and c\\_ \\|d\\|.", "", "::", "", "    x = 1", "", "Next: \\ ``y_``\\ .", "",
    ]  # fmt: skip
    goes_on = docstrings.rendered(None, "x: of what\nthere is.\nNo more.\n", {"x"})
    assert goes_on == ["``x``", "    of what there is.", "", "No more.", ""]
    columns = docstrings.rendered(None, "counts    poisson,\n          binomial\nNext.\n")
    assert columns == [
        "::",
        "",
        "    counts    poisson,",
        "              binomial",
        "",
        "Next.",
        "",
    ]
    lines = docstrings.rendered(sm.models.glm, sm.models.glm.__doc__, made.argued(sm.models.glm))
    assert {"``x``", "``prior_sd``", "``weights``"} <= {*lines}
