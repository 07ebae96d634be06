"""Wrong passes about operators with blocks that look alike, and about shapes that are not what they seem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphad import edit
from graphad.ir import Graph, Op
from graphad.rewriting import Pass
from tests.mutants.corpus import UserPass
from tests.mutants.kit import operators
from tests.mutants.witness import Witness
from tests.scratch import passes


def _frozen(attrs: Mapping[str, Any]) -> str:
    return repr(sorted(attrs.items()))


def _merged(op: Op, first: Op) -> bool:
    """Let what reads the results of an operator read those of an equal one."""
    pairs = list(zip(op.outputs.get("Out", ()), first.outputs.get("Out", ()), strict=True))
    if any(a.type != b.type or a.type is None for a, b in pairs) or not op.graph.allows("equal", op, first):
        return False
    for old, new in pairs:
        op.graph.substitute(old, new)
    if op.graph.is_dead(op):
        op.graph.remove_op(op)
    return True


def _merged_by(graph: Graph, key: Callable[[Op], object]) -> bool:
    """Merge the branches of a graph, under one condition, that have the same key, if they have no gradients."""
    changed, known = False, dict[object, Op]()
    for op in [op for op in operators(graph, "if_else") if not edit.has_gradient(op)]:
        first = known.setdefault((op.graph, op.input("Cond"), key(op)), op)
        changed = (first is not op and _merged(op, first)) or changed
    return changed


with passes():

    @dataclass(frozen=True)
    class MergesByPosition(Pass):
        """Branches are equal if their blocks are, operand by operand, and they have the same operands: but perhaps in another order."""

        name = "regions-merges-by-position"

        def apply(self, graph: Graph) -> bool:
            return _merged_by(graph, self.key)

        def key(self, op: Op) -> object:
            return frozenset(op.inputs.get("X", ())), tuple(self.numbered(inner) for inner in op.graphs.values())

        def numbered(self, inner: Graph) -> object:
            numbers = {value: i for i, value in enumerate(inner.inputs)}
            rows = []
            for op in inner.ordered_ops():
                read = tuple(numbers.get(value, -1) for value in op.reads())
                numbers.update({value: len(numbers) + i for i, value in enumerate(op.writes())})
                rows.append((op.type, _frozen(op.attrs), read))
            return tuple(rows), tuple(numbers.get(value, -1) for value in inner.results)

    @dataclass(frozen=True)
    class MergesByTerms(Pass):
        """Branches over the same operands are equal if they compute the same terms: but of which the operands were sorted."""

        name = "regions-merges-by-terms"

        def apply(self, graph: Graph) -> bool:
            return _merged_by(graph, self.key)

        def key(self, op: Op) -> object:
            return tuple(op.inputs.get("X", ())), tuple(self.terms(inner) for inner in op.graphs.values())

        def terms(self, inner: Graph) -> object:
            terms = {value: str(i) for i, value in enumerate(inner.inputs)}
            for op in inner.ordered_ops():
                made_of = f"{op.type} {_frozen(op.attrs)} {sorted(terms.get(value, '') for value in op.reads())}"
                terms.update({value: f"{made_of} {i}" for i, value in enumerate(op.writes())})
            return tuple(terms.get(value) for value in inner.results)

    @dataclass(frozen=True)
    class ForgetsShifts(Pass):
        """softmax(x + c) is softmax(x) if c has extent 1 along the axis: but of the axes of c, which may be fewer."""

        name = "regions-forgets-shifts"
        tolerance = 1e-5

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "softmax"):
                add, axis = op.input("X").writer, op.attrs.get("axis", -1)
                if add is None or add.type != "elementwise_add" or add.graph is not op.graph or add.attrs.get("axis", -1) != -1:
                    continue
                x, c = add.input("X"), add.input("Y")
                if None in (x.shape, c.shape) or x.type != op.input("X").type or not -len(c.shape or ()) <= axis < len(c.shape or ()):
                    continue
                if (c.shape or ())[axis] == 1 and (x.shape or ())[axis] != 1 and graph.allows("shift", op):
                    op.graph.set_inputs(op, "X", [x])
                    changed = True
            return changed


_BRANCHES = """c: bool[1]
x: float64[2]
y: float64[2]
{first}
if_else(Cond=c, X=[x, y]) -> (Out=[a]) {{true_block=block(1), false_block=block(2)}}
{second}
if_else(Cond=c, X=[{operands}]) -> (Out=[b]) {{true_block=block(3), false_block=block(4)}}
elementwise_sub(X=a, Y=b) -> (Out=z)"""
_ZERO = 'fill_constant() -> (Out={name}) {{shape=[2], value=0.0, dtype="float64"}}'


def _twice(first: tuple[str, str], second: tuple[str, str], operands: str = "x, y") -> str:
    """Two branches under one condition, with what their blocks compute, and in which order the second one reads its operands."""
    text = _BRANCHES.format(first=_ZERO.format(name="a"), second=_ZERO.format(name="b"), operands=operands)
    bodies = [f"{body} -> (Out={name})" for pair, name in ((first, "a"), (second, "b")) for body in pair]
    return "\n".join([text, *(f"block {i} in 0:\n{body}" for i, body in enumerate(bodies, 1))])


def _trying(family: str, pass_type: type[Pass], text: str, **options: object) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, **options))  # type: ignore[arg-type]


_FEEDS = {"c": [True], "x": [1.0, 2.0], "y": [3.0, 5.0]}
_SUB, _TURNED = "elementwise_sub(X=x, Y=y)", "elementwise_sub(X=y, Y=x)"
_ADD, _ADD_TURNED = "elementwise_add(X=x, Y=y)", "elementwise_add(X=y, Y=x)"

WRONG: tuple[UserPass, ...] = (
    _trying("branches", MergesByPosition, _twice((_SUB, _ADD), (_TURNED, _ADD_TURNED), "y, x"), feeds=_FEEDS),
    _trying("branches", MergesByTerms, _twice((_ADD, _SUB), (_ADD, _TURNED)), feeds={**_FEEDS, "c": [False]}),
    _trying(
        "broadcasting",
        ForgetsShifts,
        "x: float64[2, 2, 2]\nc: float64[2, 1]\nelementwise_add(X=x, Y=c) -> (Out=s)\nsoftmax(X=s) -> (Out=y) {axis=1}",
        feeds={"c": [[0.0], [3.0]]},
    ),
)
