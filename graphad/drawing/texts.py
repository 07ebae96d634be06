"""The texts of labels and tooltips."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from graphad.drawing.plan import Plan, Reference
from graphad.drawing.scopes import TIMES
from graphad.ir import Graph, Op, Value
from graphad.program import FORWARD, Block, SourceLine
from graphad.program.clipping import bounds

LONGEST_NAME, LONGEST_TEXT = 44, 100
LONGEST_END, MOST_TYPES = 30, 4  # of a part: letters of the names of its ends, and types that are said


def shown(name: str) -> str:
    """A name as readers see it: as it is, or as Python writes it if it has a look that deceives.

    >>> print(shown("fc_0.w_0"), shown("two words"), shown("line" + chr(10)), shown(" "))
    fc_0.w_0 two words 'line\\n' ' '
    """
    # Line breaks, control characters and marks that turn the direction of writing aren't printable; spaces at the ends are not seen.
    return name if name.isprintable() and name and name == name.strip() else repr(name)


def shortened(text: str, limit: int = LONGEST_NAME) -> str:
    """A long text without its middle."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}…{text[len(text) - limit // 2 + 1 :]}"


# -- labels ----------------------------------------------------------------------------------------


def op_lines(op: Op, drawn: Plan, closed: bool, attributes: bool) -> list[str]:
    """An operator's type, a mark if it holds graphs that are not drawn, the slots of its state, attributes."""
    hidden = op in drawn.folding.closed
    if op in drawn.folding.contents:
        return part_lines(drawn.folding.contents[op])
    lines = [shortened(shown(op.type)) + (" [+]" if closed or hidden else "")]
    lines += [f"{drawn.folding.closed[op]} operators"] if hidden else []
    lines += [f"keeps {', '.join(map(shown, drawn.kept[op]))}"] if drawn.kept.get(op) else []
    return lines + (attr_lines(op) if attributes else [])


def part_lines(ops: Sequence[Op]) -> list[str]:
    """How many operators a part has, from which result to which it goes, and the types that most of them have."""
    ends = [shortened(shown(next((value.name for value in op.writes()), op.type)), LONGEST_END) for op in (ops[0], ops[-1])]
    names = " … ".join(dict.fromkeys(ends))
    lines = [f"{len(ops)} operators [+]" if len(ops) > 1 else "1 operator [+]"]
    lines += [names] if len(names) <= LONGEST_END or len(ops) == 1 else [f"{ends[0]} …", f"… {ends[1]}"]
    # The most frequent first, equally frequent ones by name, so that the text is the same in every run.
    counts = sorted(Counter(op.type for op in ops).items(), key=lambda item: (-item[1], item[0]))
    lines += [f"{shortened(shown(kind))} \N{MULTIPLICATION SIGN} {count}" for kind, count in counts[:MOST_TYPES]]
    rest = len(counts) - MOST_TYPES
    return lines + ([f"{rest} other type{'s' * (rest > 1)}"] if rest > 0 else [])


def reference_text(reference: Reference, drawn: Plan) -> str:
    """The text of an operand without an arrow: the slot, the value, and the type of one that is not drawn elsewhere."""
    inside = reference.value in drawn.inside
    if reference.value in drawn.shapes:
        of = "" if reference.value.shape is None else f" {list(reference.value.shape)}"
        return f"{shown(reference.slot) + ': ' if reference.slot else ''}shape{of}"
    if inside and drawn.values == "none":  # the rest is in the tooltip
        return shortened(shown(drawn.names.get(reference.value) or reference.value.name))
    slot = f"{shown(reference.slot)} = " if reference.slot else ""
    extents = "" if reference.value.shape is None or not inside else f" {list(reference.value.shape)}"
    return f"{slot}{shortened(name_of(reference.value, drawn))}{extents}"


def attr_lines(op: Op) -> list[str]:
    """The attributes of an operator, one a line."""
    return [shortened(f"{shown(name)}={attr_text(value)}") for name, value in op.attrs.items() if not isinstance(value, Block)]


def name_of(value: Value, drawn: Plan) -> str:
    """A value's name as readers see it."""
    return shown(drawn.names.get(value) or repr(value))


def value_lines(value: Value, drawn: Plan) -> list[str]:
    """A value's name and type; of equal inputs the first and last name, and how many there are."""
    if value in drawn.folding.bundles:
        bundle = drawn.folding.bundles[value]
        first, last = (shortened(name_of(member, drawn), LONGEST_END) for member in (bundle[0], bundle[-1]))
        return [f"{first} … {last}", f"{len(bundle)} {TIMES} {value.type}"]
    name = shortened(name_of(value, drawn))
    return [name] if value.type is None else [name, str(value.type)]


# -- tooltips --------------------------------------------------------------------------------------


def value_tooltip(value: Value, gradient_of: Value | None) -> list[str]:
    """A value's full name, its type, and what is special about it."""
    lines = [f"{shown(repr(value))}: {value.type or 'unknown type'}"]
    lines += ["persistable"] if value.persistable else []
    lines += ["stop_gradient"] if value.stop_gradient else []
    lines += [f"error_clip {bounds(value.error_clip)}"] if value.error_clip is not None else []
    lines += [f"gradient of {shown(repr(gradient_of))}"] if gradient_of is not None else []
    return lines


def op_tooltip(op: Op) -> list[str]:
    """An operator's type and role, attributes, line in the user's program and the pass that made it."""
    lines = [shown(op.type) if op.role == FORWARD else f"{shown(op.type)} ({op.role})"]
    lines += [f"{shown(name)} = {shortened(attr_text(value), LONGEST_TEXT)}" for name, value in op.attrs.items()]
    lines += [
        f"{shown(slot)}: {shortened(', '.join(shown(repr(v)) for v in values), LONGEST_TEXT)}"
        for slot, values in (*op.inputs.items(), *op.outputs.items())
    ]
    lines += [graph_text(name, graph) for name, graph in op.graphs.items() if len(graph.ops)]
    lines += [f"written at {short_source(op.source)}"] if op.source else []
    lines += [f"made by {shown(op.made_by)}"] if op.made_by else []
    return lines


def graph_text(name: str, graph: Graph) -> str:
    """A nested graph with its counts."""
    ops, values = (sum(len(item) for item in items) for items in zip(*((g.ops, g.values) for g in graph.tree()), strict=True))
    return f"{shown(name)}: {ops} operator{'s' * (ops != 1)}, {values} value{'s' * (values != 1)}"


def frame_tooltip(op: Op, name: str, graph: Graph) -> list[str]:
    """The tooltip of a frame: the operator of the nested graph, its counts, and the line in the user's program."""
    lines = [f"{shown(op.type)}, {graph_text(name, graph)}"]
    return [*lines, *([f"written at {short_source(op.source)}"] if op.source else [])]


def arrow_tooltip(value: Value, tail_slot: str, head_slot: str, note: str = "") -> str:
    """The value an arrow carries, the slots it leaves and fills where there are several, and what is special about it."""
    slots = " → ".join(shown(slot) for slot in (tail_slot, head_slot) if slot)
    text = f"{shown(repr(value))} ({slots})" if slots else shown(repr(value))
    return f"{text}: {note}" if note else text


def attr_text(value: object) -> str:
    """An attribute's value, the same in every run."""
    if isinstance(value, Block):
        return f"block {value.idx}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(attr_text, value))}]"
    return type(value).__name__


def short_source(source: SourceLine) -> str:
    """A source line with the last two parts of its file's path, so that it is the same on every machine."""
    parts = re.split(r"[/\\]", source.file)
    return f"{shown('/'.join(parts[-2:]))}:{source.line}"
