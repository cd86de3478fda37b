"""Machine code on disk: one checksummed file per entry, in a directory of the user's choice.

The cache lives in SUBSAMPLE_MCMC_CACHE, else in the user's cache directory; "off" disables it.
Nothing here may stop a run: what cannot be read is a miss, what cannot be written is not.
"""

import hashlib
import os
import pickle
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numba

from subsample_mcmc.numerics import compilers
from subsample_mcmc.numerics.compilers import CACHE_BASE

DAY = 86_400


def cache_directory() -> Path | None:
    """Where machine code is kept, created on demand; None when it cannot be, or is "off".

    Where it may only be read, as in an image that others made, it is read.
    """
    chosen = os.environ.get("SUBSAMPLE_MCMC_CACHE", "")
    if chosen == "off":
        return None
    try:
        path = Path(chosen).expanduser() if chosen else usual_place() / "subsample_mcmc"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    return path if os.access(path, os.R_OK | os.X_OK) else None


def may_write(directory: Path) -> bool:
    """May machine code be kept there."""
    return os.access(directory, os.W_OK)


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


# ---------------------------------------------------------------------- what numba asks of a cache
def spelled(kind) -> str:
    """A numba type as text. Its own text for a NamedTuple may leave out what the fields are."""
    if not isinstance(kind, numba.types.BaseTuple):
        return str(kind)
    made = getattr(kind, "instance_class", tuple)
    items = ",".join(spelled(item) for item in kind)
    return f"{made.__module__}.{made.__qualname__}{getattr(kind, 'fields', '')}({items})"


def rebuilt(target, kept, fndesc, env, signature, objectmode, lifted, typeann, reload, envs):
    """What numba's CompileResult._rebuild does, for libraries of our own as well."""
    for prepare in reload:
        prepare()
    library = compilers.read_library(target, kept)
    found = compilers.compiler.compile_result(
        target_context=target, typing_context=target.typing_context, library=library,
        environment=env, entry_point=target.get_executable(library, fndesc, env), fndesc=fndesc,
        type_annotation=typeann, signature=signature, objectmode=objectmode, lifted=lifted,
        reload_init=reload, referenced_envs=envs,
    )  # fmt: skip
    for referenced in envs:
        library.codegen.set_env(referenced.env_name, referenced)
    return found


class ContentCache(CACHE_BASE or object):
    """One file per function content and signature."""

    def __init__(self, name, digest):
        self.name, self.digest = name if name.isidentifier() else "function", digest

    def path(self, signature, target) -> Path | None:
        kinds = [spelled(kind) for kind in getattr(signature, "args", signature)]
        text = repr((self.digest, kinds, target.codegen().magic_tuple()))
        directory = None if " at 0x" in text else cache_directory()  # a function as argument
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        return directory / f"{self.name[:40]}-{key}.bin" if directory else None

    def load_overload(self, sig, target_context):
        """Machine code for a signature, or None; a damaged file is a miss."""
        path = self.path(sig, target_context)
        payload = read(path) if path else None
        if payload is None:
            return None
        try:
            # What machine code calls. All that numba knows besides takes a quarter of a second to
            # import, and is imported as soon as something is compiled.
            compilers.rtsys.initialize(target_context)
            content = pickle.loads(payload)
            found = rebuilt(target_context, *content)
            return found if found.signature.args == tuple(getattr(sig, "args", sig)) else None
        except Exception:  # an unreadable entry must never stop a run: it is compiled anew
            return None

    def save_overload(self, sig, data):
        """Keep machine code that does not depend on this process."""
        path = self.path(sig, data.target_context)
        if path is None or data.lifted or data.library.has_dynamic_globals:
            return
        if not may_write(path.parent):
            return
        try:
            payload = pickle.dumps(data._reduce(), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # types that cannot be pickled: not cached
            return
        write(path, payload)

    @property
    def cache_path(self):
        return str(cache_directory())

    def enable(self): ...

    disable = flush = enable
