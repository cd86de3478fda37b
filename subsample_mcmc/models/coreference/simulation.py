"""Synthetic bibliographies with known authors: not much easier than real ones, and nobody's data.

Names are made of syllables. Authors have topics, a circle of coauthors that moves on with their
career, venues, employers and a span of years; how much they write has a heavy tail. Authors of
one block share initial and surname, and partly topics and (by the names that are frequent
everywhere) coauthors, so that neither tells them apart for sure.
"""

from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from subsample_mcmc.models.coreference.author_names import focal, mark_of, split
from subsample_mcmc.numerics.random import generator_of
from subsample_mcmc.target.population import whole

ONSETS = [
    "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "kr", "st",
    "tr", "sh",
]  # fmt: skip
VOWELS = ["a", "e", "i", "o", "u", "ai", "ou"]
CODAS = ["", "", "n", "r", "l", "s", "m", "nd"]
LETTERS = np.array(list("abcdefghijklmnoprstvw"))
TOPICS, WORDS, VENUES = 40, 80, 5  # of words and venues: per topic
COMMON = 150  # words of all topics
NAMES, EMPLOYERS = 1500, 120
LAST = 2015


def simulate(
    mentions: int = 3000, seed: int = 0, tail: float = 0.9, largest: float = 0.17,
    missing: float = 1.0, noise: float = 1.0,
) -> pd.DataFrame:  # fmt: skip
    """Mentions of made-up authors, as co.read gives them, with the column label.

    mentions: how many.
    seed: a number.
    tail: numbers of mentions per author have P(n > x) ~ x^-tail, up to about 2/5 of a block.
    largest: the share of mentions in the largest block, about; others fall off as a power law.
    missing, noise: multiply the chances that a field is missing, and that a coauthor, word, venue
        comes from anywhere; 0 makes the problem easy, 2 hard.
    """
    size = whole(mentions, "mentions", "how many mentions, at least 1")
    for name, value in (("missing", missing), ("noise", noise)):
        if not 0.0 <= value <= 2.0:
            raise ValueError(f"{name}={value}: give a number from 0 to 2.")
    if not 0.0 < largest <= 1.0 or not tail > 0.0:
        raise ValueError(f"largest={largest}, tail={tail}: give a share in (0, 1], a tail > 0.")
    rng = generator_of(seed)
    world = World(rng, missing, noise)
    rows: list[dict[str, Any]] = []
    taken: set[str] = set()
    for count in block_sizes(size, largest):
        surname = syllables(rng, 2 + int(rng.random() < 0.3))
        while surname in taken:
            surname = syllables(rng, 3)
        taken.add(surname)
        initial = str(rng.choice(LETTERS))
        for label, papers in enumerate(author_sizes(rng, count, tail)):
            for one in world.papers(initial, surname, papers):
                rows.append({"block": f"{initial} {surname}", "label": str(label), **one})
    frame = pd.DataFrame(rows, columns=[
        "block", "title", "authors", "venue", "year", "organization", "label"
    ])  # fmt: skip
    frame["year"] = frame["year"].astype("Int64")
    frame.attrs["duplicates"] = 0
    return frame


def block_sizes(size: int, largest: float) -> np.ndarray:
    """Sizes of blocks: a power law of the rank whose first is about `largest` of all.

    No smaller than an equal share; near 1 there is one block.
    """
    if largest >= 0.99:
        return np.array([size])
    blocks = int(max(1, min(round(25 * (size / 3000) ** 0.5), size // 8)))
    rank = np.arange(1, blocks + 1)
    shares = np.ones(blocks) / blocks
    if blocks > 1 and 1.0 / blocks < largest:
        power = brentq(lambda s: 1.0 / np.sum(rank**-s) - largest, 0.0, 20.0)
        shares = rank**-power / np.sum(rank**-power)
    ends = np.round(np.cumsum(shares) * size).astype(np.int64)
    found = np.diff(ends, prepend=0)
    return found[found > 0]


def author_sizes(rng, count: int, tail: float) -> np.ndarray:
    """Numbers of mentions of the authors of one block, largest first, `count` in all."""
    most, found, left = max(1, int(0.4 * count)), [], count
    while left > 0:
        drawn = np.exp(min(rng.standard_exponential() / tail, 40.0))
        found.append(int(min(drawn, most, left)))
        left -= found[-1]
    return np.sort(np.array(found))[::-1]


def syllables(rng, count: int) -> str:
    """A word that sounds like one."""
    text = "".join(str(rng.choice(ONSETS)) + str(rng.choice(VOWELS)) for _ in range(count))
    return text + str(rng.choice(CODAS))


def zipf(rng, size: int, count: int, power: float = 1.0) -> np.ndarray:
    """`count` numbers of 0 .. size-1, of which early ones are frequent."""
    weights = np.arange(1.0, size + 1.0) ** -power
    return np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(count))


class World:
    """What all authors share: words, venues, employers, and the names of everybody else."""

    def __init__(self, rng, missing: float, noise: float):
        self.rng, self.missing, self.noise = rng, missing, noise
        lexicon = list(dict.fromkeys(syllables(rng, 2 + k % 2) for k in range(4000)))
        self.common, rest = lexicon[:COMMON], lexicon[COMMON:]
        self.topics = [[rest[i] for i in rng.integers(0, 1800, WORDS)] for _ in range(TOPICS)]
        kinds = ["journal of", "conference on", "workshop on", "transactions on", "letters in"]
        self.venues = [
            [f"{kinds[v]} {' '.join(words[3 * v : 3 * v + 2])}" for v in range(VENUES)]
            for words in self.topics
        ]
        towns = [syllables(rng, 2).capitalize() for _ in range(EMPLOYERS)]
        kinds = ["University of {}", "{} Institute of Technology", "{} Research Laboratory"]
        self.employers = [kinds[k % 3].format(town) for k, town in enumerate(towns)]
        surnames = [syllables(rng, 2 + k % 2) for k in range(NAMES // 3)]
        self.names = []
        for k in zipf(rng, len(surnames), NAMES, 0.6):
            letters = rng.choice(LETTERS, 2)
            middle = f" {letters[1].upper()}." if rng.random() < 0.3 else ""
            self.names.append(f"{letters[0].upper()}.{middle} {surnames[k].capitalize()}")

    def papers(self, initial: str, surname: str, count: int) -> list[dict[str, Any]]:
        """The papers of one author."""
        rng = self.rng
        middle = f"{str(rng.choice(LETTERS)).upper()}. " if rng.random() < 0.6 else ""
        spells = rng.random()  # how often the middle initial is given
        topics = zipf(rng, TOPICS, 1 + int(rng.integers(2)), 0.3)
        circle = zipf(rng, NAMES, 3 + int(rng.poisson(1.6 * np.sqrt(count))), 0.4)
        employers = rng.integers(0, EMPLOYERS, 1 + int(rng.integers(3)))
        favourites = rng.integers(0, WORDS, (len(topics), 12))
        span = min(40.0, 2.0 + rng.gamma(2.0, 1.0 + np.log1p(count)))
        begin = LAST - span - rng.random() * 20.0
        sociable = 0.7 + rng.gamma(4.0, 0.5)
        rows = []
        for when in np.sort(rng.random(count)):
            which = min(int(len(topics) * (0.6 * when + 0.4 * rng.random())), len(topics) - 1)
            others = self.coauthors(circle, when, int(rng.poisson(sociable)))
            name = f"{initial.upper()}. {middle if rng.random() < spells else ''}"
            others.insert(int(rng.integers(len(others) + 1)), name + surname.capitalize())
            topic = int(topics[which])
            row = {
                "title": self.title(topic, favourites[which]),
                "authors": ", ".join(others),
                "venue": self.venue(topic),
                "year": int(begin + span * when),
                "organization": self.employers[employers[int(when * len(employers))]],
            }
            chances = {"title": 0.01, "venue": 0.06, "year": 0.04, "organization": 0.55}
            for field, chance in chances.items():
                if rng.random() < min(chance * self.missing, 0.95):
                    row[field] = None
            rows.append(row)
        return rows

    def coauthors(self, circle: np.ndarray, when: float, count: int) -> list[str]:
        """Names from the part of the circle that is near at this time of a career."""
        rng, found = self.rng, {}
        for _ in range(count):
            if rng.random() < 0.1 * self.noise:
                found[int(zipf(rng, NAMES, 1, 0.4)[0])] = None
            else:
                near = when * len(circle) + rng.normal(0.0, 0.8 + 0.12 * len(circle))
                found[int(circle[int(np.clip(near, 0, len(circle) - 1))])] = None
        return [self.names[k] for k in found]

    def title(self, topic: int, favourites: np.ndarray) -> str:
        """Words of the topic, the author's own more often, and words of all topics."""
        rng, found = self.rng, {}
        for _ in range(4 + int(rng.poisson(3))):
            u = rng.random()
            if u < 0.45:
                found[self.topics[topic][int(rng.choice(favourites))]] = None
            elif u < 1.0 - 0.3 * self.noise:
                found[self.topics[topic][int(zipf(rng, WORDS, 1)[0])]] = None
            else:
                found[self.common[int(zipf(rng, COMMON, 1, 0.8)[0])]] = None
        return " ".join(found)

    def venue(self, topic: int) -> str:
        """Mostly one of the topic's."""
        if self.rng.random() < 0.2 * self.noise:
            topic = int(self.rng.integers(TOPICS))
        return self.venues[topic][int(zipf(self.rng, VENUES, 1)[0])]


# ---------------------------------------------------------------------------------------- scale
def scale(frame: pd.DataFrame, times: int, seed: int = 0) -> pd.DataFrame:
    """Every mention `times`, each copy but the first perturbed: clusters `times` as large.

    Copies lose coauthors and title words, or have some of another mention of the same block, are
    of a year or two before or after, and may lack venue or organization. Blocks and labels stay.

    frame: mentions, as `read` gives them.
    times: how many of each, with the first.
    seed: a number.
    """
    times = whole(times, "times", "how many copies of each mention, at least 1")
    rng = generator_of(seed)
    made = frame.iloc[np.repeat(np.arange(len(frame)), times)].reset_index(drop=True)
    copy = np.arange(len(made)) % times > 0
    names = frame["block"].to_numpy(object) if "block" in frame else np.full(len(frame), None)
    blocks = pd.factorize(names)[0]
    order, counts = np.argsort(blocks, kind="stable"), np.bincount(blocks + 1)
    first = np.cumsum(counts) - counts
    mine = np.repeat(blocks, times) + 1
    other = order[first[mine] + (rng.random(len(made)) * counts[mine]).astype(np.int64)]
    usual = mark_of(frame["authors"]) if "authors" in frame else ","
    for name in ("title", "authors"):
        if name not in made:
            continue
        texts, donors = made[name].tolist(), frame[name].tolist()
        for i in np.flatnonzero(copy):
            donor = donors[other[i]] if isinstance(donors[other[i]], str) else ""
            if not isinstance(texts[i], str):
                continue
            if name == "title":
                texts[i] = " ".join(perturbed(rng, texts[i].split(), donor.split()) or ["the"])
            else:
                texts[i] = other_authors(rng, texts[i], donor, names[i // times], usual)
        made[name] = pd.Series(texts, dtype=frame[name].dtype)
    if "year" in made:
        shift = np.where(copy, rng.integers(-2, 3, len(made)), 0)
        years = pd.to_numeric(made["year"], errors="coerce").round()
        made["year"] = years.astype("Int64") + shift
    for name in ("venue", "organization"):
        if name in made:
            made[name] = made[name].where(~copy | (rng.random(len(made)) > 0.15))
    made.attrs["duplicates"] = 0
    return made


def perturbed(rng, words: list[str], others: list[str]) -> list[str]:
    """Some words dropped, and in 3 of 10 cases one of another mention added."""
    found = [word for word in words if rng.random() > 0.2]
    if others and rng.random() < 0.3:
        found.append(others[int(rng.integers(len(others)))])
    return found


def other_authors(rng, authors: str, donor: str, block: Any, usual: str) -> str:
    """Perturbed coauthors of the author whose mention it is, who stays in his place.

    usual: what separates authors in most lists.
    """
    block = block if isinstance(block, str) else None
    names, others = split(authors, usual), split(donor, usual)
    mine = focal(names, block)
    if others:
        others.pop(focal(others, block))
    before, after = perturbed(rng, names[:mine], []), perturbed(rng, names[mine + 1 :], others)
    found = [*before, *names[mine : mine + 1], *after]
    if usual != ";" and ";" not in authors and not any("," in name for name in found):
        return ", ".join(found)
    return "; ".join(found) + (";" if len(found) == 1 else "")  # Surname, First of one alone
