"""Machine code on disk: one checksummed file per entry, in a directory of the user's choice.

The cache lives in SUBSAMPLE_MCMC_CACHE, else in the user's cache directory; "off" disables it.
Nothing here may stop a run: what cannot be read is a miss, what cannot be written is not.
"""

import hashlib
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

DAY = 86_400


def cache_directory() -> Path | None:
    """Where machine code is kept, created on demand; None when it cannot be, or is "off"."""
    chosen = os.environ.get("SUBSAMPLE_MCMC_CACHE", "")
    if chosen == "off":
        return None
    try:
        path = Path(chosen).expanduser() if chosen else usual_place() / "subsample_mcmc"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    return path if os.access(path, os.W_OK) else None


def usual_place() -> Path:
    """The directory in which this system keeps caches of the user."""
    system = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    if system:
        return Path(system)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def read(path: Path) -> bytes | None:
    """What `write` put there, or None: absent, unreadable, or damaged."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    if len(raw) < 33 or hashlib.sha256(raw[32:]).digest() != raw[:32]:
        return None
    with suppress(OSError):  # someone else's file
        os.utime(path)
    return raw[32:]


def write(path: Path, payload: bytes) -> None:
    """Write beside a checksum, by atomic rename: several writers may race, the last one wins."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            try:
                file.write(hashlib.sha256(payload).digest() + payload)
                file.close()
                Path(file.name).replace(path)
            except BaseException:  # a full disk, Ctrl-C
                Path(file.name).unlink(missing_ok=True)
                raise
        forget_old(path.parent)
    except OSError:
        return


def forget_old(directory: Path, days: int = 90) -> None:
    """Delete entries no process has read for `days`, and remains of killed ones; once a day."""
    stamp, now = directory / "swept", time.time()
    if stamp.exists() and now - stamp.stat().st_mtime < DAY:
        return
    stamp.touch()
    for pattern, age in (("*.bin", days * DAY), ("*.tmp", DAY)):
        for path in directory.glob(pattern):
            with suppress(OSError):  # another process may delete it first
                if now - path.stat().st_mtime > age:
                    path.unlink()
