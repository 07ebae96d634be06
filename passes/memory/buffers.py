"""Which operators write fresh arrays: their results alias no operand, and they keep no reference to either."""

from __future__ import annotations

from graphad.graph import Op
from graphad.ops.fused import types_named
from graphad.ops.in_place import can_write

_OWN = types_named(
    """addmm arg_max arg_min bmm brelu celu concat conv2d conv2d_backprop_filter conv2d_backprop_input conv2d_transpose cross_entropy
    cumprod cumsum depthwise_conv2d dot elu erf gather gelu hard_shrink hard_sigmoid hard_swish huber_loss isfinite_v2 isinf_v2 isnan_v2
    layer_norm leaky_relu log_softmax logsigmoid logsumexp matmul matmul_v2 mean mish mul pool2d pow prelu reduce_max reduce_mean
    reduce_min reduce_prod reduce_sum relu6 round selu sgd sigmoid_cross_entropy_with_logits silu softmax softplus softshrink softsign
    square_error_cost squared_l2_norm stack stanh swish tanh_shrink thresholded_relu tile top_k_v2 where"""
)


def makes_own(op: Op) -> bool:
    """Whether an operator writes to fresh memory that nothing else aliases, and keeps none of its operands."""
    row = op.row
    if row is None or op.graphs:
        return False
    if op.type == "sum":
        return len(op.inputs.get("X", ())) > 1 and all(v.given or _is_there(v.writer) for v in op.inputs["X"])
    return op.type in _OWN or (can_write(row) and not row.partial)


def _is_there(writer: Op | None) -> bool:
    """Whether what an operator writes has a value for sure."""
    return writer is not None and writer.row is not None and not writer.row.partial and not writer.graphs
