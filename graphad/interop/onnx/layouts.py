"""Layouts of the arrays and tapes of a graph, inferred before it is written: a sequence is created with its type, before its first
element."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

from graphad.errors import InvalidValue
from graphad.interop.onnx.stacks import Layout, Leaf
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import control_definition, region_edges
from graphad.types import TENSOR, TENSOR_ARRAY, Shape

Element = Leaf | Value
_CHANGED = ("clear_in_array", "erase_in_array", "insert_in_array", "tensor_array_like")
_SAME = ("assign", "sum", "fill_zeros_like", "select_input", "select_output", *_CHANGED)


class Layouts:
    """Values that hold the same array or tape, as they go through operators and nested graphs, are one class; the pushes of a class
    say what its entries are.

    Args:
        graph: with those nested in it.
        sequences: the numbers of the classes that are written as sequences, since their elements differ in shape.
    """

    def __init__(self, graph: Graph, sequences: Collection[int] = ()) -> None:
        self.sequences = set(sequences)
        self.numbers: dict[Value, int] = {}
        self.parents: dict[Value, Value] = {}
        self.entries: dict[Value, dict[tuple[Element, ...], None]] = {}
        self.known: dict[Value, Layout] = {}
        # Union-find over everything that is one array or tape; first all unions, since the entries of a tape are kept at its root.
        ops = [op for subgraph in graph.tree() for op in subgraph.ops]
        for op in ops:
            for a, b in _same(op):
                self._join(a, b)
        for op in ops:
            if op.type == "push_tape":
                entry = tuple(_element(value) for value in op.inputs.get("X", ()))
                self.entries.setdefault(self.root(op.input("Scopes")), {})[entry] = None
        self._join_popped(ops)
        self.shapes: dict[Value, Shape] = {}
        for value in (value for op in ops for value in op.writes() if value.kind == TENSOR_ARRAY and value.shape):
            self.shapes.setdefault(self.root(value), value.shape or ())

    # Union-find (B. Galler, M. Fischer, 1964) without ranks or path compression: the classes are small.
    def root(self, value: Value) -> Value:
        """The representative of the class of a value."""
        while value in self.parents:
            value = self.parents[value]
        return value

    def _join(self, a: Value, b: Value) -> None:
        a, b = self.root(a), self.root(b)
        if a is not b:
            self.parents[a] = b
            for entry in self.entries.pop(a, {}):
                self.entries.setdefault(b, {})[entry] = None

    def _join_popped(self, ops: list[Op]) -> None:
        """Arrays and tapes that are popped are those that were pushed; that may join others, until nothing changes."""
        # What is popped of a tape of tapes is itself a tape: joining it may reveal entries of another class, hence the fixpoint.
        has_joined = True
        while has_joined:
            before = len(self.parents)
            for op in ops:
                if op.type == "pop_tape":
                    self._join_entry(op)
            has_joined = len(self.parents) > before

    def _join_entry(self, op: Op) -> None:
        outputs = op.outputs.get("X", ())
        for entry in list(self.entries.get(self.root(op.input("Scopes")), {})):
            # Entries of one tape are told apart by how many values they hold.
            if len(entry) == len(outputs):
                for value, element in zip(outputs, entry, strict=True):
                    if isinstance(element, Value) and value.kind != TENSOR:
                        self._join(value, element)

    def of(self, value: Value) -> Layout:
        """The layout of an array or a tape."""
        root = self.root(value)
        if root not in self.known:
            is_rows = self.number(value) not in self.sequences
            if value.kind == TENSOR_ARRAY:
                # An array without elements says nothing of their shape; what is written to it does.
                shape = value.shape or self.shapes.get(root, ())
                leaf = Leaf(value.dtype or "float32", len(shape), shape)
                self.known[root] = Layout(((leaf,),), is_array=True, is_rows=is_rows)
            else:
                entries = tuple(dict.fromkeys(self._entry(entry) for entry in self.entries.get(root, {})))
                # A tape that holds an array of sequences cannot be rows of one tensor itself.
                flat = any(isinstance(part, Layout) and not part.is_rows for entry in entries for part in entry)
                self.known[root] = Layout(entries, is_rows=is_rows and not flat)
        return self.known[root]

    def number(self, value: Value) -> int:
        """The number of the class of a value: they are met in one order."""
        return self.numbers.setdefault(self.root(value), len(self.numbers))

    def _entry(self, entry: tuple[Element, ...]) -> tuple[Leaf | Layout, ...]:
        return tuple(part if isinstance(part, Leaf) else self.of(part) for part in entry)

    def kind_of(self, tape: Value, values: tuple[Value, ...]) -> int:
        """The number of the kind of entry that the values are, in a tape."""
        layout = self.of(tape)
        for kind, entry in enumerate(layout.entries):
            if len(entry) == len(values) and all(self._fits(value, part) for value, part in zip(values, entry, strict=True)):
                return kind
        raise InvalidValue(f"the tape {tape!r} has no entries of {len(values)} values such as {list(values)}")

    def _fits(self, value: Value, what: Leaf | Layout) -> bool:
        """Whether a value may be an element; one that nothing reads may be any."""
        # Nothing reads it, so that any layout will do.
        if not value.readers and value not in value.graph.results:
            return True
        if isinstance(what, Layout):
            return value.kind != TENSOR and self.of(value) == what
        return value.kind == TENSOR and value.dtype in (what.dtype, None) and (value.shape is None or len(value.shape) == what.rank)


def _element(value: Value) -> Element:
    return value if value.kind != TENSOR else Leaf(value.dtype or "float32", len(value.shape or ()), value.shape or ())


def _same(op: Op) -> Iterator[tuple[Value, Value]]:
    """Values of an operator that hold the same array or tape."""
    if control_definition(op) is not None:
        yield from ((edge.source, edge.target) for edge in region_edges(op) if edge.source.kind != TENSOR and edge.kind != "kept")
        return
    stacks = [value for value in (*op.reads(), *op.writes()) if value.kind != TENSOR]
    if op.type in ("push_tape", "pop_tape"):
        yield op.input("Scopes"), op.output("Out")
    elif op.type in ("write_to_array", *_SAME) and len(stacks) > 1:
        yield from ((a, b) for a, b in itertools.pairwise(stacks))
