"""Random programs that give optimisations something to do, or something to trip over: ``optimizable_program``.

Among the operators of random nested programs are the same one again (with the same attributes or others, before a name is
overwritten and after it), constants, what changes nothing, unused values, what a loop need not do again, values that an
iteration passes to the next in vain, conditions that are known, and constants that are nan, infinite, or of other dtypes.
A program has only some of these, and those often: A. Groce and others, Swarm testing, ISSTA 2012.
"""

from __future__ import annotations

from graphad.execution.names import blocks_of
from graphad.ops import REGISTRY
from graphad.program import Block
from graphad.testing.cases import Case, Choices
from graphad.testing.nested import PLAIN, NestedWriter, Shape, Statement, statements

DEEPEST = 2  # blocks of these statements' own lie in at most so many others


def optimizable_program(choices: Choices, blocks: bool = True, specials: bool = True, max_statements: int = 5, most_trips: int = 2) -> Case:
    """Programs of up to ``max_statements`` drawn statements a block, and a scalar loss.

    Args:
        blocks: whether there are loops, branches and nets.
        most_trips: how many iterations some loops have that are in no other block.
        specials: whether there are nan, infinities, integers and float32, which do not reach the loss.
    """
    depth = choices.integer(0, 2) if blocks else 0
    w = NestedWriter(choices, True, depth, max(depth, 1), max_statements, False)
    w.most_trips = most_trips
    w.also = _themes(choices, blocks, specials)
    w.conditions = (_known,)
    for _ in range(choices.integer(1, 2)):
        w.data()
    statements(w, min(2, max_statements))
    statements(w, min(1, max_statements - 1))
    loss = _loss(w)
    statements(w, 0, (*PLAIN, *w.also), most=min(2, max_statements))
    return Case(w.program, loss, w.feeds, w.params)


def _themes(choices: Choices, blocks: bool, specials: bool) -> tuple[Statement, ...]:
    """The statements that a program mostly consists of: one or two kinds, perhaps one with special numbers, perhaps one with blocks."""
    statements: list[Statement] = choices.several(ALSO, 1, 2)
    if specials and choices.boolean():
        statements.append(choices.one_of(SPECIALS))
    if blocks and choices.boolean():
        statements.append(choices.one_of((_idle_loop, _branch, _idle_loop)))
    # So often that they outnumber the plain statements.
    return tuple(statements) * 6


def _loss(w: NestedWriter) -> str:
    """The sum of the means of the last few tensors."""
    # The last ones depend on most of the program; a loss of an early one would leave the rest dead.
    names = list(w.tensors())[-w.one_of(3, 1, 6) :]
    parts = [w.append("mean", {"X": name}, w.unique("part")) for name in names]
    return w.append("sum", {"X": parts}, "loss")


def _any(w: NestedWriter) -> tuple[str, Shape]:
    """A tensor, the last one first."""
    name = w.recent(list(w.tensors()))
    return name, w.tensors()[name]


def _new(w: NestedWriter, op_type: str, inputs: dict[str, list[str]], shape: Shape, /, **attrs: object) -> str:
    """A new tensor that an operator writes."""
    name = w.fresh(shape)
    w.append(op_type, dict(inputs), name, **attrs)
    w.wrote(name, shape)
    return name


# -- the same again ------------------------------------------------------------------------------


def _again(w: NestedWriter) -> None:
    """An operator of this block or one around once more: the same, with other attributes, or its operands exchanged."""
    ops = [op for scope in w.scopes for op in scope.block.ops if not blocks_of(op) and op.output("Out")]
    ops = [op for op in ops if op.output("Out")[0] in w.tensors() and not REGISTRY[op.type].random]
    if not ops:
        PLAIN[0](w)
        return
    op = w.one_of(*ops[::-1])
    inputs, attrs = {slot: list(names) for slot, names in op.inputs.items()}, dict(op.attrs)
    shape = op.block.var_recursive(op.output("Out")[0]).shape
    # 0 and 1 leave it as it is: what common subexpressions are found in.
    kind = w.choices.integer(0, 3)
    if kind == 2 and isinstance(attrs.get("scale"), float):
        # Almost the same: a pass that forgets to compare attributes takes it for the same.
        attrs["scale"] = attrs["scale"] * 0.5
    if kind == 3 and "Y" in inputs and _exchangeable(w, inputs):
        # The same if it is commutative, and something else if not.
        inputs = {"X": inputs["Y"], "Y": inputs["X"]}
    try_known = all(name in w.tensors() for names in inputs.values() for name in names) or not inputs
    # The names may mean other values by now; only their types have to be the same.
    if try_known and _same_types(w, op.block, inputs):
        name = _new(w, op.type, inputs, shape, **attrs)
        _bounded(w, name)
    else:
        PLAIN[0](w)


def _scaled_twice(w: NestedWriter) -> None:
    """Two operators of one type over the same tensor that differ in their attributes only."""
    x, shape = _any(w)
    names = [_new(w, "scale", {"X": [x]}, shape, scale=scale, bias=bias) for scale, bias in ((0.5, 0.0), (-0.5, w.one_of(0.25, 0.0)))]
    _new(w, "elementwise_mul", {"X": [names[0]], "Y": [names[1]]}, shape)


def _exchangeable(w: NestedWriter, inputs: dict[str, list[str]]) -> bool:
    return len({w.tensors().get(names[0]) for names in inputs.values()}) == 1


def _same_types(w: NestedWriter, block: Block, inputs: dict[str, list[str]]) -> bool:
    """Whether names have the types here that they have in a block around: one may be hidden by another variable of its name."""
    names = [name for slot_names in inputs.values() for name in slot_names]
    return all(w.scope.block.var_recursive(name).declared == block.var_recursive(name).declared for name in names)


def _bounded(w: NestedWriter, name: str) -> None:
    """Bring a value back to [-1, 1], as another one."""
    if w.rarely(2):
        _new(w, "tanh", {"X": [name]}, w.tensors()[name])


def _difference(w: NestedWriter) -> None:
    """Something minus something, perhaps itself."""
    x, shape = _any(w)
    y = w.operand(shape)
    _bounded(w, _new(w, "elementwise_sub", {"X": [x], "Y": [y]}, shape))


# -- what changes nothing ------------------------------------------------------------------------


def _identity(w: NestedWriter) -> None:
    x, shape = _any(w)
    kind = w.choices.integer(0, 6)
    if kind < 2:
        unit = _constant(w, shape, 1.0 - kind)
        _new(w, "elementwise_add" if kind else "elementwise_mul", {"X": [x], "Y": [unit]}, shape)
    elif kind == 2:
        _new(w, "scale", {"X": [x]}, shape, scale=1.0, bias=0.0)
    elif kind == 3:
        _new(w, "scale", {"X": [_new(w, "scale", {"X": [x]}, shape, scale=-1.0)]}, shape, scale=-1.0)
    elif kind == 4 and len(shape) == 2:
        transpose = _new(w, "transpose2", {"X": [x]}, shape[::-1], axis=[1, 0])
        _new(w, "transpose2", {"X": [transpose]}, shape, axis=[1, 0])
    elif kind == 5:
        _new(w, "cast", {"X": [x]}, shape, out_dtype="float64")
    else:
        _new(w, "assign", {"X": [x]}, shape)


def _copy(w: NestedWriter) -> None:
    """A copy that is read, and at which gradients may stop."""
    x, shape = _any(w)
    name = w.unique("y")
    # A copy with a stop is no copy to the backward: a pass that sees through it makes gradients flow.
    w.scope.block.create_var(name=name, shape=shape, dtype="float64", stop_gradient=w.rarely(2))
    w.append("assign", {"X": x}, name)
    w.wrote(name, shape)
    _new(w, "elementwise_mul", {"X": [x], "Y": [name]}, shape)


def _constant(w: NestedWriter, shape: Shape, value: float) -> str:
    return _new(w, "fill_constant", {}, shape, shape=list(shape), value=value, dtype="float64")


def _folded(w: NestedWriter) -> None:
    """An operator over constants, and one that multiplies by 0 or 1."""
    x, shape = _any(w)
    constant = _constant(w, shape, w.one_of(0.0, 0.5, 1.0))
    result = _new(w, w.one_of("tanh", "square", "sigmoid"), {"X": [constant]}, shape)
    _bounded(w, _new(w, w.one_of("elementwise_mul", "elementwise_add", "elementwise_sub"), {"X": [x], "Y": [result]}, shape))


# -- names overwritten ---------------------------------------------------------------------------


def _in_place(w: NestedWriter) -> None:
    """A copy, what it was copied from overwritten, and both read."""
    x, shape = _any(w)
    if x in w.fixed:
        PLAIN[0](w)
        return
    first = _new(w, w.one_of("assign", "sin", "square"), {"X": [x]}, shape)
    step = w.one_of("increment", "scale")
    w.append(step, {"X": x}, x, **({"step": 0.25} if step == "increment" else {"scale": 0.5}))
    w.wrote(x, shape)
    second = _new(w, w.one_of("sin", "square"), {"X": [x]}, shape)
    _new(w, "elementwise_mul", {"X": [first], "Y": [second]}, shape)


def _state(w: NestedWriter) -> None:
    """A persistable variable that is read and written."""
    root = w.program.global_block()
    names = [name for name in w.params if name.startswith("s")]
    name = w.recent(names) if names else w.unique("s")
    if not names:
        root.create_var(name=name, shape=[3], dtype="float64", persistable=True, stop_gradient=True)
        w.params[name] = w.array((3,), 1.0)
    w.append("scale", {"X": name}, name, scale=w.one_of(0.5, -1.0), bias=0.25)
    if w.rarely(2):
        _new(w, "tanh", {"X": [name]}, (3,))


# -- loops and branches --------------------------------------------------------------------------


def _known(w: NestedWriter) -> str:
    """A condition that is known before the program runs."""
    return w.append("fill_constant", {}, w.unique("b"), shape=[1], value=w.one_of(1.0, 0.0), dtype="bool")


def _idle_loop(w: NestedWriter) -> None:
    """A loop of 0 to 3 iterations (outside of blocks also more) that repeats a computation, writes something unused, and adds up."""
    if w.depth >= DEEPEST:
        PLAIN[0](w)
        return
    x, shape = _any(w)
    names = [name for name, item in w.tensors().items() if item == shape and name != x]
    y = w.recent(names) if names else w.parameter(shape)
    trips, total = w.one_of(2, 0, 1, 3, 0 if w.depth else w.most_trips), _constant(w, shape, 0.0)
    last_value, i, limit = _constant(w, shape, 0.5), w.constant(0, name=w.unique("i")), w.constant(trips)
    condition = w.compare("less_than", i, limit, w.unique("c"))
    with w.inside() as block:
        invariant = _new(w, w.one_of("sin", "square", "tanh"), {"X": [x]}, shape)
        w.append(w.one_of("assign", "sin"), {"X": w.one_of(x, x, invariant)}, last_value)
        w.append("elementwise_add", {"X": total, "Y": w.one_of(invariant, last_value, x)}, total)
        # ``y`` is only read, also across iterations: nothing may take its memory.
        w.append("elementwise_sub", {"X": total, "Y": y}, total)
        # Halved in each iteration, so that totals stay bounded however often it runs.
        w.append("scale", {"X": total}, total, scale=0.5)
        if w.rarely(3):
            statements(w, 0, most=1)
        w.append("increment", {"X": i}, i, step=1.0)
        w.compare("less_than", i, limit, condition)
    written_names = [name for name in dict.fromkeys(n for op in block.ops for n in op.output_names()) if name not in block.vars]
    read_names = [n for n in dict.fromkeys(n for op in block.ops for n in op.input_names()) if n not in block.vars and n != condition]
    # What a loop carries ends with its condition.
    written_names = [*(name for name in written_names if name != condition), condition]
    scopes = w.unique("scopes")
    slots = {"Condition": condition, "X": read_names}
    w.scope.block.append_op("while", slots, {"Out": written_names, "StepScopes": scopes}, {"sub_block": block})
    _new(w, "elementwise_mul", {"X": [total], "Y": [last_value]}, shape)


def _branch(w: NestedWriter) -> None:
    """Two branches that give the same tensor another value; the condition is known, or fed."""
    if w.depth >= DEEPEST:
        PLAIN[0](w)
        return
    _, shape = _any(w)
    condition = _known(w) if w.rarely(2) else w.fed("f", [w.choices.boolean()], "bool")
    out = w.promise(shape)
    blocks = []
    for op_type in ("tanh", w.one_of("sin", "square", "tanh")):
        with w.inside() as block:
            w.append(op_type, {"X": w.operand(shape)}, out)
        blocks.append(block)
    read_names = list(dict.fromkeys(n for block in blocks for op in block.ops for n in op.input_names()))
    attrs = {"true_block": blocks[0], "false_block": blocks[1]}
    w.scope.block.append_op("if_else", {"Cond": condition, "X": read_names}, {"Out": out}, attrs)
    w.wrote(out, shape)


# -- numbers of other kinds ----------------------------------------------------------------------


def _special(w: NestedWriter) -> None:
    """Operators over nan and infinities; their results are requested, but reach no other operator."""
    x, shape = _any(w)
    value = w.one_of(float("inf"), float("nan"), float("-inf"))
    constant = w.append("fill_constant", {}, w.unique("k"), shape=list(shape), value=value, dtype="float64")
    result = w.append(w.one_of("elementwise_add", "elementwise_mul"), {"X": x, "Y": constant}, w.unique("n"))
    zero = w.append("fill_constant", {}, w.unique("k"), shape=list(shape), value=0.0, dtype="float64")
    operand = w.one_of(result, zero)
    w.append(w.one_of("elementwise_sub", "elementwise_mul"), {"X": result, "Y": operand}, w.unique("n"))


def _narrow(w: NestedWriter) -> None:
    """A detour by another dtype: what is lost there stays lost."""
    x, shape = _any(w)
    dtype = w.one_of("float32", "int64", "int32", "float32")
    narrow = w.append("cast", {"X": x}, w.unique("n"), out_dtype=dtype)
    w.append("cast", {"X": narrow}, w.unique("n"), out_dtype="float64")
    double = w.append("elementwise_add", {"X": narrow, "Y": narrow}, w.unique("n"))
    constant = w.append("fill_constant", {}, w.unique("k"), shape=list(shape), value=w.one_of(1.0, 3.0), dtype=dtype)
    product = w.append(w.one_of("elementwise_mul", "elementwise_sub"), {"X": double, "Y": constant}, w.unique("n"))
    back = w.append("cast", {"X": product}, w.unique("n"), out_dtype="float64")
    w.append("elementwise_sub", {"X": back, "Y": x}, w.unique("n"))


def _random(w: NestedWriter) -> None:
    """Two random operators with seeds of their own, which may be the same."""
    _, shape = _any(w)
    names = [
        w.append("uniform_random", {}, w.unique("r"), shape=list(shape), min=-0.5, max=0.5, seed=w.one_of(7, 8), dtype="float64")
        for _ in range(2)
    ]
    _new(w, "elementwise_sub", {"X": [names[0]], "Y": [names[1]]}, shape)


ALSO: tuple[Statement, ...] = (_again, _scaled_twice, _difference, _identity, _identity, _folded, _copy, _in_place, _state)
SPECIALS: tuple[Statement, ...] = (_special, _special, _narrow, _random, _random)
