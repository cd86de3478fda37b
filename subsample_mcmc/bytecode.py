"""Which globals, and which attributes of modules, a compiled Python function reads."""

import dis
import types


def instructions(code) -> list[dis.Instruction]:
    """What a code object does, without the prefixes of long arguments."""
    return [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]


def loaded_globals(code) -> set[str]:
    """Names a code object loads from its module, nested code objects excluded."""
    return {i.argval for i in instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}


def attribute_chains(code, name) -> set[tuple[str, ...]]:
    """The attribute paths read from the global or cell `name`: m.a.b gives ("a", "b")."""
    found, chain = set(), None
    for i in [*instructions(code), None]:
        if chain is not None and i is not None and i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            chain.append(i.argval)
            continue
        if chain is not None:
            found.add(tuple(chain))
            chain = None
        if i is not None and i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            chain = [] if i.argval == name else None
    nested = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return found.union(*(attribute_chains(c, name) for c in nested))
