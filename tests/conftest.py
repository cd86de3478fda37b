"""What every test gets: a compile cache of this run, and a seeded generator of its own."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Set before the package is imported, and before xdist starts its workers, which inherit it: one
# cache per run, shared by the workers, so that nothing is compiled twice and nobody's own cache
# is read or written. Whoever sets the variable keeps the directory (CI does).
_made_here = None
if "SUBSAMPLE_MCMC_CACHE" not in os.environ:
    _made_here = tempfile.mkdtemp(prefix="subsample-mcmc-tests-")
    os.environ["SUBSAMPLE_MCMC_CACHE"] = _made_here

# Set before numpy is imported: a worker has one core, and threads of its linear algebra wait there
# for one another, at full speed, for longer than they work.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Figures are written, never shown.
os.environ.setdefault("MPLBACKEND", "Agg")

# Tests of the code that computes indices: worth a second run with bounds checked.
BOUNDS = (
    "test_draws", "test_racing", "test_exact", "test_decide", "test_lilucb", "test_halving",
    "test_bayesgap", "test_lingape", "test_membership", "test_mergesplit", "test_partition",
)  # fmt: skip


# Rooms, files and tests that depend on the version of Python, numba, arviz or other tools:
# bytecode, what is kept on disk, processes, reports, what is promised to users.
VERSIONED = (
    "numerics", "target", "runs", "cli", "test_examples",
    "test_promises", "test_code_of_pages_runs", "test_code_with_other_tools_runs",
)  # fmt: skip
# Of the bridge to PyMC, with all of their parameters: graphs are other ones in other versions. Of
# its other tests that are not slow, the first set of parameters does.
TRANSLATED = (
    "test_density_is_that_of_pymc", "test_values_are_those_of_pymc", "test_what_is_refused",
    "test_what_is_refused_says_why",
)  # fmt: skip

# Of those, what stores runs or shows them: ArviZ is another one from Python 3.12 on.
REPORTS = ("store", "views", "test_trace", "test_kept", "test_padding")


def pytest_collection_modifyitems(items):
    begun, opened = set(), set()  # tests, and files, of which one was seen
    here, rooms = Path(__file__).parent, {}  # of each file, once
    for item in items:
        if item.path not in rooms:
            rooms[item.path] = item.path.relative_to(here).parts
        room = rooms[item.path]
        plain = item.get_closest_marker("plain") is not None
        if any(item.callspec.id in marker.args for marker in item.iter_markers("slow_for")):
            item.add_marker("slow")
        test = item.nodeid.partition("[")[0]
        slow = item.get_closest_marker("slow") is not None
        if (test, slow) not in begun:
            begun.add((test, slow))
            item.add_marker("first_slow" if slow else "first")
        if (item.path, slow, plain) not in opened:
            opened.add((item.path, slow, plain))
            item.add_marker("one_a_file")
        first = item.get_closest_marker("first") is not None
        if first and (plain or item.path.stem.startswith(BOUNDS)):
            item.add_marker("bounds")
        named = {room[0], item.path.stem, item.function.__name__}
        translated = room[0] == "pymc" and (first or item.function.__name__ in TRANSLATED)
        if first and named.union(room).intersection(REPORTS):
            item.add_marker("reports")
        if named.intersection(VERSIONED) or (plain and first) or translated:
            item.add_marker("versions")


def pytest_runtest_setup(item):
    """Slow tests give way where a machine is too slow for all of them: .ci/run makes the file."""
    over = os.environ.get("SUBSAMPLE_MCMC_TESTS_OVER")
    if over and item.get_closest_marker("slow") and Path(over).exists():
        pytest.skip("no time is left: this machine is too slow for all slow tests")


def pytest_unconfigure():
    if _made_here is not None:
        shutil.rmtree(_made_here, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def few_points_where_nothing_is_compiled():
    """What races learn of whole sums: by 3,000 points it takes Python longer than all tests."""
    from subsample_mcmc.approx.taylor import remainder
    from subsample_mcmc.numerics.jit import DISABLED

    if DISABLED:
        remainder.POINTS = 2 * remainder.FEW


@pytest.fixture
def rng(request):
    """A generator seeded from the test's name: its own, and the same in every run and order."""
    import numpy as np  # no sooner: it reads how many threads it may have

    digest = hashlib.sha256(f"{request.path.stem}::{request.node.name}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))
