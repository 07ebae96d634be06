"""The statements that random programs of calls consist of: an operator, operators that feed each other, the same one again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef, lookup
from graphad.ops.aggregates import Tape, TensorArray
from graphad.ops.sample import Array, Value
from graphad.plugins import ensure_plugins
from graphad.testing.call_writer import CallWriter, Names
from graphad.testing.calls import Call, Draft, Interest, checked, draw_call, finite, other_attr, sampled, with_numbers
from graphad.testing.choices import Choices
from graphad.testing.number_pools import NON_FINITE, array_of
from graphad.testing.samples import samples_of
from graphad.testing.samples.valid import computed
from graphad.testing.values import name_of

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
INTEGERS = (0, 1, 2, 3, -1, -2, 7)
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
        self.stopped = 16  # one result in so many stops gradients
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
        """What to call an operator with, in a dtype, else in that of the program."""
        return draw_call(self.choices, op, dtype or self.dtype, self.interest)

    def accepts(self, call: Call | None) -> bool:
        """Whether the operator takes a call, and its results are finite, if the program's have to be."""
        return call is not None and (self.non_finite or call.finite)

    # -- inputs ----------------------------------------------------------------------------------

    def operands(self, draft: Draft) -> tuple[Call, Names] | None:
        """A call, and names for its inputs, every second one a known value of the type; None if not even the sample runs."""
        kind = self.choices.one_of(self.kinds)
        other = draft if kind == "sample" or not draft.fixed else with_numbers(self.choices, draft, kind)
        names = {s: [self._known(value) if draft.fixed else None for value in values] for s, values in draft.inputs.items()}
        inputs = {s: [v if n is None else self.values[n] for n, v in zip(names[s], vs, strict=True)] for s, vs in other.inputs.items()}
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
        numbers = NUMBERS if value.dtype.kind == "f" else INTEGERS
        return self.constant(np.full(value.shape, self.choices.one_of(numbers), value.dtype))

    # -- outputs ---------------------------------------------------------------------------------

    def results(self, call: Call, inputs: Mapping[str, list[str]], overwrite: int = 5) -> Names | None:
        """Names for the outputs: mostly new ones, else known ones of the type; None if an output has no value."""
        names: Names = {}
        taken: set[str] = set()
        for slot in call.op.outputs.values():
            values = call.outputs[slot.name]
            if slot.optional and (any(v is None for v in values) or self.choices.chance(4)):
                continue
            if not values or any(v is None for v in values):
                return None
            names[slot.name] = [self._result(value, inputs.get(slot.name.removesuffix("Out"), []), taken, overwrite) for value in values]
        return names

    def _result(self, value: Value, counterpart: list[str], taken: set[str], overwrite: int) -> str:
        known = [name for name in self.like(value) if name not in taken]
        preferred = [name for name in counterpart if name in known]  # the name in Param for ParamOut, as updates have it
        if preferred and self.choices.boolean():
            name = preferred[0]
        elif known and self.choices.chance(overwrite):
            name = self.choices.one_of(known)
        else:
            name = self.unique("t")
            if self.choices.chance(self.stopped) and isinstance(value, np.ndarray):
                self.block.create_var(name=name, shape=value.shape, dtype=name_of(value.dtype), stop_gradient=True)
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


def operators() -> tuple[str, ...]:
    """The types of the operators to draw from: all that have samples, in the order of their names."""
    ensure_plugins()
    return _operators(tuple(REGISTRY.values()))


@lru_cache(maxsize=1)
def _operators(rows: tuple[OpDef, ...]) -> tuple[str, ...]:
    types = sorted(op.type for op in rows if not isinstance(op, GradOpDef | ControlDef))
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


def over(w: CallProgram, draft: Draft, name: str) -> tuple[Call, Names] | None:
    """A call with a name among its inputs, and others of its shape where the draft has several of one shape."""
    value = w.values[name]
    places = [(s, i) for s, vs in draft.inputs.items() for i, v in enumerate(vs) if isinstance(v, np.ndarray) and v.dtype == value.dtype]
    if not places or not draft.fixed:
        return None
    slot, i = places[0] if w.choices.boolean() else w.choices.one_of(places)
    old = draft.inputs[slot][i].shape
    inputs = {s: list(values) for s, values in draft.inputs.items()}
    names: dict[str, list[str | None]] = {s: [None] * len(values) for s, values in inputs.items()}
    inputs[slot][i], names[slot][i] = value, name
    for s, n in places:
        if (s, n) != (slot, i) and inputs[s][n].shape == old:
            known = _beside(w, value)
            names[s][n] = known
            inputs[s][n] = w.values[known] if known else array_of(w.choices, value.shape, name_of(value.dtype))
    call = checked(draft.op, inputs, draft.attrs, draft.number)
    return (call, w.named(call, names)) if call is not None and w.accepts(call) else None


def _beside(w: CallProgram, value: Array) -> str | None:
    """What is read together with a value: one of its type that is known, perhaps itself, or a constant, or neither."""
    kind = w.choices.below(8)
    if kind == 7 and value.size:
        return w.number_like(value)
    known = w.like(value) if kind < 4 else []
    return known[0] if known else None


def twins(w: CallProgram) -> None:
    """An operator twice: the same, or with an attribute, an operand or the order of operands changed, or after an overwriting."""
    names = w.tensors()
    name = w.choices.one_of(names[:3]) if names and w.choices.boolean() else None
    draft = w.draft(w.op(), name_of(w.values[name].dtype) if name else "")
    first = None if draft is None else (over(w, draft, name) if name else None) or w.operands(draft)
    if first is None or not w.append(*first, overwrite=20):
        return
    second = w.choices.one_of((_identical, _other_attr, _other_attr, _exchanged, _other_input, _overwritten))(w, *first)
    if second is not None:
        w.append(*second, overwrite=20)


Again = tuple[Call, Names] | None


def _identical(w: CallProgram, call: Call, inputs: Names) -> Again:
    return _now(w, call, inputs)


def _now(w: CallProgram, call: Call, inputs: Names) -> Again:
    """The call on the values that the names have now."""
    changed = call.with_inputs({s: [w.values[n] for n in names] for s, names in inputs.items()})
    if changed is None or not w.accepts(changed):
        return None
    return changed, {s: list(names) for s, names in inputs.items()}


def _other_attr(w: CallProgram, call: Call, inputs: Names) -> Again:
    again = _now(w, call, inputs)
    changed = other_attr(w.choices, again[0], w.interest) if again else None
    if again is None or changed is None or not w.accepts(changed):
        return again
    return changed, again[1]


def _exchanged(w: CallProgram, call: Call, inputs: Names) -> Again:
    """Two operands exchanged, in two slots or in one that takes a list."""
    places = [(s, i) for s, names in inputs.items() for i in range(len(names))]
    if len(places) < 2:
        return _other_attr(w, call, inputs)
    (s, i), (t, j) = w.choices.permutation(places)[:2]
    other = {slot: list(names) for slot, names in inputs.items()}
    other[s][i], other[t][j] = other[t][j], other[s][i]
    return _now(w, call, other) or _now(w, call, inputs)


def _other_input(w: CallProgram, call: Call, inputs: Names) -> Again:
    """One operand another value of the same type."""
    places = [(s, i) for s, names in inputs.items() for i, n in enumerate(names) if isinstance(w.values[n], np.ndarray)]
    if not places:
        return _other_attr(w, call, inputs)
    s, i = w.choices.one_of(places)
    old = w.values[inputs[s][i]]
    known = [name for name in w.like(old) if name != inputs[s][i]]
    other = known[0] if known and w.choices.boolean() else w.data(_another(w, old))
    return _now(w, call, {**inputs, s: [*inputs[s][:i], other, *inputs[s][i + 1 :]]})


def _another(w: CallProgram, old: Array) -> Array:
    """Another array of the same type; of integers the same ones in another order, because they may be indices."""
    if old.dtype.kind == "f":
        return np.asarray(old[::-1] if old.ndim and w.choices.boolean() else array_of(w.choices, old.shape, name_of(old.dtype)))
    return np.asarray(np.roll(old, 1))


def _overwritten(w: CallProgram, call: Call, inputs: Names) -> Again:
    """The same names, after one of them was overwritten."""
    names = [n for each in inputs.values() for n in each if isinstance(w.values[n], np.ndarray) and n not in w.reserved]
    if not names:
        return _other_attr(w, call, inputs)
    name = w.choices.one_of(names)
    value = w.values[name]
    floating = value.dtype.kind == "f"
    kind = w.choices.below(3) if floating else 2
    if kind == 0:
        w.apply("scale", {"X": [name]}, {"scale": 0.3, "bias": 0.2}, name)
    elif kind == 1:
        w.apply("tanh", {"X": [name]}, {}, name)
    else:
        w.apply("assign", {"X": [w.data(_another(w, value))]}, {}, name)
    return _now(w, call, inputs)
