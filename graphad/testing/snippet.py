"""A Python program that shows what is wrong with a pass: it runs when saved to a file, wherever the pass was defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphad.graph import Graph
from graphad.ops.symbol import REGISTRY
from graphad.rewriting import Pass
from graphad.testing.array_text import Array, array_text
from graphad.testing.cases import Case
from graphad.testing.definitions import Definitions
from graphad.testing.subject import Subject, as_pass, inner_passes

OWN = "graphad."
IMPORTS = (
    "from numpy import array, full, inf, nan  # noqa: F401",
    "",
    "import graphad.passes",
    "from graphad.program import Program",
    "from graphad.testing import Case, check_case, check_pass  # noqa: F401",
)


def snippet(subject: Subject, case: Case, after: Graph | None = None) -> str:
    """A Python program that tries the pass on the case: silent if nothing is wrong, else an AssertionError.

    What can be imported by another process is imported, with the folder that needs to be on its path; what was defined in a
    script, a notebook or a function is written down, with all that it uses. Where there is no source, a comment and an error
    say what has to be added.

    Args:
        subject: the pass, and what runs before it.
        case: the program and its arrays.
        after: the graph after the pass, whose operators are needed as well.
    """
    definitions = Definitions()
    _operators(definitions, case, after)
    call = _call(definitions, subject, case)
    lines = [
        *definitions.header(*IMPORTS),
        *_missing(definitions.missing),
        "",
        "case = Case(",
        f'    Program.parse("""\\\n{_escaped(str(case.program))}"""),',
        f"    loss_name={case.loss_name!r},",
        *([f"    requested={case.requested!r},"] if case.requested else []),
        *_arrays("feeds", case.feeds),
        *_arrays("params", case.params),
        ")",
        f"{call}  # lowers, runs the pass, schedules, runs both, compares",
    ]
    return "\n".join(lines) + "\n"


def _call(definitions: Definitions, subject: Subject, case: Case) -> str:
    """The call that tries the pass; a user's own condition is what check_pass takes."""
    what = _pass(definitions, subject.what, case)
    passes = (("prepare", subject.prepare or None), ("reference", subject.reference))
    options = [f"{name}={_pass(definitions, each, case)}" for name, each in passes if each is not None]
    options += [] if subject.tolerance is None else [f"tolerance={subject.tolerance!r}"]
    if subject.expect is None:
        return f"check_case({', '.join([what, 'case', *options])})"
    expect = definitions.expression(subject.expect, "expect")
    return f"check_pass({', '.join([what, 'examples=1', 'programs=[case]', *options, f'expect={expect}'])})"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _arrays(name: str, arrays: Mapping[str, Array]) -> list[str]:
    return [f"    {name}={{", *(f"        {key!r}: {array_text(array)}," for key, array in arrays.items()), "    },"] if arrays else []


def _missing(missing: Mapping[str, str]) -> Sequence[str]:
    if not missing:
        return []
    names = ", ".join(missing)
    reasons = [f"#   {name}: {reason}" for name, reason in missing.items()]
    message = f"define or import {names} here, and remove this line"
    return ["", "# Not known to graphad:", *reasons, f"raise SystemExit({message!r})"]


def _pass(definitions: Definitions, what: Pass | str, case: Case) -> str:
    """How to write a pass: as text if it was text or comes with graphad, else as what makes it."""
    inner = inner_passes(as_pass(what, case.loss_name))
    others = [each for each in inner if not type(each).__module__.startswith(OWN)]
    if isinstance(what, Pass):
        return definitions.expression(what) if others else repr(str(what))
    for each in others:
        definitions.reference(type(each))
    return repr(what)


def _operators(definitions: Definitions, case: Case, after: Graph | None) -> None:
    """Import or define the operators that do not come with graphad."""
    types = [op.type for block in case.program.blocks for op in block.ops]
    types += [op.type for graph in after.tree() for op in graph.ops] if after is not None else []
    for name in dict.fromkeys(types):
        row = REGISTRY.get(name)
        kernel = getattr(row, "kernel", None)
        module = getattr(kernel, "__module__", None)
        if isinstance(module, str) and module.split(".")[0] not in ("graphad", "numpy", "scipy") and not definitions.require(row, module):
            definitions.define(kernel)
