"""Random flat programs, and the ``Writer`` that computes while it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from graphad.errors import ShapeError
from graphad.ops import lookup
from graphad.program import Program
from graphad.testing.cases import Case, Choices
from graphad.types import Array, TensorType

T = TypeVar("T")

# -- operators -------------------------------------------------------------------------------------
# What random programs are written with: a ``Writer`` that computes while it writes, and recipes for operators.
#
# Values are known while a program is drawn, so every operator is used where it is smooth (no ties of max and min, nothing
# large) and differences can be compared with gradients.

SHAPES = ((), (2,), (3,), (2, 3), (3, 2), (1, 3), (2, 1), (3, 3), (2, 3, 2), (2, 1, 3), (1,))
BATCH_NORM_SLOTS = ("Y", "MeanOut", "VarianceOut", "SavedMean", "SavedVariance")
LARGEST, MOST_ELEMENTS, NEAREST = 4.0, 24, 0.05


@lru_cache(maxsize=4096)
def uniform_array(seed: int, largest: float, shape: tuple[int, ...]) -> Array:
    """Repeatable numbers of three digits up to ``largest``, for copying."""
    return np.round(np.random.default_rng(seed).uniform(-largest, largest, shape), 3)


class Call(NamedTuple):
    """An operator to append: its input names by slot, attributes, output slots, and names for some of them."""

    type: str
    inputs: dict[str, list[str]]
    attrs: dict[str, Any]
    slots: Sequence[str] = ("Out",)
    given: Mapping[str, str] = MappingProxyType({})


class Writer:
    """A program being drawn, and the value each name has so far."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.program = Program()
        self.block = self.program.global_block()
        self.values: dict[str, Array] = {}
        self.feeds: dict[str, Array] = {}
        self.params: dict[str, Array] = {}
        self.indices: dict[str, Array] = {}
        self.count = 0

    # -- drawing ---------------------------------------------------------------------------------

    def one_of(self, *choices: T) -> T:
        return self.choices.one_of(choices)

    def rarely(self) -> bool:
        return bool(self.choices.integer(0, 4) == 4)

    def name(self, fits: Callable[[Array], bool] = lambda _: True) -> str | None:
        """A name whose value fits, None if there is none."""
        names = [name for name, value in self.values.items() if fits(value)]
        return self.choices.one_of(names[::-1]) if names else None

    def axis(self, array: Array) -> int:
        return int(self.choices.integer(-array.ndim, array.ndim - 1))

    def partner(self, op_type: str, x: str, attrs: Mapping[str, object]) -> str | None:
        """A name that an operator takes as Y beside x, a new parameter where there is none."""

        def fits(y: Array) -> bool:
            return infers(op_type, {"X": [self.values[x]], "Y": [y]}, attrs)

        shapes = [shape for shape in SHAPES if shape and fits(np.zeros(shape))]
        return self.name(fits) or (self.parameter(self.one_of(*shapes)) if shapes else None)

    # -- inputs ----------------------------------------------------------------------------------

    def array(self, shape: Sequence[int]) -> Array:
        return uniform_array(self.choices.integer(0, 99), 1.5, tuple(shape)).copy()

    def data(self, stop_gradient: bool) -> None:
        name, shape = f"x{len(self.feeds)}", self.one_of(*SHAPES)
        declared_shape = (-1, *shape[1:]) if shape and self.rarely() else shape
        self.block.create_var(name=name, shape=declared_shape, dtype="float64", stop_gradient=stop_gradient)
        self.values[name] = self.feeds[name] = self.array(shape)

    def parameter(self, shape: Sequence[int], trainable: bool = True) -> str:
        name = f"w{len(self.params)}"
        self.block.create_parameter(name=name, shape=shape, dtype="float64", trainable=trainable)
        self.values[name] = self.params[name] = self.array(shape)
        return name

    def index(self, extent: int, count: int) -> str:
        name = f"i{len(self.indices)}"
        self.block.create_var(name=name, shape=[count], dtype="int64", stop_gradient=True)
        indices = [self.choices.below(extent) for _ in range(count)]
        self.feeds[name] = self.indices[name] = np.array(indices, "int64")
        return name

    # -- operators -------------------------------------------------------------------------------

    def append(self, call: Call) -> None:
        """Append an operator; what it writes gets drawn names, each another one."""
        results = computed(self, call)
        taken_names: set[str] = set(call.given.values())
        names: dict[str, list[str]] = {}
        for slot in call.slots:
            names[slot] = [call.given[slot]] if slot in call.given else [self.output(array, taken_names) for array in results[slot]]
        self.block.append_op(type=call.type, inputs=call.inputs, outputs=names, attrs=call.attrs)
        for slot, item in names.items():
            self.values.update((n, a) for n, a in zip(item, results[slot], strict=True) if a.size)

    def fresh(self) -> str:
        self.count += 1
        name = f"t{self.count - 1}"
        if self.rarely() and self.rarely():
            self.block.create_var(name=name, dtype="float64", stop_gradient=True)
        return name

    def output(self, array: Array, taken: set[str]) -> str:
        """A name to write: mostly a fresh one, else one that has been written or read before; it is added to ``taken``."""
        shapes = {n: self.block.var(n).declared[0] for n in self.values if n not in taken}
        names = [n for n, shape in shapes.items() if shape == array.shape == self.values[n].shape]
        name = str(self.one_of(*names)) if names and self.choices.integer(0, 2) == 2 else self.fresh()
        taken.add(name)
        return name


def infers(op_type: str, inputs: Mapping[str, Sequence[Array]], attrs: Mapping[str, object]) -> bool:
    """Whether an operator takes arrays of these types."""
    types = {slot: [TensorType(a.shape, str(a.dtype)) for a in arrays] for slot, arrays in inputs.items()}
    try:
        lookup(op_type).infer_types(types, attrs)
    except ShapeError:
        return False
    return True


def within(small: Array, large: Array, axis: int) -> bool:
    """Whether an array broadcast from an axis on has the shape of the other."""
    extents = large.shape[axis : axis + small.ndim]
    return len(extents) == small.ndim and all(a in (1, b) for a, b in zip(small.shape, extents, strict=True))


def harmless(array: Array) -> bool:
    """Whether a value is small enough for differences of it to be exact."""
    return array.size <= MOST_ELEMENTS and float(np.abs(array).max(initial=0.0)) <= LARGEST


def computed(writer: Writer, call: Call) -> dict[str, list[Array]]:
    """The results of an operator on the current values of its inputs, by slot."""
    arrays = {**writer.values, **writer.indices}
    inputs = {slot: [arrays[name] for name in names] for slot, names in call.inputs.items()}
    results = lookup(call.type).run(inputs, call.attrs, call.slots)
    return {slot: [np.asarray(a) for a in results[slot]] for slot in call.slots}


# -- operators to draw from ----------------------------------------------------------------------

Recipe = Callable[[Writer], Call | None]


def unary(op_type: str, largest: float = LARGEST, **attrs: Sequence[object]) -> Recipe:
    """An operator X -> Out on values up to ``largest``."""

    def recipe(w: Writer) -> Call | None:
        x = w.name(lambda v: v.size > 0 and float(np.abs(v).max()) <= largest)
        return None if x is None else Call(op_type, {"X": [x]}, {name: w.choices.one_of(values) for name, values in attrs.items()})

    return recipe


def elementwise(op_type: str) -> Recipe:
    """An operator X Y -> Out with drawn axis; for max and min X and Y are the same or far from each other."""

    def recipe(w: Writer) -> Call | None:
        x = w.name()
        if x is None:
            return None
        attrs = {"axis": w.choices.integer(0, w.values[x].ndim)} if w.rarely() else {}
        y = w.partner(op_type, x, attrs)
        if y is None or (attrs and not within(w.values[y], w.values[x], attrs["axis"])):
            return None
        if op_type.endswith(("max", "min")) and x != y:
            gap = lookup("elementwise_sub").kernel(w.values[x], w.values[y], **attrs)
            # At a tie the gradient jumps, and differences across it say nothing.
            if float(np.abs(gap).min(initial=1.0)) < NEAREST:
                return None
        return Call(op_type, {"X": [x], "Y": [y]}, attrs)

    return recipe


def reduction(op_type: str) -> Recipe:
    def recipe(w: Writer) -> Call | None:
        x = w.name()
        if x is None:
            return None
        dims = w.choices.several(range(-w.values[x].ndim, w.values[x].ndim), 0, 2) if w.values[x].ndim else []
        return Call(op_type, {"X": [x]}, {"dim": dims, "keep_dim": w.choices.boolean(), "reduce_all": w.rarely()})

    return recipe


def product(op_type: str, **attrs: Sequence[object]) -> Recipe:
    def recipe(w: Writer) -> Call | None:
        options = {name: w.choices.one_of(values) for name, values in attrs.items()}
        x = w.name(lambda v: v.ndim > 0)
        y = w.partner(op_type, x, options) if x else None
        return None if x is None or y is None else Call(op_type, {"X": [x], "Y": [y]}, options)

    return recipe


def joined(op_type: str, slot: str = "Out") -> Recipe:
    """sum, concat and stack over one to three values, which may be the same one."""

    def recipe(w: Writer) -> Call | None:
        x = w.name(lambda v: v.ndim > 0 or op_type != "concat")
        if x is None:
            return None
        attrs = {} if op_type == "sum" else {"axis": w.axis(w.values[x]) if w.values[x].ndim else 0}
        names = [x]
        for _ in range(w.choices.integer(0, 2)):
            more = w.name(partial(_joins, op_type, [w.values[n] for n in names], attrs))
            names += [] if more is None else [more]
        return Call(op_type, {"X": names}, attrs, (slot,))

    return recipe


def _joins(op_type: str, others: list[Array], attrs: Mapping[str, object], array: Array) -> bool:
    return infers(op_type, {"X": [*others, array]}, attrs)


def split(w: Writer) -> Call | None:
    x = w.name(lambda v: v.ndim > 0 and max(v.shape) > 1)
    if x is None:
        return None
    axis = int(np.argmax(w.values[x].shape)) - w.choices.one_of([0, w.values[x].ndim])
    extent = w.values[x].shape[axis]
    return Call("split", {"X": [x]}, w.one_of({"num": extent, "axis": axis}, {"sections": [1, -1], "axis": axis}))


def reshape(w: Writer) -> Call | None:
    x = w.name(lambda v: v.ndim > 0)
    if x is None:
        return None
    old = w.values[x].shape
    new = w.one_of([-1], [0, -1], [*old[::-1]], [1, *old])
    return Call("reshape2", {"X": [x]}, {"shape": new}, w.one_of(("Out",), ("Out", "XShape")))


def transpose(w: Writer) -> Call | None:
    x = w.name()
    return None if x is None else Call("transpose2", {"X": [x]}, {"axis": list(w.choices.permutation(range(w.values[x].ndim)))})


def slice_(w: Writer) -> Call | None:
    x = w.name(lambda v: v.ndim > 0 and v.size > 0)
    if x is None:
        return None
    axis = w.axis(w.values[x]) % w.values[x].ndim
    start = w.choices.integer(0, w.values[x].shape[axis] - 1)
    single = w.choices.boolean()
    attrs = {"axes": [axis], "starts": [start], "ends": [start + 1 if single else 2**31 - 1], "decrease_axis": [axis] if single else []}
    return Call("slice", {"Input": [x]}, attrs)


def gather(w: Writer) -> Call | None:
    x = w.name(lambda v: v.ndim > 0 and v.size > 0)
    if x is None:
        return None
    index = w.one_of(*w.indices) if w.indices and w.rarely() else w.index(w.values[x].shape[0], w.choices.integer(1, 3))
    return Call("gather", {"X": [x], "Index": [index]}, {}) if w.indices[index].max() < w.values[x].shape[0] else None


def softmax(w: Writer) -> Call | None:
    x = w.name(lambda v: v.ndim > 0)
    return None if x is None else Call("softmax", {"X": [x]}, {"axis": w.axis(w.values[x])})


def batch_norm(w: Writer) -> Call | None:
    """Running statistics are written over themselves, as layers do it."""
    x = w.name(lambda v: v.ndim > 1 and v.shape[0] > 1)
    if x is None:
        return None
    channels = [w.values[x].shape[1]]
    scale, bias, mean = w.parameter(channels), w.parameter(channels), w.parameter(channels, trainable=False)
    variance = w.parameter(channels, trainable=False)
    # Variances are positive.
    w.values[variance] = w.params[variance] = np.abs(w.params[variance]) + 0.5
    inputs = {"X": [x], "Scale": [scale], "Bias": [bias], "Mean": [mean], "Variance": [variance]}
    attrs = {"epsilon": 0.3, "is_test": w.rarely()}
    return Call("batch_norm", inputs, attrs, BATCH_NORM_SLOTS, {"MeanOut": mean, "VarianceOut": variance})


def fill_constant(w: Writer) -> Call:
    return Call("fill_constant", {}, {"shape": list(w.one_of(*SHAPES)), "value": w.one_of(0.5, 0.0, -1.0), "dtype": "float64"})


HALF = (0.5, -0.5, 1.0, 0.0)
EITHER = (False, True)
RECIPES: dict[str, Recipe] = {
    **{t: unary(t) for t in ("tanh", "sigmoid", "sin", "mean", "assign")},
    "square": unary("square", largest=2.0),
    "exp": unary("exp", largest=1.3),
    "scale": unary("scale", scale=HALF, bias=HALF, bias_after_scale=EITHER),
    "increment": unary("increment", step=HALF),
    "cast": unary("cast", out_dtype=("float64",)),
    **{t: elementwise(t) for t in ("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_max", "elementwise_min")},
    **{t: reduction(t) for t in ("reduce_sum", "reduce_mean")},
    "matmul_v2": product("matmul_v2", trans_x=EITHER, trans_y=EITHER),
    "mul": product("mul", x_num_col_dims=(1, 2), y_num_col_dims=(1, 2)),
    "sum": joined("sum"),
    "concat": joined("concat"),
    "stack": joined("stack", slot="Y"),
    "split": split,
    "reshape2": reshape,
    "transpose2": transpose,
    "slice": slice_,
    "gather": gather,
    "softmax": softmax,
    "batch_norm": batch_norm,
    "fill_constant": fill_constant,
}


# -- straight line ---------------------------------------------------------------------------------
# Random flat programs: ``straight_line_program`` draws a program that ends in a scalar loss, and arrays to run it on.
#
# Names are written again and again, inputs among them; some values have stop_gradient, some operators are dead.


def straight_line_program(choices: Choices, max_ops: int = 12) -> Case:
    """Programs of 1 to ``max_ops`` drawn operators, a loss over one to three of their values, and up to two operators after it."""
    w = Writer(choices)
    for _ in range(choices.integer(1, 2)):
        w.data(stop_gradient=w.rarely())
    for _ in range(choices.integer(0, 2)):
        w.parameter(w.one_of(*filter(None, SHAPES)), trainable=not w.rarely())
    for _ in range(choices.integer(1, max_ops)):
        _statement(w)
    loss = _loss(w)
    # After the loss as well, where nothing has a gradient.
    for _ in range(choices.integer(0, 2)):
        _statement(w)
    return Case(w.program, loss, w.feeds, w.params)


def _statement(w: Writer) -> None:
    """Append a drawn operator; ``tanh`` where that one has no operands, or makes something large."""
    call = RECIPES[w.one_of(*RECIPES)](w)
    if call is None or not all(harmless(array) for arrays in computed(w, call).values() for array in arrays):
        call = Call("tanh", {"X": [w.one_of(*w.values)]}, {})
    w.append(call)


def _loss(w: Writer) -> str:
    """The mean of a value, or a sum of several; of shape [] or [1], perhaps changed in place. No later operator writes it."""
    parts: list[str] = []
    for name in w.choices.several([*w.values][::-1], 1, 3):
        parts.append(f"part{len(parts)}")
        w.block.append_op(type="mean", inputs={"X": name}, outputs={"Out": parts[-1]})
    w.block.append_op(type="sum", inputs={"X": parts}, outputs={"Out": "loss"})
    if w.rarely():
        w.block.append_op(type="scale", inputs={"X": "loss"}, outputs={"Out": "loss"}, attrs={"scale": 2.0})
    if not w.rarely():
        return "loss"
    w.block.append_op(type="reshape2", inputs={"X": "loss"}, outputs={"Out": "loss1"}, attrs={"shape": [1]})
    return "loss1"
