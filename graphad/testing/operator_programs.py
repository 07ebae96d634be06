"""Small random programs from every registered operator: ``operator_program``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef, lookup
from graphad.ops.aggregates import Tape, TensorArray
from graphad.ops.sample import Value
from graphad.plugins import ensure_plugins
from graphad.program import Block
from graphad.program.clipping import ErrorClipByValue
from graphad.testing.call_writer import CallWriter, Names, run_block
from graphad.testing.calls import (
    Call,
    Draft,
    Interest,
    Slots,
    checked,
    cut_to,
    draw_call,
    finite,
    other_attr,
    rank_of,
    sampled,
    with_numbers,
)
from graphad.testing.cases import NON_FINITE, Case, Choices, array_of, outside_reads, outside_writes
from graphad.testing.open_extents import unknown_extent
from graphad.testing.samples import samples_of
from graphad.testing.samples.valid import computed
from graphad.testing.values import name_of
from graphad.types import FLOATS, Array

# -- call statements -------------------------------------------------------------------------------
# The statements that random programs of calls consist of: an operator, operators that feed each other, the same one again.

DTYPES = (*("float32", "float64") * 8, "int64", "int32", "bool", "float16")
COMMON = tuple(
    [
        "scale",
        "cast",
        "assign",
        "transpose2",
        "reshape2",
        "concat",
        "split",
        "slice",
        "sum",
        "elementwise_add",
        "elementwise_sub",
        "elementwise_mul",
        "elementwise_div",
        "elementwise_max",
        "elementwise_min",
        "reduce_sum",
        "reduce_mean",
        "reduce_max",
        "matmul_v2",
        "mul",
        "relu",
        "abs",
        "sign",
        "square",
        "sqrt",
        "exp",
        "log",
        "tanh",
        "sigmoid",
        "clip",
        "softmax",
        "stack",
        "gather",
        "expand_v2",
        "where",
        "fill_constant",
        "increment",
        "unsqueeze2",
        "squeeze2",
        "flip",
    ]
)
NUMBERS = (0.0, 1.0, 0.0, 1.0, 2.0, 0.3, -1.0, -0.5, 3.0, 1e-7)  # of constants
SMALL_INTEGERS = (0, 1, 2, 3, -1, -2, 7)
INTEGERS = (*SMALL_INTEGERS, 2**16)  # the square of the last one is beyond the end of int32
CLIP, CLIPPED = ErrorClipByValue(max=0.01), 3  # one of so many marks clips gradients; the others stop them
MOST_ROWS = 16
NEVER = 1 << 10  # of so many results one gets a name that there is: hardly any
PARTNERS = {
    **{a: b for pair in ("exp log", "square sqrt", "sqrt rsqrt", "tanh atanh") for a, b in (pair.split(), pair.split()[::-1])},
    "stack": "unstack",
    "unstack": "stack",
    "split": "concat",
    "unsqueeze2": "squeeze2",
    "squeeze2": "unsqueeze2",
    "elementwise_add": "elementwise_sub",
    "elementwise_sub": "elementwise_add",
    "elementwise_mul": "elementwise_div",
    "elementwise_div": "elementwise_mul",
    "elementwise_max": "elementwise_min",
    "elementwise_min": "elementwise_max",
    "floor": "ceil",
    "log": "exp",
    "relu": "relu6",
    "sign": "abs",
}


class CallProgram(CallWriter):
    """A program of calls being drawn, with what it mostly consists of: a dtype, kinds of numbers, operators of interest."""

    def __init__(self, choices: Choices, interest: Interest) -> None:
        super().__init__(choices)
        self.interest = interest
        self.dtype = choices.one_of(DTYPES)
        self.non_finite = choices.chance(10)
        self.stopped = 12  # one result in so many stops or clips gradients
        self.kinds: tuple[str, ...] = ("sample", choices.one_of((*interest.kinds, "sample")), NON_FINITE if self.non_finite else "sample")

    def op(self) -> OpDef:
        """An operator: every second time one of interest, else a common one or any."""
        if self.interest.types and self.choices.boolean():
            op = REGISTRY.get(self.choices.one_of(self.interest.types))
            op = op.forward if isinstance(op, GradOpDef) else op
            if op is not None and not isinstance(op, ControlDef):
                return op
        return lookup(self.choices.one_of(COMMON if self.choices.chance(5) else operators()))

    def draft(self, op: OpDef, dtype: str = "") -> Draft | None:
        """Draw a call of an operator, in a dtype, or in that of the program."""
        return draw_call(self.choices, op, dtype or self.dtype, self.interest)

    def accepts(self, call: Call | None) -> bool:
        """Whether the operator takes a call, and its results are finite, if the program's have to be."""
        return call is not None and (self.non_finite or call.finite)

    # -- inputs ----------------------------------------------------------------------------------

    def operands(self, draft: Draft) -> tuple[Call, Names] | None:
        """A call, and names for its inputs, every second one a known value of the type; None if not even the sample runs."""
        kind = self.choices.one_of(self.kinds)
        variant = draft if kind == "sample" or not draft.fixed else with_numbers(self.choices, draft, kind)
        names = {s: [self._known(value) if draft.fixed else None for value in values] for s, values in draft.inputs.items()}
        inputs = {s: [v if n is None else self.values[n] for n, v in zip(names[s], vs, strict=True)] for s, vs in variant.inputs.items()}
        call = checked(draft.op, inputs, draft.attrs, draft.number)
        if not self.accepts(call):
            names = {}
            call = checked(draft.op, draft.inputs, draft.attrs, draft.number)
            call = call if self.accepts(call) else sampled(draft)
        return None if call is None else (call, self.named(call, names))

    def named(self, call: Call, names: Mapping[str, list[str | None]]) -> Names:
        """Names for the inputs of a call, where some are known."""
        return {
            s: [n or self.new(v) for n, v in zip(names.get(s) or [None] * len(values), values, strict=True)]
            for s, values in call.inputs.items()
        }

    def _known(self, value: Value) -> str | None:
        if not self.choices.boolean():
            return None
        names = self.like(value)
        return self.choices.one_of(names) if names else None

    def new(self, value: Value) -> str:
        """A name for a value that none has yet: data, a parameter, state, or a constant."""
        if isinstance(value, TensorArray):
            return self.tensor_array(value)
        if isinstance(value, Tape):
            return self.tape(value)
        # Single numbers, which bounds and steps are, are constants nearly as often as not.
        if value.size == 1 and self.choices.chance(3):
            return self.constant(value)
        # Half are data; parameters, state and constants are what passes treat in other ways.
        kind = self.choices.below(12)
        if kind < 6:
            return self.data(value)
        if kind < 8:
            return self.parameter(value, trainable=True)
        if kind == 8:
            return self.state(value)
        return self.data(value, stop_gradient=True) if kind == 9 or value.size > 24 else self.constant(value)

    def number_like(self, value: Array) -> str:
        """A constant of the shape and dtype of a value, all of whose elements are one number."""
        numbers: tuple[float, ...] = NUMBERS if value.dtype.kind == "f" else INTEGERS if value.dtype.itemsize > 2 else SMALL_INTEGERS
        constants = [number for number in self.interest.constants.numbers if value.dtype.kind == "f" or number.is_integer()]
        if constants and value.dtype.kind in "fi" and self.choices.boolean():
            numbers = tuple(constants)
        number = self.choices.one_of(numbers)
        return self.constant(np.full(value.shape, abs(number) if value.dtype.kind == "u" else number, value.dtype))

    # -- outputs ---------------------------------------------------------------------------------

    def results(self, call: Call, inputs: Mapping[str, list[str]], overwrite: int = 5) -> Names | None:
        """Names for the outputs: mostly new ones, else known ones of the type; None if an output has no value."""
        names: Names = {}
        taken_names: set[str] = set()
        last = next(reversed(call.op.outputs), "")
        for slot in call.op.outputs.values():
            values = call.outputs[slot.name]
            is_only = not names and slot.name == last  # of several that may all be left out one is kept
            if slot.optional and (any(v is None for v in values) or (not is_only and self.choices.chance(4))):
                continue
            if not values or any(v is None for v in values):
                return None
            names[slot.name] = [
                self._result(value, inputs.get(slot.name.removesuffix("Out"), []), taken_names, overwrite) for value in values
            ]
        return names

    def _result(self, value: Value, counterpart: list[str], taken: set[str], overwrite: int) -> str:
        names = [name for name in self.like(value) if name not in taken]
        counterparts = [name for name in counterpart if name in names]  # the name in Param for ParamOut, as updates have it
        if counterparts and self.choices.boolean():
            name = counterparts[0]
        elif names and self.choices.chance(overwrite):
            name = self.choices.one_of(names)
        else:
            name = self.unique("t")
            if self.choices.chance(self.stopped) and isinstance(value, np.ndarray):
                var = self.block.create_var(name=name, shape=value.shape, dtype=name_of(value.dtype))
                # What clips its gradient is forgotten as easily as what stops it, and shows in gradients alone as well.
                var.error_clip = CLIP if self.interest.clips and self.choices.chance(CLIPPED) else None
                var.stop_gradient = var.error_clip is None
        taken.add(name)
        return name

    def append(self, call: Call, inputs: Names, overwrite: int = 5) -> list[str]:
        """Append a call with names drawn for its outputs, and return those; nothing happens if it has an output without value."""
        outputs = self.results(call, inputs, overwrite)
        return [] if outputs is None else self.write(call, inputs, outputs)

    def apply(self, op_type: str, inputs: Names, attrs: dict[str, Any], out: str | None = None) -> str | None:
        """Append an operator over names that it takes, with one output ``Out``; None if that would not be finite."""
        op = lookup(op_type)
        outputs = computed(op, {s: [self.values[n] for n in names] for s, names in inputs.items()}, attrs)
        if outputs is None or not (self.non_finite or finite(outputs["Out"][0])):
            return None
        names = {"Out": [out or self.unique("t")]}
        self.emit(op_type, inputs, names, attrs, outputs)
        return names["Out"][0]

    def print(self, name: str) -> None:
        """Print a value, an effect; what reads the name later reads the result, or nothing does."""
        self.apply("print", {"In": [name]}, {"message": name}, name if self.choices.boolean() else None)


def operators() -> tuple[str, ...]:
    """The types of the operators to draw from: all that have samples, in the order of their names."""
    ensure_plugins()
    return _operators(tuple(REGISTRY.values()))


@lru_cache(maxsize=1)
def _operators(definitions: tuple[OpDef, ...]) -> tuple[str, ...]:
    types = sorted(op.type for op in definitions if not isinstance(op, GradOpDef | ControlDef))
    return tuple(op_type for op_type in types if samples_of(op_type))


# -- statements ----------------------------------------------------------------------------------


def plain(w: CallProgram) -> None:
    """One operator."""
    draft = w.draft(w.op())
    call = None if draft is None else w.operands(draft)
    if call is not None:
        w.append(*call)


def chain(w: CallProgram) -> None:
    """One or two operators over a known value or each other's results; the last perhaps undoes the one before it."""
    names = w.tensors()
    if not names:
        plain(w)
        names = w.tensors()
    # Chains of operators on each other's results are what rules of several operators look for.
    for _ in range(w.choices.integer(1, 2) if names else 0):
        call = reading(w, w.choices.one_of(names[:3]))
        if call is not None:
            names = [n for n in w.append(*call) if isinstance(w.values[n], np.ndarray)] or names


def reading(w: CallProgram, name: str) -> tuple[Call, Names] | None:
    """A call with a name among its inputs, if the operator takes that."""
    op = (_same_or_partner(w, name) if w.choices.chance(4) else None) or w.op()
    draft = w.draft(op, name_of(w.values[name].dtype))
    return None if draft is None else over(w, draft, name) or w.operands(draft)


def _same_or_partner(w: CallProgram, name: str) -> OpDef | None:
    """The operator that wrote a name, or the one that is taken for its inverse."""
    writer = next((op for op in reversed(w.block.ops) if name in op.output_names()), None)
    if writer is None or isinstance(lookup(writer.type), ControlDef):
        return None
    partner = PARTNERS.get(writer.type)
    return lookup(partner if partner is not None and w.choices.boolean() else writer.type)


def over(w: CallProgram, draft: Draft, name: str, beside: Sequence[str] = ()) -> tuple[Call, Names] | None:
    """A call with a name among its inputs, and others of its shape where the draft has several of one shape: ``beside`` first."""
    value = w.values[name]
    places = [(s, i) for s, vs in draft.inputs.items() for i, v in enumerate(vs) if isinstance(v, np.ndarray) and v.dtype == value.dtype]
    if not places or not draft.fixed:
        return None
    slot, i = places[0] if w.choices.boolean() else w.choices.one_of(places)
    old = draft.inputs[slot][i].shape
    inputs = {s: list(values) for s, values in draft.inputs.items()}
    names: dict[str, list[str | None]] = {s: [None] * len(values) for s, values in inputs.items()}
    inputs[slot][i], names[slot][i] = value, name
    # Operands of one shape, such as those of a sum, change their shapes together.
    rest = list(beside)
    for s, n in places:
        if (s, n) != (slot, i) and inputs[s][n].shape == old:
            operand = rest.pop(0) if rest else _beside(w, value)
            names[s][n] = operand
            inputs[s][n] = w.values[operand] if operand else array_of(w.choices, value.shape, name_of(value.dtype))
    call = checked(draft.op, inputs, draft.attrs, draft.number)
    if call is None and value.dtype.kind in "iu":
        call = checked(draft.op, _with_room(inputs, names, value), draft.attrs, draft.number)
    return (call, w.named(call, names)) if call is not None and w.accepts(call) else None


def _with_room(inputs: Slots, names: Mapping[str, list[str | None]], value: Array) -> Slots:
    """The inputs with so many rows in what has no name yet that integers may be their places."""
    rows = int(value.max()) + 1 if value.size else 0
    if not 0 < rows <= MOST_ROWS:
        return inputs
    new = [(s, i, 0) for s, values in inputs.items() for i, v in enumerate(values) if names[s][i] is None and rank_of(v)]
    return cut_to(inputs, new, rows)


def over_all(w: CallProgram, draft: Draft, name: str, operands: Sequence[str]) -> tuple[Call, Names] | None:
    """A call with a name among its inputs, and each of some operands in the first other place of its dtype, whatever its shape."""
    dtype = w.values[name].dtype
    places = [(slot, i) for slot, values in draft.inputs.items() for i, value in enumerate(values) if isinstance(value, np.ndarray)]
    fitting = [(slot, i) for slot, i in places if draft.inputs[slot][i].dtype == dtype]
    if not fitting or not draft.fixed:
        return None
    # Last in ``x - reduce_max(x)``, and the only one of its dtype in ``where(x > y, x, y)``.
    at = fitting[-1] if w.choices.boolean() else w.choices.one_of(fitting)
    inputs = {slot: list(values) for slot, values in draft.inputs.items()}
    names: dict[str, list[str | None]] = {slot: [None] * len(values) for slot, values in inputs.items()}
    rest = list(operands)
    for slot, i in places:
        known = name if (slot, i) == at else next((n for n in rest if w.values[n].dtype == inputs[slot][i].dtype), None)
        if known is not None:
            names[slot][i], inputs[slot][i] = known, w.values[known]
        if known in rest:
            rest.remove(known)
    call = checked(draft.op, inputs, draft.attrs, draft.number)
    return (call, w.named(call, names)) if call is not None and w.accepts(call) else None


def _beside(w: CallProgram, value: Array) -> str | None:
    """A second operand for an operator on a value: a known one of its type, perhaps itself, or a constant; None for neither."""
    kind = w.choices.below(8)
    if kind > 5 and value.size:
        return w.number_like(value)
    names = w.like(value) if kind < 4 else []
    return names[0] if names else None


def pair(w: CallProgram) -> None:
    """An operator twice: the same, or with an attribute, an operand or the order of operands changed, or after an overwriting."""
    names = w.tensors()
    name = w.choices.one_of(names[:3]) if names and w.choices.boolean() else None
    draft = w.draft(w.op(), name_of(w.values[name].dtype) if name else "")
    first = None if draft is None else (over(w, draft, name) if name else None) or w.operands(draft)
    if first is None or not w.append(*first, overwrite=20):
        return
    # Nearly equal operators are what common subexpressions are mistaken for.
    second = w.choices.one_of((_now, _other_attr, _other_attr, _exchanged, _other_input, _overwritten))(w, *first)
    if second is not None:
        w.append(*second, overwrite=20)


Again = tuple[Call, Names] | None


def _now(w: CallProgram, call: Call, inputs: Names) -> Again:
    """The call on the values that the names have now."""
    new_call = call.with_inputs({s: [w.values[n] for n in names] for s, names in inputs.items()})
    if new_call is None or not w.accepts(new_call):
        return None
    return new_call, {s: list(names) for s, names in inputs.items()}


def _other_attr(w: CallProgram, call: Call, inputs: Names) -> Again:
    repeat = _now(w, call, inputs)
    variant = other_attr(w.choices, repeat[0], w.interest) if repeat else None
    if repeat is None or variant is None or not w.accepts(variant):
        return repeat
    return variant, repeat[1]


def _exchanged(w: CallProgram, call: Call, inputs: Names) -> Again:
    """Two operands exchanged, in two slots or in one that takes a list."""
    places = [(s, i) for s, names in inputs.items() for i in range(len(names))]
    if len(places) < 2:
        return _other_attr(w, call, inputs)
    (s, i), (t, j) = w.choices.permutation(places)[:2]
    swap = {slot: list(names) for slot, names in inputs.items()}
    swap[s][i], swap[t][j] = swap[t][j], swap[s][i]
    return _now(w, call, swap) or _now(w, call, inputs)


def _other_input(w: CallProgram, call: Call, inputs: Names) -> Again:
    """One operand another value of the same type."""
    places = [(s, i) for s, names in inputs.items() for i, n in enumerate(names) if isinstance(w.values[n], np.ndarray)]
    if not places:
        return _other_attr(w, call, inputs)
    s, i = w.choices.one_of(places)
    old = w.values[inputs[s][i]]
    candidates = [name for name in w.like(old) if name != inputs[s][i]]
    operand = candidates[0] if candidates and w.choices.boolean() else w.data(_another(w, old))
    return _now(w, call, {**inputs, s: [*inputs[s][:i], operand, *inputs[s][i + 1 :]]})


def _another(w: CallProgram, old: Array) -> Array:
    """Another array of the same type; of integers the same ones in another order, because they may be indices."""
    if old.dtype.kind == "f":
        return np.asarray(old[::-1] if old.ndim and w.choices.boolean() else array_of(w.choices, old.shape, name_of(old.dtype)))
    return np.asarray(np.roll(old, 1))


def _overwritten(w: CallProgram, call: Call, inputs: Names) -> Again:
    """The same names, after one of them was overwritten."""
    names = [n for slot_names in inputs.values() for n in slot_names if isinstance(w.values[n], np.ndarray) and n not in w.reserved]
    if not names:
        return _other_attr(w, call, inputs)
    name = w.choices.one_of(names)
    value = w.values[name]
    is_float = value.dtype.kind == "f"
    kind = w.choices.below(3) if is_float else 2
    if kind == 0:
        w.apply("scale", {"X": [name]}, {"scale": 0.3, "bias": 0.2}, name)
    elif kind == 1:
        w.apply("tanh", {"X": [name]}, {}, name)
    else:
        w.apply("assign", {"X": [w.data(_another(w, value))]}, {}, name)
    return _now(w, call, inputs)


# -- call blocks -----------------------------------------------------------------------------------
# Loops, branches and nets of random programs of calls.

TRIPS = (1, 3, 0, 7, 2)
TESTED_BEFORE = 8  # of so many loops one tests its counter before that goes on
COMPARED = 6  # of so many conditions one compares a number that is fed
AGAIN = 3  # of so many branches in branches one has the condition of one around it
PRINTED = 10  # of so many bodies of blocks one prints something
DEEPEST = 2


def loop(w: CallProgram) -> None:
    """A ``while`` of 0 to 7 trips, whose body uses what is around it, and changes it."""
    write_loop(w, w.choices.one_of(TRIPS), lambda _: _body(w, overwrite=2))


class Counting(NamedTuple):
    """How a loop counts.

    Attributes:
        test: how it compares its counter with a limit.
        start: of the counter.
        step: of the counter.
        short: how far the limit is from where the counter is after the last trip.
        turned: whether the limit is compared with the counter.
    """

    test: str
    start: int = 0
    step: int = 1
    short: int = 0
    turned: bool = False

    def limit(self, trips: int) -> int:
        """The limit of a loop with this trip count; below 0 one that the counter has passed at its start."""
        return self.start + self.step * trips - self.short

    def trips(self, choices: Choices, trips: int) -> int:
        """Trips for ``limit``: a loop that does not run starts at its limit, or beyond it: then what it ends with is not the limit."""
        # A test for ``not_equal`` would never fail.
        return -choices.integer(1, 2) if not trips and self.test != "not_equal" and choices.boolean() else trips


# The usual form comes most often, i < n from 0 by 1; in the others a pass is wrong that takes n for the number of iterations.
COUNTINGS = (
    *(Counting("less_than"),) * 6,
    *(Counting("less_equal", short=1), Counting("greater_than", turned=True), Counting("not_equal")) * 2,
    *(Counting("less_than", start=start, step=step) for start, step in ((1, 1), (-1, 1), (2, 2))),
    Counting("less_than", step=2, short=1),
    *(Counting("less_equal", start=1, short=1), Counting("less_equal", step=2, short=1)),
    *(Counting("greater_than", start=start, step=-1) for start in (3, 0)),
    Counting("greater_equal", start=2, step=-1, short=-1),
)


def write_loop(w: CallProgram, trips: int, body: Callable[[str], None], early: bool = False) -> None:
    """A ``while`` that ends after so many trips, or after one if its body cannot run again on what it leaves.

    Args:
        w: the program.
        trips: how often it runs.
        body: writes the body; it gets the name of the counter, which it may read.
        early: whether the counter goes on before the body rather than after it.
    """
    is_fed, counting = w.choices.chance(3), w.choices.one_of(COUNTINGS)
    counter = w.constant(np.array([counting.start], "int64"), w.unique("i"))
    # Whether it tests the counter before that goes on: then the limit lets it run once more.
    tests_before = trips > 1 and not early and w.choices.chance(TESTED_BEFORE)
    most = np.array([counting.limit(counting.trips(w.choices, trips) - tests_before)], "int64")
    limit = w.data(most) if is_fed else w.constant(most, w.unique("n"))
    operands = {"X": [limit], "Y": [counter]} if counting.turned else {"X": [counter], "Y": [limit]}
    bound = None if is_fed else w.block.ops[-1]
    condition = w.apply(counting.test, operands, {}, w.unique("c")) or ""
    w.reserved |= {counter, limit, condition}
    w.counters.append(counter)
    with w.inside(runs=trips > 0) as block:
        if early:
            w.apply("increment", {"X": [counter]}, {"step": float(counting.step)}, counter)
        body(counter)
        if not early:
            w.apply("increment", {"X": [counter]}, {"step": float(counting.step)}, counter)
        w.apply(counting.test, operands, {}, condition)
        if tests_before:
            _exchange_last_two(block)
        # The body may not run again on what it leaves, as where it divides by what it makes smaller: then it runs once.
        if trips > 1 and not _run_on(w, block, trips - 1):
            if tests_before:
                _exchange_last_two(block)
            if bound is None:
                w.feeds[limit] = np.array([counting.limit(1)], "int64")
            else:
                bound.attrs["value"] = float(counting.limit(1))
    w.counters.pop()
    read_names = [name for name in outside_reads(block) if name != condition]
    written_names = [*(name for name in outside_writes(block) if name != condition), condition]
    scopes = {} if w.choices.chance(4) else {"StepScopes": w.unique("scopes")}
    inputs = {"Condition": condition, **({"X": read_names} if read_names else {})}
    w.block.append_op("while", inputs, {"Out": written_names, **scopes}, {"sub_block": block})


def _exchange_last_two(block: Block) -> None:
    block.ops[-2:] = reversed(block.ops[-2:])


def _run_on(w: CallProgram, block: Block, trips: int) -> bool:
    """Run further trips; False, and the values as they were, if one cannot run or makes something infinite."""
    # On a copy: the values of the first trip stay where a later one cannot be made.
    values = dict(w.values)
    for _ in range(trips):
        if not run_block(block, values):
            return False
    if not w.non_finite and not all(finite(value) for value in values.values()):
        return False
    w.values = values
    return True


def _body(w: CallProgram, overwrite: int = 3) -> None:
    """One or two statements, and results of them that reach what is around the block; now and then an effect, perhaps alone."""
    if w.choices.chance(PRINTED) and (tensors := w.tensors()):
        w.print(w.choices.one_of(tensors[:3]))
        if w.choices.boolean():
            return
    for _ in range(w.choices.one_of((1, 1, 2))):
        if w.choices.chance(6) and len(w.blocks) <= DEEPEST:
            w.choices.one_of(tuple(BLOCKS.values()))(w)
        else:
            w.choices.one_of((plain, chain, pair))(w)
    block = w.block
    inner = [name for name in block.vars if isinstance(w.values.get(name), np.ndarray) and name not in w.reserved]
    for name in inner[-2:]:
        _pass_out(w, name, overwrite)
    written_names = outside_writes(block)
    # What cannot be differentiated in a block cannot be outside of it.
    if any(name in w.underivable for op in block.ops for name in op.output_names()):
        w.underivable.update(written_names)


def _pass_out(w: CallProgram, name: str, overwrite: int) -> None:
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


def drawn_condition(w: CallProgram, holds: bool) -> str:
    """A boolean that is fed, constant or made of one that is, or inside a loop whether this is the first iteration, or a later one."""
    if w.counters and w.choices.boolean():
        return _about_iteration(w, holds)
    known = [names[0] for names in w.conditions if bool(np.all(w.values[names[0]])) == holds]
    if known and w.choices.chance(AGAIN):
        return w.choices.one_of(known)
    if w.choices.chance(COMPARED):
        return _comparison(w, holds)
    return _made_condition(w, holds) if w.choices.chance(4) else _truth(w, holds)


def _comparison(w: CallProgram, holds: bool) -> str:
    """Whether a number that is fed is equal to a constant. No gradient flows to it: where it moves, the other branch runs."""
    op_type, number = w.choices.one_of(("equal", "equal", "not_equal")), np.array([0.75], w.choices.one_of(FLOATS[1:]))
    x = w.data(number if holds is (op_type == "equal") else number + number, stop_gradient=True)
    name = w.apply(op_type, {"X": [x], "Y": [w.constant(number)]}, {}, w.unique("b")) or ""
    w.reserved.add(name)
    return name


def _truth(w: CallProgram, holds: bool) -> str:
    """A boolean that is fed, or a constant."""
    array = np.array([holds])
    name = w.data(array) if w.choices.boolean() else w.constant(array, w.unique("b"))
    w.reserved.add(name)
    return name


def _made_condition(w: CallProgram, holds: bool) -> str:
    """A boolean that an operator of logic makes, one of interest before others: what a pass may see through."""
    op_type = w.choices.one_of([logic_type for logic_type in LOGIC if logic_type in w.interest.types] or list(LOGIC))
    operands = {"Y": [_truth(w, LOGIC[op_type])]} if op_type != "logical_not" else {}
    name = w.apply(op_type, {"X": [_truth(w, holds if operands else not holds)], **operands}, {}, w.unique("b")) or ""
    w.reserved.add(name)
    return name


LOGIC = {
    "logical_not": False,
    "logical_and": True,
    "logical_or": False,
    "logical_xor": False,
}  # what changes nothing on the other side


def _about_iteration(w: CallProgram, is_first: bool) -> str:
    """Whether this is the first iteration of the innermost loop, which is being written, or whether it is not."""
    counter = w.counters[-1]
    value = w.values[counter]
    assert isinstance(value, np.ndarray)
    first = w.constant(value, w.unique("n"))
    name = w.apply("equal" if is_first else "not_equal", {"X": [counter], "Y": [first]}, {}, w.unique("b")) or ""
    w.reserved |= {first, name}
    return name


def conditional(w: CallProgram) -> None:
    """A ``conditional_block`` that runs or not."""
    write_conditional(w, w.choices.boolean(), lambda: _body(w))


def write_conditional(w: CallProgram, holds: bool, body: Callable[[], object], condition: str = "") -> None:
    """A ``conditional_block`` with a body, under a new condition or one that there is."""
    condition = condition or drawn_condition(w, holds)
    with w.deciding(condition), w.inside(runs=holds) as block:
        body()
    _append(w, "conditional_block", "Input", {"Cond": condition}, {"sub_block": block})


def branch(w: CallProgram) -> None:
    """An ``if_else`` with both of its blocks."""
    write_branch(w, w.choices.boolean(), lambda: _body(w), lambda: _body(w))


def write_branch(w: CallProgram, holds: bool, first: Callable[[], object], second: Callable[[], object], condition: str = "") -> None:
    """An ``if_else`` with what writes its two blocks, under a new condition or one that there is."""
    condition = condition or drawn_condition(w, holds)
    blocks = []
    for runs, body in ((holds, first), (not holds, second)):
        with w.deciding(condition), w.inside(runs=runs) as block:
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
    read_names, written_names = outside_reads(*attrs.values()), outside_writes(*attrs.values())
    scopes = {} if w.choices.chance(4) else {"Scope": w.unique("scopes")}
    outputs = {**({"Out": written_names} if written_names else {}), **scopes}
    w.block.append_op(op_type, {**inputs, **({slot: read_names} if read_names else {})}, outputs, attrs)


BLOCKS: dict[str, Callable[[CallProgram], None]] = {
    "while": loop,
    "conditional_block": conditional,
    "if_else": branch,
    "net": net,
}


# -- operator programs -----------------------------------------------------------------------------
# Small random programs from every registered operator: ``operator_program``.
#
# Calls come from the samples of the operators, with other attributes, dtypes, extents and numbers. Around them is what passes
# get wrong: the same operator again with one thing changed, results that feed other operators, names that are overwritten, state,
# loops and branches. A program has few of these, so that the sum of many programs has them all (A. Groce and others, Swarm testing,
# ISSTA 2012).

LARGEST = 1e8  # of what goes into a loss: a sum of squares of it has to be finite in float32

Statement = Callable[[CallProgram], None]
STATEMENTS: tuple[Statement, ...] = (plain, plain, chain, chain, chain, pair, pair)


def operator_program(choices: Choices, interest: Interest | None = None) -> Case:
    """A program of mostly two to five operators, drawn from all that are registered, with a scalar loss over what is differentiable.

    Args:
        choices: where the decisions come from.
        interest: operators and attributes to prefer.

    Returns:
        A case whose program runs. The loss is the mean or sum of some finite results of float32 or float64; there is none if the
        program has no such results. Other unused results may be nan or infinite.

    >>> from graphad.testing.cases import RandomChoices
    >>> case = operator_program(RandomChoices("seed"), Interest(types=("tanh",)))
    >>> any(op.type == "tanh" for op in case.program.global_block().ops)
    True
    """
    w = CallProgram(choices, interest or Interest())
    for _ in range(choices.one_of((0, 0, 1))):
        choices.one_of(STATEMENTS)(w)
    if choices.chance(3) or any(op_type in w.interest.types for op_type in BLOCKS):
        _block(w)
    else:
        choices.one_of(STATEMENTS)(w)
    if choices.chance(5) or not w.block.ops:
        chain(w)
    loss = _loss(w) or _other_loss(w)
    if choices.chance(8):
        plain(w)
    # Last, when inference has run with the extents known.
    unknown_extent(w.choices, w.program, w.feeds)
    return Case(w.program, loss, w.feeds, w.params)


def _block(w: CallProgram) -> None:
    writers = [write for op_type, write in BLOCKS.items() if op_type in w.interest.types]
    w.choices.one_of(writers or tuple(BLOCKS.values()))(w)


# -- the loss ------------------------------------------------------------------------------------


def _loss(w: CallProgram, moving: bool = True) -> str:
    """A scalar made of one or two results, weighted so that gradients differ by element; empty if no result fits.

    Args:
        w: the program.
        moving: whether only results count that have a gradient with respect to data or parameters.
    """
    names = [name for name in w.tensors(floating=True) if name not in w.underivable and _harmless(w.values[name])]
    results = [name for name in names if name in w.moving and name not in w.feeds and name not in w.params] or names * (not moving)
    if not results:
        return ""
    dtype = w.values[results[0]].dtype
    results = [name for name in results if w.values[name].dtype == dtype]
    reduction, attrs = w.choices.one_of((("mean", {}), ("reduce_sum", {"reduce_all": True})))
    kept_names = dict.fromkeys([results[0], *w.choices.several(results, 0, 1)])
    # Weighted, since with equal cotangents a transposed or shifted gradient can look right.
    parts = [part for name in kept_names if (part := w.apply(reduction, {"X": [_weighted(w, name)]}, attrs)) is not None]
    return (w.apply("sum", {"X": parts}, {}) or "") if len(parts) > 1 else "".join(parts)


def _other_loss(w: CallProgram) -> str:
    """The loss over another operator's results, in most programs that have nothing for one so far."""
    if w.choices.chance(4):
        return ""
    name = w.data(array_of(w.choices, w.choices.one_of(((2, 3), (3,), (1, 5))), w.choices.one_of(FLOATS[1:])))
    call = reading(w, name)
    if call is not None:
        w.append(*call)
    return _loss(w, moving=False)


def _harmless(value: Value) -> bool:
    return name_of(value.dtype) in FLOATS[1:] and value.size > 0 and finite(value) and float(np.abs(value).max()) < LARGEST


def _weighted(w: CallProgram, name: str) -> str:
    value = w.values[name]
    if value.size == 1 or w.choices.chance(4):
        return name
    numbers = array_of(w.choices, value.shape, name_of(value.dtype)) + value.dtype.type(2.0)
    weights = w.constant(numbers) if w.choices.boolean() else w.data(numbers, stop_gradient=True)
    return w.apply("elementwise_mul", {"X": [name], "Y": [weights]}, {}) or name
