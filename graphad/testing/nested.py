"""Random nested programs: ``nested_program`` draws a program of loops, branches and nets, and arrays to run it on.

Blocks write what lies around them, hide names with their own, read what loops carry, and keep arrays of tensors; conditions come
from data, from counters and from feeds.
"""

from __future__ import annotations

from graphad.execution.layout import blocks_of
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.nested_blocks import PLAIN, NestedWriter, Statement, block_statements, statements
from graphad.testing.nested_operators import SHAPES


def nested_program(
    choices: Choices,
    max_depth: int = 3,
    max_statements: int = 3,
    max_nested: int = 5,
    stops: bool = True,
    arrays: bool = True,
    most_trips: int = 2,
    first: Statement | None = None,
) -> Case:
    """Programs of at most ``max_nested`` operators with blocks, one in the other up to ``max_depth``, and a scalar loss.

    A block has one to ``max_statements`` drawn statements. With ``stops`` some variables stop gradients; with ``arrays``
    some are arrays of tensors. Loops have up to 3 iterations; some that are in no other block have ``most_trips``. ``first``
    writes the first of these operators; None: any of them.
    """
    w = NestedWriter(choices, stops, max_nested, choices.integer(1, max_depth), max_statements, arrays)
    w.most_trips = most_trips
    for _ in range(choices.integer(1, 2)):
        w.data()
    for _ in range(choices.integer(0, 1)):
        w.parameter(w.one_of(*SHAPES))
    statements(w, 0, PLAIN)
    (first or w.one_of(*block_statements(w)))(w)
    statements(w, 0)
    loss = _loss(w)
    statements(w, 0, PLAIN, most=1)
    return Case(w.program, loss, w.feeds, w.params)


def _loss(w: NestedWriter) -> str:
    """The mean of a value, or a sum of several, the last written ones first; or a value of one element as it is. It stays as it is."""
    single = [n for n, s in w.tensors().items() if s == (1,) and n not in w.fixed | set(w.feeds)]
    single = [n for n in single if not w.program.global_block().var(n).stop_gradient]
    if single and w.rarely(6):
        name = w.recent(single)
        w.fixed.add(name)
        return name
    written = [n for op in w.scope.block.ops if blocks_of(op) for n in op.output("Out") if n in w.tensors()]
    names = [w.recent(written)] if written and not w.rarely(5) else []
    names += w.choices.several([*w.tensors()][::-1], not names, 2)
    names = [w.arrived] if w.arrived in w.tensors() and not w.rarely(4) else names
    parts = [w.append("mean", {"X": name}, w.unique("part")) for name in names]
    return w.append("sum", {"X": parts}, "loss")
