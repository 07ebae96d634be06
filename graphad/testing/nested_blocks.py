"""What random nested programs are written with: statements with blocks (loops, branches, nets), and arrays of tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from graphad.program import Block
from graphad.testing.choices import Choices
from graphad.testing.names import outside_reads, outside_writes
from graphad.testing.nested_operators import RECIPES, SHAPES, THRESHOLDS, Shape, Writer, filled, write_tensor


class NestedWriter(Writer):
    """A writer of blocks; ``also`` and ``conditions`` are more statements and conditions to draw from."""

    def __init__(self, choices: Choices, stops: bool, nested: int, max_depth: int, max_statements: int, arrays: bool) -> None:
        super().__init__(choices, stops, nested)
        self.max_depth, self.max_statements, self.with_arrays = max_depth, max_statements, arrays
        self.most_trips = 2
        self.arrived = ""  # what a loop has led to in several iterations
        self.also: tuple[Statement, ...] = ()
        self.conditions: tuple[Callable[[NestedWriter], str], ...] = ()

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1


Statement = Callable[[NestedWriter], None]


def statements(w: NestedWriter, least: int, kinds: tuple[Statement, ...] | None = None, most: int | None = None) -> None:
    for _ in range(w.choices.integer(least, w.max_statements if most is None else most)):
        deeper = block_statements(w) if w.depth < w.max_depth and w.left > 0 else ()
        w.one_of(*(kinds or (*w.also, *PLAIN * 2, *deeper, *((_array,) if w.arrays() else ()))))(w)


def block_statements(w: NestedWriter) -> tuple[Statement, ...]:
    return (*BLOCKS, _array_loop) if w.with_arrays else BLOCKS


def _body(w: NestedWriter, first: Statement | None = None) -> None:
    """Statements of a block; perhaps one before them makes a variable of its own under the name of another one."""
    taken = {*w.fixed, *outside_reads(w.scope.block), *outside_writes(w.scope.block)}
    hidden = [name for name in w.tensors() if name not in taken and w.outer(name)]
    if hidden and w.rarely(6):
        _hide(w, w.recent(hidden), w.one_of(*SHAPES))
    if first:
        first(w)
    statements(w, 0 if first else 1)


def _hide(w: NestedWriter, name: str, shape: Shape) -> None:
    """Declare a name in the current block that is another variable outside."""
    others = [other for other, each in w.tensors().items() if other != name and each == shape]
    w.scope.block.create_var(name=name, shape=shape, dtype="float64")
    if others:
        w.append("tanh", {"X": w.recent(others)}, name)
    else:
        w.append("fill_constant", {}, name, shape=list(shape), value=0.25, dtype="float64")
    w.wrote(name, shape)


def _plain(w: NestedWriter) -> None:
    write_tensor(w, *w.target())


# -- conditions ----------------------------------------------------------------------------------


def _condition(w: NestedWriter) -> str:
    """A boolean: fed, about a counter, about data, or two of them joined."""
    if w.conditions and w.rarely(2):
        return str(w.one_of(*w.conditions)(w))
    kind = w.choices.integer(0, 5)
    if kind == 1 and w.counters():
        return _counter_condition(w)
    if kind == 2:
        return _data_condition(w, w.recent(list(w.tensors())))
    if kind == 3:
        x, y = _condition(w), _condition(w)
        return w.compare(w.one_of("logical_and", "logical_or", "logical_xor"), x, y)
    if kind == 4 and w.booleans():
        return w.recent(w.booleans())
    return w.fed("f", [w.choices.boolean()], "bool")


def _counter_condition(w: NestedWriter) -> str:
    counter = w.recent(w.counters())
    if w.one_of(True, False):
        counter = w.append("elementwise_mod", {"X": counter, "Y": w.constant(2)}, w.unique("n"))
    return w.compare(w.one_of("equal", "less_than", "greater_than"), counter, w.constant(w.choices.integer(0, 2)))


def _data_condition(w: NestedWriter, x: str) -> str:
    mean = w.append("mean", {"X": x}, w.unique("m"))
    return w.compare("greater_than", mean, w.constant(w.one_of(*THRESHOLDS), "float64"))


# -- loops ---------------------------------------------------------------------------------------


def _while(w: NestedWriter, first: Statement | None = None, trips: int | None = None) -> None:
    """A loop of ``trips`` iterations, else of 0 to 3 or ``most_trips``; it counts in an integer, or in a number that is like any value."""
    w.left -= 1
    scratch = w.promise((3,)) if w.rarely(8) else None
    step, test, counter, early_exit = _counting(w, w.one_of(1, 2, 0, 3, 2 if w.depth else w.most_trips) if trips is None else trips)
    condition = w.unique("c")
    test(condition)
    exit_on = w.recent(list(w.tensors())) if early_exit else None
    early = w.one_of(False, True)
    with w.inside(index=counter) as block:
        if early:
            step()
            _test_again(w, test, condition, exit_on)
        if scratch:
            write_tensor(w, scratch, (3,))
        _body(w, first)
        if not early:
            step()
            _test_again(w, test, condition, exit_on)
    read = [name for name in outside_reads(block) if name != condition]
    written = [*(name for name in outside_writes(block) if name != condition), condition]
    scopes = {} if w.rarely() else {"StepScopes": w.unique("scopes")}
    slots = {"Condition": condition, **({"X": read} if read else {})}
    w.scope.block.append_op(type="while", inputs=slots, outputs={"Out": written, **scopes}, attrs={"sub_block": block})
    w.scope.booleans.append(condition)


def delay(w: NestedWriter) -> None:
    """A delay line: in each iteration names get what the next one had before, and the last one gets a new value.

    A value needs as many iterations as there are names to get from the last one to the first. Every second line starts from
    constants, so that nothing but what has come all the way can be differentiated.
    """
    shape, count = w.one_of(*w.tensors().values()), w.one_of(3, 3, 2, 4)
    line = [w.fresh(shape) for _ in range(count)]
    kinds = (filled,) if w.one_of(True, False) else (filled, filled, *RECIPES)
    for name in line:
        w.one_of(*kinds)(w, name, shape)
        w.wrote(name, shape)
    others = [name for name in w.tensors() if name not in line and (name in w.params or name not in w.fixed)]
    _while(w, lambda inner: _pass_along(inner, line, shape, others), trips=count + w.choices.integer(0, 1))
    w.wrote(line[0], shape)
    w.arrived = line[0]


def accumulate(w: NestedWriter) -> None:
    """A loop that adds a value from around it to a name, or takes it away or multiplies by it, in each iteration: nothing lies between."""
    total = w.recent(list(w.tensors()))
    shape = w.tensors()[total]
    alike = [name for name, each in w.tensors().items() if each == shape and name != total and (name in w.params or name not in w.fixed)]
    other = w.recent(alike) if alike else w.parameter(shape)
    op_type = w.one_of(*ACCUMULATING)
    name = w.fresh(shape)
    w.append("assign", {"X": total}, name)
    w.wrote(name, shape)
    _while(w, lambda inner: _add_up(inner, op_type, name, other, shape), trips=w.choices.integer(2, 3))
    w.wrote(name, shape)
    w.arrived = name


def _add_up(w: NestedWriter, op_type: str, name: str, other: str, shape: Shape) -> None:
    if w.outer(name) and w.outer(other):
        w.append(op_type, {"X": [name, other]} if op_type == "sum" else {"X": name, "Y": other}, name)
        w.wrote(name, shape)


def _pass_along(w: NestedWriter, line: list[str], shape: Shape, others: list[str]) -> None:
    if any(not w.outer(name) for name in line):  # the block has variables of its own under these names
        return
    for name, following in itertools.pairwise(line):
        w.append("assign", {"X": following}, name)
        w.wrote(name, shape)
    alike = [name for name in others if w.tensors().get(name) == shape and w.outer(name)]
    if alike and w.one_of(True, False):
        w.append("tanh", {"X": w.recent(alike)}, line[-1])
        w.wrote(line[-1], shape)
    else:
        write_tensor(w, line[-1], shape)


def _test_again(w: NestedWriter, test: Callable[[str], object], condition: str, exit_on: str | None) -> None:
    if exit_on is None or exit_on not in w.tensors():
        test(condition)
        return
    more = w.unique("b")
    test(more)
    w.append("logical_and", {"X": more, "Y": _data_condition(w, exit_on)}, condition)


def _counting(w: NestedWriter, trips: int) -> tuple[Callable[[], object], Callable[[str], object], str | None, bool]:
    """How a loop counts: what an iteration does, what tests it, the integer counter, and whether data may end the loop early."""
    early_exit = w.rarely(6)
    if w.rarely(5):
        return *_float_counter(w, trips), None, early_exit
    counter = w.constant(0, name=w.unique("i"))
    w.scope.counters.append(counter)
    bound = w.choices.integer(0, 2)
    limit = w.fed("l", [trips], "int64") if bound == 1 else w.constant(trips)

    def test(name: str) -> str:
        inner = w.constant(trips) if bound == 2 else limit
        return w.compare("less_than", counter, inner, name)

    return lambda: w.append("increment", {"X": counter}, counter, step=1.0), test, counter, early_exit


def _float_counter(w: NestedWriter, trips: int) -> tuple[Callable[[], object], Callable[[str], object]]:
    """Count in quarters, from almost nothing: a little of some value."""
    x = w.recent(list(w.tensors()))
    name = w.append("mean", {"X": x}, w.unique("m"))
    name = w.append("reshape2", {"X": name}, w.unique("s"), shape=[1])
    w.append("scale", {"X": name}, name, scale=0.05)
    w.scope.tensors[name] = (1,)
    w.fixed.add(name)
    limit = w.constant(0.25 * trips - 0.125, "float64")
    return lambda: w.append("scale", {"X": name}, name, bias=0.25), lambda out: w.compare("less_than", name, limit, out)


# -- branches ------------------------------------------------------------------------------------


def _if_else(w: NestedWriter) -> None:
    """Two blocks that write one or two new variables, and what is around them."""
    w.left -= 1
    condition = _condition(w)
    promised = {w.promise(shape): shape for shape in w.choices.several(SHAPES, 0, 2)}
    blocks = []
    for _ in range(2):
        with w.inside() as block:
            _body(w)
            for name, shape in promised.items():
                write_tensor(w, name, shape)
        blocks.append(block)
    _append(w, "if_else", "X", {"Cond": condition}, {"true_block": blocks[0], "false_block": blocks[1]})
    w.scope.tensors.update(promised)


def _conditional_block(w: NestedWriter) -> None:
    """A block that overwrites variables around it, or not."""
    w.left -= 1
    tested: tuple[dict[str, Any], bool]
    if w.rarely(5):
        rows = [[0.5] * w.choices.integer(0, 1) for _ in range(w.choices.integer(1, 2))]
        tested = {"Cond": [w.fed("r", row, "float64") for row in rows]}, False
    else:
        tested = {"Cond": _condition(w)}, True
    with w.inside() as block:
        _body(w)
    attrs = {"sub_block": block} if tested[1] else {"sub_block": block, "is_scalar_condition": False}
    _append(w, "conditional_block", "Input", tested[0], attrs)


def _select_input(w: NestedWriter) -> None:
    """Two conditional blocks, and the choice between what they wrote: how ``layers.cond`` is stored."""
    w.left -= 1
    condition, shape = _condition(w), w.one_of(*SHAPES)
    negated = w.append("logical_not", {"X": condition}, w.unique("b"))
    names = []
    for each in (condition, negated):
        names.append(w.promise(shape))
        with w.inside() as block:
            _body(w)
            write_tensor(w, names[-1], shape)
        _append(w, "conditional_block", "Input", {"Cond": each}, {"sub_block": block, "is_scalar_condition": True})
    mask = w.append("cast", {"X": condition}, w.unique("n"), out_dtype="int32")
    out = w.fresh(shape)
    w.append("select_input", {"X": names[::-1], "Mask": mask}, out)
    w.wrote(out, shape)


def _net(w: NestedWriter) -> None:
    """A block that runs once."""
    w.left -= 1
    promised = {w.promise(shape): shape for shape in w.choices.several(SHAPES, 0, 1)}
    with w.inside() as block:
        _body(w)
        for name, shape in promised.items():
            write_tensor(w, name, shape)
    _append(w, "net", "X", {}, {"sub_block": block})
    w.scope.tensors.update(promised)


def _append(w: NestedWriter, op_type: str, slot: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Append an operator with the slots that its blocks make necessary."""
    blocks = [block for block in attrs.values() if isinstance(block, Block)]
    read, written = outside_reads(*blocks), outside_writes(*blocks)
    scopes = {} if w.rarely() else {"Scope": w.unique("scopes")}
    outputs = {**({"Out": written} if written else {}), **scopes}
    w.scope.block.append_op(type=op_type, inputs={**inputs, **({slot: read} if read else {})}, outputs=outputs, attrs=attrs)


# -- arrays --------------------------------------------------------------------------------------


def _array(w: NestedWriter) -> None:
    """Write to an array of tensors, or read it. Its elements have one shape, and none is missing."""
    known = w.arrays()
    name = w.recent(list(known))
    w.one_of(_written, _whole, _element)(w, name, known[name])


def _array_loop(w: NestedWriter) -> None:
    """A loop that writes to an array, which is read after it. The first element is there before."""
    x = w.recent(list(w.tensors()))
    shape, name = w.tensors()[x], w.unique("a")
    if w.rarely():
        w.append("create_array", {}, name, shape=list(shape), dtype="float64")
    w.append("write_to_array", {"X": x, "I": w.constant(0)}, name)
    w.scope.arrays[name] = shape
    _while(w, lambda inner: _written(inner, name, shape))
    w.one_of(_whole, _element)(w, name, shape)


def _written(w: NestedWriter, name: str, shape: Shape) -> None:
    """At the end, at the loop's counter, or over the first element; into the array itself or a changed copy of it.

    What is written at the counter has to stay in the array: the next iteration appends to it.
    """
    where = w.one_of(*(["index"] if w.scope.index and w.outer(name) else []), "end", "first")
    if where == "end":
        at = w.append("lod_array_length", {"X": name}, w.unique("n"))
    else:
        at = w.constant(0) if where == "first" else str(w.scope.index)
    x = w.operand(shape)
    if where != "index" and w.rarely(6):
        copy = w.unique("a")
        w.append("write_to_array", {"X": x, "I": at, "Array": name}, copy)
        w.scope.arrays[copy] = shape
    else:
        w.append("write_to_array", {"X": x, "I": at}, name)


def _whole(w: NestedWriter, name: str, shape: Shape) -> None:
    whole, out = w.unique("e"), w.fresh(shape)
    w.append("tensor_array_to_tensor", {"X": name}, whole, axis=0, use_stack=True)
    w.append("reduce_mean", {"X": whole}, out, dim=[0])
    w.wrote(out, shape)


def _element(w: NestedWriter, name: str, shape: Shape) -> None:
    """Read the first element or the last."""
    if w.one_of(True, False):
        at = w.constant(0)
    else:
        at = w.append("lod_array_length", {"X": name}, w.unique("n"))
        w.append("increment", {"X": at}, at, step=-1.0)
    out = w.fresh(shape)
    w.append("read_from_array", {"X": name, "I": at}, out)
    w.wrote(out, shape)


ACCUMULATING = ("elementwise_add", "elementwise_add", "elementwise_sub", "sum", "elementwise_mul")
PLAIN: tuple[Statement, ...] = (_plain,)
BLOCKS: tuple[Statement, ...] = (delay, accumulate, _while, _if_else, _conditional_block, _select_input, _net, _while, _if_else)
