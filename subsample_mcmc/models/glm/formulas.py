"""Design matrices by formulas, "y ~ age + C(region)", as formulaic makes them of a data frame.

What it leaves to warnings is refused here: rows with missing values, which it drops, and categories
in other data that it has not seen, which it takes for the first one.
"""

import ast
import copy
import re
import warnings
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.target.data import absent, as_array, is_frame

SHORT = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float16")  # what products leave
BITS, EXACT = 62, 2**53  # of products of whole numbers; up to where floats are these numbers
GROUPS = (
    "Effects of groups, (1 | g), are no part of formulas here: make them a block of the state, "
    "state.a[data.g[n]], with touches={'a': 'g'} of sm.Model; C(g) has effects without a "
    "distribution in common."
)
OFFSETS = (
    "What is added to the predictor stands beside a formula: offset='column', or exposure='column' "
    "where its logarithm is added, in the families of counts."
)
SOME = 500  # rows of a frame that are made into a matrix by themselves
ENDS, ALONE = 8, 6  # columns whose least and largest rows are made alone, and other rows
NAMED = r"^C\(\s*`?([^`,()]+?)`?\s*[,)]"  # a column that is said to be one of categories
CLOSE = 1e-9  # of a column's largest number: splines of few rows are rounded otherwise


class Designed(NamedTuple):
    """What a formula makes of a data frame."""

    x: np.ndarray
    y: np.ndarray
    terms: list[str]
    classes: list[str] | None  # of a categorical response, whose codes y has
    ordered: bool  # somebody said in which order they are
    design: "FormulaDesign"
    others: dict[str, Any]  # what else is given by row, columns by their names


class FormulaDesign:
    """How a formula's matrix is made of other data frames, too."""

    def __init__(
        self, formula: str, right: Any, left: Any, others: dict[str, Any], kept: np.ndarray,
        of_all_rows: list[str],
    ):  # fmt: skip
        self.formula, self.right, self.left, self.kept = formula, right, left, kept
        self.of_all_rows = of_all_rows  # terms that other frames would have other values of
        self.others = {k: v for k, v in others.items() if isinstance(v, str)}  # columns
        self.numbers = {k: v for k, v in others.items() if np.isscalar(v) and k not in self.others}
        rest = others.keys() - self.others.keys() - self.numbers.keys()
        self.arrays = sorted(k for k in rest if others[k] is not None)

    def forget(self, name: str) -> None:
        """Do not look for what was given by row under this name: predictions do without."""
        self.others.pop(name, None)
        self.arrays = [other for other in self.arrays if other != name]

    def __call__(self, frame: Any) -> dict[str, Any]:
        """What a model reads of another frame: x, columns named beside it, and y if it is there."""
        if self.of_all_rows:
            raise ValueError(
                f"the formula {self.formula!r}: {', '.join(self.of_all_rows)} depends on all rows "
                "of a frame, as a mean or a maximum does, and would be another number in this one. "
                "Write center(age) or scale(age), which remember theirs, or make such a column "
                "before."
            )
        for part in (self.left, self.right):
            frame = as_known(self.formula, part, frame)
        matrix = np.asarray(made(self.formula, self.right, frame), dtype=float)
        found = {"x": matrix if self.kept.all() else matrix[:, self.kept]}
        if self.arrays:
            raise ValueError(
                f"{self.arrays[0]} was given as an array beside the formula {self.formula!r}: of "
                "another frame nobody knows it. Name a column of the frame in its place."
            )
        given = {name: column_of(self.formula, frame, c) for name, c in self.others.items()}
        given |= {name: np.full(len(frame), value) for name, value in self.numbers.items()}
        parts = {name: given.pop(name, None) for name in ("offset", "exposure")}
        if (offset := offset_of(**parts)) is not None:
            found["offset"] = offset
        found |= given
        wanted = [str(name) for name in self.left.required_variables]
        if all(n in frame.columns and not absent(np.asarray(frame[n].isna())) for n in wanted):
            found["y"] = response_of(self.formula, self.left, frame)[0]
        return found


def by_formula(
    formula: str, frame: Any, others: dict[str, Any], intercept: bool = True
) -> Designed:
    """The design matrix and the response of a formula; others: arrays, or names of columns."""
    try:
        from formulaic import Formula
    except ImportError as error:
        raise ImportError(
            f"the formula {formula!r} needs formulaic, which is not installed: "
            "pip install 'subsample-mcmc[formulas]', or give a matrix x and a column y."
        ) from error
    if not is_frame(frame):
        raise TypeError(
            f"the formula {formula!r} is about columns of a data frame: give it in the place of y, "
            f"as logistic({formula!r}, frame), not a {type(frame).__name__}."
        )
    try:
        parsed = Formula(formula)
    except Exception as error:
        text = str(error).strip().splitlines()[0]
        text += f" {GROUPS}" if "|" in formula else ""
        raise ValueError(f"the formula {formula!r} cannot be read: {text}") from error
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", None)
    if isinstance(right, tuple) or isinstance(left, tuple):  # y ~ a | g
        raise ValueError(f"the formula {formula!r} has several parts. {GROUPS}")
    if left is None or right is None:
        raise ValueError(f"the formula {formula!r} has no response: write it as 'y ~ ...'.")
    refuse_sums_of_truth(formula, [*left, *right], frame)
    y, classes, known = response_of(formula, left, frame)
    x = made(formula, right, frame)
    terms = [str(name) for name in x.model_spec.column_names]
    kept = np.array([intercept or name != "Intercept" for name in terms])
    of_all_rows = [*by_row(formula, x, frame), *by_row(formula, made(formula, left, frame), frame)]
    design = FormulaDesign(formula, x.model_spec, known, others, kept, of_all_rows)
    columns = {
        name: column_of(formula, frame, value) if isinstance(value, str) else value
        for name, value in others.items()
    }
    matrix = np.asarray(x, dtype=float)
    if not kept.all():
        matrix, terms = matrix[:, kept], [t for t in terms if t != "Intercept"]
    ordered = classes is not None and in_order(known, frame, classes)
    return Designed(matrix, y, terms, classes, ordered, design, columns)


def warn_of_unseen(design: FormulaDesign, frame: Any) -> None:
    """Say which categories no row is of: the first one would be what others are compared with."""
    for term, (kind, state) in design.right.encoder_state.items():
        name = term if term in frame.columns else "".join(re.findall(NAMED, term))
        if kind.value != "categorical" or name not in frame.columns:
            continue
        seen = set(np.asarray(frame[name]).tolist())
        unseen = [str(value) for value in state["categories"] if value not in seen]
        if unseen:
            warn(
                f"the formula {design.formula!r}: no row is of {', '.join(unseen[:6])} in column "
                f"{name}: about it, and about all that is compared with it, the prior alone says "
                "something. Drop what cannot occur, frame.column.cat.remove_unused_categories()."
            )


def made(formula: str, part: Any, frame: Any) -> Any:
    """A side of a formula as a matrix; part: a formula, or the spec that another frame had."""
    wanted = sorted(str(name) for name in part.required_variables)
    for name in wanted:
        if name in frame.columns and (told := absent(np.asarray(frame[name].isna()))):
            raise ValueError(
                f"the formula {formula!r}: column {name} has {told}: drop these rows before, "
                f"frame.dropna(subset={wanted!r}), or fill them in."
            )
    frame = with_room(formula, frame, wanted)
    if hasattr(part, "encoder_state"):  # which a frame that is refused would change for all others
        part = copy.deepcopy(part)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return part.get_model_matrix(frame, output="numpy", na_action="raise")
        except Exception as error:
            text = " ".join(str(error).split())
            if "categories outside" in text:
                text = f"the model does not know the categories {text.partition('{')[2]}"
                text = text.partition("}")[0] + " of this frame."
            if "not present in the dataset" in text:
                text += f" The columns are {', '.join(map(str, frame.columns))}."
            if "'offset' is not defined" in text:
                text += f" {OFFSETS}"
            raise ValueError(f"the formula {formula!r} cannot be worked out: {text}") from error


def with_room(formula: str, frame: Any, names: list[str]) -> Any:
    """The frame with columns of short integers, and of short floats, as long ones.

    A product of two columns of uint8 is one of uint8, modulo 256; a difference of unsigned numbers
    is never below 0; and np.log of an int8 has three digits. Large whole numbers become floats,
    whose products have no end, where a formula neither makes categories of them nor divides. Those
    of which floats lose digits do only where it multiplies: nanoseconds, say, are subtracted.
    """
    wider, divides, factors = {}, "%" in formula or "//" in formula, factors_of(formula)
    for name in names:
        kind: Any = getattr(frame[name], "dtype", None) if name in frame.columns else None
        own = str(getattr(kind, "numpy_dtype", kind))  # of nullable columns, too
        if re.fullmatch(r"u?int\d+", own) and not divides and is_large(frame[name], factors):
            if not re.search(rf"\bC\(\s*`?{re.escape(name)}\b", formula):
                wider[name] = frame[name].astype("float64")
                continue
        if own in SHORT or (own == "uint64" and frame[name].max() <= np.iinfo(np.int64).max):
            long = "Int64" if str(kind) != own else "int64"
            wider[name] = frame[name].astype("float64" if own == "float16" else long)
        elif own == "string":  # pandas' nullable text, which formulaic takes for numbers
            wider[name] = frame[name].astype(object)
    return frame.assign(**wider) if wider else frame


def refuse_sums_of_truth(formula: str, terms: Any, frame: Any) -> None:
    """Refuse a + b of two columns of truth values: pandas says "or", and 2 is never among them."""
    for text in sorted({str(factor.expr) for term in terms for factor in term.factors}):
        try:
            tree = ast.parse(re.sub(r"`(\w+)`", r"\1", text), mode="eval")
        except SyntaxError:
            continue  # a name that is none of Python's
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and truth(node, frame):
                raise ValueError(
                    f"the formula {formula!r}: {ast.unparse(node)} adds truth values, which is "
                    f"'or' to pandas, never 2. For their number write 1 * ({ast.unparse(node.left)}"
                    f") + {ast.unparse(node.right)}; for 'or' write | in the place of +."
                )


def truth(node: Any, frame: Any) -> bool:
    """Is this expression of columns true or false in each row, as far as its text says."""
    if isinstance(node, ast.Name) and node.id in frame.columns:
        return str(getattr(frame[node.id], "dtype", "")) in ("bool", "boolean")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitAnd | ast.BitOr):
        return truth(node.left, frame) and truth(node.right, frame)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return truth(node.operand, frame)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("isin", "between", "isna", "notna")
    return isinstance(node, ast.Compare)


def factors_of(formula: str) -> int:
    """How many numbers a formula may multiply by operators: four in x:I(x ** 3)."""
    powers = [int(power) for power in re.findall(r"(?:\*\*|\^)\s*(\d+)", formula)]
    rest = re.sub(r"\*\*|\^", "", formula)
    named = len(re.findall(r"power|square|prod|poly", formula))
    return 1 + rest.count("*") + rest.count(":") + named + sum(power - 1 for power in powers)


def is_large(column: Any, factors: int) -> bool:
    """May products of so many whole numbers, three at least, be more than 64 bits hold."""
    largest = max(int(column.max()), -int(column.min())) if len(column) else 0
    return largest > 2 ** (BITS // max(factors, 3)) and (factors > 1 or largest <= EXACT)


def by_row(formula: str, matrix: Any, frame: Any) -> list[str]:
    """Columns of a matrix that some rows of the frame by themselves would have otherwise.

    Two parts, no row of which, as that of a maximum, is in both; and single rows: the least of many
    years, say, is the same in each part, and of one row it is its own.
    """
    order, whole = np.random.default_rng(0).permutation(len(frame)), np.asarray(matrix, dtype=float)
    ends = {int(at(column)) for column in whole.T[:ENDS] for at in (np.argmin, np.argmax)}
    single = (
        [np.array([row]) for row in sorted(ends | set(order[:ALONE].tolist()))]
        if len(frame)
        else []
    )
    close = CLOSE * np.abs(whole).max(axis=0, initial=0.0)
    found: dict[str, None] = {}
    for rows in [*np.array_split(order[: 2 * SOME], 2), *single]:
        if not len(rows):
            continue
        try:
            part = np.asarray(made(formula, matrix.model_spec, frame.iloc[rows]), dtype=float)
        except ValueError:
            if len(rows) > 1:
                raise
            continue  # as a standard deviation of one row, which is not that of a part either
        differ = ~np.all(np.isclose(part, whole[rows], 0.0, close, equal_nan=True), axis=0)
        found |= dict.fromkeys(str(matrix.model_spec.column_names[j]) for j in differ.nonzero()[0])
    return list(found)


def as_known(formula: str, spec: Any, frame: Any) -> Any:
    """Another frame, whose columns are of the kind that they were: categories, or numbers.

    What was a category and is a number now would be taken for one, in each of its columns.
    """
    for name, (kind, state) in spec.encoder_state.items():
        if name not in frame.columns:
            continue  # a term that is worked out
        values = frame[name]
        number = np.asarray(values).dtype.kind in "biuf"
        if kind.value == "numerical" and not number:
            raise ValueError(
                f"the formula {formula!r}: column {name} was of numbers, and is of "
                f"{values.dtype} in this frame."
            )
        if kind.value == "categorical" and number:
            known = state["categories"]
            unknown = sorted(set(np.unique(np.asarray(values)).tolist()) - set(known))
            if unknown:
                raise ValueError(
                    f"the formula {formula!r}: column {name} has {unknown[0]!r} in this frame, a "
                    f"number, and the model knows the categories {', '.join(map(repr, known))}."
                )
            frame = frame.assign(**{name: categorical(values, known)})
    return frame


def categorical(values: Any, known: Any) -> Any:
    """A column of a data frame as categories."""
    import pandas

    return pandas.Categorical(values, categories=known)


def offset_of(offset: Any = None, exposure: Any = None) -> Any:
    """What is added to predictors: an offset, and the logarithm of an exposure; None of neither."""
    if exposure is None:
        return offset
    exposed = np.asarray(as_array(exposure, "exposure"), dtype=float)
    if exposed.ndim == 0:
        raise ValueError(
            f"exposure={exposure!r}: give one number for each datum, np.full(len(y), {exposure!r})."
        )
    wrong = np.flatnonzero(~((exposed > 0.0) & (exposed < np.inf)))
    if wrong.size:
        raise ValueError(
            f"exposure[{wrong[0]}] is {exposed[wrong[0]]}: give positive numbers, such as the time "
            "in which events were counted."
        )
    added = 0.0 if offset is None else np.asarray(as_array(offset, "offset"), dtype=float)
    return np.log(exposed) + added


def response_of(formula: str, left: Any, frame: Any) -> tuple[np.ndarray, list[str] | None, Any]:
    """The response as numbers, the classes that they are codes of, and how others are made."""
    found = made(formula, left, frame)
    matrix, names = np.asarray(found, dtype=float), list(found.model_spec.column_names)
    if matrix.shape[1] == 1:
        if any(kind.value == "categorical" for kind, _ in found.model_spec.encoder_state.values()):
            raise ValueError(
                f"the formula {formula!r} has a response of one class, {names[0]}, which would be "
                "1 in every row: give numbers, or say what the others are, "
                "pandas.Categorical(column, categories)."
            )
        return matrix[:, 0], None, found.model_spec
    if not np.all((matrix == 0.0) | (matrix == 1.0)) or not np.all(matrix.sum(axis=1) == 1.0):
        raise ValueError(
            f"the formula {formula!r} has a response of {matrix.shape[1]} columns, {names}: give "
            "one."
        )
    states = [state for _, state in found.model_spec.encoder_state.values()]
    kinds = states[0].get("categories", names) if len(states) == 1 else names
    classes = [str(kind) for kind in (kinds if len(kinds) == len(names) else names)]
    return np.argmax(matrix, axis=1).astype(float), classes, found.model_spec


def in_order(spec: Any, frame: Any, classes: list[str]) -> bool:
    """Is the order of a response's classes one that was given, or that of numbers.

    Of text it would be the alphabet's, and so it is of categories that are made of text. Categories
    that are numbers may stand in any order, as they were met, say: then nobody gave one.
    """
    (term, (_, state)), *others = spec.encoder_state.items()
    if others:
        return False
    given = np.asarray(state.get("categories", [""]))
    if "levels=" in term or (given.dtype.kind in "biuf" and np.all(given[:-1] < given[1:])):
        return True
    for name in spec.required_variables:
        kind: Any = frame[str(name)].dtype if str(name) in frame.columns else None
        if getattr(kind, "ordered", False):
            return [str(c) for c in kind.categories if str(c) in classes] == classes
    return False


def column_of(formula: str, frame: Any, name: str) -> Any:
    """A column of the frame that is given by its name."""
    if name not in frame.columns:
        raise ValueError(
            f"{name!r}, given beside the formula {formula!r}, is no column of the frame, which has "
            f"{', '.join(map(str, frame.columns))}."
        )
    return frame[name]
