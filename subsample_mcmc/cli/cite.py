"""BibTeX of what was used: print(sm.cite(kernel)).

Which papers stand behind which class is in PAPERS, by the class itself, so that another class of
the same name is not taken for ours; a trace only knows the names. The papers are in references.bib.
"""

import re
from collections.abc import Callable, Iterator
from importlib import resources
from types import ModuleType
from typing import Any

from subsample_mcmc import __version__, bandits, kernels, models
from subsample_mcmc.approx.bins.bins import Bins
from subsample_mcmc.approx.by_site.control import SiteTaylor
from subsample_mcmc.approx.control import Control
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.hierarchy import HierarchyFit
from subsample_mcmc.approx.taylor.taylor import Taylor
from subsample_mcmc.bandits import selectors
from subsample_mcmc.bandits.experiment import Experiment
from subsample_mcmc.decisions import rules
from subsample_mcmc.decisions.rules.rule import Rule
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.compose import Cycle, Mixture, Repeat, When
from subsample_mcmc.kernels.custom import Custom
from subsample_mcmc.kernels.partition.bilinear import Bilinear
from subsample_mcmc.kernels.paths.paths import Paths
from subsample_mcmc.kernels.proposals.gaussian import Gaussian
from subsample_mcmc.kernels.proposals.learned import Learned
from subsample_mcmc.kernels.proposals.own import UserProposal
from subsample_mcmc.kernels.proposals.walk import RandomWalk
from subsample_mcmc.kernels.sites.bridges import Bridges
from subsample_mcmc.kernels.sites.interweave import Shift, Stretch
from subsample_mcmc.kernels.sites.side_by_side import SideBySide
from subsample_mcmc.kernels.sites.windows import Windows
from subsample_mcmc.runs.criticism.elpd import LeaveOneOut
from subsample_mcmc.runs.default_kernel import DefaultKernel
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.target.model import Model

METHOD = "chen2016"
OWN_ENTRY = """@misc{{subsample_mcmc,
  author = {{{{the subsample\\_mcmc developers}}}},
  title = {{subsample\\_mcmc: {{MCMC}} that reads only the data it needs}},
  year = {{2026}},
  note = {{Python package, version {version}}},
}}"""


def halving(selector) -> tuple[str, ...]:
    """Equal shares are of another paper than shares by variance."""
    return ("karnin2013",) if selector.allocation == "equal" else ("lalitha2023",)


def langevin(kernel) -> tuple[str, ...]:
    """By where its gradient comes from, and whether a decision corrects it."""
    keys: tuple[str, ...] = ("roberts1998",) if kernel.correct else ()
    keys += ("welling2011",) if kernel.gradient == "minibatch" else ()
    return keys + (("baker2019",) if kernel.anchored else ())


def lucb(strategy) -> tuple[str, ...]:
    """By its variant."""
    return ("simchowitz2017",) if strategy.variant == "++" else ("kalyanakrishnan2012",)


def top_two(strategy) -> tuple[str, ...]:
    """By its rule, and what its threshold rests on."""
    of_rule = {"EB-TCI": "jourdan2022", "T3C": "shang2020", "TTTS": "russo2016"}
    return (of_rule[strategy.rule], *thresholds(strategy))


def tracking(strategy) -> tuple[str, ...]:
    """The strategy, and what its threshold rests on."""
    return ("garivier2016", *thresholds(strategy))


def thresholds(strategy) -> tuple[str, ...]:
    """Of Gaussian arms: proved, or that of practice."""
    return ("kaufmann2021",) if strategy.threshold == "proved" else ("garivier2016",)


def slices(kernel) -> tuple[str, ...]:
    """With frozen rows or without."""
    along = () if kernel.along is None else ("tibbits2014",)
    return ("neal2003", *along, *(("dubois2014",) if kernel.frozen else ()))


def gaussian(proposal) -> tuple[str, ...]:
    """pcn; with beta = 1 it is independent of where the chain stands."""
    return () if proposal.beta == 1.0 else ("cotter2013",)


def left_out(found) -> tuple[str, ...]:
    """Of all data, or of a sample of them."""
    sampled = ("magnusson2019", "magnusson2020", "rosen1997") if found.sample is not None else ()
    return ("vehtari2017", "vehtari2024", *sampled)


# By class: keys of papers, or a function of the object that gives them. A class alone (not an
# object), and a trace, stand for all that the function could give: see EITHER.
Thing = type | ModuleType
PAPERS: dict[Thing, tuple[str, ...] | Callable[[Any], tuple[str, ...]]] = {
    # selectors, and the rules of races
    selectors.Racing: (METHOD,),
    selectors.Thinned: ("cornish2019", "zhang2020"),
    rules.Normal: (METHOD, "hall1992"),
    rules.BernsteinSerfling: (METHOD, "bardenet2015"),
    rules.Betting: ("waudbysmith2024",),
    rules.TTest: ("korattikara2014",),
    rules.Confidence: ("bardenet2014",),
    selectors.LilUCB: ("jamieson2014", METHOD),
    selectors.SequentialHalving: halving,
    selectors.BayesGap: ("hoffman2013",),
    selectors.LinGapE: ("xu2018",),
    # control variates, proposals, kernels
    Taylor: ("bardenet2017", METHOD),
    SiteTaylor: ("bardenet2017", "cornish2019"),
    Bins: (METHOD, "wang2013"),
    Bilinear: (METHOD,),
    HierarchyFit: ("tierney1986", "rue2009"),
    Gaussian: gaussian,
    Learned: ("cotter2013",),
    kernels.GibbsPartition: (METHOD,),
    kernels.MergeSplit: ("dahl2005",),
    kernels.PseudoPrior: ("carlin1995",),
    kernels.SpikeAndSlab: ("carlin1995",),
    kernels.SurrogateTransition: ("liu2001",),
    Shift: ("yu2011",),
    Stretch: ("yu2011",),
    Paths: ("scott2002",),
    Windows: ("goodman1989",),
    Bridges: ("yu2011",),
    kernels.WangLandau: ("wang2001", METHOD),
    kernels.Langevin: langevin,
    kernels.Slice: slices,
    LeaveOneOut: left_out,
    # strategies of sm.identify
    bandits.UCB1: ("auer2002",),
    bandits.UCBE: ("audibert2010",),
    bandits.UGapE: ("gabillon2012",),
    bandits.GapE: ("gabillon2011",),
    bandits.GapEV: ("gabillon2011",),
    bandits.LUCB: lucb,
    bandits.LILStopping: ("jamieson2014",),
    bandits.SuccessiveElimination: ("evendar2006",),
    bandits.MedianElimination: ("evendar2006",),
    bandits.ExponentialGap: ("karnin2013",),
    bandits.SuccessiveRejects: ("audibert2010",),
    bandits.VarianceRejects: ("faella2020",),
    bandits.TopTwo: top_two,
    bandits.TrackAndStop: tracking,
    bandits.XYAllocation: ("soare2014",),
    bandits.BayesUCB: ("kaufmann2012",),
    bandits.GPUCB: ("srinivas2010",),
    bandits.Thompson: ("thompson1933",),
    bandits.ExpectedImprovement: ("jones1998",),
    bandits.ProbabilityOfImprovement: ("kushner1964",),
    # models: modules and classes
    models.arch: ("engle1982", METHOD),
    models.arch.ARCH: ("engle1982", METHOD),
    models.coreference: ("singh2012", METHOD, "bagga1998"),
    models.coreference.PairScore: ("singh2012", METHOD),
}
EITHER: dict[Thing, tuple[str, ...]] = {
    selectors.SequentialHalving: ("karnin2013", "lalitha2023"),
    kernels.Langevin: ("roberts1998", "welling2011", "baker2019"),
    bandits.LUCB: ("kalyanakrishnan2012", "simchowitz2017"),
    bandits.TopTwo: ("jourdan2022", "shang2020", "russo2016", "kaufmann2021"),
    bandits.TrackAndStop: ("garivier2016", "kaufmann2021"),
    kernels.Slice: ("neal2003", "tibbits2014", "dubois2014"),
    Gaussian: ("cotter2013",),
    LeaveOneOut: ("vehtari2017", "vehtari2024", "magnusson2019", "magnusson2020", "rosen1997"),
}
# What is in every textbook, or only holds other things, or is a base of users' own classes.
NEED_NONE: tuple[Thing, ...] = (
    selectors.Exact, kernels.Gibbs, kernels.Metropolis, Custom, Cycle, Mixture, Repeat, When,
    SideBySide, DefaultKernel, bandits.Uniform, bandits.Strategy, RandomWalk, UserProposal, Kernel,
    Selector, Rule, Control, Model, Fit, Experiment, models.glm, models.returns,
)  # fmt: skip
SECTIONS: dict[Thing, str] = {  # of the method's paper
    models.arch: "5.2",
    models.arch.ARCH: "5.2",
    models.coreference: "5.3",
    models.coreference.PairScore: "5.3",
    kernels.GibbsPartition: "5.3",
    Bins: "3.4",
    Taylor: "3.4",
    selectors.LilUCB: "3.2",
}
PARTS = ("selector", "rule", "strategy", "control", "proposal", "pseudo", "partition")
# The names of all of these, as labels of entries, and what they name, for a trace.
NAMES: dict[Thing, str] = {getattr(models, name): name for name in models.__all__}
NAMES |= {known: known.__name__ for known in (*PAPERS, *NEED_NONE) if isinstance(known, type)}
NAMED = {name: known for known, name in NAMES.items()}


class BibTeX(str):
    """Text that a prompt shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def cite(*things: Any) -> str:
    """BibTeX entries of the papers behind what was used, and of this package.

    things: kernels, with the selector, rule, control variate and proposal of each part; selectors,
        rules, control variates, strategies of sm.bandits; classes of these; steps of sm.pymc;
        models and modules of sm.models; what sm.loo returns; a Trace, which knows its kernels,
        selectors and rules only: cite the kernel, too, where control variates and proposals
        matter. Nothing: the method of the package.
    Lines above an entry say what it is for; BibTeX skips them.

    Example:
        >>> text = sm.cite(sm.Gibbs("k", sm.Racing(sm.Betting(spread=2.0))) >> sm.Slice("x"))
        >>> [line for line in text.splitlines() if line.startswith("@")]  # doctest: +ELLIPSIS
        ['@misc{subsample_mcmc,', '@inproceedings{chen2016,', '@article{waudbysmith2024,', ...
    """
    uses: dict[str, list[str]] = {}
    for thing in things:
        cited = list(papers_of(thing))
        if not cited:
            raise TypeError(
                f"cite({thing!r:.60}): give kernels, selectors, rules, control variates, "
                "strategies, models of sm.models, or a Trace; nothing gives the method's paper."
            )
        for name, keys in cited:
            for key in keys:
                names = uses.setdefault(key, [])
                section = SECTIONS.get(NAMED[name]) if key == METHOD else None
                label = f"{name} (section {section})" if section else name
                if label not in names:
                    names.append(label)
    if not things:
        uses[METHOD] = []
    entries = references()
    pieces = [OWN_ENTRY.format(version=__version__)]
    for key, names in uses.items():
        pieces.append((f"% {', '.join(names)}\n" if names else "") + entries[key])
    return BibTeX("\n\n".join(pieces))


def references() -> dict[str, str]:
    """The entries of references.bib, by key."""
    text = resources.files(__package__).joinpath("references.bib").read_text(encoding="utf-8")
    entries = ["@" + part.strip() for part in re.split(r"^@", text, flags=re.MULTILINE)[1:]]
    return {re.split(r"[{,]", entry, maxsplit=2)[1]: entry for entry in entries}


def papers_of(thing: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name, keys) of everything known in it; nothing if it is not known at all."""
    if callable(getattr(thing, "composed", None)):  # a step method of sm.pymc
        thing = thing.composed()
    if isinstance(thing, Trace):
        for told in thing.meta["kernels"]:
            yield from of_words(told)
    elif isinstance(thing, ModuleType | type):
        if (known := known_in(thing)) is not None:
            yield NAMES[known], any_of(known)
    else:
        yield from of_object(thing)


def of_object(thing: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """An object, then its parts."""
    if (known := known_in(type(thing))) is not None:
        papers = PAPERS.get(known, ())
        yield NAMES[known], papers(thing) if callable(papers) else papers
    if getattr(thing, "surrogate", None) is not None:
        yield "delayed", ("christen2005",)
    parts = list(thing.leaves()) if hasattr(thing, "leaves") else []
    parts = [part for part in parts if part is not thing]
    parts += [getattr(thing, part, None) for part in PARTS]
    for part in parts:
        for one in part if isinstance(part, list | tuple) else [part]:
            if one is not None and not isinstance(one, str):
                yield from of_object(one)


def of_words(told: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A kernel as a trace describes it: its kind, and what it is made of."""
    parts = told.get("parts")
    if parts is None:  # of a run stored before kernels said what they are made of
        parts = re.findall(r"\w+", told.get("selector", ""))
        parts = [word for word in parts if word in NAMED]
        parts += ["PseudoPrior"] * ("pseudo-prior" in told.get("note", ""))
    for word in (told["kind"], *parts):
        yield word, any_of(NAMED[word]) if word in NAMED else ()


def any_of(known: Thing) -> tuple[str, ...]:
    """Keys of a class whose options are not known, or of a module."""
    papers = PAPERS.get(known, ())
    return EITHER[known] if callable(papers) else papers


def known_in(thing: Thing) -> Thing | None:
    """What of PAPERS and NEED_NONE it is: a module itself, a class or the nearest of its bases."""
    family = (thing,) if isinstance(thing, ModuleType) else thing.__mro__
    return next((one for one in family if one in NAMES), None)
