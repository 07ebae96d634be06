"""The indices of an operator's dimensions: which dimensions of inputs and outputs may be cut together, and where the cuts go.

    mul           X [m, k], Y [k, n] -> Out [m, n]          m and n are cut freely; parts of k give parts of a sum
    softmax       X [n, c] -> Out [n, c]                    n is cut freely, c not at all (axis=-1)
    reshape       X [b, 784] -> Out [b, 28, 28]             b; and 784 with 28, where the parts are even

An index is *parallel* where each place of the outputs is made of the same place of the inputs alone, and *reduced* where an input has it
and an output does not: then parts give parts of a sum, a mean or a maximum. These are the factors of Shardy and the index names
of an einsum; GSPMD (Xu et al. 2021, section 3.5) has a rule for each operator. Most follow here from the traits; the other operators say
with the trait ``dimensions`` which of the rules below is theirs. A gradient needs no rule: it is parallel in what its forward operator is
parallel in, and a sum over what its result does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from graphad.ops.definition import GradOpDef, OpDef
from graphad.ops.traits import Combined, Dimensions, DimensionsRule, Label, Labels, Shapes
from graphad.types import Shape

Attributes = Mapping[str, object]
NOTHING: Shapes = {}


def dimensions(
    definition: OpDef, inputs: Shapes, outputs: Shapes, attrs: Attributes, forward: tuple[Shapes, Shapes] = (NOTHING, NOTHING)
) -> Dimensions | None:
    """The indices of an operator, by its rule or its traits; None where nothing is known of it: then it has to have everything whole.

    Args:
        definition: the operator's.
        inputs, outputs: the shapes of its operands and results by slot.
        attrs: its attributes.
        forward: of a gradient the shapes of its forward operator's operands and results, which it need not have itself.

    >>> from graphad.ops import lookup
    >>> dimensions(lookup("mul"), {"X": [(8, 4)], "Y": [(4, 6)]}, {"Out": [(8, 6)]}, {}).reduced
    {'k': 'sum'}
    """
    if isinstance(definition, GradOpDef):
        return _of_gradient(definition, inputs, outputs, attrs, forward)
    rule = definition.dimensions or _by_traits(definition, attrs)
    # A gradient may lack operands of its forward operator, which a rule would look for.
    complete = definition.elementwise or all(slot in inputs for slot, declaration in definition.inputs.items() if not declaration.optional)
    if rule is None or not complete or next(iter(definition.outputs)) not in outputs:
        return None
    return rule(inputs, outputs, lambda name: definition.attr(name, attrs) if name in definition.attrs else None)


def _by_traits(definition: OpDef, attrs: Attributes) -> DimensionsRule | None:
    if definition.elementwise:
        return _by_element
    if definition.reduction in ("sum", "mean"):
        return reduction(definition.reduction)
    if definition.state is not None:
        return _update
    if definition.fills:
        return filled
    # Rows by themselves, unless the operator works along an axis that an attribute names: that could be the rows'.
    return _by_rows(definition) if definition.has_rows(attrs) and not definition.along else None


def uncut(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Nothing may be cut, although other traits would allow it: the step of an update may be as long as the norm of the whole parameter."""
    return None


# -- gradients -----------------------------------------------------------------------------------


def _of_gradient(
    definition: GradOpDef, inputs: Shapes, outputs: Shapes, attrs: Attributes, known: tuple[Shapes, Shapes]
) -> Dimensions | None:
    """As its forward operator: a cotangent has the indices of what it is the cotangent of, and those it lacks are summed."""
    forward = definition.forward
    assert forward is not None
    ins = {slot: inputs[slot] if slot in inputs else known[0][slot] for slot in forward.inputs if slot in inputs or slot in known[0]}
    outs = {slot: inputs[slot] if slot in inputs else known[1][slot] for slot in forward.outputs if slot in inputs or slot in known[1]}
    for slot, of in definition.cotangents:
        if slot in inputs:
            # A cotangent has the shape of what it is the cotangent of, so that it stands for what the gradient does not read.
            outs.setdefault(of, inputs[slot])
    for slot, of in definition.written:
        if slot in outputs:
            ins.setdefault(of, outputs[slot])
    forward_dimensions = dimensions(forward, ins, outs, attrs)
    if forward_dimensions is None:
        return None
    blocked_labels = _not_summed(definition, forward_dimensions, inputs)
    sides = {**forward_dimensions.outputs, **forward_dimensions.inputs}

    def labels(slot: str) -> list[Labels]:
        return [tuple(None if label in blocked_labels else label for label in dims) for dims in sides.get(slot, ())]

    cotangents, forward_slots = dict(definition.cotangents), dict(definition.written)
    operands = {slot: labels(cotangents.get(slot, slot)) for slot in inputs if slot in definition.inputs}
    results = {slot: labels(forward_slots[slot]) for slot in outputs}
    if any(len(operands[slot]) != len(inputs[slot]) for slot in operands) or any(
        len(results[slot]) != len(outputs[slot]) for slot in results
    ):
        return None
    if any(slot not in operands for slot in inputs):
        return None
    everywhere = {label for dims_of_slot in operands.values() for dims in dims_of_slot for label in dims if label is not None}
    # Whatever a result lacks is summed over, since it was broadcast in the forward direction: transposition turns one into the other.
    kinds: dict[Label, Combined] = {label: "mean" if forward_dimensions.reduced.get(label) == "mean" else "sum" for label in everywhere}
    return Dimensions(operands, results, kinds, forward_dimensions.even, forward_dimensions.shapes)


def _not_summed(definition: GradOpDef, found: Dimensions, inputs: Shapes) -> set[Label]:
    """The indices over which the cotangents of parts do not add up to that of the whole."""
    blocked_labels = {label for label, kind in found.reduced.items() if kind not in ("sum", "mean")}
    everywhere = {label for side in found.outputs.values() for dims in side for label in dims if label is not None}
    for slot, of in definition.cotangents:  # of a result that is the same in all parts: its cotangent would be counted in each
        for dims in found.outputs.get(of, ()) if slot in inputs else ():
            blocked_labels |= everywhere.difference(dims)
    return blocked_labels


# -- elements ------------------------------------------------------------------------------------


def _aligned(shape: Shape, like: Sequence[int], labels: Sequence[Label | None], axis: object, unknown: bool = False) -> Labels:
    """The indices of a tensor that is broadcast to another one; ``axis`` is where its first dimension is there.

    With ``unknown`` a dimension of which it is not known whether it is broadcast has its place in a tuple as its index.
    """
    begin = axis if isinstance(axis, int) and axis >= 0 and len(shape) < len(like) else len(like) - len(shape)
    if begin < 0 or begin + len(shape) > len(like):
        return (None,) * len(shape)
    # An extent of 1 is broadcast, or would be if it were cut: it has no index either way.
    aligned_labels = [labels[begin + i] if extent == like[begin + i] and extent != 1 else None for i, extent in enumerate(shape)]
    if unknown:
        return tuple((begin + i,) if extent not in (1, like[begin + i]) else aligned_labels[i] for i, extent in enumerate(shape))
    return tuple(aligned_labels)


def _may_be_broadcast(shape: Shape, like: Shape, axis: object) -> bool:
    """Whether it is not known of a dimension if it is broadcast: its extent is known on one side alone."""
    return any(isinstance(label, tuple) for label in _aligned(shape, like, _numbered(like), axis, unknown=True))


def _widest(shapes: Shapes) -> Shape:
    return max((shape for group in shapes.values() for shape in group), key=len, default=())


def _numbered(shape: Shape) -> Labels:
    return tuple(None if extent == 1 else i for i, extent in enumerate(shape))


def _by_element(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    ((result,),) = outputs.values()
    axis = attr("axis")
    alike = [_aligned(shape, result, _numbered(result), axis, unknown=True) for group in inputs.values() for shape in group]
    # A dimension that may be broadcast makes its index useless for all: cutting the others would not fit it.
    unknown = {label for dims in alike for label in dims if isinstance(label, tuple)}
    labels = tuple(None if (i,) in unknown else label for i, label in enumerate(_numbered(result)))
    return Dimensions(
        {slot: [_aligned(shape, result, labels, axis) for shape in group] for slot, group in inputs.items()},
        {slot: [labels] for slot in outputs},
    )


def _update(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """An update of each element by itself: what has the parameter's shape has its indices; None where that cannot be told."""
    # A tensor that may or may not be of the parameter's shape once extents are known decides nothing.
    whole = inputs["Param"][0]
    if any(shape != whole and _may_be(shape, whole) for side in (inputs, outputs) for group in side.values() for shape in group):
        return None

    def labels(shapes: Sequence[Shape]) -> list[Labels]:
        return [_numbered(shape) if shape == whole else (None,) * len(shape) for shape in shapes]

    return Dimensions(
        {slot: labels(group) for slot, group in inputs.items()},
        {slot: labels(group) for slot, group in outputs.items()},
    )


def _may_be(shape: Shape, other: Shape) -> bool:
    return len(shape) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(shape, other, strict=True))


def filled(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """One number everywhere, in a shape that an attribute says."""
    if any(inputs.values()):
        return None
    labels = _numbered(outputs["Out"][0])
    return Dimensions({}, {"Out": [labels]}, shapes={"shape": labels})


def _by_rows(definition: OpDef) -> DimensionsRule:
    """Rows by themselves."""

    def rule(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
        rows = {shape[:1] for slot in definition.rows for shape in inputs.get(slot, ())}
        by_row = {slot: group for slot, group in outputs.items() if slot not in definition.statistics}
        results = {shape[:1] for group in by_row.values() for shape in group}
        if len(rows) != 1 or rows != results or rows == {()} or rows == {(1,)}:
            return None
        # Of one axis, an operator may work along it, as top_k does, unless the result has further axes.
        operands = [shape for slot in definition.rows for shape in inputs.get(slot, ())]
        if any(len(shape) == 1 for shape in operands) and any(len(shape) == 1 for group in by_row.values() for shape in group):
            return None
        # What has the shape of the result may lie beside it, element by element, as the slopes of prelu do.
        beside = {shape for slot, group in inputs.items() if slot not in definition.rows for shape in group}
        if not beside.isdisjoint(shape for group in by_row.values() for shape in group):
            return None
        return Dimensions(
            {slot: [_first(shape, slot in definition.rows) for shape in group] for slot, group in inputs.items()},
            {slot: [_first(shape, slot in by_row) for shape in group] for slot, group in outputs.items()},
        )

    return rule


def _first(shape: Shape, labeled: bool) -> Labels:
    return tuple(0 if i == 0 and labeled else None for i in range(len(shape)))


# -- reductions ----------------------------------------------------------------------------------


def _axes(value: object, rank: int) -> list[int]:
    """Axes as an attribute has them, counted from the front."""
    axes = value if isinstance(value, list | tuple) else [value]
    return [int(axis) % rank for axis in axes if isinstance(axis, int)] if rank else []


def reduction(kind: Combined) -> DimensionsRule:
    """The rule of a reduction over the axes ``dim``, or over all where ``reduce_all``; ``kind`` says how parts are put together."""

    def rule(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
        (shape,) = inputs["X"]
        (result,) = outputs["Out"]
        axes = _axes(attr("dim"), len(shape))
        axes = [*range(len(shape))] if attr("reduce_all") or not axes else axes
        labels = _numbered(shape)
        # Without keep_dim what is left moves up; with it the reduced dimensions stay, as ones.
        kept_axes = [i for i in range(len(shape)) if i not in axes]
        if len(result) == len(shape):
            result_labels: Labels = tuple(None if i in axes else labels[i] for i in range(len(shape)))
        else:
            result_labels = tuple(labels[i] for i in kept_axes) if len(result) == len(kept_axes) else (None,) * len(result)
        return Dimensions({"X": [labels]}, {"Out": [result_labels]}, {labels[i]: kind for i in axes if labels[i] is not None})

    return rule


def mean_of_all(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    """The mean of all elements."""
    labels = _numbered(inputs["X"][0])
    return Dimensions({"X": [labels]}, {"Out": [(None,) * len(outputs["Out"][0])]}, {i: "mean" for i in labels if i is not None})


def sum_of_all(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    """A sum over all elements."""
    dims = mean_of_all(inputs, outputs, attr)
    return Dimensions(dims.inputs, dims.outputs, dict.fromkeys(dims.reduced, "sum"))


def expanded_like(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """X, broadcast to the shape of Like."""
    (like,), (shape,) = outputs["Out"], inputs["X"]
    labels = _numbered(like)
    if _may_be_broadcast(shape, like, attr("axis")):
        return None
    return Dimensions({"X": [_aligned(shape, like, labels, attr("axis"))], "Like": [labels]}, {"Out": [labels]})


def summed_like(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """X, summed to the shape of Like: the transpose of broadcasting."""
    (shape,) = inputs["X"]
    labels = _numbered(shape)
    # Cutting an index is right only if it is certain which indices are summed.
    if _may_be_broadcast(outputs["Out"][0], shape, attr("axis")):
        return None
    result_labels = _aligned(outputs["Out"][0], shape, labels, attr("axis"))
    return Dimensions(
        {"X": [labels], "Like": [result_labels]},
        {"Out": [result_labels]},
        {i: "sum" for i in labels if i is not None and i not in result_labels},
    )


# -- along one axis ------------------------------------------------------------------------------


def _but_for(shape: Shape, axes: Sequence[int]) -> Labels:
    return tuple(None if i in axes or extent == 1 else i for i, extent in enumerate(shape))


def along_axis(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Along one axis, or some, which stay whole; all tensors are of one shape."""
    shape = _widest(inputs)
    if any(extents != shape for group in (*inputs.values(), *outputs.values()) for extents in group):
        return None
    axis = attr("dim") if attr("axis") is None else attr("axis")
    # An axis that is worked along needs all its elements: it has no index that may be cut.
    labels = _but_for(shape, _axes(axis, len(shape)) if axis not in (None, []) else range(len(shape)))
    return Dimensions(
        {slot: [labels] * len(group) for slot, group in inputs.items()},
        {slot: [labels] * len(e) for slot, e in outputs.items()},
    )


def along_one_axis(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Along an axis whose extent changes; the ranks are the same."""
    shapes = [shape for group in (*inputs.values(), *outputs.values()) for shape in group]
    rank = len(shapes[0])
    axis = attr("Axis") if attr("axis") is None else attr("axis")
    if not isinstance(axis, int) or any(len(shape) != rank for shape in shapes) or not rank:
        return None
    labels = _but_for(shapes[0], [axis % rank])
    return Dimensions(
        {slot: [labels] * len(group) for slot, group in inputs.items()},
        {slot: [labels] * len(e) for slot, e in outputs.items()},
    )


def one_axis_less(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """One side has an axis more than the other."""
    sides = (
        [shape for group in inputs.values() for shape in group],
        [shape for group in outputs.values() for shape in group],
    )
    # One rule for both directions: whichever side is wider has the axis.
    wide_shape = max((side[0] for side in sides), key=len)
    axis, flat = attr("axis"), {len(shape) for side in sides for shape in side}
    if not isinstance(axis, int) or flat != {len(wide_shape), len(wide_shape) - 1}:
        return None
    labels = _but_for(wide_shape, [axis % len(wide_shape)])
    less = tuple(label for i, label in enumerate(labels) if i != axis % len(wide_shape))

    def given(side: Shapes) -> dict[str, list[Labels]]:
        return {slot: [labels if len(shape) == len(wide_shape) else less for shape in group] for slot, group in side.items()}

    return Dimensions(given(inputs), given(outputs))


def classes_with_labels(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """All axes but that of the classes, along which all tensors may differ."""
    (shape,) = inputs.get("Logits") or outputs.get("Softmax") or ((),)
    rank, axis = len(shape), attr("axis")
    if not rank or not isinstance(axis, int) or any(len(s) != rank for group in (*inputs.values(), *outputs.values()) for s in group):
        return None
    labels = _but_for(shape, [axis % rank])
    return Dimensions({slot: [labels] for slot in inputs}, {slot: [labels] for slot in outputs})


def layer_normalized(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Rows; the statistics have an element for each, in one dimension or in as many as the rows."""
    shape, begin = _widest(inputs), attr("begin_norm_axis")
    assert isinstance(begin, int)
    begin %= len(shape)
    statistics = [s for side in (inputs, outputs) for slot in ("Mean", "Variance") for s in side.get(slot, ())]
    # One dimension of statistics stands for several of rows: only the first can be cut, and evenly, so that each part is a run of
    # statistics.
    is_flat = begin > 1 and any(len(s) == 1 for s in statistics)
    labels: Labels = tuple(i if i < begin and (i == 0 or not is_flat) and shape[i] != 1 else None for i in range(len(shape)))

    def of(slot: str, s: Shape) -> Labels:
        if slot in ("Mean", "Variance"):
            return labels[: len(s)]
        return labels if slot in ("X", "Y") else (None,) * len(s)

    input_labels = {slot: [of(slot, s) for s in group] for slot, group in inputs.items()}
    output_labels = {slot: [of(slot, s) for s in group] for slot, group in outputs.items()}
    return Dimensions(input_labels, output_labels, even=frozenset((0,)) if is_flat else frozenset())


def masked(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    """Each element by itself, with a mask that is drawn or read."""
    labels = _numbered(_widest(inputs) or _widest(outputs))
    return Dimensions({slot: [labels] for slot in inputs}, {slot: [labels] for slot in outputs})


# -- products ------------------------------------------------------------------------------------


def product(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    """A product of matrices, into which ``mul`` flattens its operands."""
    (x,), (y,) = inputs["X"], inputs["Y"]
    nx, ny = attr("x_num_col_dims"), attr("y_num_col_dims")
    assert isinstance(nx, int) and isinstance(ny, int)
    rows: Labels = tuple(("m", i) for i in range(nx))
    columns: Labels = tuple(("n", i) for i in range(len(y) - ny))
    # Several dimensions that are contracted as one meet in the order of their elements: only equal first dimensions can be cut alike.
    alike = x[nx] == y[0]
    left: Labels = tuple("k" if alike and i == 0 else None for i in range(len(x) - nx))
    right: Labels = tuple("k" if alike and i == 0 else None for i in range(ny))
    return Dimensions({"X": [rows + left], "Y": [right + columns]}, {"Out": [rows + columns]}, {"k": "sum"} if alike else {})


def matrix_product(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """A product of matrices, or of batches of them."""
    (x,), (y,), (out,) = inputs["X"], inputs["Y"], outputs["Out"]
    if len(x) > 1 and len(y) == 1 and not attr("trans_x") and not attr("transpose_X"):
        rows: Labels = tuple(("m", i) for i in range(len(out)))
        return Dimensions({"X": [(*rows, "k")], "Y": [("k",)]}, {"Out": [rows]}, {"k": "sum"})
    if len(x) < 2 or len(y) < 2:
        return None
    batch: Labels = tuple(("b", i) for i in range(len(out) - 2))
    if any(_may_be_broadcast(shape[:-2], out[:-2], -1) for shape in (x, y)):
        return None
    # Batches are broadcast against each other like elements.
    begin = [_aligned(shape[:-2], out[:-2], batch, -1) for shape in (x, y)]
    transposes = [any(bool(attr(name)) for name in names) for names in (("trans_x", "transpose_X"), ("trans_y", "transpose_Y"))]
    left: Labels = ("k", "m") if transposes[0] else ("m", "k")
    right: Labels = ("n", "k") if transposes[1] else ("k", "n")
    return Dimensions({"X": [begin[0] + left], "Y": [begin[1] + right]}, {"Out": [(*batch, "m", "n")]}, {"k": "sum"})


def convolved(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Samples, filters, and, where nothing is added to the sum over them, channels."""
    if attr("data_format") not in ("NCHW", "AnyLayout"):
        return None
    # With groups a filter sees its own channels alone: cutting either would have to cut both, group by group. A bias would be added once
    # for each part of a sum.
    filters, channels = "o" if attr("groups") == 1 else None, "c" if attr("groups") == 1 and "Bias" not in inputs else None
    labels: dict[str, Labels] = {
        "Input": ("n", channels, None, None),
        "Filter": (filters, channels, None, None),
        "Output": ("n", filters, None, None),
        "Bias": (filters,),
    }
    return Dimensions({slot: [labels[slot]] for slot in inputs}, {"Output": [labels["Output"]]}, {"c": "sum"} if channels else {})


def pooled(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Samples and channels."""
    if attr("data_format") not in ("NCHW", "AnyLayout"):
        return None
    labels: Labels = ("n", "c", None, None)
    return Dimensions({"X": [labels]}, {"Out": [labels]})


def batch_normalized(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Channels by themselves; samples where the statistics are given."""
    shape = _widest(inputs)
    if attr("data_layout") != "NCHW" or len(shape) < 2:
        return None
    # Moments of the batch need all samples, running statistics none.
    has_fixed_moments = attr("use_global_stats") or (attr("is_test") and not attr("trainable_statistics"))
    labels: Labels = ("n" if has_fixed_moments else None, "c", *(None for _ in shape[2:]))

    def given(side: Shapes) -> dict[str, list[Labels]]:
        return {
            slot: [labels if len(s) == len(shape) else ("c",) if s == shape[1:2] else (None,) * len(s) for s in e]
            for slot, e in side.items()
        }

    return Dimensions(given(inputs), given(outputs))


def looked_up(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    """Ids, and the columns of the table."""
    (ids,), (out,) = inputs["Ids"], outputs["Out"]
    out_labels: Labels = (*(("i", i) for i in range(len(out) - 1)), "d")
    return Dimensions(
        # An axis of extent 1 has nothing to be cut, and ``lookup_table`` leaves out the last one.
        {"Ids": [tuple(out_labels[i] if i < len(out) - 1 and ids[i] != 1 else None for i in range(len(ids)))], "W": [(None, "d")]},
        {"Out": [out_labels]},
    )


def attended(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """Samples and heads."""
    # A mask may differ between samples and heads, or broadcast: it is not followed.
    if "attn_mask" in inputs or attr("return_softmax") or "fixed_seed_offset" in inputs:
        return None
    wide: Labels = ("n", None, "h", None)
    sides: dict[str, Labels] = {"q": wide, "k": wide, "v": wide, "out": wide, "softmax_lse": ("n", "h", None)}
    return Dimensions(
        {slot: [sides[slot]] for slot in inputs}, {slot: [sides.get(slot, (None,) * len(shapes[0]))] for slot, shapes in outputs.items()}
    )


# -- shapes --------------------------------------------------------------------------------------


def transposed(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """The same indices in another order."""
    axis = attr("axis")
    if set(outputs) != {"Out"} or not isinstance(axis, list | tuple):
        return None
    labels = _numbered(inputs["X"][0])
    return Dimensions({"X": [labels]}, {"Out": [tuple(labels[i] for i in axis)]})


def reshaped(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """The dimensions that a reshape keeps, or splits or joins so that they can still be cut."""
    if set(outputs) != {"Out"} or not set(inputs) <= {"X", "Like"} or attr("skip"):
        return None
    pairing = _matched(inputs["X"][0], outputs["Out"][0])
    if pairing is None:
        return None
    old, new, even = pairing
    if "Like" in inputs:
        return Dimensions({"X": [old], "Like": [new]}, {"Out": [new]}, even=even)
    return Dimensions({"X": [old]}, {"Out": [new]}, even=even, shapes={"shape": new})


def squeezed(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """A dimension that would be left out if it had one place must not get one by being cut."""
    axes = _axes(attr("axes"), len(inputs["X"][0]))
    dims = with_other_extents(inputs, outputs, attr) if axes else None
    if dims is None:
        return None
    (old,), (new,) = dims.inputs["X"], dims.outputs["Out"]
    # Axes of other extents than 1 stay, as in Paddle; cut down to one place they would go.
    perhaps = {old[axis] for axis in axes}

    def left(labels: Labels) -> Labels:
        return tuple(None if label in perhaps else label for label in labels)

    return Dimensions({"X": [left(old)]}, {"Out": [left(new)]}, even=dims.even)


def with_other_extents(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """A shape that follows from the operand's: dimensions of one element more or less, or several made one."""
    pairing = _matched(inputs["X"][0], outputs["Out"][0]) if set(outputs) == {"Out"} and set(inputs) == {"X"} else None
    return None if pairing is None else Dimensions({"X": [pairing[0]]}, {"Out": [pairing[1]]}, even=pairing[2])


def _matched(old: Shape, new: Shape) -> tuple[Labels, Labels, frozenset[Label]] | None:
    """The indices of two shapes with the same elements in the same order: equal dimensions, and the first ones of what is left between
    them, which may be cut evenly. Dimensions of one element do not count."""
    a, b = [i for i, e in enumerate(old) if e != 1], [i for i, e in enumerate(new) if e != 1]
    if [old[i] for i in a].count(-1) != [new[i] for i in b].count(-1) or old.count(-1) > 1:
        return None
    first: dict[int, int] = {}
    second: dict[int, int] = {}
    # From the end first, where elements lie next to each other; then from the front as long as what is left has as many elements.
    while a and b and old[a[-1]] == new[b[-1]] and (old[a[-1]] != -1 or len(a) == len(b) == 1):
        first[a.pop()] = second[b.pop()] = len(first)
    while a and b and old[a[0]] == new[b[0]] and _same_rest(old, new, a[1:], b[1:]):
        first[a.pop(0)] = second[b.pop(0)] = len(first)
    even = frozenset((len(first),)) if a and b else frozenset()
    if even:
        first[a[0]] = second[b[0]] = len(first)
    return tuple(first.get(i) for i in range(len(old))), tuple(second.get(i) for i in range(len(new))), even


def _same_rest(old: Shape, new: Shape, a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether as many elements are left on both sides, as far as they are known."""
    old_extents, new_extents = [old[i] for i in a], [new[i] for i in b]
    return old_extents.count(-1) == new_extents.count(-1) and prod(old_extents) == prod(new_extents)


def sliced(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """The axes that are not sliced."""
    if set(inputs) != {"Input"} or len(inputs["Input"][0]) != len(outputs["Out"][0]):
        return None
    (shape,) = inputs["Input"]
    labels = _but_for(shape, _axes(attr("axes"), len(shape)))
    return Dimensions({"Input": [labels]}, {"Out": [labels]})


def one_hot_encoded(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    """The indices of the labels; the classes stay whole."""
    (shape,), (out,) = inputs["X"], outputs["Out"]
    out_labels: Labels = tuple(i if i < len(out) - 1 else None for i in range(len(out)))
    return Dimensions({"X": [tuple(out_labels[i] if i < len(out) - 1 else None for i in range(len(shape)))]}, {"Out": [out_labels]})


def gathered(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions | None:
    """The axes of X except for the one that is gathered along."""
    (shape,), (out,), axis = inputs["X"], outputs["Out"], attr("axis") or attr("dim") or 0
    if not isinstance(axis, int) or "Axis" in inputs or len(shape) != len(out) or len(inputs["Index"][0]) != 1:
        return None
    before: Labels = tuple(range(axis % len(shape)))
    after: Labels = tuple(range(len(before) + 1, len(shape)))
    # Slices are picked by value, so that this axis of X has to be whole, and the index's own is that of the result.
    return Dimensions({"X": [(*before, None, *after)], "Index": [("i",)]}, {"Out": [(*before, "i", *after)]})


def annotated(inputs: Shapes, outputs: Shapes, attr: Callable[[str], object]) -> Dimensions:
    """The operand as it is."""
    labels = _numbered(inputs["X"][0])
    return Dimensions({"X": [labels]}, {"Out": [labels]})
