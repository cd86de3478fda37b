"""Arrays that refuse indices beyond them, and say which: for one call in plain Python.

Compiled code that was checked says that some look-up failed, not which. The same call with these
views fails at the same place, and the traceback knows the expression.
"""

import ast
import linecache
import sys
import types
from typing import Any

import numpy as np

from subsample_mcmc.numerics.bytecode import outside, outside_functions, twin
from subsample_mcmc.target.lookups.reads import trusted


class Beyond(IndexError):  # noqa: N818  (shown to nobody)
    """A look-up that failed: in what, with which index, and where it is written."""

    def __init__(self, what: str, index: int, axis: int, length: int, frame):
        super().__init__(f"index {index} beyond {what} of {length}")
        self.what, self.index, self.axis, self.length = what, index, axis, length
        self.code, self.line = frame.f_code, frame.f_lineno
        self.expression = expression_at(frame.f_code, frame.f_lasti)


class Guarded(np.ndarray):
    """A view that refuses indices beyond it, and negative ones that are computed."""

    what: str = ""

    def __array_finalize__(self, origin):
        name = getattr(origin, "what", "")
        if name and not np.may_share_memory(self, origin):
            name = ""  # a copy, which may be indexed as its owner likes
        self.what = name if not name or name.startswith("a part of ") else f"a part of {name}"

    def __getitem__(self, index):
        self.judge(index, sys._getframe(1))
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self.judge(index, sys._getframe(1))
        super().__setitem__(index, value)

    def take(self, indices, *args, **more):
        """As a look-up; np.take calls this."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("numpy"):
            frame = frame.f_back
        if is_whole(indices) and self.what:
            length = self.size
            number = worst_of(indices, length)
            if not 0 <= number < length:
                raise Beyond(self.what, number, 0, length, frame)
        return super().take(indices, *args, **more)

    @property
    def flat(self):
        """All elements in one line, guarded."""
        line = np.asarray(self).ravel().view(Guarded)
        line.what = self.what
        return line

    def judge(self, index, frame) -> None:
        """Raise if a part of the index has no element here, or a slice begins or ends below 0."""
        if not self.what:
            return
        parts = index if isinstance(index, tuple) else (index,)
        for axis, part in enumerate(parts):
            if part is None or part is Ellipsis:
                return
            if isinstance(part, slice) and axis < self.ndim:
                for end in ("start", "stop"):
                    number = getattr(part, end)
                    if is_whole(number) and number < 0 and computed(frame, axis, end):
                        raise Beyond(self.what, int(number), axis, self.shape[axis], frame)
            if axis >= self.ndim or not is_whole(part):
                continue
            length = self.shape[axis]
            number = worst_of(part, length)
            if not -length <= number < length or (number < 0 and computed(frame, axis)):
                raise Beyond(self.what, number, axis, length, frame)


def is_whole(part: Any) -> bool:
    """Is a part of an index a whole number, or an array of them."""
    if isinstance(part, np.ndarray):
        return part.dtype.kind in "iu" and part.size > 0
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


def worst_of(part: Any, length: int) -> int:
    """The number itself, or that of an array which is beyond the end, or else the least."""
    if not isinstance(part, np.ndarray):
        return int(part)
    return int(part.max()) if part.max() >= length else int(part.min())


def guarded(array: Any, what: str) -> Any:
    """A guarded view of an array; a number as it is."""
    if np.ndim(array) == 0:
        return array
    view = np.asarray(array).view(Guarded)
    view.what = what
    return view


def guarded_state(state: Any) -> Any:
    """A record of blocks, guarded."""
    return type(state)(
        *(guarded(v, f'block "{name}"') for name, v in zip(state._fields, state, strict=True))
    )


def guarded_data(data: Any, size: int) -> Any:
    """A record or tuple of data, guarded; those of one number for each datum are columns."""
    names = getattr(data, "_fields", None)
    values = []
    for i, value in enumerate(data):
        kind = "column" if np.ndim(value) and len(value) == size else "table"
        values.append(guarded(value, f'{kind} "{names[i]}"' if names else f"data[{i}]"))
    return type(data)(*values) if names else tuple(values)


def guarded_function(function: Any, seen: dict | None = None) -> Any:
    """A user's function as plain Python, with the arrays that it reads from outside guarded."""
    function, seen = getattr(function, "py_func", function), {} if seen is None else seen
    if function in seen or not isinstance(function, types.FunctionType):
        return seen.get(function, function)
    scope = dict(function.__globals__)
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    made = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, cells or None
    )
    made.__kwdefaults__ = function.__kwdefaults__
    seen[function] = made
    freevars = function.__code__.co_freevars
    of_modules = [(path, value) for path, value in outside_functions(function) if path[1:]]
    for name, value in outside(function):
        plain = getattr(value, "py_func", value)
        if isinstance(value, np.ndarray):
            value = guarded(value, f'array "{name}"')
        elif isinstance(plain, types.FunctionType) and not trusted(plain):
            value = guarded_function(plain, seen)
        for path, reached in of_modules:
            plain = getattr(reached, "py_func", reached)
            if path[0] == name and isinstance(plain, types.FunctionType) and not trusted(plain):
                value = twin(value, path[1:], guarded_function(plain, seen))
        if name in freevars:
            cells[freevars.index(name)].cell_contents = value
        else:
            scope[name] = value
    return made


# -------------------------------------------------------------------------------- what is written
def expression_at(code, offset: int) -> str:
    """The source of what is evaluated at an offset of the bytecode; empty if it is not at hand."""
    places = list(code.co_positions())
    first, last, begin, end = places[offset // 2] if offset // 2 < len(places) else (None,) * 4
    if first is None or last is None or begin is None or end is None:
        return ""
    lines = [linecache.getline(code.co_filename, i).encode() for i in range(first, last + 1)]
    if not all(lines):
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return " ".join(" ".join(line.decode() for line in lines).split())


def computed(frame, axis: int, end: str = "") -> bool:
    """Is a part of the index that stands at a frame's place more than a constant.

    end: "start" or "stop" of a slice, which is then asked about.
    """
    try:
        parsed = ast.parse(expression_at(frame.f_code, frame.f_lasti), mode="eval").body
    except SyntaxError:
        return True
    if not isinstance(parsed, ast.Subscript):
        return True
    index = parsed.slice
    if isinstance(index, ast.Tuple):
        if axis >= len(index.elts):
            return True
        index = index.elts[axis]
    if end:
        if not isinstance(index, ast.Slice):
            return True  # a slice that is made elsewhere
        index = (index.lower if end == "start" else index.upper) or index
    own = frame.f_code.co_varnames
    for node in ast.walk(index):
        if isinstance(node, ast.Name) and node.id in own:
            return True
        if not isinstance(
            node, ast.Constant | ast.UnaryOp | ast.BinOp | ast.Name | ast.operator | ast.unaryop
            | ast.expr_context
        ):  # fmt: skip
            return True
    return False


def sentence(role: str, found: Beyond, where: str, root: Any) -> str:
    """What was looked up, what there is, and what to do."""
    inner = found.code is not getattr(getattr(root, "py_func", root), "__code__", None)
    inside = f" (in {found.code.co_name})" if inner and found.code.co_name[0] != "<" else ""
    name = found.what.removeprefix("a part of ")
    short, n = name.partition(" ")[2] or name, found.length
    shown = f"`{found.expression}`" if found.expression else f"line {found.line}"
    given = f"{role}{inside} reads beyond {name}: {shown}{where} asks for index {found.index}"
    along = f" along axis {found.axis}" if found.axis else ""
    if found.index < 0:
        return (
            f"{given}{along}: a negative index counts from the end, which is rarely meant (pandas "
            "codes missing values as -1). Drop or recode those rows, test before looking up, or "
            "write the constant index itself if it is meant."
        )
    codes = f"0 .. {n - 1}" if n > 1 else "0" if n else "none"
    held = f"{n} value{'s' * (n != 1)} ({codes})"
    whole = short if name == found.what else f"that part of {short}"
    if name.startswith("block"):
        advice = f"Give {short} a value for every index that occurs, or code them {codes}."
    elif name.startswith("column"):
        advice = "A column has one entry for each datum: correct the index."
    else:
        advice = f"Give {short} more entries, or code the indices {codes}."
    return f"{given}{along}, and {whole} has {held}. {advice}"
