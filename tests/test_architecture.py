"""The house rules that a reader can rely on: who imports whom, and what never occurs."""

import ast
import functools
import graphlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import subsample_mcmc as sm
from tests.helpers.each import each

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "subsample_mcmc"

# Rooms, each of which may import itself and those before it; the modules at the root that all may
# import come first. What a room is for stands in its __init__.
ROOMS = (
    "errors", "style", "calls",
    "numerics", "target", "decisions", "approx", "kernels", "runs",
    "bandits", "extend", "models", "pymc", "cli",
    "__main__",
)  # fmt: skip
MOST_LINES, MOST_MODULES = 500, 15

# `cite` is imported when it is asked for.
HELD = {**vars(sm), "cite": sm.cite}
PUBLIC = sorted(n for n, v in HELD.items() if n[0] != "_" and not inspect.ismodule(v))
MODULES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted([*ROOT.glob("examples/**/*.py"), *ROOT.glob("notebooks/*.py")])
TESTS = sorted(ROOT.glob("tests/**/*.py"))


def name(path):
    return path.relative_to(ROOT).as_posix()


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def text(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def tree(path):
    """Each file is parsed once for all tests."""
    return ast.parse(text(path), filename=str(path))


@functools.cache
def nodes(path):
    """All of a file's tree, in one list: to walk through it takes as long as to parse it."""
    return [*ast.walk(tree(path))]


@functools.cache
def imported(path):
    """Every dotted name that a file imports, `from a import b` as a.b, relative ones resolved."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
                base = ".".join([*package, base] if base else package)
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def dotted_name(node):
    """a.b.c of an attribute of an attribute of a name; empty for what is no such thing."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


@functools.cache
def called(path):
    """Dotted names of everything that a file calls or reads, aliases of imports undone."""
    alias = {}
    for node in nodes(path):
        if isinstance(node, ast.Import):
            alias |= {a.asname or a.name: a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            alias |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Attribute | ast.Name) and (whole := dotted_name(node)):
            head, _, rest = whole.partition(".")
            found.add(f"{alias.get(head, head)}.{rest}" if rest else alias.get(head, head))
    return found


@each(MODULES, name)
def test_imports_go_down_only(path):
    if path == PACKAGE / "__init__.py":
        return
    here = room(path)
    assert here in ROOMS, f"{name(path)} stands in no room: {ROOMS}"
    for dotted in sorted(imported(path)):
        top, _, rest = dotted.partition(".")
        if top != "subsample_mcmc" or rest == "__version__":
            continue
        there = rest.partition(".")[0]
        assert there in ROOMS, (
            f"{name(path)} imports {dotted}: import from the module that defines it, not from the "
            "package's vocabulary"
        )
        assert ROOMS.index(there) <= ROOMS.index(here), (
            f"{name(path)} imports {dotted}: imports go down the list of rooms only"
        )


def modules_imported(path):
    """Modules of the package that a file imports when it is imported itself."""
    found = set()
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("subsample_mcmc"):
            for alias in node.names:
                if alias.name == "__version__":
                    continue
                for dotted in (f"{node.module}.{alias.name}", node.module):
                    place = ROOT / dotted.replace(".", "/")
                    if place.with_suffix(".py").is_file():
                        found.add(place.with_suffix(".py"))
                        break
                    if (place / "__init__.py").is_file():
                        found.add(place / "__init__.py")
                        break
    return found


def test_a_check_of_each_says_for_which_it_fails():
    """Of all, what is wrong with them and where, also where it is no assertion that fails."""

    @each([1, 0, 2, 3], called="number {}".format)
    def test(number):
        assert 4 // number != 2, "half"

    with pytest.raises(ExceptionGroup, match=r"not so:\nnumber 0\nnumber 2\b") as told:
        test()
    assert [type(one) for one in told.value.exceptions] == [ZeroDivisionError, AssertionError]
    assert "half" in str(told.value.exceptions[1])
    assert each([1, 3])(lambda number: None)() is None
    with pytest.raises(AssertionError, match="nothing is looked at"):
        each([])(lambda number: None)()


def test_no_module_imports_itself_by_way_of_others():
    sorter = graphlib.TopologicalSorter({path: modules_imported(path) for path in MODULES})
    sorter.prepare()  # CycleError names the way round


def test_the_house_is_small():
    """At the root and in each folder there is no more than a reader can look over."""
    assert {p.stem for p in PACKAGE.glob("*.py")} == {"__init__", *(r for r in ROOMS if file(r))}
    folders = {p.parent for p in MODULES}
    assert {p.name for p in folders if p.parent == PACKAGE} == {r for r in ROOMS if not file(r)}
    for folder in folders:
        modules = [p for p in folder.glob("*.py") if p.stem != "__init__"]
        assert len(modules) <= MOST_MODULES, f"{name(folder)} has {len(modules)} modules"


def test_the_signs_of_contributing_point_to_what_is_there():
    words = re.findall(r"`([\w./*-]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    paths = [w for w in words if re.fullmatch(r"[\w.-]+(/[\w.*-]+)+/?|[\w-]+\.(py|md|toml)", w)]
    assert len(paths) > 20
    for path in paths:
        within = (ROOT, PACKAGE, *(p for p in PACKAGE.iterdir() if p.is_dir()))
        made = path.startswith((".venv", "results", "dist", "docs/_build"))
        assert made or any(list(top.glob(path.rstrip("/"))) for top in within), path


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)`:((?:\s+(?:and )?`[\w.]+`,?)+)", ARCHITECTURE)
PICTURED = re.findall(r"^  (\w+)(?:\[.*?\])? --> (\w+)", ARCHITECTURE, flags=re.MULTILINE)


@each(NAMED)
def test_walks_go_where_functions_are(named):
    path, names = named
    source = text(PACKAGE / path)
    for dotted in re.findall(r"[\w.]+", names.replace("and ", "")):
        parts = dotted.split(".")
        assert all(re.search(rf"\b(def|class) {part}\b", source) for part in parts), (path, dotted)


def test_the_picture_shows_all_rooms_and_arrows_go_down():
    rooms = [r for r in ROOMS if not file(r)]
    assert {name for arrow in PICTURED for name in arrow} == set(rooms)
    assert all(rooms.index(one) > rooms.index(other) for one, other in PICTURED)
    below = {}
    for one in rooms:  # from the bottom
        below[one] = {one}.union(*(below[other] for start, other in PICTURED if start == one))
    for path in MODULES:
        if room(path) in rooms:
            reached = {d.split(".")[1] for d in imported(path) if d.startswith("subsample_mcmc.")}
            assert reached & set(rooms) <= below[room(path)], name(path)
    for path in re.findall(r"`((?:[\w]+/)+[\w]*(?:\.py)?)`", ARCHITECTURE):
        assert (PACKAGE / path).exists() or (ROOT / path).exists(), path


def file(room):
    return (PACKAGE / f"{room}.py").is_file()


@each(MODULES, name)
def test_files_are_as_long_as_their_idea(path):
    lines = len(text(path).splitlines())
    assert lines <= MOST_LINES, f"{name(path)} has {lines} lines: at most {MOST_LINES}"


@each(MODULES, name)
def test_only_jit_knows_numba_from_inside(path):
    knowing = ("jit.py", "compilers.py", "cache.py", "pointer_types.py", "kinds.py", "overloads.py")
    passes = path.parent == PACKAGE / "numerics" / "passes"  # over the code of users' functions
    if passes or path.name in knowing or "numba" not in text(path):
        return
    inside = {d for d in imported(path) | called(path) if re.match(r"numba\.(core|_|\w+\._)", d)}
    assert not inside, f"{name(path)} reaches into numba: {inside}. Only six files and passes may"
    plain = {"numba.njit", "numba.jit", "numba.vectorize", "numba.cfunc"} & called(path)
    assert not plain, f"{name(path)} compiles with {plain}: use subsample_mcmc.numerics.jit.jit"


TYPES = {"Racing", "Exact", "Normal", "Betting", "Taylor", "Bins"}


@each(MODULES, name)
def test_nobody_asks_for_the_type_of_a_selector_a_rule_or_a_control_variate(path):
    """They have methods for that, so that a user's own can answer."""
    if room(path) in ("decisions", "approx"):
        return
    for node in nodes(path) if "isinstance" in text(path) else ():
        if isinstance(node, ast.Call) and dotted_name(node.func) == "isinstance":
            asked = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            assert not asked & TYPES, f"{name(path)}:{node.lineno} asks for {asked & TYPES}"


@each(MODULES, name)
def test_there_is_one_memo(path):
    """What was compiled is kept by numerics/memo.py, which knows what may be forgotten."""
    holders = r"\{\}|dict\(\)|(?:\w+\.)?(?:OrderedDict|defaultdict|Weak\w+Dictionary)\(.*\)"
    kept = re.findall(rf"^_\w+(?:: .+)? = (?:{holders})$", text(path), re.MULTILINE)
    kept += re.findall(r"^@(?:functools\.)?cache\b", text(path), re.MULTILINE)
    allowed = {"memo.py": 2, "parallel.py": 1}  # parallel: the one program of a worker
    assert len(kept) <= allowed.get(path.name, 0), f"{name(path)}: {kept}"


def test_classes_have_names_of_their_own():
    places = {}
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name(path))
    assert not {cls: where for cls, where in places.items() if len(where) > 1}


@each(SCRIPTS, name)
def test_examples_import_what_is_public(path):
    for dotted in imported(path):
        parts = dotted.split(".")
        public = {"models", "bandits", "pymc", "extend", "kernels", "rules", "selectors"}
        assert parts[0] != "subsample_mcmc" or len(parts) < 2 or parts[1] in public, (
            f"{name(path)} imports {dotted}: take it from sm or sm.extend"
        )


@each(MODULES + SCRIPTS, name)
def test_no_stock_cache(path):
    """numba's own cache goes stale across files and can link the wrong closure."""
    for node in nodes(path) if "cache" in text(path) else ():
        if isinstance(node, ast.keyword) and node.arg == "cache":
            assert not getattr(node.value, "value", False), f"{name(path)}:{node.value.lineno}"


@each(TESTS, name)
def test_no_test_reads_a_clock(path):
    """A timed assertion fails on a busy machine: timing belongs to tests/benchmarks."""
    if "benchmarks" in path.parts or not re.search(r"\btime(it)?\b", text(path)):
        return
    clocks = r"(time\.(time|perf_counter|monotonic|process_time|thread_time)(_ns)?|timeit\..*)"
    read = {d for d in called(path) | imported(path) if re.fullmatch(clocks, d)}
    assert not read, f"{name(path)} reads {read}: move the measurement to tests/benchmarks"


@each(PUBLIC)
def test_every_public_name_is_documented(public):
    value = getattr(sm, public)
    if isinstance(value, str | int | float):
        return
    told = inspect.getdoc(getattr(value, "py_func", value)) or ""
    generated = isinstance(value, type) and told.startswith(f"{value.__name__}(")
    assert len(told) > 20 and not generated, f"sm.{public} has no docstring of its own"


def test_vocabulary_is_what_is_imported():
    assert sorted(n for n in sm.__all__ if n != "__version__") == PUBLIC


def test_what_few_need_is_imported_when_it_is_needed():
    """Half of the time that `import subsample_mcmc` took went there."""
    heavy = ["arviz", "joblib", "matplotlib", "pandas", "scipy.optimize", "scipy.special",
             "scipy.stats", "xarray"]  # fmt: skip
    script = f"import sys, subsample_mcmc; print([m for m in {heavy} if m in sys.modules])"
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, check=True, text=True)
    assert told.stdout.strip() == "[]"


def tracked():
    """The text files that git tracks; without git, those in the project's own folders."""
    git = ["git", "ls-files", "-z"]
    try:
        out = subprocess.run(git, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        out = ""
    paths = [ROOT / line for line in out.split("\0") if line]
    paths = paths or [*ROOT.glob("*.*"), *MODULES, *SCRIPTS, *TESTS]
    binary = {".npz", ".npy", ".png", ".pdf", ".nc", ".gz"}
    return [p for p in paths if p.is_file() and p.suffix not in binary]


def test_no_path_of_someones_machine():
    somewhere = re.compile(r"(?<![\w.~}/])/(home|Users|root|tmp|var/tmp|var/folders|private)/\w")
    for path in tracked():
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not somewhere.search(line), f"{name(path)}:{i} names a path of one machine"
