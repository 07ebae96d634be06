"""The two kinds of node: operators, and the values they read and write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphad.errors import InvalidType
from graphad.ops import REGISTRY, CallDef, OpDef
from graphad.program import FORWARD, Operator, SourceLine, Variable
from graphad.program.clipping import ErrorClipByValue
from graphad.types import TENSOR, Shape, TensorType

if TYPE_CHECKING:
    from graphad.ir.graph import Graph
    from graphad.ir.provenance import Origin

Slots = dict[str, tuple["Value", ...]]
NO_GRAPHS: Mapping[str, Graph] = {}


class Value:
    """One value: written once (by ``writers[0]``), or ``given`` to the graph from outside.

    ``name`` is what the program calls it; a name written twice is two values. ``grad_of`` is the value
    this one is the gradient of, ``var`` the variable it was lowered from. ``shape`` and ``dtype`` are None
    while unknown. Between two passes of the backward a gradient may have several writers. ``kind`` says whether it is a tensor, an
    array of tensors, or the residuals of a block.
    """

    __slots__ = ("dtype", "given", "grad_of", "graph", "kind", "name", "readers", "shape", "var", "writers")

    def __init__(self, graph: Graph, name: str, shape: Shape | None, dtype: str | None, var: Variable | None) -> None:
        self.graph = graph
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.var = var
        self.kind = TENSOR if var is None else var.type
        self.given = False
        self.grad_of: Value | None = None
        self.writers: list[Op] = []
        # As keys of a dict: readers have an order, that in which they came, on every run.
        self.readers: dict[Op, None] = {}

    @property
    def writer(self) -> Op | None:
        """The operator that writes the value, None for a value given from outside."""
        return self.writers[0] if self.writers else None

    @property
    def type(self) -> TensorType | None:
        """Shape and dtype, None while one is unknown."""
        return None if self.shape is None or self.dtype is None else TensorType(self.shape, self.dtype)

    @property
    def version(self) -> int:
        """The number of this value among those of its name, from 0."""
        return self.graph.values.number(self) or 0

    @property
    def persistable(self) -> bool:
        """Whether the value's variable outlives a run."""
        return self.var is not None and self.var.persistable

    @property
    def stop_gradient(self) -> bool:
        """Whether gradients stop at this value."""
        return self.var is not None and self.var.stop_gradient

    @property
    def error_clip(self) -> ErrorClipByValue | None:
        """How the gradient of the value's variable is bounded."""
        return None if self.var is None else self.var.error_clip

    @property
    def gradient_marks(self) -> tuple[bool, ErrorClipByValue | None]:
        """The marks of a variable that concern gradients: whether it stops them, and how it clips them."""
        return self.stop_gradient, self.error_clip

    def var_named(self, name: str) -> Variable | None:
        """The value's variable for one of another name: what counts is whether gradients stop there, or are clipped."""
        if self.var is None or self.var.name == name:
            return self.var
        if not self.stop_gradient and self.error_clip is None:
            return None
        marks = (self.stop_gradient, self.kind, self.error_clip)
        return Variable.trusted(self.var.block, name, self.shape, self.dtype, *marks)

    def __reduce_ex__(self, protocol: object) -> Any:
        # As a number within its graph: along its edges a chain of operators would be pickled as deep as it is long.
        return self.graph.reduced(self)

    def __repr__(self) -> str:
        number = self.graph.values.number(self)
        return self.name if number is None else f"{self.name}#{number}"


class Op:
    """One operator: the values it reads and writes by slot, and its attributes.

    ``made_by`` names the pass that made it (None: it was lowered from a program), ``origin`` the rule, and what it was made from;
    ``forward`` is the operator it is the gradient of, ``source`` the user's line, ``operator`` the program's operator it was lowered from.
    ``attrs`` may be shared with other operators: ``graph.set_attr`` changes one. ``graphs`` are the nested graphs of an operator
    with blocks, by the attribute that holds the block in a program. ``stream`` is what a random operator draws from; None for one
    that a pass made, which gets a stream of its own.
    """

    __slots__ = (
        "attrs",
        "forward",
        "graph",
        "graphs",
        "inputs",
        "made_by",
        "next",
        "operator",
        "order",
        "origin",
        "outputs",
        "previous",
        "role",
        "source",
        "stream",
        "type",
    )

    def __init__(self, graph: Graph, type: str, inputs: Slots, outputs: Slots, attrs: Mapping[str, Any]) -> None:
        self.graph = graph
        self.type = type
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.graphs: Mapping[str, Graph] = NO_GRAPHS
        self.role = FORWARD
        self.source: SourceLine | None = None
        self.made_by: str | None = None
        self.origin: Origin | None = None
        self.forward: Op | None = None
        self.operator: Operator | None = None
        self.stream: str | None = None
        # A doubly linked list and numbers along it: an operator is put between two others without moving any.
        self.previous: Op | None = None
        self.next: Op | None = None
        self.order = 0

    @property
    def definition(self) -> OpDef | None:
        """The operator's definition, None for a type that is not registered."""
        return REGISTRY.get(self.type)

    # Sealed operators stand for an operator of another system, which would be lost if anything inside changed.
    @property
    def is_sealed(self) -> bool:
        """Whether passes do not look into its nested graph (``CallDef.sealed``)."""
        definition = self.definition
        return isinstance(definition, CallDef) and definition.sealed

    def reads(self) -> Iterator[Value]:
        """The values read, slot by slot, with repetitions."""
        for values in self.inputs.values():
            yield from values

    def writes(self) -> Iterator[Value]:
        """The values written, slot by slot."""
        for values in self.outputs.values():
            yield from values

    def input(self, slot: str) -> Value:
        """The one value in an input slot."""
        # Unpacking fails unless there is exactly one.
        (value,) = self.inputs[slot]
        return value

    def output(self, slot: str) -> Value:
        """The one value in an output slot."""
        (value,) = self.outputs[slot]
        return value

    def __reduce_ex__(self, protocol: object) -> Any:
        return self.graph.reduced(self)

    def __repr__(self) -> str:
        return f"{self.type}({_text(self.inputs)}) -> ({_text(self.outputs)})"


Node = Op | Value


def _text(slots: Slots) -> str:
    return ", ".join(f"{s}={v[0]!r}" if len(v) == 1 else f"{s}={list(v)!r}" for s, v in slots.items())


def frozen_slots(slots: Mapping[str, Sequence[Value]]) -> Slots:
    """Slots as an operator keeps them; TypeError if one does not hold a list of values."""
    frozen: Slots = {}
    for slot, values in slots.items():
        if not isinstance(values, (tuple, list)) or not all([isinstance(v, Value) for v in values]):
            raise InvalidType(f"slot {slot} takes a list of values of the graph, not {values!r}")
        frozen[slot] = tuple(values)
    return frozen


def fill_slot(slots: Slots, slot: str, values: Sequence[Value]) -> None:
    """Fill a slot; no values takes it away."""
    if values:
        slots[slot] = tuple(values)
    else:
        slots.pop(slot, None)
