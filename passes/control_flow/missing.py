"""Values that may be uninitialized: reading one is an error, except for operators with optional inputs.

    conditional_block(c) { y = tanh(x) } -> y;  select_output(Like=[y, ...])      folded to what y was before: is there anything?

A program in which some operator may write a name can be run without it; one in which none does cannot.
"""

from __future__ import annotations

from graphad.graph import Op, Value
from graphad.graph.regions import operands
from graphad.graph.residuals import residual_of
from graphad.passes.analyses.known_values import KnownValues


def is_safe(out: Value, value: Value, known: KnownValues) -> bool:
    """Whether a value can be read where ``out`` was: it is there for sure, or all readers need one anyway."""
    return not _may_be_missing(value, known) or all(map(_needs_all, out.readers))


def _may_be_missing(value: Value, known: KnownValues) -> bool:
    """Whether a value is given to the whole program, as far as one can see only to operators that make do without."""
    while value.given and (owner := known.owners.get(value.graph)) is not None:
        residual = residual_of(value)
        value = operands(owner)[value.graph.inputs.index(value)] if residual is None else residual
    return value.given and not value.persistable and not any(map(_needs_all, value.readers))


def _needs_all(op: Op) -> bool:
    return op.row is not None and not op.row.partial and not op.graphs
