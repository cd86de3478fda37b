"""sm.cite: every class has its papers or needs none, and the entries are sound BibTeX."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc import __version__
from subsample_mcmc.approx.control import Control
from subsample_mcmc.bandits.strategy import Strategy
from subsample_mcmc.cli import cite
from subsample_mcmc.decisions.rules.rule import Rule
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.paths.paths import Paths
from subsample_mcmc.kernels.proposals.gaussian import Gaussian
from subsample_mcmc.kernels.proposals.learned import Learned
from subsample_mcmc.kernels.proposals.own import UserProposal
from subsample_mcmc.kernels.proposals.walk import RandomWalk
from subsample_mcmc.kernels.sites.bridges import Bridges
from subsample_mcmc.kernels.sites.interweave import Shift, Stretch
from subsample_mcmc.kernels.sites.windows import Windows
from subsample_mcmc.runs.chain import Program
from subsample_mcmc.runs.parallel import ChainPlan
from subsample_mcmc.runs.sample import described
from tests.helpers.each import each

LISTED = (Path(__file__).resolve().parents[2] / "docs" / "references.md").read_text(
    encoding="utf-8"
)
FIELDS = {
    "article": {"author", "title", "journal", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"author", "title", "year"},
}


def keys(*things) -> list[str]:
    """Keys of the entries that are given, without the package's own."""
    found = re.findall(r"^@\w+\{(\w+),$", sm.cite(*things), flags=re.MULTILINE)
    assert found[0] == "subsample_mcmc"
    assert len(found) == len(set(found))
    return found[1:]


def everything(base) -> set[type]:
    """A class of the package and all that are derived from it."""
    some = {base} if base.__module__.startswith("subsample_mcmc") else set()
    return some.union(*(everything(one) for one in base.__subclasses__()))


def public_classes() -> list[type]:
    """Kernels, selectors, rules, strategies and control variates with a public name."""
    bases = (Kernel, Selector, Rule, Strategy, Control)
    named = [*vars(sm).values(), *vars(sm.bandits).values()]
    return [v for v in named if isinstance(v, type) and issubclass(v, bases)]


# --------------------------------------------------------------------------------- the table
@each(public_classes())
def test_every_public_class_has_papers_or_needs_none(public):
    assert (public in cite.PAPERS) != (public in cite.NEED_NONE)


def test_the_table_names_what_exists():
    bases = (Kernel, Selector, Rule, Strategy, Control)
    known = {one for base in bases for one in everything(base)}
    known |= {sm.Bilinear, sm.LeaveOneOut, sm.PseudoPrior, sm.Model, sm.Fit, sm.Experiment}
    known |= {Gaussian, Learned, RandomWalk, Shift, Stretch, UserProposal, sm.models.arch.ARCH}
    known |= {Bridges, Paths, Windows}
    known |= {
        sm.HierarchyFit,
        sm.models.coreference.PairScore,
        *(vars(sm.models)[n] for n in sm.models.__all__),
    }
    assert set(cite.PAPERS) | set(cite.NEED_NONE) <= known
    assert {key for key, papers in cite.PAPERS.items() if callable(papers)} == set(cite.EITHER)
    assert set(cite.SECTIONS) <= {
        key for key, papers in cite.PAPERS.items() if not callable(papers) and cite.METHOD in papers
    }
    assert len(cite.NAMED) == len(cite.NAMES)  # a trace has names alone: each is of one thing


def test_every_key_exists_and_every_entry_is_used():
    used = {cite.METHOD, "christen2005"}
    for known in cite.PAPERS:
        used |= set(cite.any_of(known))
    assert used == set(cite.references())


# ------------------------------------------------------------------------------- the entries
def parsed(entry: str) -> tuple[str, dict[str, str]]:
    """Kind and fields of one entry, by counting braces."""
    kind, rest = re.fullmatch(r"@(\w+)\{\w+,\n(.*)\n\}", entry, flags=re.DOTALL).groups()
    fields, depth, last = {}, 0, 0
    for i, letter in enumerate(rest):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
        if letter == "," and depth == 0:
            name, value = re.fullmatch(
                r"\s*(\w+) = \{(.*)\}", rest[last:i], flags=re.DOTALL
            ).groups()
            assert name not in fields
            fields[name], last = value, i + 1
    assert depth == 0
    assert not rest[last:].strip()
    return kind, fields


@each(sorted(cite.references()))
def test_entries_are_sound(key):
    kind, fields = parsed(cite.references()[key])
    assert FIELDS[kind] <= set(fields)
    assert fields["year"] == key[-4:]
    surname = fields["author"].split(",")[0].lower()
    assert re.sub(r"[^a-z]", "", surname) == key[:-4] or key == "wang2013"
    for person in fields["author"].replace("\n", " ").split(" and "):
        assert person.count(",") == 1
    assert not re.search(r"[^\x00-\x7f]", cite.references()[key])  # BibTeX of any age


def test_keys_are_unique():
    text = (Path(cite.__file__).parent / "references.bib").read_text(encoding="utf-8")
    assert len(re.findall(r"^@", text, flags=re.MULTILINE)) == len(cite.references())


def plain(title: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"[^a-z0-9]+", " ", re.sub(r"[{}\\]", "", title).lower()).strip()


def test_references_of_the_site_are_there():
    papers = re.findall(r"^- .*?(?=^- |\n\n|\Z)", LISTED, flags=re.MULTILINE | re.DOTALL)
    assert len(papers) >= 10
    entries = [parsed(entry)[1] for entry in cite.references().values()]
    for paper in papers:
        flat = plain(re.search(r"\*(.*?)\*", paper, flags=re.DOTALL).group(1))
        fields = next((one for one in entries if plain(one["title"]).startswith(flat)), None)
        assert fields is not None, paper
        assert f"({fields['year']})" in paper
        preprint = re.search(r"arXiv:([\d.]+)", paper)
        if preprint:
            assert fields["eprint"] == preprint.group(1)


# ---------------------------------------------------------------------------------- what it says
def test_without_arguments_the_package_and_its_method():
    assert keys() == ["chen2016"]
    assert f"version {__version__}" in sm.cite()
    assert parsed(sm.cite().split("\n\n")[0])[1]["year"] == "2026"


def test_compositions_are_walked():
    gibbs = sm.Gibbs("k", sm.Racing(sm.Betting(spread=2.0)), control=sm.Taylor({"mu": 0.0}))
    slices = sm.Slice("x", selector=sm.Exact())
    kernel = sm.mixture((sm.repeat(gibbs, 3), 0.5), (slices, 0.5))
    assert keys(kernel) == ["chen2016", "waudbysmith2024", "bardenet2017", "neal2003"]
    assert keys(slices) == ["neal2003"]
    assert keys(sm.Gibbs("k", sm.Exact())) == []


def test_options_decide():
    assert keys(sm.SequentialHalving(100)) == ["karnin2013"]
    assert keys(sm.SequentialHalving(100, "adaptive-variance")) == ["lalitha2023"]
    assert keys(sm.Langevin("x", step=0.1, correct=False)) == ["welling2011"]
    assert "baker2019" in keys(sm.Langevin("x", control={"x": 0.0}))
    assert "welling2011" not in keys(sm.Langevin("x", control=sm.Taylor({"x": 0.0})))
    assert keys(sm.bandits.LUCB(variant="++")) == ["simchowitz2017"]
    assert keys(sm.bandits.TopTwo(rule="TTTS", threshold="practice")) == [
        "russo2016", "garivier2016",
    ]  # fmt: skip
    assert keys(sm.bandits.LILStopping(sm.bandits.UCB1())) == ["jamieson2014", "auer2002"]
    around = {"mean": np.zeros(1), "covariance": np.eye(1)}
    walk = sm.Metropolis("x", proposal=sm.pcn(**around), selector=sm.Exact())
    assert keys(walk) == ["cotter2013"]
    assert keys(sm.delayed(walk, lambda state: 0.0)) == ["christen2005", "cotter2013"]
    assert keys(sm.Metropolis("x", proposal=sm.independence(**around), selector=sm.Exact())) == []


def test_steps_of_pymc_cite_their_kernel():
    step = SimpleNamespace(composed=lambda: sm.Gibbs("k", sm.Exact()) >> sm.Slice("x"))
    assert keys(step) == ["neal2003", "chen2016", "hall1992"]


def test_classes_and_models():
    assert keys(sm.Slice) == ["neal2003", "tibbits2014", "dubois2014"]
    assert keys(sm.Slice("x", selector=sm.Exact(), along=np.eye(1))) == ["neal2003", "tibbits2014"]
    assert keys(sm.models.arch) == ["engle1982", "chen2016"]
    assert "% arch (section 5.2)\n@inproceedings{chen2016," in sm.cite(sm.models.arch)
    assert keys(sm.models.coreference) == ["singh2012", "chen2016", "bagga1998"]
    assert keys(sm.models.glm) == []


def test_one_entry_for_many_uses():
    text = sm.cite(sm.Racing(), sm.Bins(), sm.Racing(sm.TTest()))
    assert text.count("{chen2016,") == 1
    assert "% Racing, Normal, Bins (section 3.4)\n@inproceedings{chen2016," in text


def test_rules_of_ones_own_need_none():
    class Mine(Rule):
        """Drops nothing."""

    assert keys(sm.Racing(Mine())) == ["chen2016"]


def test_a_class_of_the_same_name_is_not_ours():
    Betting = type("Betting", (Rule,), {})
    assert keys(sm.Racing(Betting())) == ["chen2016"]
    assert keys(type("Slice", (Kernel,), {})) == []


def trace_of(model, kernel) -> sm.Trace:
    """What sm.sample would return, of one draw that nothing was compiled for."""
    program, plan = Program(model, kernel), ChainPlan(1, 0, 1, 0.0, 1, ())
    plan.start = None
    ints, floats = (np.array([values]) for values in (model.ints, model.floats))
    words = np.zeros((1, program.layout.words), dtype=np.int64)
    chain = SimpleNamespace(ints=ints, floats=floats, words=words, seconds=0.0)
    return sm.Trace(described(program, plan, chains=1), [chain])


def test_a_trace_cites_its_kernels():
    y = np.random.default_rng(0).standard_normal(50)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.x[0]) ** 2, {"y": y}, {"x": 0.0}
    )
    kernel = sm.Slice("x", selector=sm.Racing(sm.TTest()), adapt=False)
    assert keys(trace_of(model, kernel)) == [
        "neal2003",
        "tibbits2014",
        "dubois2014",
        "chen2016",
        "korattikara2014",
    ]


def test_a_trace_stored_before_kernels_said_what_they_are_made_of():
    y = np.random.default_rng(0).standard_normal(50)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.x[0]) ** 2, {"y": y}, {"x": 0.0}
    )
    kernel = sm.Metropolis("x", selector=sm.Racing(sm.Betting(spread=1.0)))
    trace = trace_of(model, kernel)
    now = keys(trace)
    for told in trace.meta["kernels"]:
        del told["parts"]
    assert keys(trace) == now == ["chen2016", "waudbysmith2024"]
    trace.meta["kernels"][0]["note"] = "pseudo-prior"
    assert "carlin1995" in keys(trace)


def test_a_prompt_shows_it_and_what_is_unknown_is_refused():
    assert repr(sm.cite()) == str(sm.cite())
    with pytest.raises(TypeError, match=r"cite\(3\): give kernels, selectors"):
        sm.cite(3)
    with pytest.raises(TypeError, match="or a Trace"):
        sm.cite(np)
