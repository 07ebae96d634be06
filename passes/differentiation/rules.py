"""The tangents of the results of one operator.

    linear            y = reshape(x)       y' = reshape(x')
    bilinear          y = a @ b            y' = a' @ b + a @ b'
    symmetric         y = tanh(x)          y' = tanh_grad(y, x')         its Jacobian is its own transpose
    any other         x~ = vjp(u)          y' = the transpose of vjp, which is linear in u, at x'

The last is how every operator with a gradient rule has a tangent: its vjp is written out for a symbolic cotangent u,
which is then transposed: from x' back to u (J. Townsend, "A new trick for calculating Jacobian vector products", 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphad.graph import Op, Value
from graphad.ops import GRAD
from graphad.passes.backward.find_op_path import OpPath
from graphad.passes.differentiation.tangents import Found, Tangents, grad_row
from graphad.passes.differentiation.transposition import transposed

_LINEAR = """
    assign cast clear_in_array concat cumsum elementwise_add elementwise_sub embedding_scatter expand_as_v2 expand_like expand_v2 flatten
    flatten2 flatten_contiguous_range flip gather gather_nd increment index_add index_select lookup_table lookup_table_v2 mean
    merge_lod_tensor minus pad pool2d_gather_max pool2d_scatter_max pool2d_spread pop_tape push_tape read_from_array reduce_mean
    reduce_sum reshape reshape2 reshape_like roll scale scatter_nd_add select_input select_output slice split split_like
    split_lod_tensor squeeze squeeze2 stack strided_slice sum sum_like take_along_axis tensor_array_like tensor_to_tensor_array tile
    transpose transpose2 tril_triu unslice unsqueeze unsqueeze2 unstack untile where write_to_array
"""
_BILINEAR = "bmm conv2d_backprop_filter conv2d_backprop_input dot elementwise_mul matmul matmul_v2 mul"
_SYMMETRIC = """
    abs acos acosh asin asinh atan atanh brelu celu clip cos cosh elu erf exp expm1 gelu hard_shrink hard_sigmoid hard_swish leaky_relu
    log log10 log1p log2 logsigmoid mish pow reciprocal relu relu6 rsqrt selu sigmoid silu sin sinh softmax softplus softshrink
    softsign sqrt square stanh swish tan tanh tanh_shrink thresholded_relu
"""
LINEAR, BILINEAR, SYMMETRIC = (frozenset(each.split()) for each in (_LINEAR, _BILINEAR, _SYMMETRIC))
CONSTANT = {"scale": "bias", "increment": "step", "pad": "pad_value"}  # attributes that do not move
PASSING = {"X": ("assign", "sum", "elementwise_add", "elementwise_sub", "minus", "increment"), "Y": ("elementwise_add",)}


def through_operator(made: Tangents, op: Op, path: OpPath) -> None:
    """Add the tangents of the results of an operator without nested graphs, right after it."""
    moving = [slot for _, slot in grad_row(op).written if made.moves(op.inputs.get(slot, ()))]
    if not moving:
        return
    rule = next((rule for types, rule in _RULES if op.type in types), transposed)
    if rule is _symmetric and moving != ["X"]:
        rule = transposed
    for value, tangent in rule(made, op, moving).items():
        if value in path.active:
            made.keep(value, tangent)


# -- linear --------------------------------------------------------------------------------------


def _linear(made: Tangents, op: Op, moving: Sequence[str]) -> Found:
    """The operator itself, on tangents; zeros where something does not move, unless that may be left out."""
    passed = _passed_on(made, op, moving)
    if passed is not None:
        return {op.output("Out"): passed}
    after, inputs = op.next, dict[str, Sequence[Value]](op.inputs)
    for _, slot in grad_row(op).written:
        values = op.inputs.get(slot, ())
        inputs[slot] = [made.of(v, after) for v in values if op.type != "sum" or v in made.tangent]
    op_type = "assign" if op.type == "increment" else op.type
    attrs = {name: value for name, value in op.attrs.items() if name != CONSTANT.get(op.type)}
    if op.type == "read_from_array":
        inputs["Like"] = [op.output("Out")]
    if op.type == "write_to_array" and not op.inputs.get("Array"):
        attrs["fresh"] = True
    outputs = {slot: op.outputs[slot] for _, slot in grad_row(op).cotangents if slot in op.outputs}
    found = {value: made.new(value) for values in outputs.values() for value in values}
    slots = {slot: [found[v] for v in values] for slot, values in outputs.items()}
    op.graph.add_op(op_type, {s: v for s, v in inputs.items() if v}, slots, attrs, before=after, forward=op)
    return found


def _passed_on(made: Tangents, op: Op, moving: Sequence[str]) -> Value | None:
    """The tangent that is that of the output as well, if only one input moves and the output has its shape."""
    if op.type not in PASSING.get(moving[0], ()):
        return None
    values = list(op.reads())
    found = [v for v in values if v in made.tangent]
    still = [v.shape for v in values if v not in made.tangent]
    out = op.output("Out")
    known = found[0].kind == out.kind and found[0].type is not None and not any(s is None or -1 in s for s in still)
    return made.tangent[found[0]] if len(found) == 1 and known and found[0].type == out.type else None


# -- bilinear and symmetric ----------------------------------------------------------------------


def _bilinear(made: Tangents, op: Op, moving: Sequence[str]) -> Found:
    (out,) = op.writes()
    after, terms = op.next, []
    for slot in moving:
        term = made.part(out) if len(moving) > 1 else made.new(out)
        inputs = {**op.inputs, slot: [made.tangent[op.input(slot)]]}
        op.graph.add_op(op.type, inputs, {next(iter(op.outputs)): [term]}, op.attrs, before=after, forward=op)
        terms.append(term)
    return {out: made.total(out, terms, after)}


def _symmetric(made: Tangents, op: Op, moving: Sequence[str]) -> Found:
    grad, out = grad_row(op), op.output("Out")
    inputs = {slot: values for slot, at in grad.given if (values := getattr(op, at).get(slot))}
    inputs[f"Out{GRAD}"] = (made.tangent[op.input("X")],)
    tangent = made.new(out)
    op.graph.add_op(grad.type, inputs, {f"X{GRAD}": [tangent]}, op.attrs, before=op.next, forward=op)
    return {out: tangent}


Rule = Callable[[Tangents, Op, Sequence[str]], Found]
_RULES: tuple[tuple[frozenset[str], Rule], ...] = ((LINEAR, _linear), (BILINEAR, _bilinear), (SYMMETRIC, _symmetric))
