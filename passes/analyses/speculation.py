"""Speculation: operators that may run although their results are not needed, may be copied, or may move to another graph."""

from __future__ import annotations

from collections.abc import Iterable

from graphad.errors import GraphadError
from graphad.ir import Graph, Op, Value
from graphad.ops import GradOpDef, OpDef
from graphad.passes.analyses.known_values import is_plain
from graphad.types import DTYPES, FLOATS, TENSOR, Extent, TensorType

# -- operators that may not be copied or moved -----------------------------------------------------
# Operators that a pass may not move to another graph, or may not copy.
#
# Random operators draw from streams of their own, wherever they are: they may move, but a copy would draw the same numbers, and in a
# loop each iteration draws again. An operator that runs once per scope looks for what it wrote in the block that it is in.


def holds_initialization(graphs: Iterable[Graph]) -> bool:
    """Whether there is an initialization in some graphs, or nested in them: an operator that runs once per scope."""
    return any("run_once" in op.attrs for graph in graphs for subgraph in graph.tree() for op in subgraph.ops)


def holds_uncopyable(graphs: Iterable[Graph]) -> bool:
    """Whether there is an operator that may not be copied: a random one, or one that runs once per scope."""
    return any(is_random(op) or "run_once" in op.attrs for graph in graphs for subgraph in graph.tree() for op in subgraph.ops)


def is_random(op: Op) -> bool:
    """Whether an operator draws random numbers."""
    return op.definition is not None and op.definition.random


# -- speculation -----------------------------------------------------------------------------------
# Which operators may run although their results are not needed: they cannot fail, print, or draw random numbers.
#
# A kernel can fail where values decide (an index out of range, an integer power below zero) or where extents unknown before the run
# do not fit together. So an operator must say of itself that only types decide (``speculatable``), and its types must fit, whatever
# the unknown extents are. That a result may be nan or infinite is no failure.

_SAFE = {"all": frozenset(DTYPES), "floats": frozenset(FLOATS)}
_SIZES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)  # what unknown extents are taken to be: no two go together by chance


def may_run_early(op: Op) -> bool:
    """Whether running an operator where the program would not have run it goes unnoticed; what it reads must have values.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2, 3], append_batch_size=False)
    ...     y = ga.layers.log(x)
    ...     z = ga.layers.gather(x, ga.layers.data("at", shape=[1], dtype="int64", append_batch_size=False))
    >>> [may_run_early(op) for op in ga.lower(program).ops]
    [True, False]
    """
    definition, values = op.definition, (*op.reads(), *op.writes())
    if definition is None or not is_plain(op) or any(value.kind != TENSOR or (value.persistable and value.writers) for value in values):
        return False
    # A gradient has no traits of its own: it reads what its forward operator read, whose traits answer for both.
    forward = definition.forward if isinstance(definition, GradOpDef) and definition.forward is not None else definition
    if any(value.dtype not in _SAFE[forward.safe_dtypes] for value in op.reads()) or any(map(op.inputs.get, forward.extents)):
        return False
    types = _types(op, definition, forward)
    return types is not None and (isinstance(definition, GradOpDef) or _fits(op, definition, types))


def keeps_gradients_finite(op: Op) -> bool:
    """Whether a gradient of 0 through an operator is 0, whatever finite numbers it reads: that of sqrt at 0 is ``0 * inf``.

    >>> import graphad as ga
    >>> program = ga.Program.parse("program { block 0 { var x: float32[2] sqrt(X=x) -> (Out=y) tanh(X=x) -> (Out=z) } }")
    >>> [keeps_gradients_finite(op) for op in ga.lower(program).ops]
    [False, True]
    """
    return op.definition is not None and not (op.definition.steep and any(map(_passes_gradient, op.reads())))


def _passes_gradient(value: Value) -> bool:
    return value.dtype in FLOATS and not value.stop_gradient


def _types(op: Op, definition: OpDef, forward: OpDef) -> dict[Value, TensorType] | None:
    """The types of what the operator reads, with a number for each unknown extent; None if it may fail for some."""
    reads = list(dict.fromkeys(op.reads()))
    types_of_reads = {value: value.type for value in reads}
    types = {value: type for value, type in types_of_reads.items() if type is not None}
    if len(types) < len(types_of_reads):
        return None
    if all(-1 not in type.shape for type in types.values()):
        return types if forward.speculatable else None
    # With unknown extents inference decides for operators that fail by types alone; their gradients have no inference that says as much.
    if forward.speculatable != "always" and (forward is not definition or forward.speculatable != "types"):
        return None
    sizes, numbers = iter(_SIZES), dict[str, int]()
    if sum(type.shape.count(-1) for type in types.values()) > len(_SIZES):
        return None

    def size(extent: int) -> int:
        """Extents of one name are one number."""
        if not isinstance(extent, Extent):
            return next(sizes) if extent == -1 else extent
        if extent.name not in numbers:
            numbers[extent.name] = next(sizes)
        return numbers[extent.name]

    return {v: TensorType(tuple(map(size, t.shape)), t.dtype) for v, t in types.items()}


def _fits(op: Op, definition: OpDef, types: dict[Value, TensorType]) -> bool:
    try:
        definition.infer_types({slot: [types[v] for v in values] for slot, values in op.inputs.items()}, definition.own_attrs(op.attrs))
    except (GraphadError, ValueError, TypeError, IndexError):
        return False
    return True
