"""Two programs compared up to renaming.

Operators are paired in two rounds: first those whose whole cone of inputs is the same, then, of the others, the longest common
sequence of operators with the same type and attributes. The values of the second program then get the
names of their partners in the first one, and the texts are compared.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphad.ir import Graph, Op, Value, print_graph
from graphad.ir.lower import graph_of
from graphad.ir.tables import ValueTable
from graphad.program import Block, Program


@dataclass
class Difference:
    """The differences between two graphs.

    Attributes:
        before, after: the graphs; in ``after`` values have the names of those in ``before`` that they are paired with.
        removed: operators of ``before`` that are not in ``after``, or not like that; added: the other way round.
        ops, values: what of ``before`` is paired with what of ``after``, nested graphs included; a changed operator is paired, too.
    """

    before: Graph
    after: Graph
    removed: list[Op] = field(default_factory=list)
    added: list[Op] = field(default_factory=list)
    ops: dict[Op, Op] = field(default_factory=dict)
    values: dict[Value, Value] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the two are the same up to renaming."""
        return not self.removed and not self.added and print_graph(self.before) == print_graph(self.after)

    def text(self, before: str = "before", after: str = "after") -> str:
        """The two texts as a unified diff, empty if there is no difference."""
        old, new = (print_graph(graph).splitlines(keepends=True) for graph in (self.before, self.after))
        return "".join(difflib.unified_diff(old, new, before, after))


def compare(before: Program | Graph, after: Program | Graph) -> Difference:
    """Pair the operators and values of two programs or graphs; neither is changed.

    >>> from graphad import Program
    >>> a = Program.parse("program { block 0 { var x: float32[3] var y: float32[3] tanh(X=x) -> (Out=y) } }")
    >>> b = Program.parse("program { block 0 { var a: float32[3] var b: float32[3] tanh(X=a) -> (Out=b) } }")
    >>> compare(a, b).is_empty
    True
    """
    result = Difference(graph_of(before, "compared", own=True), graph_of(after, "compared", own=True))
    _Pairing(result).graphs(result.before, result.after)
    return result


class _Pairing:
    def __init__(self, difference: Difference) -> None:
        self.difference = difference

    def graphs(self, a: Graph, b: Graph) -> None:
        """Pair two graphs, and those nested in paired operators."""
        pairs = dict(_paired(a, b))
        partners = {y: x for x, y in pairs.items()}
        # Names that passes make up differ between the graphs: values that correspond get the names of the first graph, so that texts can be
        # compared.
        names: dict[Value, str] = {}
        for old, new in _inputs(a, b):
            names[new] = old.name
        for y, x in partners.items():
            names |= {new: old.name for old, new in _outputs(x, y)}
        names_of_a = {value.name for value in a.values}
        _rename(b, names, names_of_a)
        for x, y in pairs.items():
            for name in x.graphs:
                if name in y.graphs:
                    self.graphs(x.graphs[name], y.graphs[name])
        old_of = {new: old for y, x in partners.items() for old, new in _outputs(x, y)} | {new: old for old, new in _inputs(a, b)}
        self.difference.ops |= pairs
        self.difference.values |= {old: new for new, old in old_of.items()}
        equal_ops = {y for y, x in partners.items() if _look(x) == _look(y) and [*x.reads()] == [old_of.get(value) for value in y.reads()]}
        self.difference.removed += [x for x in a.ops if pairs.get(x) not in equal_ops]
        self.difference.added += [y for y in b.ops if y not in equal_ops]


def _inputs(a: Graph, b: Graph) -> Iterator[tuple[Value, Value]]:
    """The inputs of both: paired by name, the others in order where the types agree."""
    by_name = {value.name: value for value in b.inputs}
    left_a = [value for value in a.inputs if value.name not in by_name]
    names = {value.name for value in a.inputs}
    left_b = [value for value in b.inputs if value.name not in names]
    yield from ((value, by_name[value.name]) for value in a.inputs if value.name in by_name)
    # Greedy, in the order of the inputs: a renamed input pairs with the first one of its type that is left.
    for value in left_a:
        partner = next((candidate for candidate in left_b if candidate.type == value.type), None)
        if partner is not None:
            left_b.remove(partner)
            yield value, partner


def _outputs(x: Op, y: Op) -> Iterator[tuple[Value, Value]]:
    for slot, values in x.outputs.items():
        yield from zip(values, y.outputs.get(slot, ()), strict=False)


def _rename(graph: Graph, names: Mapping[Value, str], taken: set[str]) -> None:
    """Give values other names; one that is not named and whose name is taken gets a new one."""
    values, final = list(graph.values), {}
    for value in values:
        final[value] = names.get(value) or (f"{value.name}'" if value.name in taken else value.name)
    # Names may be exchanged between values, so that the table is built again rather than value by value.
    graph.values = ValueTable({})
    for value in values:
        value.name = final[value]
        graph.values.add(value)


# -- pairs ---------------------------------------------------------------------------------------


def _paired(a: Graph, b: Graph) -> Iterator[tuple[Op, Op]]:
    inputs = {new: f"given {i}" for i, (_, new) in enumerate(_inputs(a, b))}
    # Operators with equal cones compute the same from paired inputs, so they are paired first, whatever their names and places. The others
    # are paired by longest common subsequences: what was rewritten stays next to what it replaces.
    cones_a = _cones(a, {old: f"given {i}" for i, (old, _) in enumerate(_inputs(a, b))})
    cones_b = _cones(b, inputs)
    ops_by_cone: dict[str, list[Op]] = {}
    for op, cone in cones_b.items():
        ops_by_cone.setdefault(cone, []).append(op)
    left_a, partners = [], set()
    for op, cone in cones_a.items():
        if ops_by_cone.get(cone):
            partner = ops_by_cone[cone].pop(0)
            partners.add(partner)
            yield op, partner
        else:
            left_a.append(op)
    yield from _in_sequence(left_a, [op for op in b.ops if op not in partners])


def _in_sequence(left: Sequence[Op], right: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
    """The longest common sequence of operators of one type with the same attributes, then of one type."""
    # What looks alike is paired first; the rest, which changed, by type.
    for key in (_look, lambda op: op.type):
        # autojunk would ignore the types that occur often, once there are 200 operators.
        matcher = difflib.SequenceMatcher(None, [key(op) for op in left], [key(op) for op in right], autojunk=False)
        pairs = [(left[i + k], right[j + k]) for i, j, n in matcher.get_matching_blocks() for k in range(n)]
        yield from pairs
        pair_members = {op for pair in pairs for op in pair}
        left, right = [op for op in left if op not in pair_members], [op for op in right if op not in pair_members]


def _look(op: Op) -> str:
    attrs = {name: value for name, value in op.attrs.items() if not isinstance(value, Block)}
    return f"{op.type} {sorted(attrs.items(), key=lambda item: item[0])!r} {[*op.inputs]!r} {[*op.outputs]!r}"


def _cones(graph: Graph, inputs: Mapping[Value, str]) -> dict[Op, str]:
    """A digest of what each operator computes: of the operator and of the digests of its operands."""
    # A Merkle tree: operators of one digest compute the same of paired inputs, whatever the values between are called.
    digests: dict[Value, str] = dict(inputs)
    cones: dict[Op, str] = {}
    for op in graph.ordered_ops():
        reads = [digests.get(value, f"unpaired {value.name}") for value in op.reads()]
        bodies = [_body(inner) for inner in op.graphs.values()]
        cones[op] = _digest([_look(op), *reads, *bodies])
        for i, value in enumerate(op.writes()):
            digests[value] = f"{cones[op]} {i}"
    return cones


def _body(graph: Graph) -> str:
    cones = _cones(graph, {value: f"given {i}" for i, value in enumerate(graph.inputs)})
    places = {value: f"{i}" for i, value in enumerate(graph.inputs)}
    # A result that is an input is the place of that input.
    results = [cones[value.writers[0]] if value.writers else places.get(value, "nothing") for value in graph.results]
    return _digest([*cones.values(), *results])


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
