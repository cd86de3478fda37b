"""One thread on one core, set before numpy and the rivals are imported; and what the machine is.

Import this module first: thread pools read their environment when they are made.
"""

import importlib.metadata
import os
import platform
import sys
import time
from pathlib import Path

for name in (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS", "NPROC",
):  # fmt: skip
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"  # the float32 row asks for float32 by name

TOO_LATE = sorted({"numpy", "numba", "jax"} & set(sys.modules))
RIVALS = ("numpy", "numba", "llvmlite", "scipy", "jax", "jaxlib")


def pin() -> str:
    """Keep this process on one core where the system allows it; say what was done."""
    if TOO_LATE:
        raise RuntimeError(f"{TOO_LATE} were imported before their threads were limited to one.")
    try:
        core = max(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError):
        return "not pinned"
    return f"pinned to core {core}"


def processor() -> str:
    """The model of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def free_gigabytes() -> float:
    """Memory that a program could still take; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("inf")
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable")]
    return int(found[0]) / 2**20 if found else float("inf")


def load() -> str:
    """Load averages over 1, 5 and 15 minutes."""
    try:
        return " ".join(f"{value:.2f}" for value in os.getloadavg())
    except OSError:
        return "unknown"


def warning() -> str:
    """What to know when others compute too; empty on an idle machine."""
    if not hasattr(os, "getloadavg") or os.getloadavg()[0] < 1.0:
        return ""
    return (
        "Others are computing on this machine. CPU time does not hide that they share its caches: "
        "races,\nwhich wait for memory, then look up to 2-3 times slower beside streams. "
        "Measure races on an idle one."
    )


def version(package: str) -> str:
    """The version of an installed package, or that it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def describe(pinned: str) -> dict[str, str]:
    """Everything a reader needs to judge the numbers."""
    import numba

    import subsample_mcmc as sm

    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "cpu": f"{processor()}, {os.cpu_count()} cores, {pinned}",
        "load average at the start": load(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "subsample_mcmc": sm.__version__,
        **{package: version(package) for package in RIVALS},
        "numba uses SVML": str(numba.config.USING_SVML),
    }
