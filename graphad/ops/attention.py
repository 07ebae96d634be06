"""Scaled dot-product attention (Vaswani et al. 2017), as Paddle's ``flash_attn``: ``softmax(q k' / sqrt(D) + mask) v``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import softmax
from graphad.ops.definition import GRAD, Inputs, Outputs, grad_kernel, operator
from graphad.ops.dimensions import attended
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.like import fill_any_like, sum_like
from graphad.ops.linalg import matmul_v2
from graphad.ops.normalization import total
from graphad.ops.reduction import reduce_sum
from graphad.ops.registry import REGISTRY
from graphad.ops.selection import where
from graphad.ops.shapes import transpose, unsqueeze
from graphad.types import Array, Tensor, TensorType, broadcast_shapes

# Not -inf: a row of which all is forbidden would be nan, and so would 0 * -inf in a gradient.
FORBIDDEN = -1e30


def _attended_type(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    fixed_seed_offset: TensorType | None = None,
    attn_mask: TensorType | None = None,
    *,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    is_test: bool = False,
    rng_name: str = "",
) -> tuple[TensorType, ...]:
    dtype = same_dtypes(q=same_float(q), k=k, v=v, attn_mask=attn_mask)
    # The scores are divided by the root of D: it has to be known, and cannot be 0.
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4 or q.shape[3] in (-1, 0):
        raise ShapeError(f"q is {q}, k is {k}, v is {v}: [N, length, heads, D] with D known is expected")
    extent_pairs = zip(q.shape[:1] + q.shape[2:], k.shape[:1] + k.shape[2:], strict=True)
    if not all(matched(a, b) for a, b in extent_pairs) or not all(map(matched, k.shape[:3], v.shape[:3])):
        raise ShapeError(f"q is {q}, k is {k}, v is {v}: they must agree except for the lengths of q and of k, and the width of v")
    if dropout and not is_test:
        raise ShapeError(f"dropout={dropout}: attention is computed without dropout; apply the operator 'dropout' to what it gives")
    batch, length, heads, _ = q.shape
    scores = TensorType((batch, heads, length, k.shape[1]), dtype)
    _check_mask(scores, attn_mask, causal)
    type = scores if return_softmax else TensorType((0,), dtype)
    return TensorType((*q.shape[:3], v.shape[3]), dtype), type, TensorType(scores.shape[:3], dtype), TensorType((2,), "int64")


def _check_mask(scores: TensorType, attn_mask: TensorType | None, causal: bool) -> None:
    length, key_length = scores.shape[2:]
    # Causal: element i of q sees the first i + (keys - queries + 1) keys, of which there has to be one.
    if causal and (-1 in (length, key_length) or length > key_length):
        raise ShapeError(
            f"causal attention of {length} over {key_length} elements: known lengths, the first not above the second, are expected"
        )
    if attn_mask is not None and not all(map(matched, broadcast_shapes(scores.shape, attn_mask.shape), scores.shape)):
        raise ShapeError(f"attn_mask is {attn_mask}: it does not broadcast to the scores, which are {scores}")


# -- in terms of operators -----------------------------------------------------------------------


def _heads(x: Tensor) -> Tensor:
    """``[N, length, heads, D]`` as ``[N, heads, length, D]``, or back."""
    return transpose(x, axis=[0, 2, 1, 3])


def _scores(q: Tensor, k: Tensor, attn_mask: Tensor, causal: bool) -> Tensor:
    scores = matmul_v2(_heads(q), _heads(k), trans_y=True) * _scale(q)
    scores = scores if attn_mask is None else scores + attn_mask
    if not causal:
        return scores
    # The last query sees all keys: where there are more keys than queries, the first ones are the past.
    before = REGISTRY["tril_triu"](fill_any_like(scores, value=1.0), diagonal=k.shape[1] - q.shape[1], lower=True)
    return where(before > 0.0, scores, fill_any_like(scores, value=FORBIDDEN))


def _scale(q: Tensor) -> float:
    return 1.0 / math.sqrt(q.shape[3])


def _score_grad(weights: Tensor, v: Tensor, dout: Tensor, dsoftmax: Tensor, dsoftmax_lse: Tensor) -> Tensor:
    """The cotangent of the scores."""
    through_v = None if dout is None else matmul_v2(_heads(dout), _heads(v), trans_y=True)
    d = total(through_v, dsoftmax)
    if d is not None:
        # The softmax's own: its Jacobian is diag(w) - w w^T.
        d = weights * (d - reduce_sum(d * weights, dim=[3], keep_dim=True))
    # The derivative of the logarithm of a sum of exponentials is the softmax.
    through_lse = None if dsoftmax_lse is None else weights * unsqueeze(dsoftmax_lse, axes=[3])
    return total(d, through_lse)


def _q_grad(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor,
    dout: Tensor = None,
    dsoftmax: Tensor = None,
    dsoftmax_lse: Tensor = None,
    *,
    causal: bool,
    return_softmax: bool,
) -> Tensor:
    weights = softmax(_scores(q, k, attn_mask, causal))
    return _heads(matmul_v2(_score_grad(weights, v, dout, dsoftmax if return_softmax else None, dsoftmax_lse), _heads(k))) * _scale(q)


def _k_grad(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor,
    dout: Tensor = None,
    dsoftmax: Tensor = None,
    dsoftmax_lse: Tensor = None,
    *,
    causal: bool,
    return_softmax: bool,
) -> Tensor:
    weights = softmax(_scores(q, k, attn_mask, causal))
    return _heads(
        matmul_v2(_score_grad(weights, v, dout, dsoftmax if return_softmax else None, dsoftmax_lse), _heads(q), trans_x=True)
    ) * _scale(q)


def _v_grad(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor, dout: Tensor = None, *, causal: bool) -> Tensor:
    if dout is None:
        return REGISTRY["fill_zeros_like"](v)
    return _heads(matmul_v2(softmax(_scores(q, k, attn_mask, causal)), _heads(dout), trans_x=True))


def _mask_grad(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor,
    dout: Tensor = None,
    dsoftmax: Tensor = None,
    dsoftmax_lse: Tensor = None,
    *,
    causal: bool,
    return_softmax: bool,
) -> Tensor:
    weights = softmax(_scores(q, k, attn_mask, causal))
    return sum_like(_score_grad(weights, v, dout, dsoftmax if return_softmax else None, dsoftmax_lse), attn_mask)


# -- the operator --------------------------------------------------------------------------------


@operator(
    "q k v fixed_seed_offset? attn_mask? -> out softmax? softmax_lse? seed_offset?",
    infer=_attended_type,
    grad={"q": _q_grad, "k": _k_grad, "v": _v_grad, "attn_mask": _mask_grad},
    shapes="v:v",
    dimensions=attended,
)
def flash_attn(
    q: Array,
    k: Array,
    v: Array,
    fixed_seed_offset: Array | None = None,
    attn_mask: Array | None = None,
    *,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    is_test: bool = False,
    rng_name: str = "",
) -> tuple[Array, Array, Array, Array]:
    """The attention of every element of q ``[N, length, heads, D]``: the average of v, weighted by the softmax of ``q k' / sqrt(D) +
    attn_mask``.

    ``causal`` lets an element see no later one, the last of q and the last of k being the same. ``softmax`` are the weights,
    if ``return_softmax``, and ``softmax_lse`` the logarithms of what they were divided by.
    """
    scores = _scores(q, k, attn_mask, causal)
    weights = softmax(scores)
    # The largest score is taken out before the exponentials, and added to the logarithm.
    top = np.max(scores, axis=3, initial=FORBIDDEN)
    logarithms = np.log(np.sum(np.exp(scores - top[..., None]), axis=3)) + top
    out = np.ascontiguousarray(_heads(weights @ _heads(v)))
    # Paddle also gives a seed and an offset of its generator; without dropout nothing is drawn.
    return out, weights if return_softmax else np.zeros(0, q.dtype), logarithms.astype(q.dtype), np.zeros(2, np.int64)


@grad_kernel("flash_attn")
def _fast_grad(inputs: Inputs, attrs: Mapping[str, Any], slots: Sequence[str]) -> Outputs:
    """The weights and the cotangent of the scores once for all inputs."""

    def given(slot: str) -> Tensor:
        return inputs[slot][0] if inputs.get(slot) else None

    q, k, v, mask, dout = (given(slot) for slot in ("q", "k", "v", "attn_mask", "out" + GRAD))
    weights = softmax(_scores(q, k, mask, attrs.get("causal", False)))
    dsoftmax = given("softmax" + GRAD) if attrs.get("return_softmax", False) else None
    d = _score_grad(weights, v, dout, dsoftmax, given("softmax_lse" + GRAD))
    # What is not requested is not computed: the cotangent of the scores is all that they share.
    work = {
        "q": lambda: _heads(d @ _heads(k)) * _scale(q),
        "k": lambda: _heads(d.swapaxes(2, 3) @ _heads(q)) * _scale(q),
        "v": lambda: np.zeros_like(v) if dout is None else _heads(weights.swapaxes(2, 3) @ _heads(dout)),
        "attn_mask": lambda: sum_like(d, mask),
    }
    return {slot: [work[slot.removesuffix(GRAD)]()] for slot in slots}
