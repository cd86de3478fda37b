"""Fits and sums in a file, with what they are of: another process then needs no pass for them.

The file is an .npz of numpy: numbers, and a head of JSON, which says of which model and rows they
are. Nothing in it is unpickled. What is written takes the place of the old file in one go.
"""

import hashlib
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from subsample_mcmc import __version__
from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.jit import NUMBA
from subsample_mcmc.target.dyadic import ORDER
from subsample_mcmc.target.reuse.seen_parts import parts_that_differ, seen_parts, trust
from subsample_mcmc.target.sources.checksums import HASHED, array_hash
from subsample_mcmc.target.sources.digests import digest_of

FORMAT, HEAD = "fits and sums of subsample_mcmc, 1", "head"
MOST = 64  # findings in one file; the oldest go
NOT_OURS = (KeyError, IndexError, ValueError, TypeError, EOFError, zipfile.BadZipFile)


class Remembered:
    """The file of one model."""

    def __init__(self, model: Any, path: str | os.PathLike):
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"{self.path}: there is no folder {self.path.parent}: make it.")
        head = self.head()
        if head is None:
            return
        if (away := model.elsewhere) is not None and head["rows"] is not None:
            trust(away.source, head["rows"])
        before, now = head["of"], told_of(model)
        if changed := [name for name in {**before, **now} if before.get(name) != now.get(name)]:
            if away is not None and head["rows"] is not None:
                changed += parts_that_differ(away.source, head["rows"])
            warn(
                f"{self.path} remembers fits and sums of another model or other rows (different: "
                f"{', '.join(changed)}): they are not used, and this model's will be written in "
                "their place. If both are wanted, give each a path of its own."
            )

    def head(self) -> dict[str, Any] | None:
        """What the file says of itself; None: there is none."""
        with self.opened() as (head, _):
            return head

    @contextmanager
    def opened(self) -> Iterator[tuple[dict[str, Any] | None, Any]]:
        """(what the file says of itself, its arrays); None: there is none.

        Both of one file: another process may put its own in the place of this one at any time, in
        which arrays have other numbers.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            yield None, {}
            return
        with file:
            try:
                arrays = np.load(file, allow_pickle=False)
                head = json.loads(arrays[HEAD].tobytes())
                if head["format"] != FORMAT:
                    raise ValueError("another format")
            except NOT_OURS as error:
                raise self.damaged(error) from error
            yield head, arrays

    def damaged(self, error: Exception) -> ValueError:
        """What is said of a file that cannot be read."""
        return ValueError(
            f"{self.path} is no file of model.remember, or is damaged ({error}): give another "
            "path, or delete it."
        )

    def read(self, entry: dict[str, Any], arrays: Any) -> Any:
        """What an entry holds."""
        try:
            return unpacked(entry["value"], arrays)
        except NOT_OURS as error:
            raise self.damaged(error) from error

    def find(self, model: Any, kind: str, key: str) -> Any:
        """What was found so, of this very model and its rows; None: it is not known.

        kind, key: what was asked; see `key_of`.
        """
        of = told_of(model)
        with self.opened() as (head, arrays):
            if head is None or head["of"] != of:
                return None
            for entry in head["entries"]:
                if (entry["kind"], entry["key"]) == (kind, key):
                    return self.read(entry, arrays)
        return None

    def keep(self, model: Any, kind: str, key: str, value: Any) -> None:
        """Write what was found: tuples of numbers, texts and arrays, to the last bit."""
        of = told_of(model)
        arrays: dict[str, np.ndarray] = {}
        with self.opened() as (head, before):
            entries = head["entries"] if head is not None and head["of"] == of else []
            entries = [e for e in entries if (e["kind"], e["key"]) != (kind, key)][1 - MOST :]
            for entry in entries:  # numbered anew
                entry["value"] = packed(self.read(entry, before), arrays)
        entries.append({"kind": kind, "key": key, "value": packed(value, arrays)})
        rows = None if model.elsewhere is None else seen_parts(model.elsewhere.source)
        made = json.dumps({"format": FORMAT, "of": of, "rows": rows, "entries": entries})
        arrays[HEAD] = np.frombuffer(made.encode(), dtype=np.uint8)
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}-{token_hex(4)}-part")
        try:
            with beside.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except OSError as error:  # what was found is not lost with the file
            beside.unlink(missing_ok=True)
            warn(f"{self.path} cannot be written: {error}. What was found is not remembered.")
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def told_of(model: Any) -> dict[str, str]:
    """What fits and sums depend on, beside what was asked: functions, rows, blocks, versions."""
    return {
        "version of subsample_mcmc": __version__,
        "version of Python": ".".join(map(str, sys.version_info[:2])),
        "version of numpy": np.__version__,
        "version of numba": NUMBA,
        "order in which rows are added up": ORDER,
        "kind of model": type(model).__qualname__,
        "initial state": array_hash(model.ints) + array_hash(model.floats),
        **model.fingerprints(),
        **{f"data {name}, all of it": told for name, told in of_large(model)},
    }


def of_large(model: Any) -> Iterator[tuple[str, str]]:
    """A digest of all rows of arrays of which a fingerprint reads parts."""
    for name, value in (model.data._asdict() if model.elsewhere is None else {}).items():
        if np.ndim(value) and value.nbytes > HASHED:
            yield name, str(digest_of({name: value}, len(value)))


def key_of(*asked: Any) -> str:
    """A hash of what was asked: texts, numbers, arrays, and tuples of them."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(packed(asked, arrays)) + "".join(map(array_hash, arrays.values()))
    return hashlib.sha256(text.encode()).hexdigest()


def packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON holds it, and its arrays beside."""
    if isinstance(value, tuple | list):
        return {"tuple": [packed(part, arrays) for part in value]}
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            raise TypeError(f"an array of {value.dtype}: only numbers are remembered.")
        name = f"array {len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"{value!r:.60}: only numbers, texts and arrays are remembered.")
    return value


def unpacked(value: Any, arrays: Any) -> Any:
    """The inverse of `packed`; lists become tuples."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    return tuple(unpacked(part, arrays) for part in value["tuple"])


# ------------------------------------------------------------------------------ by whoever passes
def found_before(model: Any, kind: str, key: str | None) -> Any:
    """What a model's file remembers; None: nothing, or there is no file, or no key."""
    if model.remembered is None or key is None:
        return None
    return model.remembered.find(model, kind, key)


def keep_found(model: Any, kind: str, key: str | None, value: Any) -> None:
    """Write it to the model's file, if it has one."""
    if model.remembered is not None and key is not None:
        model.remembered.keep(model, kind, key, value)
