"""The reference: a page for each public name, by room, and the table of promises.

All of it is made from the package when the site is built. Which names belong together is what the
tour in the package's docstring says (`help(subsample_mcmc)`); what it does not name is an error or
a result. Pages are written to docs/reference/made/, which git ignores.
"""

import ast
import inspect
import re
from pathlib import Path

from docstrings import inline, rendered, summary

import subsample_mcmc as sm
from subsample_mcmc import extend as e

HEADER = ("name", "by default", "with sm.Exact()", "with sm.Betting(...)", "what decides it")
OF_PARTS = ("guarantee", "describe", "plot")  # what a user asks a kernel or a selector
ROOMS = tuple(dir(sm.models))
ALIASES = ("kernels", "selectors", "rules", "bandits")  # names by room


def held(module):
    """What a module shows, by name."""
    return {name: getattr(module, name) for name in dir(module) if name[0] != "_"}


def groups():
    """Names of the package's vocabulary by the headings of its tour."""
    public = [name for name in sm.__all__ if name[0] != "_"]
    found, seen, heading = {}, set(), None
    tour = "Models" + (sm.__doc__ or "").partition("\n\nModels")[2]
    for line in tour.splitlines():
        if not line.strip():
            break
        if line[0] != " ":
            heading, line = line[:17].strip(), line[17:]
        for word in re.findall(r"(?<!\.)\b\w+\b(?!\.)", line):
            if word in public and word not in seen:
                found.setdefault(heading, []).append(word)
                seen.add(word)
    for name in public:
        if name not in seen:
            value = getattr(sm, name)
            fault = isinstance(value, type) and issubclass(value, Exception)
            found.setdefault("Errors" if fault else "Results", []).append(name)
    return found


def page(name, clashing):
    """The file of a name: `plan` and `Plan` are one file on some disks."""
    return f"{name}_function" if name in clashing else name


def signature(value):
    """As it is called, with defaults; the docstring says what kinds of values are meant."""
    try:
        given = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    bare = [argument.replace(annotation=given.empty) for argument in given.parameters.values()]
    text = str(inspect.Signature(bare))
    text = re.sub(r"<compiled function [\w.]*?(\w+)>", r"\1", text)
    return re.sub(r"<[^>]*>", "...", text)


def members(value):
    """Public methods and properties that a class of the package defines, with their docstrings.

    What kernels, selectors and the like must define for the package stands at their bases.
    """
    bases = (e.Kernel, e.Selector, e.Rule, e.Control, e.Strategy, e.Decision)
    part = issubclass(value, bases) and value.__name__ not in e.__all__
    found = {}
    for base in value.__mro__:
        if not base.__module__.startswith("subsample_mcmc"):
            continue
        for name, what in vars(base).items():
            given = isinstance(what, property | classmethod | staticmethod) or inspect.isfunction(
                what
            )
            shown = not part or name in OF_PARTS or isinstance(what, classmethod)
            if name[0] != "_" and given and shown and name not in found:
                found[name] = what
    return found


def described(name, value, inside=()):
    """The directive of a name, with its docstring and what it has."""
    function = getattr(value, "py_func", value)
    if inspect.isclass(function):
        kind = "exception" if issubclass(function, Exception) else "class"
    elif callable(function) and not hasattr(type(function), "coordinates"):
        kind = "function"
    else:
        kind = "data"
    source = function if kind in ("class", "exception", "function") else type(function)
    call = signature(function) if kind in ("class", "function") else ""
    lines = [f".. py:{kind}:: {name}{call}", ""]
    body = rendered(source)
    if kind == "class":
        for member, what in members(function).items():
            text = inspect.getdoc(getattr(what, "fget", what)) or ""
            if not text or member in inside:
                continue
            if isinstance(what, property):
                body += [f".. py:property:: {member}", ""]
                body += ["    " + line for line in rendered(what.fget)] + [""]
            else:
                plain = getattr(what, "__func__", what)
                call = re.sub(r"^\((self|cls)(, )?", "(", signature(plain))
                body += [f".. py:method:: {member}{call}", ""]
                body += ["    " + line for line in rendered(plain)] + [""]
    return [*lines, *("    " + line for line in body), ""]


def titled(text, mark="="):
    """A heading."""
    return [text, mark * len(text), ""]


def table(rows, header, widths):
    """A list table."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [header, *rows]:
        for i, cell in enumerate(row):
            lines.append(("   * - " if i == 0 else "     - ") + cell)
    return [*lines, ""]


def explained(value):
    """What carries the docstring of a name."""
    value = getattr(value, "py_func", value)
    return value if inspect.isclass(value) or inspect.isfunction(value) else type(value)


def attempt(value, *arguments, **named):
    """The guarantee of one made so; empty where it cannot be made of these."""
    try:
        return f"*{value(*arguments, **named).guarantee}*"
    except (TypeError, ValueError):
        return ""


def promise(name, value):
    """A row of the table, for a class that has a guarantee; None for others."""
    stated = inspect.getattr_static(value, "guarantee", None) if isinstance(value, type) else None
    if stated is None:
        return None
    named = f"``sm.{name}``"
    if isinstance(stated, str):
        return named, f"*{stated}*", "", "", "a heuristic" if stated == "none" else ""
    fields = getattr(value, "__dataclass_fields__", {})
    others = ["", ""]
    if "selector" in fields:
        proved = sm.Racing(sm.Betting(spread=1.0))
        others = [attempt(value, "block", selector=s) for s in (sm.Exact(), proved)]
    elif "rule" in fields:
        others = ["", attempt(value, sm.Betting(spread=1.0))]
    by_default = attempt(value) or attempt(value, "block") or "as given"
    return named, by_default, *others, inline(inspect.getdoc(stated.fget) or "")


def promises():
    """The page of promises: from the attribute `guarantee` of every rule, selector and kernel."""
    lines = titled("What each part promises")
    lines += [
        "*exact*: the decision is that of all data. *bounded*: wrong with probability δ at most, "
        "proved. *asymptotic*: δ at most under a normal approximation of batch means. "
        "*unadjusted*: no test corrects it. *none*: a heuristic, whose errors only an audit can "
        "tell. This table is made from the attribute ``guarantee`` of the classes.",
        "",
    ]
    kinds = {
        "Rules of races": ("Rule",), "Selectors": ("Selector",), "Kernels": ("Kernel",),
        "Strategies of best arms": ("Strategy",),
    }  # fmt: skip
    vocabulary = {n: getattr(sm, n) for n in sm.__all__ if n[0] != "_"}
    vocabulary |= {f"bandits.{n}": v for n, v in held(sm.bandits).items() if n not in sm.__all__}
    for kind, bases in kinds.items():
        rows = []
        for name, value in sorted(vocabulary.items()):
            names = {b.__name__ for b in getattr(value, "__mro__", ())[1:]}
            if (
                value is not sm.DefaultKernel
                and names & set(bases)
                and (kind != "Strategies of best arms" or "bandits." in name)
            ):
                row = promise(name, value)
                rows += [row] if row else []
        lines += titled(kind, "-")
        full = [i for i in range(len(HEADER)) if i in (0, 1) or any(row[i] for row in rows)]
        rows = [[row[i] for i in full] for row in rows]
        widths = " ".join(("24", "14", "14", "16", "32")[i] for i in full)
        lines += table(rows, [HEADER[i] for i in full], widths)
    return lines


def rooms():
    """The page of names by room: the same objects, as sm.rules.Normal."""
    lines = titled("Names by room")
    lines += [
        "Names such as ``sm.Normal`` or ``sm.Experiment`` say little where they stand alone. Each "
        "is also in a room, under which it reads better: ``sm.rules.Normal`` is ``sm.Normal``, the "
        "same object. Of ``sm.bandits`` some names stand there alone.",
        "",
    ]
    for room in ALIASES:
        names = held(getattr(sm, room))
        rows = [(f"``sm.{room}.{n}``", summary(explained(v))) for n, v in names.items()]
        lines += [*titled(f"sm.{room}", "-"), *table(rows, ("name", "what it is"), "40 60")]
    return lines


def write(folder, name, lines):
    """Write a page if it is new or another: Sphinx reads what changed."""
    path = folder / f"{name}.rst"
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def make(app):
    """Write all pages."""
    folder = Path(app.srcdir) / "reference" / "made"
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    lowered = [n.lower() for n in sm.__all__]
    clashing = {n for n in sm.__all__ if lowered.count(n.lower()) > 1 and n.islower()}
    toc = ["```{toctree}", ":hidden:", ""]
    listed = ["| for | names |", "|---|---|"]
    for heading, names in groups().items():
        slug = heading.lower().replace(" ", "_")
        rows = [(f"``sm.{n}``", summary(explained(getattr(sm, n)))) for n in names]
        lines = [*titled(heading), *table(rows, ("name", "what it is"), "25 75")]
        lines += [".. toctree::", "   :hidden:", "", *(f"   {page(n, clashing)}" for n in names)]
        written.add(write(folder, slug, lines))
        toc.append(f"made/{slug}")
        listed.append(f"| [{heading}](made/{slug}.rst) | {', '.join(f'`sm.{n}`' for n in names)} |")
        for n in names:
            text = [*titled(f"sm.{n}"), *described(f"sm.{n}", getattr(sm, n))]
            written.add(write(folder, page(n, clashing), text))
    text = "\n".join([*listed, "", *toc, "```", ""])
    (folder / "groups.txt").write_text(text, encoding="utf-8")
    modules = {f"models.{room}": getattr(sm.models, room) for room in ROOMS}
    for name, module in {
        **modules,
        "bandits": sm.bandits,
        "pymc": sm.pymc,
        "extend": sm.extend,
    }.items():
        lines = [
            *titled(f"sm.{name}"),
            f".. py:module:: sm.{name}",
            "",
            *rendered(module, module.__doc__, argued(module)),
        ]
        for n, value in sorted(of_module(module).items()):
            if n in sm.__all__ or not (inspect.isclass(value) or callable(value)):
                continue
            lines += [*titled(f"{n}", "-"), *described(n, value)]
        for n in sorted(set(dir(module)) - set(of_module(module))):
            lines += [*titled(n, "-"), *unimported(module, n)]
        written.add(write(folder, f"sm.{name}", lines))
    lines = [
        *titled("sm.models"),
        ".. py:module:: sm.models",
        "",
        *rendered(sm.models, sm.models.__doc__),
    ]
    lines += [".. toctree::", "", *(f"   sm.models.{room}" for room in ROOMS)]
    written.add(write(folder, "sm.models", lines))
    written.add(write(folder, "promises", promises()))
    written.add(write(folder, "rooms", rooms()))
    for path in set(folder.glob("*.rst")) - written:
        path.unlink()


def argued(module):
    """Names of the arguments of what a module shows: its docstring may tell of them for all."""
    made = [getattr(v, "py_func", v) for v in of_module(module).values()]
    return {name for v in made if inspect.isfunction(v) for name in inspect.signature(v).parameters}


def of_module(module):
    """What a module shows; the bridge's step methods only where PyMC is installed."""
    found = {}
    for name in dir(module):
        try:
            found[name] = getattr(module, name)
        except ImportError:
            continue
    return found


def unimported(module, name):
    """A class whose module needs what is not installed, PyMC: its docstring, from the source."""
    for path in sorted(Path(module.__file__).parent.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                body = rendered(None, ast.get_docstring(node) or "", {"vars"})
                call = "(vars=None, **options)"
                return [f".. py:class:: {name}{call}", "", *("    " + line for line in body), ""]
    raise LookupError(f"no class {name} beside {module.__file__}")


def setup(app):
    """Called by Sphinx."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
