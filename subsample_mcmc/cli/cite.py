"""BibTeX of what was used: print(sm.cite(kernel)).

Which papers stand behind which class is in PAPERS; the papers are in references.bib.
"""

import re
from collections.abc import Callable, Iterator
from importlib import resources
from types import ModuleType
from typing import Any

from subsample_mcmc import __version__
from subsample_mcmc.runs.trace import Trace

METHOD = "chen2016"
PACKAGE = """@misc{{subsample_mcmc,
  author = {{{{the subsample\\_mcmc developers}}}},
  title = {{subsample\\_mcmc: {{MCMC}} that reads only the data it needs}},
  year = {{2026}},
  note = {{Python package, version {version}}},
}}"""


def halving(given) -> tuple[str, ...]:
    """Equal shares are of another paper than shares by variance."""
    return ("karnin2013",) if given.allocation == "equal" else ("lalitha2023",)


def langevin(given) -> tuple[str, ...]:
    """By where its gradient comes from, and whether a decision corrects it."""
    keys: tuple[str, ...] = ("roberts1998",) if given.correct else ()
    keys += ("welling2011",) if given.gradient == "minibatch" else ()
    return keys + (("baker2019",) if given.anchored else ())


def lucb(given) -> tuple[str, ...]:
    """By its variant."""
    return ("simchowitz2017",) if given.variant == "++" else ("kalyanakrishnan2012",)


def top_two(given) -> tuple[str, ...]:
    """By its rule, and what its threshold rests on."""
    rules = {"EB-TCI": "jourdan2022", "T3C": "shang2020", "TTTS": "russo2016"}
    return (rules[given.rule], *thresholds(given))


def tracking(given) -> tuple[str, ...]:
    """The strategy, and what its threshold rests on."""
    return ("garivier2016", *thresholds(given))


def thresholds(given) -> tuple[str, ...]:
    """Of Gaussian arms: proved, or that of practice."""
    return ("kaufmann2021",) if given.threshold == "proved" else ("garivier2016",)


def slices(given) -> tuple[str, ...]:
    """With frozen rows or without."""
    return ("neal2003", "dubois2014") if given.frozen else ("neal2003",)


def gaussian(given) -> tuple[str, ...]:
    """pcn; with beta = 1 it is independent of where the chain stands."""
    return ("cotter2013",) if given.beta < 1.0 else ()


# By the name of a class: keys of papers, or a function of the object that gives them. A class alone
# (not an object), and a trace, stand for all that the function could give: see EITHER.
PAPERS: dict[str, tuple[str, ...] | Callable[[Any], tuple[str, ...]]] = {
    # selectors, and the rules of races
    "Racing": (METHOD,),
    "Normal": (METHOD, "hall1992"),
    "BernsteinSerfling": (METHOD, "bardenet2015"),
    "Betting": ("waudbysmith2024",),
    "TTest": ("korattikara2014",),
    "Confidence": ("bardenet2014",),
    "LilUCB": ("jamieson2014", METHOD),
    "SequentialHalving": halving,
    "BayesGap": ("hoffman2013",),
    "LinGapE": ("xu2018",),
    # control variates, proposals, kernels
    "Taylor": ("bardenet2017", METHOD),
    "Bins": (METHOD, "wang2013"),
    "Bilinear": (METHOD,),
    "Gaussian": gaussian,
    "GibbsPartition": (METHOD,),
    "MergeSplit": ("dahl2005",),
    "PseudoPrior": ("carlin1995",),
    "WangLandau": ("wang2001", METHOD),
    "Langevin": langevin,
    "Slice": slices,
    # strategies of sm.identify
    "UCB1": ("auer2002",),
    "UCBE": ("audibert2010",),
    "UGapE": ("gabillon2012",),
    "GapE": ("gabillon2011",),
    "GapEV": ("gabillon2011",),
    "LUCB": lucb,
    "LILStopping": ("jamieson2014",),
    "SuccessiveElimination": ("evendar2006",),
    "MedianElimination": ("evendar2006",),
    "ExponentialGap": ("karnin2013",),
    "SuccessiveRejects": ("audibert2010",),
    "VarianceRejects": ("faella2020",),
    "TopTwo": top_two,
    "TrackAndStop": tracking,
    "XYAllocation": ("soare2014",),
    "BayesUCB": ("kaufmann2012",),
    "GPUCB": ("srinivas2010",),
    "Thompson": ("thompson1933",),
    "ExpectedImprovement": ("jones1998",),
    "ProbabilityOfImprovement": ("kushner1964",),
    # models, by module and by class
    "arch": ("engle1982", METHOD),
    "ARCH": ("engle1982", METHOD),
    "coreference": ("singh2012", METHOD, "bagga1998"),
    "PairScore": ("singh2012", METHOD),
}
EITHER: dict[str, tuple[str, ...]] = {
    "SequentialHalving": ("karnin2013", "lalitha2023"),
    "Langevin": ("roberts1998", "welling2011", "baker2019"),
    "LUCB": ("kalyanakrishnan2012", "simchowitz2017"),
    "TopTwo": ("jourdan2022", "shang2020", "russo2016", "kaufmann2021"),
    "TrackAndStop": ("garivier2016", "kaufmann2021"),
    "Slice": ("neal2003", "dubois2014"),
    "Gaussian": ("cotter2013",),
}
# What is in every textbook, or only holds other things, or is a base of users' own classes.
NEED_NONE = (
    "Exact", "Gibbs", "Metropolis", "Custom", "Cycle", "Mixture", "Repeat", "When", "Uniform",
    "RandomWalk", "UserProposal", "Kernel", "Selector", "Rule", "Control", "Strategy", "Model",
    "Fit", "Experiment", "glm", "returns",
)  # fmt: skip
SECTIONS = {  # of the method's paper
    "arch": "5.2", "ARCH": "5.2", "coreference": "5.3", "PairScore": "5.3", "GibbsPartition": "5.3",
    "Bins": "3.4", "Taylor": "3.4", "LilUCB": "3.2",
}  # fmt: skip
PARTS = ("selector", "rule", "strategy", "control", "proposal", "pseudo", "partition")


class BibTeX(str):
    """Text that a prompt shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def cite(*things: Any) -> str:
    """BibTeX entries of the papers behind what was used, and of this package.

    things: kernels, with the selector, rule, control variate and proposal of each part; selectors,
        rules, control variates, strategies of sm.bandits; classes of these; steps of sm.pymc;
        models and modules of sm.models; a Trace, which knows its kernels, selectors and rules only:
        cite the kernel, too, where control variates and proposals matter. Nothing: the method of
        the package.
    Lines above an entry say what it is for; BibTeX skips them.

    Example:
        >>> text = sm.cite(sm.Gibbs("k", sm.Racing(sm.Betting(spread=2.0))) >> sm.Slice("x"))
        >>> [line for line in text.splitlines() if line.startswith("@")]  # doctest: +ELLIPSIS
        ['@misc{subsample_mcmc,', '@inproceedings{chen2016,', '@article{waudbysmith2024,', ...
    """
    uses: dict[str, list[str]] = {}
    for thing in things:
        found = list(papers_of(thing))
        if not found:
            raise TypeError(
                f"cite({thing!r:.60}): give kernels, selectors, rules, control variates, "
                "strategies, models of sm.models, or a Trace; nothing gives the method's paper."
            )
        for name, keys in found:
            for key in keys:
                names = uses.setdefault(key, [])
                section = SECTIONS.get(name) if key == METHOD else None
                label = f"{name} (section {section})" if section else name
                if label not in names:
                    names.append(label)
    if not things:
        uses[METHOD] = []
    entries = references()
    pieces = [PACKAGE.format(version=__version__)]
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
        for name in names_of(thing):
            if name in PAPERS or name in NEED_NONE:
                yield name, any_of(name)
                return
    else:
        yield from of_object(thing)


def of_object(thing: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """An object, then its parts."""
    for name in names_of(type(thing)):
        if name in PAPERS or name in NEED_NONE:
            found = PAPERS.get(name, ())
            yield name, found(thing) if callable(found) else found
            break
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
    for word in (told["kind"], *told.get("parts", ())):
        yield word, any_of(word)


def any_of(name: str) -> tuple[str, ...]:
    """Keys of a class whose options are not known."""
    found = PAPERS.get(name, ())
    return EITHER[name] if callable(found) else found


def names_of(thing: Any) -> list[str]:
    """A class and its bases, or a module, by their own names."""
    if isinstance(thing, ModuleType):
        return [thing.__name__.removeprefix("subsample_mcmc.models.")]
    return [base.__name__ for base in thing.__mro__]
