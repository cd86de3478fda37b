"""Run chains: `sample`, and go on with them: `resume`; read a stored run: `load`."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from subsample_mcmc import __version__
from subsample_mcmc.calls import helpful
from subsample_mcmc.errors import StoreError, warn
from subsample_mcmc.kernels.base import Kernel, Leaf, description, labelled, worst
from subsample_mcmc.kernels.checks import warn_of_sparse_columns
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.kernels.partition.merge_split import MergeSplit
from subsample_mcmc.numerics.bytecode import global_generator
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.numerics.progress import quietly
from subsample_mcmc.numerics.random import root_of
from subsample_mcmc.runs import fingerprint
from subsample_mcmc.runs.backends import joblib_with
from subsample_mcmc.runs.chain import Program
from subsample_mcmc.runs.counts import Counts
from subsample_mcmc.runs.defaults.audits import share_of, warn_of_passes
from subsample_mcmc.runs.defaults.site_priors import warn_of_site_priors
from subsample_mcmc.runs.defaults.spikes import refuse_spikes
from subsample_mcmc.runs.kept import fingerprints
from subsample_mcmc.runs.padding import lengths_of
from subsample_mcmc.runs.parallel import ChainPlan, Member, Team
from subsample_mcmc.runs.store import store as files
from subsample_mcmc.runs.store.thinned import thinned_in
from subsample_mcmc.runs.trace import ChainDraws, Trace, trace_of
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.population import whole

UNDRAWN = "others of {} have none yet: wait, or, if it has ended, sm.resume(path, ...)."


@helpful
def sample(
    model: Model, kernel: Kernel | None = None, draws: int = 1000, warmup: int = 1000,
    chains: int = 4, seed=None, audit: float | None = None, store: str | os.PathLike | None = None,
    progress: bool = True, thin: int = 1, start=None, cores: int | None = None,
    parallel: str | None = None, promise: str | None = None, keep: Any = None,
) -> Trace:  # fmt: skip
    """Draws from the posterior of a model, made by a kernel: a Trace.

    model: what is sampled, an sm.Model.
    kernel: how chains move; default one that short pilots choose, sm.default_kernel(model), which
        prints as code. Chains then start apart, around a fit, where there is one, and at any values
        of discrete blocks.
    draws: of each chain, after warm-up.
    warmup: steps before the first draw, in which kernels adapt; they are not kept.
    chains: how many.
    seed: None, an int, a SeedSequence, or a Generator, which is advanced. Chains have streams of
        their own: their draws do not depend on how many there are, nor on cores.
    audit: share of decisions that are made again, exactly, under the same random numbers; the
        report turns them into an error rate. Draws are the same with and without. Default: of
        kernels that promise an estimate, or nothing, as many of those by some rows as read a fifth
        more in all; of others none.
    store: a path, such as "run.nc". Draws are appended as they are made and not kept in memory (the
        Trace at the end reads them); it can be read while the run goes on (sm.load), and resumed
        after a crash (sm.resume).
    progress: show a bar, and say what was chosen.
    thin: steps of the kernel per draw.
    start: initial states, a list of dicts, one per chain (a dict will do for one chain), or
        start(rng) -> dict; or a Trace, whose chains' last draws are taken (give another seed than
        it had). Blocks that are left out start as in the model.
    cores: chains that run at a time; default all cores.
    parallel: None runs them in threads; the name of a joblib backend runs them there, with the same
        draws: "loky" in processes, "dask" on the cluster of your distributed.Client(), "ray" on
        that of ray.init(). Model and data go to each worker once a run; data in a file,
        np.load(path, mmap_mode="r"), are opened there by "loky", and sent by the others.
    promise: of a default kernel: the weakest guarantee that may do, such as "exact".
    keep: names of blocks whose draws are kept, ("b", "sigma"); default all. Or a dict, {"b": True,
        "z": 100, "range": f}: of z every 100th draw, trace.thinned["z"]; and f(state) -> a number
        or an array, under this name. What is not kept takes no memory and is not stored.
    Ctrl-C ends the run with what there is.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> trace = sm.sample(model, sm.Gibbs("k"), draws=50, warmup=0, chains=2, seed=1, audit=0.1)
        >>> trace.draws["k"].shape, int(trace.stats["k"]["wrong"].sum())
        ((2, 50), 0)
    """
    draws, thin = whole(draws, "draws", "how many, at least 1"), whole(thin, "thin", "at least 1")
    chains = whole(chains, "chains", "how many, at least 1")
    if int(warmup) != warmup or warmup < 0:
        raise ValueError(f"warmup={warmup!r}: give a number of steps, 0 or more.")
    if audit is not None and not 0.0 <= audit <= 1.0:
        raise ValueError(f"audit={audit!r}: give a share of decisions between 0 and 1, or None.")
    cores = workers(cores, parallel)
    if store is not None:
        files.must_be_free(store)  # before anything reads the data or compiles
    if kernel is None:
        from subsample_mcmc.runs.default_kernel import default_kernel  # which runs pilots
        from subsample_mcmc.runs.defaults.configurations import (
            warn_of_configurations,
            warn_of_modes,
        )

        steps = chains * (int(warmup) + draws * thin)
        kernel = default_kernel(model, promise, steps, progress)
        if start is None and kernel.starts_apart:
            start = kernel.in_turn()
            warn_of_modes(kernel.modes)
            warn_of_configurations(kernel.configurations)
    elif promise is not None:
        raise ValueError(
            f"promise={promise!r} is for a run without a kernel: this one decides by the selectors "
            "it was given, selector=sm.Exact() for instance."
        )
    chosen = getattr(kernel, "code", "")
    with quietly(progress):  # control variates read the data
        program = Program(model, kernel, keep=keep)
    refuse_spikes(model, program.kernel)
    if warmup == 0:
        warn_of_cold_start(program.kernel)
    warn_of_global_generators(program.kernel)
    warn_of_site_priors(model)
    warn_of_heat(program.kernel, int(warmup), draws * thin)
    warn_of_sparse_columns(program.kernel, model)
    warn_of_passes(program.kernel, model, audit or 0.0, chains, int(warmup) + draws * thin)
    entropy, key = root_of(seed)
    chain_plan = ChainPlan(draws, int(warmup), thin, share_of(audit, model), entropy, key)
    chain_plan.start = starts(model, start, chains, chain_plan)
    meta = described(program, chain_plan, chains)
    prints = fingerprint.of_run(model, program.kernel) | fingerprints(program.kept)
    meta |= {"fingerprints": prints, "chosen": chosen, "cores": min(cores, chains)}
    if isinstance(start, Trace):
        warn_of_same_seed(start, meta)
    members = [Member(number=i) for i in range(chains)]
    return carried_out(program, chain_plan, members, meta, store, progress, cores, parallel)


@helpful
def resume(
    path: str | os.PathLike, model: Model, kernel: Kernel, draws: int | None = None,
    progress: bool = True, cores: int | None = None, parallel: str | None = None,
    keep: Any = None,
) -> Trace:  # fmt: skip
    """Go on with a stored run until it is complete, bit for bit as if it had not stopped.

    The model and the kernel are given again, and checked against the stored run: a change of
    functions, data, kernels or versions is refused with its name.

    path: as in sm.load.
    model, kernel: those of the run.
    draws: the new total per chain, to go further than was asked for.
    progress, cores, parallel: as in sm.sample.
    keep: as of the run, where functions of the state are kept.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "run.nc")
        >>> trace = sm.sample(model, sm.Gibbs("k"), draws=20, warmup=0, chains=2, store=path)
        >>> sm.resume(path, model, sm.Gibbs("k"), draws=50).draws["k"].shape  # 30 more
        (2, 50)
    """
    cores = workers(cores, parallel)
    stored = files.peek(path)
    meta = stored.meta
    total = meta["draws"] if draws is None else whole(draws, "draws", "the new total, at least 1")
    if total < max(stored.draws):
        had = ", ".join(map(str, stored.draws if len(set(stored.draws)) > 1 else stored.draws[:1]))
        more = "give a larger total, or read it with sm.load."
        raise ValueError(f"draws={total}: {path} has {had} draws already; {more}")
    complete = stored.finished and total == min(stored.draws)
    if not complete:
        refuse_without_states(stored, path)
        files.must_be_writable(path)
    if keep is None and (known := meta.get("keep")):
        if known["functions"]:
            raise ValueError(
                f"{path} keeps {', '.join(known['functions'])}, functions of the state, which a "
                "file cannot hold: give keep= as sm.sample was given it."
            )
        keep = dict.fromkeys(known["names"], True)
        keep |= {block.name: block.every for block in thinned_in(meta)}
    with quietly(progress):  # control variates read the data
        program = Program(model, kernel, keep=keep)
    begun = all(saved is not None for saved in stored.checkpoints)
    today = fingerprint.of_run(model, program.kernel) | fingerprints(program.kept)
    fingerprint.refuse_changes(meta["fingerprints"], today, path, begun)
    if complete:
        return load(path)
    meta = meta | {"draws": total}
    chain_plan = ChainPlan(
        total, meta["warmup"], meta["thin"], share_of(meta["audit"], model), int(meta["seed"]),
        tuple(meta["seed_key"]),
    )  # fmt: skip
    if meta["start"] is not None:
        chain_plan.start = [{k: np.array(v) for k, v in one.items()} for one in meta["start"]]
    members = []
    for i, (drawn, saved) in enumerate(zip(stored.draws, stored.checkpoints, strict=True)):
        warmed = 0 if saved is None else min(int(saved["counters"][0]), chain_plan.warmup)
        steps = 0 if saved is None else warmed + drawn
        members.append(Member(
            number=i, seconds=stored.seconds[i], steps=steps, drawn=drawn, checkpoint=saved
        ))  # fmt: skip
    journal = files.reopen(path, meta)
    if list(journal.draws) != stored.draws:
        journal.close()
        raise StoreError(f"{path} was gone on with by another process: call sm.resume again.")
    return carried_out(program, chain_plan, members, meta, path, progress, cores, parallel, journal)


@helpful
def load(path: str | os.PathLike) -> Trace:
    """The draws of a stored run, also of one that is still going on: of chains that have some.

    path: that `store` of sm.sample named.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "run.nc")
        >>> trace = sm.sample(model, sm.Gibbs("k"), draws=20, warmup=0, chains=2, store=path)
        >>> sm.load(path).draws["k"].shape
        (2, 20)
    """
    stored = files.read(path)
    return trace_of(stored.meta, stored.chains, UNDRAWN.format(path))


def carried_out(
    program, chain_plan, members, meta, path, progress, cores, parallel, journal=None
) -> Trace:
    """The trace of chains that are run here; what they draw goes to a store, if path names one.

    journal: of a run that goes on; else a new one is made at path. After Ctrl-C the trace has what
    there is; an error of a chain is raised, with the trace attached.
    """
    new = path is not None and journal is None
    if new:
        journal = files.Journal.create(path, meta)
    try:

        def keep(member: Member) -> None:
            assert journal is not None
            chunk = member.taken()
            journal.append(
                member.number, chunk.ints, chunk.floats, chunk.counts.words(), member.checkpoint,
                member.seconds, chunk.thinned,
            )  # fmt: skip

        storing = keep if journal is not None else None
        team = Team(program, chain_plan, members, storing, bool(progress))
        with quietly(progress), team.bars() as bars:
            try:
                program.compile(chain_plan.audit)
            except BaseException:  # a mistake in a function, or Ctrl-C: the path is free again
                if new:
                    Path(path).unlink(missing_ok=True)
                raise
            team.run(min(cores, len(members)), parallel, bars)
    finally:
        if journal is not None:
            journal.close()
    # Compiled steps cannot write to data; steps in Python may, by an array that they have kept.
    safe = (program.compiled and not DISABLED) or parallel
    changed = [] if safe else program.model.changed()
    errors = [m.error for m in members if m.error is not None]
    if changed and not errors:
        errors.append(RuntimeError(
            f"data {', '.join(changed)} changed in place while chains ran: sums that were made of "
            "them before are used again, so these draws are of no posterior. What a kernel changes "
            "is a block of the state, sm.Model(state={...}), which others then read as it is."
        ))  # fmt: skip
    if path is not None:
        if all(m.drawn == chain_plan.draws for m in members):
            files.finish(path)
        kept = files.read(path)
        trace = trace_of(kept.meta, kept.chains, "" if errors else UNDRAWN.format(path))
    else:
        made = [data_of(program, m) for m in members]
        trace = trace_of(meta, made, "" if errors else "others had not begun to draw.")
    trace.interrupted, trace.row_labels = team.interrupted, program.model.row_labels
    known = [m.fetched for m in members if m.fetched is not None]
    trace.fetched = np.sum(known, axis=0) if known else None
    stored = f" and are stored in {path}" if path is not None else ""
    whose = "each chain" if len(trace.made) == len(members) else f"{len(trace.made)} chains"
    for error in errors:
        error.add_note(
            f"{trace.shape[1]} draws of {whose} were made before{stored}; they are this "
            "exception's .trace."
        )
        error.trace = trace  # type: ignore[attr-defined]
        raise error
    return trace


def workers(cores: int | None, parallel: str | None) -> int:
    """How many chains run at a time; refuses what cannot run them before anything is done."""
    if parallel is not None:
        joblib_with(parallel)
    return whole(os.cpu_count() or 1 if cores is None else cores, "cores", "how many, at least 1")


def refuse_without_states(stored: files.Progress, path) -> None:
    """Refuse a stored run whose draws are there, but not the states to go on from."""
    if any(
        drawn and not saved for drawn, saved in zip(stored.draws, stored.checkpoints, strict=True)
    ):
        raise ValueError(
            f"{path} holds draws, but not where each chain stood after them: it was saved from a "
            "trace whose chains had been cut to one length, or relabelled. sm.load reads it; runs "
            "with store=... can always be resumed."
        )


def warn_of_cold_start(kernel: Kernel) -> None:
    """Say which kernels would adapt in a warm-up that there is not."""
    for label, leaf in labelled(kernel):
        if leaf.learns:
            given = getattr(leaf, leaf.learns)
            warn(
                f"warmup=0: kernel {label}, {leaf.text()}, adapts its {leaf.learns} in warm-up, "
                f"and keeps {leaf.learns}={given!r:.40} without. Give warmup=500, say, or "
                "adapt=False to the kernel to keep it knowingly.",
            )


def warn_of_global_generators(kernel: Kernel) -> None:
    """Say which functions of the user's draw numbers that the seed does not tell."""
    for label, leaf in labelled(kernel):
        proposal = getattr(leaf, "proposal", None)
        for function in (getattr(leaf, "function", None), getattr(proposal, "draw", None)):
            if found := global_generator(function):
                name = getattr(function, "__name__", "a function")
                warn(
                    f"kernel {label}: {name} draws by {found}, which the seed does "
                    "not tell: a run cannot be repeated, nor resumed as it was. "
                    "Draw with its argument rng, as rng.normal()."
                )


def warn_of_same_seed(trace: Trace, meta: dict[str, Any]) -> None:
    """Say that further draws of the same data would follow the random numbers of those before."""
    before, now = (
        {k: v for k, v in one["fingerprints"].items() if k.startswith("data")}
        for one in ({"fingerprints": {}} | trace.meta, meta)
    )
    if before == now and all(trace.meta.get(k) == meta[k] for k in ("seed", "seed_key")):
        warn(
            "start: this trace was drawn with the same seed. Chains that go on from it follow the "
            "random numbers that its draws had, and come near them again: they are no new draws. "
            "Give another seed, or store the run and go on by sm.resume."
        )


def warn_of_heat(kernel: Kernel, warmup: int, steps: int) -> None:
    """Say which kernels anneal on while draws are kept."""
    for label, leaf in labelled(kernel):
        if told := annealing(leaf, warmup, steps):
            warn(
                f"kernel {label}, {leaf.text()}: {told['promise']} Give warmup={told['last']}, or "
                "more, or a shorter schedule."
            )


def annealing(leaf: Leaf, warmup: int, steps: int) -> dict[str, Any]:
    """What to know of a kernel that anneals on while draws are kept; nothing of others."""
    own = leaf.partition if isinstance(leaf, MergeSplit) else leaf
    if not isinstance(own, Gibbs | GibbsPartition):
        return {}
    heat = np.atleast_1d(np.asarray(own.temperature, dtype=float))
    kept = heat[min(warmup, len(heat) - 1) : warmup + steps]
    if heat[-1] != 1.0 or np.all(kept == 1.0):
        return {}
    last = int(np.flatnonzero(heat != 1.0)[-1]) + 1
    return {
        "last": last, "temperature": float(kept[0]), "guarantee": "none",
        "promise": f"its temperature comes to 1 after {last} iterations, and draws are kept after "
        f"warmup={warmup}: the first of them, at temperature {kept[0]:.3g}, are not from the "
        "posterior.",
    }  # fmt: skip


def data_of(program: Program, member: Member) -> ChainDraws:
    """What a chain drew, in memory."""
    if not member.chunks:
        layout = program.layout
        empty = np.zeros((0, layout.ints), dtype=np.int64), np.zeros((0, layout.floats))
        words = np.zeros((0, layout.words), dtype=np.int64)
        thinned = tuple(block.empty() for block in program.kept.thinned)
        return ChainDraws(*empty, Counts.of(words), member.checkpoint, member.seconds, thinned)
    ints, floats, counts, thinned = member.taken()
    told = member.checkpoint, member.seconds, thinned, member.processor
    return ChainDraws(ints, floats, counts, *told)


def starts(model: Model, start, chains: int, chain_plan: ChainPlan) -> list[dict] | None:
    """Initial states, one per chain, checked."""
    if start is None:
        return None
    if isinstance(start, Trace):
        gone = [name for name in model.names if name not in start.draws]
        if gone and start.meta.get("keep") and chain_plan.warmup == 0:
            warn(
                f"start: the last draws of {', '.join(gone)} were not kept, so these start as in "
                "the model, beside others from the posterior. Give warmup=500, say, or keep them."
            )
        start = last_states(start)
    if callable(start):
        key = (*chain_plan.key, 2**32 - 1)  # a stream that no chain has
        rng = np.random.default_rng(np.random.SeedSequence(chain_plan.entropy, spawn_key=key))
        start = [copied(start(rng)) for _ in range(chains)]
    if isinstance(start, dict):
        if chains > 1:
            raise TypeError(
                f"start is one dict for {chains} chains: give a list of them, one per chain, or "
                "start(rng)."
            )
        start = [start]
    states = list(start) if isinstance(start, Iterable) else [start]
    if not all(isinstance(one, Mapping) for one in states):
        raise TypeError(
            f"start={start!r:.60}: give a list of states, one per chain, such as "
            f"{{{model.names[0]!r}: ...}}, a function start(rng) that gives one, or a Trace; "
            "sm.laplace(model).start is such a function."
        )
    if len(states) != chains:
        raise ValueError(f"start has {len(states)} states for {chains} chains: give one for each.")
    for one in states:
        model.set_state(model.ints.copy(), model.floats.copy(), one)
    return [{name: np.asarray(value) for name, value in one.items()} for one in states]


def last_states(trace: Trace) -> list[dict]:
    """Where the chains of a run stood in the end: of the blocks that were kept."""
    functions = (trace.meta.get("keep") or {}).get("functions", ())  # of the state: no blocks
    blocks = {name: draws for name, draws in trace.draws.items() if name not in functions}
    return [
        {name: np.asarray(draws[chain, -1]) for name, draws in blocks.items()}
        for chain in range(trace.shape[0])
    ]


def constants_of(model: Model) -> dict[str, list[int]]:
    """Of blocks with a constraint that leaves some values no choice: where these stand, flat."""
    found = {n: v.constraint.constant(v.block.length) for n, v in model.variables.items()}
    return {name: places for name, places in found.items() if places}


def ends_of(model: Model) -> dict[str, list[float]]:
    """Of blocks whose values have an end each, by themselves: these, one or two."""
    found = {n: v.constraint for n, v in model.variables.items() if not v.constraint.together}
    ends = {n: [e for e in (c.low, c.high) if abs(e) < np.inf] for n, c in found.items()}
    return {name: some for name, some in ends.items() if some}


def copied(state: Any) -> Any:
    """A state that a user's function may change and return again."""
    return {k: np.copy(v) for k, v in state.items()} if isinstance(state, dict) else state


def described(program: Program, chain_plan: ChainPlan, chains: int) -> dict[str, Any]:
    """What a trace says about how it was made."""
    model, kernel = program.model, program.kernel
    steps = chain_plan.draws * chain_plan.thin
    kernels = [
        {"label": label} | leaf.facts(model) | annealing(leaf, chain_plan.warmup, steps)
        for label, leaf in labelled(kernel)
    ]
    for told in kernels:
        told.update({k: v.item() for k, v in told.items() if isinstance(v, np.generic)})
    begin = chain_plan.start and [
        {k: np.asarray(v).tolist() for k, v in s.items()} for s in chain_plan.start
    ]
    return {
        "version": __version__, "seed": str(chain_plan.entropy), "seed_key": list(chain_plan.key),
        "chains": chains, "draws": chain_plan.draws, "warmup": chain_plan.warmup,
        "thin": chain_plan.thin, "audit": chain_plan.audit if chain_plan.audit >= 0.0 else None,
        "start": begin,
        "layout": program.layout.to_json(), "axes": model.axes.to_json(),
        "lengths": lengths_of(model), "constant": constants_of(model), "ends": ends_of(model),
        "kernels": kernels, "guarantee": worst(told["guarantee"] for told in kernels),
        "describe": description(kernel, model), "compiled": program.compiled,
        "keep": None if program.kept.everything else {
            "names": list(program.kept.names), "functions": list(program.kept.functions),
            "every": [[*block] for block in program.kept.thinned],
        },
    }  # fmt: skip
