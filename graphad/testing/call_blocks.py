"""Loops, branches and nets of random programs of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad.program import Block
from graphad.testing.call_statements import CallProgram, chain, plain, twins
from graphad.testing.call_writer import run_block
from graphad.testing.calls import finite
from graphad.testing.names import outside_reads, outside_writes

TRIPS = (1, 3, 0, 7, 2)
DEEPEST = 2


def loop(w: CallProgram) -> None:
    """A ``while`` of 0 to 7 trips, whose body uses what is around it, and changes it."""
    write_loop(w, w.choices.one_of(TRIPS), lambda _: _body(w, overwrite=2))


def write_loop(w: CallProgram, trips: int, body: Callable[[str], None], early: bool = False) -> None:
    """A ``while`` that ends after so many trips, or after one if its body cannot run again on what it leaves.

    Args:
        w: the program.
        trips: how often it runs.
        body: writes the body; it gets the name of the counter, which it may read.
        early: whether the counter goes on before the body rather than after it.
    """
    counter = w.constant(np.array([0], "int64"), w.unique("i"))
    fed = w.choices.chance(3)
    limit = w.data(np.array([trips], "int64")) if fed else w.constant(np.array([trips], "int64"), w.unique("n"))
    bound = None if fed else w.block.ops[-1]
    condition = w.apply("less_than", {"X": [counter], "Y": [limit]}, {}, w.unique("c")) or ""
    w.reserved |= {counter, limit, condition}
    w.counters.append(counter)
    with w.inside(runs=trips > 0) as block:
        if early:
            w.apply("increment", {"X": [counter]}, {"step": 1.0}, counter)
        body(counter)
        if not early:
            w.apply("increment", {"X": [counter]}, {"step": 1.0}, counter)
        w.apply("less_than", {"X": [counter], "Y": [limit]}, {}, condition)
        if trips > 1 and not _run_on(w, block, trips - 1):
            if bound is None:
                w.feeds[limit] = np.array([1], "int64")
            else:
                bound.attrs["value"] = 1.0
    w.counters.pop()
    read = [name for name in outside_reads(block) if name != condition]
    written = [*(name for name in outside_writes(block) if name != condition), condition]
    scopes = {} if w.choices.chance(4) else {"StepScopes": w.unique("scopes")}
    inputs = {"Condition": condition, **({"X": read} if read else {})}
    w.block.append_op("while", inputs, {"Out": written, **scopes}, {"sub_block": block})


def _run_on(w: CallProgram, block: Block, trips: int) -> bool:
    """Run further trips; False, and the values as they were, if one cannot run or makes something infinite."""
    values = dict(w.values)
    for _ in range(trips):
        if not run_block(block, values):
            return False
    if not w.non_finite and not all(finite(value) for value in values.values()):
        return False
    w.values = values
    return True


def _body(w: CallProgram, overwrite: int = 3) -> None:
    """One or two statements, and results of them that reach what is around the block."""
    for _ in range(w.choices.one_of((1, 1, 2))):
        if w.choices.chance(6) and len(w.blocks) <= DEEPEST:
            w.choices.one_of(tuple(BLOCKS.values()))(w)
        else:
            w.choices.one_of((plain, chain, twins))(w)
    block = w.block
    inner = [name for name in block.vars if isinstance(w.values.get(name), np.ndarray) and name not in w.reserved]
    for name in inner[-2:]:
        _hand_out(w, name, overwrite)
    written = outside_writes(block)
    if any(name in w.underivable for op in block.ops for name in op.output_names()):
        w.underivable.update(written)


def _hand_out(w: CallProgram, name: str, overwrite: int) -> None:
    """Let the value of a local name reach a name around the block: instead of what that had, or added to it."""
    value = w.values[name]
    outer = [n for n in w.like(value) if n not in w.block.vars]
    if outer and w.choices.chance(overwrite):
        target = w.choices.one_of(outer)
    else:
        target = w.unique("o")
        with w.outside():
            w.constant(np.zeros_like(value), target)
        for values in w.around[-1:]:
            values[target] = np.zeros_like(value)
    adds = value.dtype.kind == "f" and w.choices.boolean()
    if not adds or w.apply("elementwise_add", {"X": [target], "Y": [name]}, {}, target) is None:
        w.apply("assign", {"X": [name]}, {}, target)


def _condition(w: CallProgram, holds: bool) -> str:
    """A boolean that is fed, a constant, or inside a loop whether this is the first iteration, or a later one."""
    array = np.array([holds])
    if w.counters and w.choices.boolean():
        return _about_iteration(w, holds)
    name = w.data(array) if w.choices.boolean() else w.constant(array, w.unique("b"))
    w.reserved.add(name)
    return name


def _about_iteration(w: CallProgram, is_first: bool) -> str:
    """Whether this is the first iteration of the innermost loop, which is being written, or whether it is not."""
    counter = w.counters[-1]
    now = w.values[counter]
    assert isinstance(now, np.ndarray)
    first = w.constant(now, w.unique("n"))
    name = w.apply("equal" if is_first else "not_equal", {"X": [counter], "Y": [first]}, {}, w.unique("b")) or ""
    w.reserved |= {first, name}
    return name


def conditional(w: CallProgram) -> None:
    """A ``conditional_block`` that runs or not."""
    write_conditional(w, w.choices.boolean(), lambda: _body(w))


def write_conditional(w: CallProgram, holds: bool, body: Callable[[], object]) -> None:
    """A ``conditional_block`` with a body."""
    condition = _condition(w, holds)
    with w.inside(runs=holds) as block:
        body()
    _append(w, "conditional_block", "Input", {"Cond": condition}, {"sub_block": block})


def branch(w: CallProgram) -> None:
    """An ``if_else`` with both of its blocks."""
    write_branch(w, w.choices.boolean(), lambda: _body(w), lambda: _body(w))


def write_branch(w: CallProgram, holds: bool, first: Callable[[], object], second: Callable[[], object]) -> None:
    """An ``if_else`` with what writes its two blocks."""
    condition = _condition(w, holds)
    blocks = []
    for runs, body in ((holds, first), (not holds, second)):
        with w.inside(runs=runs) as block:
            body()
        blocks.append(block)
    _append(w, "if_else", "X", {"Cond": condition}, {"true_block": blocks[0], "false_block": blocks[1]})


def net(w: CallProgram) -> None:
    """A ``net``: a block that runs once."""
    write_net(w, lambda: _body(w))


def write_net(w: CallProgram, body: Callable[[], object]) -> None:
    """A ``net`` with a body."""
    with w.inside() as block:
        body()
    _append(w, "net", "X", {}, {"sub_block": block})


def _append(w: CallProgram, op_type: str, slot: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Append an operator with the slots that its blocks make necessary."""
    read, written = outside_reads(*attrs.values()), outside_writes(*attrs.values())
    scopes = {} if w.choices.chance(4) else {"Scope": w.unique("scopes")}
    outputs = {**({"Out": written} if written else {}), **scopes}
    w.block.append_op(op_type, {**inputs, **({slot: read} if read else {})}, outputs, attrs)


BLOCKS: dict[str, Callable[[CallProgram], None]] = {
    "while": loop,
    "conditional_block": conditional,
    "if_else": branch,
    "net": net,
}
