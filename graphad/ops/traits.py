"""Traits of operators: what a definition promises to passes beyond its types, so that they need not know operators by name.

    @operator("X -> Out", infer=same_float, grad=..., elementwise=True)

What is not declared is not promised, so a pass leaves an operator alone of which it knows nothing. ``tests/ops/test_traits.py`` holds
every promise against the kernel, and looks for operators that could make one and do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from graphad.errors import InvalidValue
from graphad.types import Shape

Speculatable = Literal["", "always", "types", "extents"]
Narrow = Literal["", "gains", "follows"]
SafeDtypes = Literal["all", "floats"]
Reduction = Literal["", "sum", "mean", "extremum", "product", "other"]
Shapes = Mapping[str, Sequence[Shape]]  # of operands and results, by slot
Flops = Callable[[Shapes, Mapping[str, Any]], int]  # of a call with these attributes, defaults included
OfAttributes = Callable[[Mapping[str, Any]], bool]  # of a call with these attributes, defaults included


class Weights(NamedTuple):
    """The weights of a product, and where its channels are: each of them is made of one slice of the weights, which it is linear in.

    ``channels`` takes the attributes, and the ranks of the weights and of the output: it gives the axis of the slices, and that of the
    channels in the output; None where there are none for such a call.
    """

    slot: str
    channels: Callable[[Mapping[str, Any], int, int], tuple[int, int] | None]


Label = Hashable
Labels = tuple[Label | None, ...]  # of a tensor, by dimension; None: not to be cut
Combined = Literal["sum", "mean", "max", "min"]


@dataclass(frozen=True)
class Dimensions:
    """The indices of a call: which dimensions of its operands and results are the same index (see ``graphad.ops.dimensions``).

    Attributes:
        inputs, outputs: by slot, for each value the index of each dimension; None where it must not be cut.
        reduced: the indices that only inputs have, and how the parts are put together.
        even: indices that may only be cut evenly, as those that are a part of a dimension.
        shapes: attributes that say extents, with the indices that these are of: a rank says its own.
    """

    inputs: Mapping[str, Sequence[Labels]]
    outputs: Mapping[str, Sequence[Labels]]
    reduced: Mapping[Label, Combined] = field(default_factory=dict)
    even: frozenset[Label] = frozenset()
    shapes: Mapping[str, Labels] = field(default_factory=dict)


DimensionsRule = Callable[[Shapes, Shapes, Callable[[str], object]], Dimensions | None]  # of operands, results, and an attribute's name


class State(NamedTuple):
    """The state that an update keeps for a parameter between steps: the input slot, Fluid's name for it, and where its new value is.

    That is an output slot; or, if the operator only reads it, an attribute that it is multiplied with after each step.
    """

    slot: str
    name: str
    output: str
    factor: str = ""


class Declared(TypedDict, total=False):
    """The traits as they are written at an operator; names of slots are words in a text."""

    commutative: bool
    elementwise: bool
    speculatable: Speculatable
    safe_dtypes: SafeDtypes
    steep: bool
    whole_ties: bool | OfAttributes
    extents: str
    linear: str
    offset: str
    passed_on: str
    bilinear: str
    partly_linear: str
    symmetric: bool
    rows: str
    along: str
    apart: OfAttributes
    statistics: str
    dimensions: DimensionsRule | None
    view: str
    own: bool
    cheap: bool
    costly: bool
    fills: str
    placeholder: bool
    converts: str
    reduction: Reduction
    uniform: bool
    of_shape: bool
    lazy: str
    like: str
    extends: str
    narrow: Narrow
    flops: int | Flops
    weights: Weights
    in_order: bool
    ordered: bool
    state: str


_NONE: frozenset[str] = frozenset()
_SLOTS = ("extents", "linear", "passed_on", "bilinear", "partly_linear", "rows", "lazy")
_OUTPUTS = ("statistics",)
_ATTRIBUTES = ("offset", "along", "fills", "converts")
ZEROS = "0"  # said for ``fills`` of an operator that has no attribute with the number
# The words that a trait may be, of those that are one of several.
_WORDS = {"speculatable": Speculatable, "safe_dtypes": SafeDtypes, "narrow": Narrow, "reduction": Reduction}
_NAMING = frozenset((*_SLOTS, *_OUTPUTS, "view", "like", "extends", *_ATTRIBUTES))


def read(traits: Declared) -> dict[str, Any]:
    """The traits as they are kept: with sets of the slots that texts name."""
    # Several slots in one text become a set; every other value is kept as it is written.
    fields = {name: frozenset(value.split()) if name in (*_SLOTS, *_OUTPUTS) else value for name, value in traits.items()}  # type: ignore[attr-defined]
    return {**fields, "state": tuple(map(_state, traits["state"].split()))} if "state" in traits else fields


def _state(text: str) -> State:
    slot, name, *new = text.split(":")
    output = new[0] if new else f"{slot}Out"
    # A factor has no output: ``slot:name:*beta1`` is multiplied by the attribute after the step.
    return State(slot, name, "", output[1:]) if output.startswith("*") else State(slot, name, output)


def check(type: str, traits: Declared, inputs: Collection[str], outputs: Collection[str], attrs: Collection[str]) -> None:
    """Raise ValueError where a trait names a slot or an attribute that the operator does not have, or is a word that means nothing."""
    for name, words in _WORDS.items():
        if name in traits and traits[name] not in get_args(words):  # type: ignore[literal-required]
            allowed = " or ".join(repr(word) for word in get_args(words) if word)
            raise InvalidValue(f"operator {type!r} says {name}={traits[name]!r}; it may be {allowed}")  # type: ignore[literal-required]
    for slot, *_ in read(traits).get("state", ()):
        if slot not in inputs:
            raise InvalidValue(f"operator {type!r} keeps {slot!r}, which is no input slot of it; it has {', '.join(inputs)}")
    for name, value in traits.items():
        if name not in _NAMING:
            continue
        candidates, kind = (inputs, "input slot") if name not in (*_ATTRIBUTES, *_OUTPUTS) else (attrs, "attribute")
        candidates, kind = (outputs, "output slot") if name in _OUTPUTS else (candidates, kind)
        for word in str(value).split():
            # fills="0" is the one word that names nothing.
            if word not in candidates and (name, word) != ("fills", ZEROS):
                raise InvalidValue(f"operator {type!r} says {name}={word!r}, which is no {kind} of it; it has {', '.join(candidates)}")


class _Elementwise(TypedDict):
    elementwise: bool
    speculatable: Speculatable


class _Part(TypedDict):
    linear: str
    view: str
    narrow: Narrow
    flops: int


class _Product(TypedDict):
    own: bool
    narrow: Narrow


ELEMENTWISE: _Elementwise = {"elementwise": True, "speculatable": "types"}
FUNCTION: _Elementwise = {"elementwise": True, "speculatable": "always"}  # of one input
PART_OF_X: _Part = {"linear": "X", "view": "X", "narrow": "follows", "flops": 0}  # in its memory
PRODUCT: _Product = {"own": True, "narrow": "gains"}  # of matrices, or of filters and images


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Traits:
    """The traits of an operator. All are promises about any call that its inference accepts.

    Attributes:
        commutative: where all attributes have their defaults, its two inputs, or those of its one variadic slot, may change places:
            not a bit of the output changes, nor of the gradients.
        elementwise: each element of its one output is made of the elements at that place of the required inputs, and of nothing
            else. Inputs are of one shape, or of one element, which counts for each of the others; two inputs may be broadcast,
            with ``axis`` where there is one. It draws no random numbers and has no effect.
        speculatable: where it may run although the program would not have run it, because no value makes it fail, it has no effect and
            draws no random numbers. ``always``: whatever the extents, and so may its gradient; ``types``: where inference accepts the
            types, whatever the unknown extents are; ``extents``: where it accepts them and all extents are known. Gradients of the
            last two may where all extents are known. That a result may be nan is not a failure. It is not said of calls with
            inputs in the slots ``extents``.
        safe_dtypes: the dtypes of inputs for which that is true: all, or ``floats`` if it divides or takes powers, since of integers not
            all have a quotient or a power. numpy gives 0 for them; other systems stop.
        steep: whether its slope may be infinite, or none, where its inputs are finite, as that of sqrt at 0. Where such an operator runs
            although the program would not have run it, a gradient of 0 through it becomes ``0 * inf``, which is nan.
        whole_ties: whether, of a reduction to an extremum, each of the elements that are equal to it has the whole cotangent, as Paddle
            has it; or of which attributes it is such a reduction. Where there are several, that is no slope: of the largest of n copies
            of x it is n, and the slope is 1.
        linear: slots of floats in which the outputs are linear, all together: ``f(a x + b y) = a f(x) + b f(y)``, where ``offset`` is 0.
            They are all slots that have gradients.
        offset: an attribute with the number that is added to what is linear.
        passed_on: those of these slots whose elements are added to the output as they are, where they have its shape.
        bilinear: slots of floats in each of which the one output is linear while the others stay. They are all that have gradients.
        partly_linear: slots of floats in each of which alone the outputs are linear while everything else stays, as a quotient is in its
            dividend. It is said of operators that are neither linear nor bilinear.
        symmetric: the Jacobian of the one output with respect to the first input is its own transpose; that of an elementwise operator
            of one input is in any case.
        rows: slots along whose axis 0 rows are independent of each other: row i of each output is made of row i of these, and of the
            other inputs as a whole. It is said of operators that are not elementwise, where all of these have as many rows, and more axes
            than one, or the outputs have.
        along: an attribute with the axis or the axes along which it works otherwise: that of the rows must not be among them.
        apart: whether rows are independent of each other in a call with these attributes; ``rows`` is said of such calls alone. In others
            statistics of all rows go into each. None: in every call.
        statistics: output slots that are not row by row where ``rows`` is said: they are made of the other inputs alone there.
        dimensions: which dimensions of operands and results are the same index, where that does not follow from the traits above: called
            with the shapes by slot and what gives an attribute by its name, None where nothing may be cut. ``graphad.ops.dimensions`` has
            the rules of the library's operators, to be used again.
        view: the slot of the input in whose memory the outputs lie, or may lie.
        own: whether the outputs lie in memory that nothing else knows of, and nothing of the inputs is kept.
        cheap: whether it is computed again rather than passed into nested graphs, since it only fills or converts; a ``view`` is cheap
            in any case.
        costly: whether it takes much longer than to read its inputs and write its outputs, though it multiplies no matrices: it sorts, or
            loops over an axis.
        fills: an attribute with the number that all elements of the one output are, or ``ZEROS``. It is not said of calls with optional
            inputs.
        placeholder: whether its one output has a shape and a dtype, and no numbers that mean anything: one element, repeated in no memory.
        converts: an attribute with a dtype: its one output is its one input in that dtype, as numpy converts it.
        reduction: whether it reduces X over the axes ``dim``, or over all where ``reduce_all``, and how: by the ``sum``, the ``mean``, an
            ``extremum``, the ``product``, all of which are of one element that element, or ``other``.
        uniform: whether elementwise it gives an element the same bits at every position, so that one is enough to know all: numpy's vector
            loops round exp, tanh and the like by the place in the array.
        of_shape: whether the outputs depend on nothing but the shapes and dtypes of the inputs, and the attributes.
        lazy: slots of which it needs the operands that another input chooses: the others may be without a value.
        like: the optional slot of a tensor in whose shape and dtype there are zeros where the first input, an aggregate, has nothing.
        extends: the optional slot of an aggregate that the output is, except for what the call writes; a call without it makes a new one.
            Fluid's programs leave it out and mean what the output's name has, unless the attribute ``fresh`` is set.
        narrow: what it does in a narrow floating-point type. ``gains``: it is much faster there, as products are; ``follows``: it loses
            nothing more than its inputs have lost, so that it may be where they are.
        flops: floating-point operations for each element of the first input, or of what it writes where there is none: 0 if it only moves
            elements. A function counts them from the shapes of operands and results; of a product, its gradients are products as large.
            None: one for each element that it writes.
        weights: of a product, the slot of its weights with the axes of its channels. A ``Bias`` is added to the channels.
        extents: slots of numbers that say extents or places in the place of attributes, and may be wrong.
        in_order: whether the first output has the elements of X in their order, row by row, whatever its shape is.
        ordered: whether it has ordered effects: each run makes the same calls in the same order, as the ranks of a group have to. So it is
            never removed, merged, moved past another one, repeated, or run although the program would not have; nor is its gradient.
        state: of an update of Param by Grad and LearningRate, what it keeps for a parameter; None of any other operator. It is written
            ``slot:name``, ``slot:name:output`` where that is not ``<slot>Out``, ``slot:name:*attribute`` where the operator only reads it.
    """

    commutative: bool = False
    elementwise: bool = False
    speculatable: Speculatable = ""
    safe_dtypes: SafeDtypes = "all"
    steep: bool = False
    whole_ties: bool | OfAttributes = False
    extents: frozenset[str] = _NONE
    linear: frozenset[str] = _NONE
    offset: str = ""
    passed_on: frozenset[str] = _NONE
    bilinear: frozenset[str] = _NONE
    partly_linear: frozenset[str] = _NONE
    symmetric: bool = False
    rows: frozenset[str] = _NONE
    along: str = ""
    apart: OfAttributes | None = None
    statistics: frozenset[str] = _NONE
    dimensions: DimensionsRule | None = None
    view: str = ""
    own: bool = False
    cheap: bool = False
    costly: bool = False
    fills: str = ""
    placeholder: bool = False
    converts: str = ""
    reduction: Reduction = ""
    uniform: bool = False
    of_shape: bool = False
    lazy: frozenset[str] = _NONE
    like: str = ""
    extends: str = ""
    narrow: Narrow = ""
    flops: int | Flops | None = None
    weights: Weights | None = None
    in_order: bool = False
    ordered: bool = False
    state: tuple[State, ...] | None = None
