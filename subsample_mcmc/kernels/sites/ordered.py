"""Do neighbouring values of an ordered support differ in one datum; told by a sample."""

import numpy as np

from subsample_mcmc.kernels.sites.touches import change_all

FEW = 5_000  # data that are all asked
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


def all_cumulative(name: str, model) -> bool:
    """The same of every datum, where they are few: nobody has said that it is so.

    At value k the data before k must be as at the highest value, all others as at the lowest.
    """
    variable = model.variables[name]
    last, size = variable.support - 1, model.size
    if size > FEW or last > size or variable.block.length > 1:
        return False
    rng, place, moved = np.random.default_rng(1), variable.block.start, 0
    ints, floats = model.ints.copy(), model.floats.copy()
    state = model.state(ints, floats)
    values = np.unique([0, last, *rng.integers(0, last + 1, size=4)]).tolist()
    for _ in range(2):
        change_all(model, ints, floats, rng)
        seen = np.array([tried(model, state, ints, place, values, n) for n in range(size)])
        for i, k in enumerate(values):
            if not np.array_equal(
                seen[:, i], np.where(np.arange(size) < k, seen[:, -1], seen[:, 0])
            ):
                return False
        moved += int(np.sum(seen[:last, 0] != seen[:last, -1]))
    return moved > last  # of twice as many: most data do see it
