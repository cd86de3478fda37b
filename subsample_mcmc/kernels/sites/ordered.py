"""Do neighbouring values of an ordered support differ in one datum, and no value in more."""

from collections.abc import Callable

import numpy as np

from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.pointers import call_rows, pointer_to
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.lookups.bounds import check_model
from subsample_mcmc.target.moved import change_all
from subsample_mcmc.target.rewards import new_memory, trial_of

ENDS = 4  # values at either end of a support that are compared at all data ...
EVALUATIONS = 10_000_000  # ... and others at random, as many as that allows
MOST_EVALUATIONS = 500_000_000  # of blocks of many sites: beyond, some of them are asked
FEW = 5_000  # data that are all asked where nothing is compiled
PLACES = 4  # states; in the first, the initial one, a zero may hide what a value does


def tried(model, state, ints, place: int, values, n: int) -> list[float]:
    """The log likelihood of datum n with each of these values at one place of the integers."""
    kept, found = ints[place], []
    for value in values:
        ints[place] = value
        with np.errstate(all="ignore"):
            found.append(float(model.log_likelihood(state, model.data, n, *model.extra(state))))
    ints[place] = kept
    return found


def check_cumulative(name: str, model) -> None:
    """Refuse a support whose neighbours differ in more than one datum, by looking at a sample."""
    variable = model.variables[name]
    if variable.support - 1 > model.size:
        raise ValueError(
            f"Gibbs({name!r}, cumulative=True): {variable.support} values need at least "
            f"{variable.support - 1} data, one between each two; there are {model.size}."
        )
    rng = np.random.default_rng(0)  # the same sample every time
    ints, floats = model.ints.copy(), model.floats.copy()
    state = model.state(ints, floats)
    for k in range(64 * PLACES):
        if k > 0 and k % 64 == 0:
            change_all(model, ints, floats, rng)
        arm = int(rng.integers(max(variable.support - 1, 1)))
        n = int(np.clip(arm + rng.integers(-3, 4), 0, model.size - 1))
        n = n if rng.random() < 0.5 else int(rng.integers(model.size))
        site = variable.block.start + int(rng.integers(variable.block.length))
        values = (arm, min(arm + 1, variable.support - 1))
        try:
            found = tried(model, state, ints, site, values, n)
        except Exception:
            if k < 64:
                raise
            continue  # elsewhere it may have none
        apart = found[0] != found[1] and not (k >= 64 and np.isnan(found).any())
        if n != arm and apart:
            raise ValueError(
                f"Gibbs({name!r}, cumulative=True): going from value {arm} to {arm + 1} "
                f"changes datum {n} from {found[0]:.6g} to {found[1]:.6g}, but only datum {arm} "
                "may change. Shift the support, or leave cumulative out."
            )


class Cumulative:
    """A key under which a model keeps for which blocks all values were as they should be."""


@jit
def read_rows(trial, values, value, rows, out):
    """Log likelihoods of data where one place of the integers has a value."""
    kept, calls = values[0], trial.calls
    values[0] = value
    call_rows(calls.rewards, calls.context, calls.row, 0, rows, out)
    values[0] = kept


def check_values(name: str, model) -> None:
    """Refuse a support with a value of its own, such as 0 for no change: cumulative sums miss it.

    At value k of a site the data before k must be as at the highest value, all others as at the
    lowest. All data that see a site are asked, at the values at either end and at others at random.
    """
    variable = model.variables[name]
    if DISABLED:
        return
    done = model.prepared.setdefault(Cumulative, set())
    if name in done:
        return
    last, rng = variable.support - 1, np.random.default_rng(3)
    ints, floats = model.ints.copy(), model.floats.copy()
    ends = {*range(min(ENDS, last)), *range(max(last - ENDS + 1, 0), last + 1)}
    sites = sites_asked(variable, model.size, rng)
    for elsewhere in (False, True):
        if elsewhere:
            change_all(model, ints, floats, rng)
        told = ""
        try:
            for site in sites:
                at = rows_that_see(variable, site, model.size)
                count = max(2 * ENDS, EVALUATIONS // (max(len(at), 1) * len(sites)))
                among = range(last + 1) if count > last else rng.integers(last + 1, size=count)
                read = reader(model, ints, floats, variable.block.start + site, at)
                first, top = read(0), read(last)
                for k in sorted(ends | {int(k) for k in among}):
                    seen, wanted = read(k), np.where(at < k, top, first)
                    wrong = (seen != wanted) & ~(np.isnan(seen) | np.isnan(wanted))
                    if wrong.any() and not told:
                        i = int(np.argmax(wrong))
                        shown = f" of site {site}" if variable.block.length > 1 else ""
                        told = value_of_its_own(name, shown, k, int(at[i]), seen[i], wanted[i])
                if told:
                    break
        except Exception:
            if not elsewhere:  # where it may have no value
                raise
        if told:
            raise ValueError(told)
    done.add(name)


def sites_asked(variable, size: int, rng) -> list[int]:
    """All sites of a block, or as many at random as can be asked in seconds, with both ends."""
    count = variable.sites
    each = size if variable.touches is None else max(1, len(variable.touches[1]) // count)
    most = max(2, MOST_EVALUATIONS // (4 * ENDS * each))
    if count <= most:
        return list(range(count))
    return sorted({0, count - 1, *rng.integers(count, size=most).tolist()})


def rows_that_see(variable, site: int, size: int) -> np.ndarray:
    """Numbers of the data that a site's value may change."""
    if variable.touches is None:
        return np.arange(size)
    indptr, indices = variable.touches
    return np.sort(np.asarray(indices[indptr[site] : indptr[site + 1]], dtype=np.int64))


def reader(model, ints, floats, place: int, at: np.ndarray) -> Callable[[int], np.ndarray]:
    """read(k): log likelihoods of some data with value k at one place of the integers."""
    if DISABLED:
        state = model.state(ints, floats)
        return lambda k: np.array([tried(model, state, ints, place, (k,), n)[0] for n in at])
    values, rows = ints[place : place + 1], at.astype(row_kind(model.size))
    none = Block("none", False, (0,), 0)
    trial = pointer_to(trial_of(model, ints, floats, new_memory(model), none, 1, None, ()))

    def read(k: int) -> np.ndarray:
        out = np.zeros(len(rows))
        with np.errstate(all="ignore"):
            read_rows(trial, values, k, rows, out)
        return out

    return read


def value_of_its_own(name: str, site: str, k: int, n: int, seen: float, wanted: float) -> str:
    """What to tell of a value at which a datum is neither as before nor as after a change."""
    return (
        f"Gibbs({name!r}, cumulative=True): at value {k}{site} datum {n} has {seen:.6g}, where "
        f"it has {wanted:.6g} at the {'highest' if n < k else 'lowest'} value, as it must for "
        f"data {'before' if n < k else 'from'} {k}{'' if n < k else ' on'}. A value with a meaning "
        "of its own, such as no change, needs a block of its own; or leave cumulative out."
    )


def all_cumulative(name: str, model) -> bool:
    """May cumulative=True be taken for granted: all data are looked at.

    At value k the data before k must be as at the highest value, all others as at the lowest.
    """
    variable = model.variables[name]
    last, size = variable.support - 1, model.size
    if last > size or variable.block.length > 1 or (DISABLED and size > FEW):
        return False
    check_model(model, free=(name,))  # before compiled code looks up what is beyond an array
    rng, at, moved = np.random.default_rng(1), np.arange(size), 0
    ints, floats = model.ints.copy(), model.floats.copy()
    values = rng.integers(0, last + 1, size=4).tolist()
    for _ in range(2):
        change_all(model, ints, floats, rng)
        read = reader(model, ints, floats, variable.block.start, at)
        first, top = read(0), read(last)
        if not all(np.array_equal(read(k), np.where(at < k, top, first)) for k in values):
            return False
        moved += int(np.sum(first[:last] != top[:last]))
    if moved <= last:  # of twice as many: most data do not see it
        return False
    try:  # what is asked where somebody says so
        check_cumulative(name, model)
        check_values(name, model)
    except ValueError:
        return False
    return True
