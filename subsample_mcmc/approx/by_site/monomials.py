"""Polynomials of third order in the numbers of a site and in those that all data see.

Monomials of a site's k numbers are i, those of the c common ones j, both by degree. A site has one
coefficient for each pair whose degrees add up to 3 at most, i by i: so that of i belong the first
widths[i] of the j. The pair of both constants is kept, and is 0.
"""

from math import comb
from typing import NamedTuple

import numpy as np

from subsample_mcmc.approx.fit.site_jets import products
from subsample_mcmc.approx.taylor.tensors import lines_of
from subsample_mcmc.numerics.jit import jit

ORDER = 3


class Monomials(NamedTuple):
    """Which monomials there are, of so many numbers: each is an earlier one times a number."""

    before: np.ndarray  # number of the earlier one
    by: np.ndarray  # which number it is multiplied by


class SiteShape(NamedTuple):
    """Of the polynomials of all sites of a model."""

    own: Monomials  # of a site's numbers
    common: Monomials
    widths: np.ndarray  # how many of the common ones stand with each of a site's


def size_of(k: int, c: int) -> int:
    """Coefficients of a site."""
    return comb(k + c + ORDER, ORDER)


def tuples_of(count: int) -> list[tuple[int, ...]]:
    """The monomials of so many numbers, by degree: which numbers are multiplied."""
    return [t for degree in range(ORDER + 1) for t in products(list(range(count)), degree)]


def monomials_of(count: int) -> Monomials:
    """As compiled code multiplies them."""
    every = tuples_of(count)
    before = [every.index(t[:-1]) if t else 0 for t in every]
    return Monomials(np.array(before), np.array([t[-1] if t else 0 for t in every]))


def shape_of(k: int, c: int) -> SiteShape:
    """Of k numbers of a site, and c common ones."""
    widths = [size_of(0, c) if not t else comb(c + ORDER - len(t), c) for t in tuples_of(k)]
    return SiteShape(monomials_of(k), monomials_of(c), np.array(widths))


def pairs_of(k: int, c: int) -> list[tuple[int, ...]]:
    """The monomial of all k + c numbers that each coefficient belongs to."""
    found = []
    for own in tuples_of(k):
        for common in tuples_of(c):
            if len(own) + len(common) <= ORDER:
                found.append(own + tuple(k + j for j in common))
    return found


def directions_of(count: int) -> np.ndarray:
    """(lines, count): along so many lines a polynomial of so many numbers is known."""
    found = []
    for where, signs in lines_of(count, True):
        line = np.zeros(count)
        line[list(where)] = signs
        found.append(line / np.sqrt(len(where)))
    return np.array(found)


def fitted(lines: np.ndarray, along: np.ndarray, k: int, c: int) -> np.ndarray:
    """(sites, size): coefficients, from those along lines, (lines, ORDER, sites) by degree."""
    pairs = pairs_of(k, c)
    found = np.zeros((along.shape[2], len(pairs)))
    for degree in range(1, ORDER + 1):
        at = [i for i, t in enumerate(pairs) if len(t) == degree]
        system = np.array([np.prod(lines[:, list(pairs[i])], axis=1) for i in at]).T
        found[:, at] = (np.linalg.pinv(system) @ along[:, degree - 1]).T
    return found


@jit(inner="always")
def fill(monomials, x, out):
    """Write all monomials of some numbers."""
    out[0] = 1.0
    for i in range(1, len(monomials.by)):
        out[i] = out[monomials.before[i]] * x[monomials.by[i]]


@jit(inner="always")
def gain_of_site(widths, coefficients, here, there, common):
    """By how much a site's polynomial rises between two of its values: their monomials."""
    value, at = 0.0, 0
    for i in range(len(widths)):
        own = 0.0
        for j in range(widths[i]):
            own += coefficients[at + j] * common[j]
        at += widths[i]
        value += own * (there[i] - here[i])
    return value


@jit(inner="always")
def collapse(widths, coefficients, own, out):
    """Add a site's polynomial where the site stands, as one in the common numbers, to out."""
    at = 0
    for i in range(len(widths)):
        for j in range(widths[i]):
            out[j] += coefficients[at + j] * own[i]
        at += widths[i]
