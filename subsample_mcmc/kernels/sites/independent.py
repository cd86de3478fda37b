"""Whether the sites of a block are independent given all else, so that they may move side by side.

They are if each datum sees one of them, and the prior of each reads no other. The first stands in
the table of touches, which is compared with the likelihood as for moves one after the other. The
second must be seen from the code: one thread would read what another writes.
"""

import types
from typing import Any

import numpy as np

from subsample_mcmc.kernels.sites.touches import seen_by, told_of
from subsample_mcmc.target.lookups.reads import Token, blocks_read, tokens


def check_independent(leaf, model) -> None:
    """Refuse a kernel that does not move sites, or a model in which they depend on each other."""
    told = f"side_by_side({leaf.text()})"
    if model.elsewhere is not None:
        raise ValueError(f"{told}: the rows are elsewhere, and come for one thread: leave it out.")
    if why := leaf.not_in_parts(model):
        raise ValueError(f"{told}: {why}.")
    (name,) = leaf.writes
    check_data_see_one(told, name, model)
    if model.prepare is not None and may_read(model.prepare, name, model):
        raise ValueError(
            f"{told}: prepare(state, data) may read all of {name!r}, which others would be "
            f"writing: read {name}[i] in log_likelihood, or leave side_by_side out."
        )
    check_priors_read_one(told, leaf, name, model)


def check_data_see_one(told: str, name: str, model) -> None:
    """Refuse a table by which a datum sees several sites."""
    touches = model.variables[name].touches
    count = np.bincount(touches[1], minlength=model.size)
    if count.max(initial=0) > 1:
        n = int(np.argmax(count > 1))
        raise ValueError(
            f"{told}: datum {n} sees {told_of(name, seen_by(touches, [n])[1])}, which depend on "
            "each other through it and cannot move at the same time: leave side_by_side out."
        )


def check_priors_read_one(told: str, leaf, name: str, model) -> None:
    """Refuse priors of which the code does not say that they read the site alone."""
    if not model.variables[name].block.discrete:
        own, called, place = model.site_prior.get(name), f"site_prior[{name!r}]", 1
        if own is None:
            raise ValueError(
                f"{told}: each move would read the prior of the whole state, which others are "
                f"changing: give sm.Model(site_prior={{{name!r}: f}}), f(state, site), and take "
                "the block's part out of log_prior."
            )
    else:
        own, called, place = leaf.log_prior, "log_prior", 2
        if own is None:
            if leaf.reads_before(model) == 0:
                return
            whole = [model.given[3], *model.site_prior.values()]
            if all(f is None or not may_read(f, name, model) for f in whole):
                return
            raise ValueError(
                f"{told}: each draw would read the prior of the whole state, which others are "
                f"changing: give sm.Model(site_prior={{{name!r}: f}}), f(state, site), which reads "
                f"state.{name}[site] alone, or Gibbs({name!r}, log_prior=f), f(state, data, site, "
                "arm)."
            )
    if not reads_own(own, place, name, model):
        how = (
            f"it must read them as state.{name}[site] or state.{name}[site, j] alone, written so, "
            "with `site` as it is given, and not hand on `state`"
        )
        if rows_have_others(name, model):
            how = "it must not read them, as `arm` is the value of its own, and not hand on `state`"
        raise ValueError(
            f"{told}: {called} may read other sites of {name!r} than its own: {how}. If a site's "
            "prior depends on other sites, they cannot move at the same time: leave side_by_side "
            "out."
        )


def rows_have_others(name: str, model) -> bool:
    """Is block[i] more than site i: labels on two axes are sites one by one."""
    block = model.variables[name].block
    return block.discrete and len(block.shape) > 1


def plain_of(function) -> Any:
    """The Python function behind what a user gave."""
    return getattr(function, "py_func", function)


def may_read(function, name: str, model) -> bool:
    """Does a function of the state read a block, or does its code not tell."""
    read = blocks_read(plain_of(function), model)
    return read is None or name in read


def told_before(name: str, model) -> int | None:
    """How many sites before its own the prior of a block's sites reads: by its code, or its maker.

    None: neither tells.
    """
    if name in model.behind:
        return model.behind[name]
    return reads_before(model.site_prior[name], 1, name, model)


def only_before(name: str, model) -> int | None:
    """How many sites before its own the prior of a discrete site reads, by its code.

    None: its code does not tell, or another part of the log prior may read the block, too.
    """
    own = model.site_prior.get(name)
    others = [f for other, f in model.site_prior.items() if other != name]
    if own is None or any(may_read(f, name, model) for f in (*others, model.given[3]) if f):
        return None
    return told_before(name, model)


def reads_own(function, place: int, name: str, model) -> bool:
    """Does a prior of a site, its argument number `place`, read no other site of the block."""
    return reads_before(function, place, name, model) == 0


def reads_before(function, place: int, name: str, model) -> int | None:
    """How many sites before its own a prior of a site reads, of the block; None: it may read any.

    place: the number of the argument that says which site. Told from the code: it must look up
    state.a[site], state.a[site - 1] with a number, state.a[0] where it asks whether site == 0, or
    state.a[site, j] with j a name or a number, and nothing else of the block.
    """
    function, farthest = plain_of(function), 0
    code = function.__code__
    if not may_read(function, name, model):
        return 0
    if rows_have_others(name, model):
        return None
    # Handed on whole, the state is read where it is not seen.
    if code.co_argcount <= place or blocks_read(function, model, False) is None:
        return None
    inner = code.co_cellvars or any(isinstance(c, types.CodeType) for c in code.co_consts)
    state, site = code.co_varnames[0], code.co_varnames[place]
    steps = tokens(code)
    at_first = where_first(steps, site)
    written = [step.value for step in steps if step.kind in ("store name", "delete name")]
    if inner or {state, site} & set(written):
        return None
    for at, step in enumerate(steps):
        if step[:2] != ("load name", state) or steps[at + 1].value != name:
            continue
        own = ("load name", site), *([("constant", 0)] if at in at_first else ())
        if steps[at + 2][:2] not in own:
            return None
        end = at + 3
        if steps[end].kind == "constant" and steps[end + 1][:2] == ("BINARY_OP", "-"):
            before = steps[end].value
            if not isinstance(before, int) or before < 0:
                return None
            farthest, end = max(farthest, int(before)), end + 2
        first = end
        while steps[end].kind in ("load name", "constant"):
            end += 1
        if end > first:
            if steps[end][:2] != ("BUILD_TUPLE", end - first + 1):
                return None
            end += 1
        if steps[end].kind != "subscript" or any(s.jumped for s in steps[at + 1 : end + 1]):
            return None
    return farthest


# A comparison of the site with a number, and whether it is the first where that is true.
ASKED = {("==", 0): True, ("<", 1): True, ("<=", 0): True}
ASKED |= {(">", 0): False, (">=", 1): False, ("!=", 0): False}


def where_first(steps: tuple[Token, ...], site: str) -> set[int]:
    """At which steps of a function the site is the first one, as the step before asked that.

    Up to the next that is jumped to: who came there may have been asked something else.
    """
    found: set[int] = set()
    ends = [step.value for step in steps if "JUMP" in step.kind]
    for k in range(len(steps) - 3):
        loaded, number, compared, jump = steps[k : k + 4]
        told = ASKED.get((compared.value, number.value)) if number.kind == "constant" else None
        if told is None or loaded[:2] != ("load name", site) or compared.kind != "COMPARE_OP":
            continue
        if not jump.kind.endswith("IF_FALSE"):
            continue
        begin = k + 4
        if not told:  # where it is not true, and nobody else comes
            begin = next(
                (j for j, step in enumerate(steps) if step.offset >= jump.value), len(steps)
            )
            before = steps[begin - 1].kind
            gone = before.startswith(("RETURN", "JUMP_FORWARD", "RAISE"))
            if ends.count(jump.value) > 1 or not gone or begin == len(steps):
                continue
            found.add(begin)
            begin += 1
        for j in range(begin, len(steps)):
            if steps[j].jumped:
                break
            found.add(j)
    return found
