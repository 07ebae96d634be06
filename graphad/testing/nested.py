"""Random nested programs: loops, branches, nets and arrays of tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.execution.names import blocks_of
from graphad.ops import lookup
from graphad.program import Block, Operator, Program, Variable
from graphad.testing.cases import Case, Choices, outside_reads, outside_writes
from graphad.testing.straight_line import uniform_array
from graphad.types import TENSOR, Array

# -- nested operators ------------------------------------------------------------------------------
# What random nested programs are written with: a ``Writer`` that knows which names have values where, and smooth operators.
#
# Every value lies in [-1, 1], so that loops cannot make anything large: what adds is scaled down or followed by tanh.

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = ((3,), (1,), (2, 3), (3, 3))
LETTERS = "tuvw"  # what fresh names begin with, by depth; blocks beside each other use the same ones
COUNTS = ((1, 1), (-1, 1), (0, 2), (2, -1), (0, -1))  # from where and in which steps a loop may count that is not 0, 1, 2, ...
THRESHOLDS = (0.1371, -0.3719, 0.4523)  # far from the values that programs like to have


_MOST_INFERRED = 1024


def _inferred(op_type: str) -> dict[tuple[Any, ...], tuple[Shape | None, str | None]]:
    """The cache of an operator's inferred result types, by the types of its inputs and its attributes."""
    memory: dict[tuple[Any, ...], tuple[Shape | None, str | None]] = lookup(op_type).memory.setdefault(_inferred, {})
    if len(memory) > _MOST_INFERRED:
        memory.clear()
    return memory


@dataclass
class Scope:
    """A block being written, and what has a value there: tensors and arrays with (element) shapes, counters, booleans."""

    block: Block
    tensors: dict[str, Shape] = field(default_factory=dict)
    arrays: dict[str, Shape] = field(default_factory=dict)
    counters: list[str] = field(default_factory=list)
    booleans: list[str] = field(default_factory=list)
    index: str | None = None
    fresh: int = 0


class Writer:
    """A program being drawn: its blocks from the outermost to the current one, feeds and parameters."""

    def __init__(self, choices: Choices, stops: bool, nested: int) -> None:
        self.choices = choices
        self.stops = stops
        self.left = nested
        self.program = Program()
        self.scopes = [Scope(self.program.global_block())]
        self.feeds: dict[str, Array] = {}
        self.params: dict[str, Array] = {}
        self.fixed: set[str] = set()
        self.count = 0

    # -- drawing ---------------------------------------------------------------------------------

    def one_of(self, *choices: object) -> Any:
        return self.choices.one_of(choices)

    def rarely(self, one_in: int = 4) -> bool:
        return bool(self.choices.integer(1, one_in) == one_in)

    def recent(self, names: Sequence[str]) -> str:
        """One of the names, the last one first."""
        return str(self.choices.one_of(names[::-1]))

    def array(self, shape: Shape, largest: float) -> Array:
        return uniform_array(self.choices.integer(0, 99), largest, shape).copy()

    # -- scopes ----------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def tensors(self) -> dict[str, Shape]:
        """The names of floating-point tensors that have a value here, parameters first, then as they were written."""
        shapes = {name: shape for scope in self.scopes for name, shape in scope.tensors.items()}
        return {name: shapes[name] for name in sorted(shapes, key=lambda name: name not in self.params)}

    def arrays(self) -> dict[str, Shape]:
        return {name: shape for scope in self.scopes for name, shape in scope.arrays.items()}

    def counters(self) -> list[str]:
        return [name for scope in self.scopes for name in scope.counters]

    def booleans(self) -> list[str]:
        return [name for scope in self.scopes for name in scope.booleans]

    def outer(self, name: str) -> bool:
        """Whether a block around the current one declares the name."""
        return not self.scope.block.has_var(name)

    @contextmanager
    def inside(self, index: str | None = None) -> Iterator[Block]:
        """Write a new block inside the current one; ``index`` counts its iterations from 0."""
        block = self.program.create_block()
        self.scopes.append(Scope(block, index=index))
        yield block
        inner = self.scopes.pop().tensors
        self.program.rollback()
        for name, shape in inner.items():
            if not block.has_var(name) and name in self.tensors():
                self.wrote(name, shape)

    # -- names -----------------------------------------------------------------------------------

    def unique(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count - 1}"

    def fresh(self, shape: Shape) -> str:
        """A name for a new tensor of the current block."""
        self.scope.fresh += 1
        name = f"{LETTERS[len(self.scopes) - 1]}{self.scope.fresh - 1}"
        if self.stops and self.rarely(12):
            self.scope.block.create_var(name=name, shape=shape, dtype="float64", stop_gradient=True)
        return name

    def promise(self, shape: Shape) -> str:
        """A tensor of the current block that blocks inside will write."""
        name = self.unique("o")
        self.scope.block.create_var(name=name, shape=shape, dtype="float64")
        return name

    def target(self) -> tuple[str, Shape]:
        """The variable to write: in a block mostly one of a block around it, in block 0 mostly a new one."""
        free_shapes = {name: shape for name, shape in self.tensors().items() if name not in self.fixed}
        outside = [name for name in free_shapes if self.outer(name)]
        choice = self.choices.integer(0, 3)
        if outside and choice < 2:
            name = self.recent(outside)
            return name, free_shapes[name]
        if free_shapes and choice == (2 if outside else 3):
            name = self.recent(list(free_shapes))
            return name, free_shapes[name]
        shape = self.one_of(*dict.fromkeys([*list(self.tensors().values())[::-1], *SHAPES]))
        return self.fresh(shape), shape

    # -- inputs ----------------------------------------------------------------------------------

    def data(self) -> None:
        name, shape = self.unique("x"), self.one_of(*SHAPES)
        self.program.global_block().create_var(name=name, shape=shape, dtype="float64")
        self.feeds[name] = self.array(shape, 1.0)
        self.scopes[0].tensors[name] = shape

    def fed(self, stem: str, value: object, dtype: str) -> str:
        name, array = self.unique(stem), np.asarray(value, dtype)
        self.program.global_block().create_var(name=name, shape=[-1] if dtype == "float64" else [1], dtype=dtype, stop_gradient=True)
        self.feeds[name] = array
        return name

    def parameter(self, shape: Shape, largest: float = 1.0) -> str:
        name = self.unique("p")
        self.program.global_block().create_parameter(name=name, shape=shape, dtype="float64", trainable=not self.rarely(8))
        self.params[name] = self.array(shape, largest)
        self.fixed.add(name)
        self.scopes[0].tensors[name] = shape
        return name

    def weight(self) -> str:
        """A matrix that does not make anything larger."""
        names = [name for name in self.params if np.abs(self.params[name]).sum(-1).max() <= 1 and self.params[name].shape == (3, 3)]
        return self.recent(names) if names and not self.rarely() else self.parameter((3, 3), 0.33)

    def operand(self, *shapes: Shape) -> str:
        """A tensor of one of the shapes, a new parameter if there is none."""
        names = [name for name, shape in self.tensors().items() if shape in shapes]
        return self.recent(names) if names else self.parameter(shapes[0])

    # -- operators -------------------------------------------------------------------------------

    def append(self, op_type: str, inputs: dict[str, Any], out: str, **attrs: object) -> str:
        """Append an operator that writes a name; return it."""
        block = self.scope.block
        names = {slot: list(value) if isinstance(value, list) else [value] for slot, value in inputs.items()}
        types = tuple((slot, *(block.var_recursive(name).tensor_type for name in slot_names)) for slot, slot_names in names.items())
        memory, key = _inferred(op_type), (types, repr(attrs))
        variable = block.var_recursive(out) if block.has_var_recursive(out) else None
        # Inference is remembered by operator, types and attributes: programs are drawn by the thousand from few of these.
        result_type = memory.get(key)
        if result_type is None or (variable is not None and variable.declared != result_type):
            block.append_op(type=op_type, inputs=names, outputs={"Out": out}, attrs=attrs)
            new_variable = block.var_recursive(out)
            if new_variable.type == TENSOR and variable is None and None not in new_variable.declared:
                memory[key] = new_variable.declared
            return out
        if variable is None:
            block.vars[out] = Variable.trusted(block, out, *result_type)
        block.ops.append(Operator(block, op_type, names, {"Out": [out]}, dict(attrs)))
        return out

    def constant(self, value: float, dtype: str = "int64", name: str | None = None) -> str:
        return self.append("fill_constant", {}, name or self.unique("k"), shape=[1], value=float(value), dtype=dtype)

    def compare(self, op_type: str, x: str, y: str, name: str | None = None) -> str:
        return self.append(op_type, {"X": x, "Y": y}, name or self.unique("b"))

    def wrote(self, name: str, shape: Shape) -> None:
        """A tensor has a value from here on, the last one written."""
        self.scope.tensors.pop(name, None)
        self.scope.tensors[name] = shape


# -- operators that write a given tensor ---------------------------------------------------------

Recipe = Callable[[Writer, str, Shape], None]


def smaller(shape: Shape) -> list[Shape]:
    """The shapes that broadcast to a shape."""
    return list(dict.fromkeys([shape, *([(3,)] if shape[-1] == 3 else []), (1,)]))


def unary(op_type: str, **attrs: float) -> Recipe:
    def recipe(w: Writer, out: str, shape: Shape) -> None:
        w.append(op_type, {"X": w.operand(shape)}, out, **attrs)

    return recipe


def binary(op_type: str) -> Recipe:
    """An elementwise operator; a sum or difference is brought back to [-1, 1] in place."""

    def recipe(w: Writer, out: str, shape: Shape) -> None:
        x, y = w.operand(shape), w.operand(*smaller(shape))
        w.append(op_type, {"X": x, "Y": y}, out)
        if op_type != "elementwise_mul":
            settled(w, out)

    return recipe


def settled(w: Writer, out: str) -> None:
    if w.one_of(True, False):
        w.append("tanh", {"X": out}, out)
    else:
        w.append("scale", {"X": out}, out, scale=0.5)


def total(w: Writer, out: str, shape: Shape) -> None:
    w.append("sum", {"X": [w.operand(shape) for _ in range(w.choices.integer(1, 3))]}, out)
    w.append("tanh", {"X": out}, out)


def product(w: Writer, out: str, shape: Shape) -> None:
    if shape[-1] == 3:
        w.append("matmul_v2", {"X": w.operand(shape), "Y": w.weight()}, out)
    else:
        binary("elementwise_mul")(w, out, shape)


def reduced(w: Writer, out: str, shape: Shape) -> None:
    if len(shape) == 2:
        w.append("sin", {"X": w.operand(shape)}, out)
    elif shape == (3,):
        w.append("reduce_mean", {"X": w.operand((2, 3), (3, 3))}, out, dim=[0])
    else:
        w.append("reduce_mean", {"X": w.operand((3,))}, out, dim=[0], keep_dim=True)


def expanded(w: Writer, out: str, shape: Shape) -> None:
    w.append("expand_v2", {"X": w.operand(*smaller(shape)[::-1])}, out, shape=list(shape))


def filled(w: Writer, out: str, shape: Shape) -> None:
    w.append("fill_constant", {}, out, shape=list(shape), value=w.one_of(0.5, 0.0, -1.0), dtype="float64")


def counted(w: Writer, out: str, shape: Shape) -> None:
    """The value of a counter, as a factor."""
    if not w.counters():
        filled(w, out, shape)
        return
    number = w.append("cast", {"X": w.recent(w.counters())}, w.unique("n"), out_dtype="float64")
    w.append("scale", {"X": number}, number, scale=0.25)
    w.append("elementwise_mul", {"X": w.operand(shape), "Y": number}, out)


RECIPES: tuple[Recipe, ...] = (
    *(unary(t) for t in ("tanh", "sin", "sigmoid", "square", "assign")),
    unary("scale", scale=-0.5, bias=0.5),
    *(binary(t) for t in ("elementwise_mul", "elementwise_add", "elementwise_sub")),
    *(total, product, product, reduced, expanded, filled, counted),
)


def write_tensor(w: Writer, name: str, shape: Shape) -> None:
    """Append operators that write a tensor of a shape."""
    w.one_of(*RECIPES)(w, name, shape)
    w.wrote(name, shape)


# -- nested blocks ---------------------------------------------------------------------------------
# What random nested programs are written with: statements with blocks (loops, branches, nets), and arrays of tensors.


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
    taken_names = {*w.fixed, *outside_reads(w.scope.block), *outside_writes(w.scope.block)}
    hidden = [name for name in w.tensors() if name not in taken_names and w.outer(name)]
    # A variable of the block that hides one around it: passes that go by names take one for the other.
    if hidden and w.rarely(6):
        _hide(w, w.recent(hidden), w.one_of(*SHAPES))
    if first:
        first(w)
    statements(w, 0 if first else 1)


def _hide(w: NestedWriter, name: str, shape: Shape) -> None:
    """Declare a name in the current block that is another variable outside."""
    candidates = [candidate for candidate, its_shape in w.tensors().items() if candidate != name and its_shape == shape]
    w.scope.block.create_var(name=name, shape=shape, dtype="float64")
    if candidates:
        w.append("tanh", {"X": w.recent(candidates)}, name)
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
    # The counter is advanced before or after the statements that may read it.
    is_early = w.one_of(False, True)
    with w.inside(index=counter) as block:
        if is_early:
            step()
            _test_again(w, test, condition, exit_on)
        if scratch:
            write_tensor(w, scratch, (3,))
        _body(w, first)
        if not is_early:
            step()
            _test_again(w, test, condition, exit_on)
    read_names = [name for name in outside_reads(block) if name != condition]
    written_names = [*(name for name in outside_writes(block) if name != condition), condition]
    # Programs for inference are written without the scopes that gradients read.
    scopes = {} if w.rarely() else {"StepScopes": w.unique("scopes")}
    slots = {"Condition": condition, **({"X": read_names} if read_names else {})}
    w.scope.block.append_op(type="while", inputs=slots, outputs={"Out": written_names, **scopes}, attrs={"sub_block": block})
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
    # The order of the copies matters: each name is overwritten after it was read.
    sources = [name for name in w.tensors() if name not in line and (name in w.params or name not in w.fixed)]
    _while(w, lambda inner: _pass_along(inner, line, shape, sources), trips=count + w.choices.integer(0, 1))
    w.wrote(line[0], shape)
    w.arrived = line[0]


def accumulate(w: NestedWriter) -> None:
    """A loop that adds a value from around it to a name, or takes it away or multiplies by it, in each iteration: nothing lies between."""
    total = w.recent(list(w.tensors()))
    shape = w.tensors()[total]
    alike = [
        name
        for name, its_shape in w.tensors().items()
        if its_shape == shape and name != total and (name in w.params or name not in w.fixed)
    ]
    operand = w.recent(alike) if alike else w.parameter(shape)
    op_type = w.one_of(*ACCUMULATING)
    name = w.fresh(shape)
    w.append("assign", {"X": total}, name)
    w.wrote(name, shape)
    # Two trips at least: after one, a value that is read too late or too early is still the right one.
    _while(w, lambda inner: _add_up(inner, op_type, name, operand, shape), trips=w.choices.integer(2, 3))
    w.wrote(name, shape)
    w.arrived = name


def _add_up(w: NestedWriter, op_type: str, name: str, other: str, shape: Shape) -> None:
    if w.outer(name) and w.outer(other):
        w.append(op_type, {"X": [name, other]} if op_type == "sum" else {"X": name, "Y": other}, name)
        w.wrote(name, shape)


def _pass_along(w: NestedWriter, line: list[str], shape: Shape, others: list[str]) -> None:
    if any(not w.outer(name) for name in line):  # the block has variables of its own under these names
        return
    for name, next_name in itertools.pairwise(line):
        w.append("assign", {"X": next_name}, name)
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
    start, step = w.one_of(*COUNTS) if not w.with_arrays and w.rarely(3) else (0, 1)  # arrays are written at the counter
    counter = w.constant(start, name=w.unique("i"))
    w.scope.counters.append(counter)
    # Where nothing runs, the counter may be beyond the limit: then it does not end there.
    bound, most = w.choices.integer(0, 2), start + step * (trips or w.one_of(0, -2))
    limit = w.fed("l", [most], "int64") if bound == 1 else w.constant(most)

    def test(name: str) -> str:
        inner = w.constant(most) if bound == 2 else limit
        return w.compare("less_than" if step > 0 else "greater_than", counter, inner, name)

    return lambda: w.append("increment", {"X": counter}, counter, step=float(step)), test, counter, early_exit


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
    shapes = {w.promise(shape): shape for shape in w.choices.several(SHAPES, 0, 2)}
    blocks = []
    for _ in range(2):
        with w.inside() as block:
            _body(w)
            for name, shape in shapes.items():
                write_tensor(w, name, shape)
        blocks.append(block)
    _append(w, "if_else", "X", {"Cond": condition}, {"true_block": blocks[0], "false_block": blocks[1]})
    w.scope.tensors.update(shapes)


def _conditional_block(w: NestedWriter) -> None:
    """A block that overwrites variables around it, or not."""
    w.left -= 1
    test: tuple[dict[str, object], bool]
    if w.rarely(5):
        # Without a scalar condition a block runs if its operands have elements.
        rows = [[0.5] * w.choices.integer(0, 1) for _ in range(w.choices.integer(1, 2))]
        test = {"Cond": [w.fed("r", row, "float64") for row in rows]}, False
    else:
        test = {"Cond": _condition(w)}, True
    with w.inside() as block:
        _body(w)
    attrs = {"sub_block": block} if test[1] else {"sub_block": block, "is_scalar_condition": False}
    _append(w, "conditional_block", "Input", test[0], attrs)


def _select_input(w: NestedWriter) -> None:
    """Two conditional blocks, and the choice between what they wrote: how ``layers.cond`` is stored."""
    w.left -= 1
    condition, shape = _condition(w), w.one_of(*SHAPES)
    negated = w.append("logical_not", {"X": condition}, w.unique("b"))
    names = []
    for test in (condition, negated):
        names.append(w.promise(shape))
        with w.inside() as block:
            _body(w)
            write_tensor(w, names[-1], shape)
        _append(w, "conditional_block", "Input", {"Cond": test}, {"sub_block": block, "is_scalar_condition": True})
    # It counts from the side where the condition is false.
    mask = w.append("cast", {"X": condition}, w.unique("n"), out_dtype="int32")
    out = w.fresh(shape)
    w.append("select_input", {"X": names[::-1], "Mask": mask}, out)
    w.wrote(out, shape)


def _net(w: NestedWriter) -> None:
    """A block that runs once."""
    w.left -= 1
    shapes = {w.promise(shape): shape for shape in w.choices.several(SHAPES, 0, 1)}
    with w.inside() as block:
        _body(w)
        for name, shape in shapes.items():
            write_tensor(w, name, shape)
    _append(w, "net", "X", {}, {"sub_block": block})
    w.scope.tensors.update(shapes)


def _append(w: NestedWriter, op_type: str, slot: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Append an operator with the slots that its blocks make necessary."""
    blocks = [block for block in attrs.values() if isinstance(block, Block)]
    read_names, written_names = outside_reads(*blocks), outside_writes(*blocks)
    scopes = {} if w.rarely() else {"Scope": w.unique("scopes")}
    outputs = {**({"Out": written_names} if written_names else {}), **scopes}
    w.scope.block.append_op(type=op_type, inputs={**inputs, **({slot: read_names} if read_names else {})}, outputs=outputs, attrs=attrs)


# -- arrays --------------------------------------------------------------------------------------


def _array(w: NestedWriter) -> None:
    """Write to an array of tensors, or read it. Its elements have one shape, and none is missing."""
    shapes = w.arrays()
    name = w.recent(list(shapes))
    w.one_of(_written, _whole, _element)(w, name, shapes[name])


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
    place = w.one_of(*(["index"] if w.scope.index and w.outer(name) else []), "end", "first")
    if place == "end":
        at = w.append("lod_array_length", {"X": name}, w.unique("n"))
    else:
        at = w.constant(0) if place == "first" else str(w.scope.index)
    x = w.operand(shape)
    if place != "index" and w.rarely(6):
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


# -- nested ----------------------------------------------------------------------------------------
# Random nested programs: ``nested_program`` draws a program of loops, branches and nets, and arrays to run it on.
#
# Blocks write what lies around them, hide names with their own, read what loops carry, and keep arrays of tensors; conditions come
# from data, from counters and from feeds.


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
    # After the loss as well, where nothing has a gradient.
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
    written_names = [n for op in w.scope.block.ops if blocks_of(op) for n in op.output("Out") if n in w.tensors()]
    names = [w.recent(written_names)] if written_names and not w.rarely(5) else []
    names += w.choices.several([*w.tensors()][::-1], not names, 2)
    # Mostly what a special statement made, so that gradients flow through it.
    names = [w.arrived] if w.arrived in w.tensors() and not w.rarely(4) else names
    parts = [w.append("mean", {"X": name}, w.unique("part")) for name in names]
    return w.append("sum", {"X": parts}, "loss")
