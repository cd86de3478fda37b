"""From expressions to Python source: one function for a row, one for what all rows share."""

import hashlib
import linecache
import types
from typing import Any

from subsample_mcmc.pymc.expressions import TEXT, Node
from subsample_mcmc.pymc.scalars import SCOPE

ROOM = 90  # characters of an expression from which on it gets a line of its own
LOOPS = {  # by operation: where a loop starts, and its step
    "add": ("0.0", "{} + {}"), "mul": ("1.0", "{} * {}"), "max": ("-inf", "most({}, {})"),
    "min": ("inf", "least({}, {})"), "and": ("True", "{} & {}"), "or": ("False", "{} | {}"),
}  # fmt: skip


class Scope:
    """Lines of code among which some symbols are defined."""

    def __init__(self, defined):
        self.defined: frozenset = frozenset(defined)
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}


class Writer:
    """Writes one function; what does not depend on the row goes to `shared`, if there is one."""

    def __init__(self, symbols, shared: "Writer | None" = None):
        self.scopes = [Scope(symbols)]
        self.shared, self.made = shared, 0
        self.kept: list[Node] = []  # what the other function takes from this one
        self.uses: dict[Node, int] = {}

    def count(self, node: Node) -> None:
        """How often each expression is used."""
        stack = [node]
        while stack:
            one = stack.pop()
            self.uses[one] = self.uses.get(one, 0) + 1
            if self.uses[one] == 1:
                stack += one.args

    def text(self, node: Node) -> str:
        """An expression that gives the node's value where code is being written."""
        if node.op == "const":
            return spelled(node.value)
        if node.op == "n":
            return "n"
        if node.op == "loop":
            return node.value
        if node.op in ("state", "data", "table"):
            index = ", ".join(self.text(i) for i in node.args)
            prefix = "" if node.op == "table" else f"{node.op}."
            return f"{prefix}{node.value}[{index}]"
        if self.shared is not None and node.free == {"state"}:
            if node not in self.shared.kept:
                self.shared.kept.append(node)
                self.shared.count(node)
            return f"prepared[{self.shared.kept.index(node)}]"
        depth = next(d for d, s in enumerate(self.scopes) if node.free <= s.defined)
        scope, inner = self.scopes[depth], self.scopes[depth + 1 :]
        if node in scope.names:
            return scope.names[node]
        del self.scopes[depth + 1 :]
        if node.op == "reduce":
            made = scope.names[node] = self.looped(node)
        else:
            if node.op == "mul" and node.args[0] is node.args[1]:
                made = f"({self.text(node.args[0])} ** 2)"  # which is known not to be negative
            else:
                made = TEXT[node.op].format(*(self.text(a) for a in node.args))
            if self.uses.get(node, 0) > 1 or len(made) > ROOM:
                scope.lines.append(f"{self.name()} = {made}")
                made = scope.names[node] = f"v{self.made}"
        self.scopes += inner
        return made

    def name(self) -> str:
        """A new local variable."""
        self.made += 1
        return f"v{self.made}"

    def looped(self, node: Node) -> str:
        """Write a loop; the name of what it adds up."""
        op, variable, length = node.value
        start, step = LOOPS[op]
        name, outer = self.name(), self.scopes[-1]
        scope = Scope(outer.defined | {variable})
        self.scopes.append(scope)
        scope.lines.append(f"{name} = " + step.format(name, self.text(node.args[0])))
        self.scopes.pop()
        outer.lines.append(f"{name} = {start}")
        outer.lines.append(f"for {variable} in range({length}):")
        outer.lines += [f"    {line}" for line in scope.lines]
        return name

    def function(self, name: str, arguments: str, result: str) -> str:
        """The source of the function."""
        lines = [*self.scopes[0].lines, f"return {result}"]
        return f"def {name}({arguments}):\n" + "".join(f"    {line}\n" for line in lines)


def spelled(value) -> str:
    """A constant as Python reads it."""
    if value != value:
        return "nan"
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def of_site(block: str) -> str:
    """The name of the function that is the log prior of one site of a block."""
    return f"site_prior_{block}"


def written(likelihood: Node, prior: Node, sites: dict[str, Node]) -> str:
    """The source of log_likelihood, of prepare if anything is shared, and of log priors.

    sites: by block, the log prior of one site.
    """
    shared, before = Writer({"state"}), Writer({"state"})
    row = Writer({"state", "n"}, shared)
    row.count(likelihood)
    result = row.text(likelihood)
    parts = [shared.text(node) for node in shared.kept]
    before.count(prior)
    density = before.function("log_prior", "state", f"float({before.text(prior)})")
    for block, node in sites.items():
        own = Writer({"state", "site"})
        own.count(node)
        result_of_site = f"float({own.text(node)})"
        density += "\n\n" + own.function(of_site(block), "state, site", result_of_site)
    if not parts:
        return row.function("log_likelihood", "state, data, n", result) + "\n\n" + density
    many = ", ".join(parts) + ("," if len(parts) == 1 else "")
    return "\n\n".join((
        row.function("log_likelihood", "state, data, n, prepared", result),
        shared.function("prepare", "state, data", f"({many})"),
        density,
    ))  # fmt: skip


def functions(source: str, tables: dict[str, Any]) -> dict[str, types.FunctionType]:
    """The functions of a source, which tracebacks and inspect can show."""
    file = f"<sm.from_pymc {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {**SCOPE, **tables, "__name__": __name__}
    exec(compile(source, file, "exec"), scope)  # written above, from a table of operations
    names = [name for name in scope if name.startswith(of_site(""))]
    return {
        name: scope[name] for name in ("log_likelihood", "prepare", "log_prior", *names)
        if name in scope
    }  # fmt: skip
