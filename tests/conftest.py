"""What every test gets: a compile cache of this run, and a seeded generator of its own."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

# Set before the package is imported, and before xdist starts its workers, which inherit it: one
# cache per run, shared by the workers, so that nothing is compiled twice and nobody's own cache
# is read or written. Whoever sets the variable keeps the directory (CI does).
_made_here = None
if "SUBSAMPLE_MCMC_CACHE" not in os.environ:
    _made_here = tempfile.mkdtemp(prefix="subsample-mcmc-tests-")
    os.environ["SUBSAMPLE_MCMC_CACHE"] = _made_here

# Figures are written, never shown.
os.environ.setdefault("MPLBACKEND", "Agg")

# Tests of the code that computes indices: worth a second run with bounds checked.
BOUNDS = (
    "test_draws", "test_racing", "test_exact", "test_decide", "test_lilucb", "test_halving",
    "test_bayesgap", "test_lingape", "test_membership", "test_mergesplit", "test_partition",
)  # fmt: skip


# Rooms whose tests depend on the version of Python, numba or arviz: bytecode, what is kept on disk,
# processes, reports.
VERSIONED = ("numerics", "target", "runs", "cli", "pymc")


def pytest_collection_modifyitems(items):
    for item in items:
        room = item.path.relative_to(Path(__file__).parent).parts
        if item.get_closest_marker("plain") or len(room) == 1 or room[0] in VERSIONED:
            item.add_marker("versions")
        if any(item.callspec.id in marker.args for marker in item.iter_markers("slow_for")):
            item.add_marker("slow")
        if item.get_closest_marker("plain") or item.path.stem.startswith(BOUNDS):
            item.add_marker("bounds")


def pytest_unconfigure():
    if _made_here is not None:
        shutil.rmtree(_made_here, ignore_errors=True)


@pytest.fixture
def rng(request):
    """A generator seeded from the test's name: its own, and the same in every run and order."""
    digest = hashlib.sha256(f"{request.path.stem}::{request.node.name}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))
