"""Who holds what: models, kernels, traces may go in any order, and many runs leave nothing."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers import runs

ROOT = Path(__file__).resolve().parents[2]
compiled_only = pytest.mark.skipif(DISABLED, reason="about compiled code")

# Chains in threads, whose models, kernels and walkers are let go before, while and after they run;
# freed memory is overwritten (PYTHONMALLOC=debug), and every look-up is checked.
IN_ANY_ORDER = """
import gc, itertools, threading
import numpy as np
import subsample_mcmc as sm
from subsample_mcmc.runs.chain import Program, Walker
from tests.helpers import runs

def walker(seed):
    model, kernel = runs.model(), runs.kernel() >> sm.repeat(runs.kernel(sm.Exact()), 2)
    program = Program(model, kernel)
    program.compile()
    return {"model": model, "kernel": kernel, "program": program,
            "walker": Walker(program, np.random.SeedSequence(seed))}

expected = walker(1)["walker"].advance(40).floats.tobytes()
for order in itertools.permutations(["model", "kernel", "program"]):
    held = walker(1)
    for name in order:
        del held[name]
        gc.collect()
    assert held["walker"].advance(40).floats.tobytes() == expected

def advance(one, found):
    found.append([one.advance(10).floats for _ in range(4)])

found, threads = [], []
for _ in range(3):  # each thread alone holds its chain
    threads.append(threading.Thread(target=advance, args=(walker(1).pop("walker"), found)))
for thread in threads:
    thread.start()
gc.collect()
for thread in threads:
    thread.join()
assert all(np.concatenate(parts).tobytes() == expected for parts in found)

traces = [sm.sample(runs.model(), runs.kernel(), 20, 5, 2, seed=3, progress=False)
          for _ in range(2)]
kept = traces[0].draws["theta"]
same = traces[1].draws["theta"].tobytes()
del traces
gc.collect()
assert kept.tobytes() == same
print("all there")
"""


@compiled_only
@pytest.mark.slow
def test_models_kernels_and_traces_may_go_in_any_order():
    given = os.environ | {"PYTHONMALLOC": "debug", "NUMBA_BOUNDSCHECK": "1"}
    command = [sys.executable, "-W", "ignore", "-c", IN_ANY_ORDER]
    made = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.stdout.strip() == "all there", made.stderr


MANY = """
import gc, json, sys
from tests.helpers import runs

model, kernel = runs.model(), runs.kernel()

def resident():  # but for what is read from files, which a system drops and reads again
    with open("/proc/self/status") as file:
        told = dict(line.split(":", 1) for line in file)
    return sum(int(told[name].split()[0]) for name in ("RssAnon", "VmSwap")) / 1e3

found = []
for k in range(1_001):
    runs.run(3, warmup=2, chains=1, model=model, kernel=kernel)
    if k in (200, 300, 400, 1_000):  # the first lists of all objects are kept as free memory
        gc.collect()
        found.append([len(gc.get_objects()), resident()])
print(json.dumps(found))
"""


@compiled_only
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's count of memory")
def test_a_thousand_runs_leave_nothing_behind():
    """One leaked array of a run, of this model some 2,400 bytes, would be 1.4 MB."""
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MANY], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (objects, resident), (more, then) = json.loads(made.stdout.splitlines()[-1])[-2:]
    assert more - objects < 100, (objects, more)
    assert then - resident < 0.7, (resident, then)


def test_a_run_leaves_no_cycle_that_holds_draws():
    """Draws are freed when the trace goes, and not when the collector comes."""
    import weakref

    trace = runs.run(10, chains=1)
    base = weakref.ref(trace.draws["theta"].base)
    gc.collect()
    gc.disable()
    try:
        del trace
        assert base() is None
    finally:
        gc.enable()
