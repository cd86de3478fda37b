"""Docstrings of the package as reStructuredText.

They are written to be read in a terminal: a first line, paragraphs, arguments as `name: text` with
what follows indented, and an `Example:` with a session of Python. Nothing else is markup, so all
else is escaped, and names such as sm.Taylor(fit) become code, which links to its page.
"""

import contextlib
import inspect
import re

CODE = re.compile(r"`([^`]+)`|\b(sm\.\w+(?:\.\w+)*(?:\((?:[^()]|\([^()]*\))*\))?)")
COLUMNS = re.compile(r"\S {3,}\S")  # words in columns, as in the tour of a module
ARGUMENT = re.compile(r"(\w+(?:, \w+)*(?:\([^)]*\))?(?: -> [\w, ]+)?): (?=\S)")


def escaped(text):
    """Plain text, so that none of it is markup."""
    return re.sub(r"([\\*_|<>`])", r"\\\1", text)


def inline(text):
    """A line of prose: what stands in backticks, and names of the package, as code."""
    done, at = [], 0
    for found in CODE.finditer(text):
        done.append(escaped(text[at : found.start()]))
        done.append(rf"\ ``{(found[1] or found[2]).strip()}``\ ")
        at = found.end()
    return "".join([*done, escaped(text[at:])]).strip()


def paragraph(lines):
    """Lines that belong together, as one; a dash or a number at its beginning makes no list."""
    text = inline(" ".join(line.strip() for line in lines))
    return re.sub(r"^(?=[-+•(]|\w{1,4}[.)] )", r"\\ ", text)


def is_argument(line, names):
    """Does a line begin with a name of the signature, or with several."""
    found = ARGUMENT.match(line)
    return bool(found) and set(re.findall(r"^\w+|(?<=, )\w+", found[1].partition("(")[0])) <= names


def blocks(text, names):
    """("text" | "argument" | "code" | "indented" | "columns", lines), in order."""
    kind, held = "", []
    for line in [*text.splitlines(), ""]:
        indented = line.startswith("    ")
        if not line.strip():
            new = "indented" if kind in ("code", "indented") and held else ""
        elif (kind in ("argument", "columns") and indented) or (
            not indented and COLUMNS.search(line)
        ):
            new = kind if indented else "columns"
        elif indented and (line.lstrip().startswith(">>>") or kind == "code"):
            new = "code"
        elif indented:
            new = "indented"
        elif is_argument(line, names):
            new = "argument"
            if kind == "argument":
                yield kind, held
                held = []
        else:  # a sentence that goes on, or the next one
            goes_on = kind == "argument" and held and held[-1][-1] not in ".:)"
            new = "argument" if goes_on else "text"
        if not line.strip() or (new != kind and held):
            if held:
                yield kind, held
            held = []
        if line.strip():
            held.append(line)
            kind = new
        else:
            kind = ""


def parameters(value):
    """Names that arguments may have: those of the signature, and fields of a dataclass."""
    names = set(getattr(value, "__annotations__", {}))
    with contextlib.suppress(TypeError, ValueError):
        names |= set(inspect.signature(value).parameters)
    return names


def rendered(value, text=None, names=()):
    """The lines of a docstring, ready to stand in a directive's body."""
    text = inspect.getdoc(value) or "" if text is None else inspect.cleandoc(text)
    done = []
    for kind, lines in blocks(text, parameters(value) | set(names)):
        if kind == "argument":
            name, _, rest = lines[0].partition(": ")
            done += [f"``{name}``", f"    {paragraph([rest, *lines[1:]])}", ""]
        elif kind == "code":
            done += [".. code-block:: pycon", "", *("    " + line[4:] for line in lines), ""]
        elif kind == "indented":
            done += ["::", "", *("    " + line[4:] for line in lines), ""]
        elif kind == "columns":
            done += ["::", "", *("    " + line for line in lines), ""]
        else:
            before, last = lines[:-1], lines[-1]
            if last in ("Example:", "Examples:"):
                if before:
                    done += [paragraph(before), ""]
                done += [".. rubric:: Example", ""]
            else:
                done += [paragraph(lines), ""]
    return done


def summary(value):
    """The first paragraph of a docstring up to its first full stop."""
    first = (inspect.getdoc(value) or "").split("\n\n")[0].split("\nExample:")[0]
    text = " ".join(first.split())
    found = re.match(r".+?[.:](?= [A-Z(]|$)", text)
    return inline(found[0].rstrip(":") if found else text)
