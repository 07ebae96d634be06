"""Collectives: operators in which all ranks of a ring take part, under Paddle's names.

    rank 0: x0 ─▶ c_allreduce_sum ─▶ x0 + x1            rank 0: x0 ─▶ c_allgather ─▶ [x0, x1]
    rank 1: x1 ─▶ c_allreduce_sum ─▶ x0 + x1            rank 1: x1 ─▶ c_allgather ─▶ [x0, x1]

They have ordered effects: all ranks have to make the same calls in the same order, so no pass removes, merges, moves or repeats one.
In a process that is alone each is the identity. Who the other ranks are, ``graphad.ops.communication`` says.

A gradient is that of the sum of what all ranks make of the results: the transpose of a gather is a scatter. Where what follows is the
same computation on all ranks (``use_model_parallel``, as in Megatron: Shoeybi et al. 2019, section 3), each rank has the whole
cotangent already: then the transpose of an all-reduce is the identity, and that of the identity (``c_identity``) is an all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.casting import as_mask
from graphad.ops.communication import REDUCTIONS, Contact, check_rank, check_size, current
from graphad.ops.definition import OpDef, operator
from graphad.ops.dimensions import annotated
from graphad.ops.inference import normal_axis, same, same_number
from graphad.ops.mesh import ProcessMesh, parse_spec
from graphad.ops.selection import where
from graphad.ops.traits import Declared
from graphad.types import Array, Shape, Tensor, TensorType, checked_shape, element_count

DType = str
NO_INTS: list[int] = []
NO_WORDS: list[str] = []
_LINEAR: Declared = {"ordered": True, "linear": "X", "flops": 0, "own": True}


def _contact(type: str, ring_id: int, X: Array, detail: str = "") -> Contact:
    return Contact(type, ring_id, X.shape, X.dtype.name, detail)


# -- all-reduce ----------------------------------------------------------------------------------


def _define(kind: str, grad: Callable[..., Tensor], **traits: Unpack[Declared]) -> OpDef:
    def kernel(X: Array, *, ring_id: int = 0, use_calc_stream: bool = False, use_model_parallel: bool = False) -> Array:
        return current().all_reduce(_contact(f"c_allreduce_{kind}", ring_id, X), X, kind)

    kernel.__doc__ = f"The {kind} over the ranks of a ring, element by element: every rank has it."
    return operator("X -> Out", name=f"c_allreduce_{kind}", infer=same_number, grad={"X": grad}, **traits)(kernel)


def _total(dOut: Tensor, ring_id: int, use_model_parallel: bool) -> Tensor:
    """The cotangent of what every rank has: the sum of all, unless each has it already."""
    return dOut if use_model_parallel else c_allreduce_sum(dOut, ring_id=ring_id)


def _sum_grad(dOut: Tensor, *, ring_id: int, use_model_parallel: bool) -> Tensor:
    return _total(dOut, ring_id, use_model_parallel)


def _extremum_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, ring_id: int, use_model_parallel: bool) -> Tensor:
    """As of ``reduce_max``: to each element that is the extremum."""
    return as_mask(X == Out, dOut) * _total(dOut, ring_id, use_model_parallel)


def _prod_grad(X: Tensor, dOut: Tensor, *, ring_id: int, use_model_parallel: bool) -> Tensor:
    """The product of the other ranks' elements, without a division by zero where one of all is zero."""
    # How many ranks have a zero at each place decides: if another rank has one, the product of the others is 0.
    is_zero = as_mask(X == 0.0, X)
    zeros = c_allreduce_sum(is_zero, ring_id=ring_id)
    rest = X + is_zero
    product = c_allreduce_prod(rest, ring_id=ring_id)
    # ``rest`` has ones in the place of this rank's zeros, so that its quotient is the product of the others.
    other_product = where(zeros == is_zero, product / rest, product * 0.0)
    return other_product * _total(dOut, ring_id, use_model_parallel)


c_allreduce_sum = _define("sum", _sum_grad, ordered=True, linear="X", own=True, flops=1)
c_allreduce_max = _define("max", _extremum_grad, ordered=True, own=True, flops=1)
c_allreduce_min = _define("min", _extremum_grad, ordered=True, own=True, flops=1)
c_allreduce_prod = _define("prod", _prod_grad, ordered=True, own=True, flops=1)


@operator(
    "X -> Out",
    infer=same_number,
    # The others' results are zeros whatever X is: the cotangent of the root's is that of every summand.
    grad={"X": lambda dOut, *, ring_id, root_id: c_broadcast(dOut, ring_id=ring_id, root=root_id)},
    ordered=True,
    linear="X",
    own=True,
    flops=1,
)
def c_reduce_sum(X: Array, *, ring_id: int = 0, root_id: int = 0, use_calc_stream: bool = False) -> Array:
    """The sum over the ranks of a ring at rank ``root_id``, zeros at the others."""
    check_rank("root_id", ring_id, root_id)
    total = current().all_reduce(_contact("c_reduce_sum", ring_id, X, f"root_id={root_id}"), X, "sum")
    return total if current().rank(ring_id) == root_id else np.zeros_like(total)


@operator(
    "X -> Out",
    infer=same,
    # As model parallel, so that the derivative of this sum is the identity again.
    grad={"X": lambda dOut, *, ring_id: c_allreduce_sum(dOut, ring_id=ring_id, use_model_parallel=True)},
    ordered=True,
    linear="X",
    view="X",
    flops=0,
)
def c_identity(X: Array, *, ring_id: int = 0, use_calc_stream: bool = False, use_model_parallel: bool = True) -> Array:
    """X itself, which all ranks have: what each makes of it has its share in the gradient, which is all-reduced."""
    return X


# -- gather and scatter --------------------------------------------------------------------------


def _scaled(shape: Shape, axis: int, times: int, by: int) -> Shape:
    at = normal_axis(axis, len(shape))
    extent = shape[at]
    if extent != -1 and extent % by:
        raise ShapeError(f"X has the shape {list(shape)}: the {extent} places of axis {axis} cannot be shared out to nranks={by}")
    return (*shape[:at], -1 if extent == -1 else extent * times // by, *shape[at + 1 :])


def _parts(X: Array, size: int, axis: int) -> list[Array]:
    """Equal parts of X, one for each rank; types say of known extents alone that there are such."""
    extent = X.shape[axis]
    if extent % size:
        raise ShapeError(f"X has the shape {list(X.shape)}: the {extent} places of axis {axis} cannot be shared out to {size} ranks")
    return np.split(X, size, axis)


def _ranked(nranks: int) -> int:
    if nranks < 1:
        raise InvalidValue(f"nranks={nranks}: a ring has 1 rank at least")
    return nranks


def _gathered(X: TensorType, *, nranks: int = 1, axis: int = 0, **_: object) -> TensorType:
    return TensorType(_scaled(X.shape, axis, _ranked(nranks), 1), X.dtype)


def _scattered(X: TensorType, *, nranks: int = 1, axis: int = 0, **_: object) -> TensorType:
    return TensorType(_scaled(X.shape, axis, 1, _ranked(nranks)), X.dtype)


def _joined(X: TensorType, *, axis: int = -1, **attrs: int) -> TensorType:
    return _gathered(X, axis=axis, **attrs)


def _cut(X: TensorType, *, axis: int = -1, **attrs: int) -> TensorType:
    return _scattered(X, axis=axis, **attrs)


def _all_gathered(type: str, X: Array, ring_id: int, nranks: int, axis: int) -> Array:
    check_size(type, ring_id, nranks)
    return np.concatenate(current().all_gather(_contact(type, ring_id, X, f"axis={axis}"), X), axis=axis)


@operator(
    "X -> Out",
    infer=_gathered,
    # A rank's part is in the result of each rank: the cotangents of all these copies are added.
    grad={"X": lambda dOut, *, ring_id, nranks, axis: c_reducescatter(dOut, ring_id=ring_id, nranks=nranks, axis=axis)},
    **_LINEAR,
)
def c_allgather(X: Array, *, ring_id: int = 0, nranks: int = 1, use_calc_stream: bool = False, axis: int = 0) -> Array:
    """The tensors of all ranks joined along axis 0, in Paddle, or along ``axis``: every rank has it."""
    return _all_gathered("c_allgather", X, ring_id, nranks, axis)


@operator(
    "X -> Out",
    infer=_scattered,
    # Every summand has an element in the part of each rank.
    grad={"X": lambda dOut, *, ring_id, nranks, axis: c_allgather(dOut, ring_id=ring_id, nranks=nranks, axis=axis)},
    ordered=True,
    linear="X",
    own=True,
    flops=1,
)
def c_reducescatter(X: Array, *, ring_id: int = 0, nranks: int = 1, use_calc_stream: bool = False, axis: int = 0) -> Array:
    """The sum over the ranks, cut along axis 0, in Paddle, or along ``axis``, into a part for each rank."""
    size = check_size("c_reducescatter", ring_id, nranks)
    return current().reduce_scatter(_contact("c_reducescatter", ring_id, X, f"axis={axis}"), _parts(X, size, axis))


@operator(
    "X -> Out",
    infer=_joined,
    # What all ranks make of the whole is the same, so each has the whole cotangent: its part, without a sum.
    grad={"X": lambda dOut, *, ring_id, nranks, axis: c_split(dOut, ring_id=ring_id, nranks=nranks, axis=axis)},
    **_LINEAR,
)
def c_concat(
    X: Array,
    *,
    ring_id: int = 0,
    nranks: int = 1,
    rank: int = -1,
    use_calc_stream: bool = False,
    use_model_parallel: bool = True,
    axis: int = -1,
) -> Array:
    """The tensors of all ranks along the last axis, or along ``axis``, of which every rank makes the same."""
    return _all_gathered("c_concat", X, ring_id, nranks, axis)


@operator(
    "X -> Out",
    infer=_cut,
    grad={"X": lambda dOut, *, ring_id, nranks, axis: c_concat(dOut, ring_id=ring_id, nranks=nranks, axis=axis)},
    **_LINEAR,
)
def c_split(
    X: Array,
    *,
    ring_id: int = 0,
    nranks: int = 1,
    rank: int = -1,
    use_calc_stream: bool = False,
    use_model_parallel: bool = True,
    axis: int = -1,
) -> Array:
    """This rank's part of X, which all ranks have, along the last axis, or along ``axis``; that of ``rank`` if it is not -1."""
    size = check_size("c_split", ring_id, nranks)
    # Parts are views, and results own their memory.
    return np.array(_parts(X, size, axis)[current().rank(ring_id) if rank < 0 else rank], order="C")


# -- shards --------------------------------------------------------------------------------------
# A tensor of any shape in parts of one size: its elements in their order, with zeros at the end where they cannot be shared out.


def shard_size(count: int, nranks: int) -> int:
    """How many elements each of some ranks has of a tensor.

    >>> shard_size(10, 4)
    3
    """
    return -(-count // nranks)


def _sharded(X: TensorType, *, nranks: int = 1, **_: object) -> TensorType:
    return TensorType((-1 if -1 in X.shape else shard_size(element_count(X.shape), _ranked(nranks)),), X.dtype)


@operator("X -> Out", infer=_sharded, grad=None, ordered=True, own=True, flops=0)
def c_shard(X: Array, *, ring_id: int = 0, nranks: int = 1, reduce: bool = False) -> Array:
    """This rank's elements of X, which all ranks have; or, with ``reduce``, of the sum of what the ranks have."""
    size, rank = check_size("c_shard", ring_id, nranks), current().rank(ring_id)
    count = shard_size(X.size, size)
    # Padded at the end to equal parts.
    flat = np.zeros(count * size, X.dtype)
    flat[: X.size] = X.reshape(-1)
    parts = np.split(flat, size)
    return current().reduce_scatter(_contact("c_reducescatter", ring_id, X, "flat"), parts) if reduce else parts[rank].copy()


def _whole(X: TensorType, *, shape: list[int], nranks: int = 1, **_: object) -> TensorType:
    if len(X.shape) != 1 or X.shape[0] not in (-1, shard_size(element_count(tuple(shape)), _ranked(nranks))):
        raise ShapeError(f"X is {X}: it is no shard of a tensor of shape={shape} on nranks={nranks}")
    return TensorType(checked_shape(shape), X.dtype)


@operator("X -> Out", infer=_whole, grad=None, ordered=True, own=True, flops=0)
def c_unshard(X: Array, *, shape: list[int], ring_id: int = 0, nranks: int = 1) -> Array:
    """The tensor of a shape of which every rank has a shard."""
    check_size("c_unshard", ring_id, nranks)
    flat = np.concatenate(current().all_gather(_contact("c_allgather", ring_id, X, "flat"), X))
    return flat[: element_count(tuple(shape))].reshape(shape)


# -- parts on a mesh -----------------------------------------------------------------------------


def _annotated(X: TensorType, *, mesh: str, spec: list[str] = NO_WORDS, shape: list[int] | None = None) -> TensorType:
    grid = ProcessMesh.parse(mesh)
    dims = parse_spec(" ".join(spec), grid)
    if len(dims) != len(X.shape) or (shape is not None and len(shape) != len(X.shape)):
        raise ShapeError(f"X is {X}: spec={spec} does not say how each of its {len(X.shape)} dimensions is cut")
    return X


@operator(
    "X -> Out",
    infer=_annotated,
    grad={"X": lambda X, dOut, *, mesh, spec, shape=None: shard_tensor(dOut, mesh=mesh, spec=spec, shape=shape)},
    partial=True,
    shapes="X",
    linear="X",
    view="X",
    flops=0,
    dimensions=annotated,
)
def shard_tensor(X: Array, *, mesh: str, spec: list[str] = NO_WORDS, shape: list[int] | None = None) -> Array:
    """X itself: an annotation that it is to lie on a mesh as ``spec`` says, a text for each dimension, or, where ``shape`` is given, that
    it is this rank's part of a tensor of that shape which lies so."""
    return X


def _padded(X: TensorType, *, axis: int, extent: int, **_: object) -> TensorType:
    normal_axis(axis, len(X.shape))
    if extent < 1:
        raise InvalidValue(f"extent={extent}: an axis that is cut has 1 place at least")
    return X


@operator(
    "X -> Out",
    infer=_padded,
    grad={
        "X": lambda dOut, *, axis, extent, ring_id, nranks: c_clear_padding(dOut, axis=axis, extent=extent, ring_id=ring_id, nranks=nranks)
    },
    ordered=True,
    linear="X",
    own=True,
    flops=0,
)
def c_clear_padding(X: Array, *, axis: int, extent: int, ring_id: int = 0, nranks: int = 1) -> Array:
    """X, this rank's part of a tensor with ``extent`` places along an axis, with zeros in the places that are beyond these."""
    size, rank = check_size("c_clear_padding", ring_id, nranks), current().rank(ring_id)
    places = X.shape[axis]
    if places * size == extent:
        return X.copy()
    result = X.copy()
    # Parts are of one size, rounded up: padding is at the end of the last ones.
    beyond = max(extent - rank * places, 0)
    result[(slice(None),) * (axis % X.ndim) + (slice(beyond, None),)] = 0
    return result


# -- one to all, all to all ----------------------------------------------------------------------


@operator(
    "X -> Out",
    infer=same,
    grad={"X": lambda dOut, *, ring_id, root: c_reduce_sum(dOut, ring_id=ring_id, root_id=root)},
    **_LINEAR,
)
def c_broadcast(X: Array, *, ring_id: int = 0, root: int = 0, use_calc_stream: bool = False) -> Array:
    """The tensor of rank ``root``: every rank has it."""
    check_rank("root", ring_id, root)
    return current().broadcast(_contact("c_broadcast", ring_id, X, f"root={root}"), X, root)


def _exchanged(type: str) -> OpDef:
    def kernel(X: Array, *, ring_id: int = 0, use_calc_stream: bool = False) -> Array:
        return _all_to_all(type, X, ring_id, current().size(ring_id), 0, 0)

    kernel.__doc__ = "Part i along axis 0 goes to rank i of the ring: the parts that this one gets, in the order of the ranks."
    return operator("X -> Out", name=type, infer=_with_axis, grad={"X": _exchanged_grad}, **_LINEAR)(kernel)


def _all_to_all(type: str, X: Array, ring_id: int, size: int, split_axis: int, concat_axis: int) -> Array:
    own_parts = _parts(X, size, split_axis)
    detail = "" if split_axis == concat_axis == 0 else f"axis {split_axis} to {concat_axis}"
    parts = current().all_to_all(_contact(type, ring_id, X, detail), own_parts)
    return np.concatenate(parts, concat_axis)


def _with_axis(X: TensorType, **_: object) -> TensorType:
    if not X.shape:
        raise ShapeError(f"X is {X}: it has no axis 0 whose parts the ranks could exchange")
    return X


def _exchanged_grad(dOut: Tensor, *, ring_id: int) -> Tensor:
    # An exchange is its own transpose: what came from rank i goes back to it.
    return c_alltoall(dOut, ring_id=ring_id)


c_alltoall = _exchanged("c_alltoall")
alltoall = _exchanged("alltoall")  # Paddle's name


def _recut_type(X: TensorType, *, split_axis: int, concat_axis: int, nranks: int = 1, **_: object) -> TensorType:
    return TensorType(_scaled(_scaled(X.shape, split_axis, 1, _ranked(nranks)), concat_axis, nranks, 1), X.dtype)


@operator(
    "X -> Out",
    infer=_recut_type,
    grad={
        "X": lambda dOut, *, split_axis, concat_axis, ring_id, nranks: c_recut(
            dOut, split_axis=concat_axis, concat_axis=split_axis, ring_id=ring_id, nranks=nranks
        )
    },
    **_LINEAR,
)
def c_recut(X: Array, *, split_axis: int, concat_axis: int, ring_id: int = 0, nranks: int = 1) -> Array:
    """A tensor cut along ``concat_axis`` becomes one cut along ``split_axis``: an all-to-all of its parts."""
    return _all_to_all("c_recut", X, ring_id, check_size("c_recut", ring_id, nranks), split_axis, concat_axis)


# -- one to one ----------------------------------------------------------------------------------


@operator("X ->", infer=lambda X, **_: (), grad={}, ordered=True, flops=0)
def send_v2(X: Array, *, ring_id: int = 0, peer: int = 0, use_calc_stream: bool = False, dynamic_shape: bool = False) -> tuple[()]:
    """Pass X to rank ``peer`` of the ring, where a ``recv_v2`` takes it."""
    check_rank("peer", ring_id, peer)
    current().send(_contact("send_v2", ring_id, X, f"peer={peer}"), X, peer)
    return ()


def _received(*, out_shape: list[int] = NO_INTS, dtype: DType = "float32", **_: object) -> TensorType:
    return TensorType(checked_shape(out_shape), dtype)


@operator("-> Out", infer=_received, grad={}, ordered=True, flops=0)
def recv_v2(
    *,
    ring_id: int = 0,
    peer: int = 0,
    out_shape: list[int] = NO_INTS,
    dtype: DType = "float32",
    use_calc_stream: bool = False,
    dynamic_shape: bool = False,
) -> Array:
    """Receive the next tensor that rank ``peer`` of the ring sends, of the type ``dtype`` and ``out_shape``, where -1 is any extent."""
    check_rank("peer", ring_id, peer)
    contact = Contact("recv_v2", ring_id, tuple(out_shape), dtype, f"peer={peer}")
    array = current().receive(contact, peer)
    # Compared here and not by the sender, which does not know what is declared.
    is_fitting = len(out_shape) == array.ndim and all(e in (-1, a) for e, a in zip(out_shape, array.shape, strict=True))
    if not is_fitting or array.dtype.name != dtype:
        raise ShapeError(f"{contact} gets {array.dtype.name}{list(array.shape)}")
    return array


@operator("X -> Out", infer=same, grad={"X": lambda dOut: dOut}, ordered=True, linear="X", view="X", flops=0)
def barrier(X: Array, *, ring_id: int = 0) -> Array:
    """X itself, once all ranks of the ring have come here."""
    current().barrier(_contact("barrier", ring_id, X))
    return X


__all__ = [
    "REDUCTIONS",
    "alltoall",
    "barrier",
    "c_allgather",
    "c_allreduce_max",
    "c_allreduce_min",
    "c_allreduce_prod",
    "c_allreduce_sum",
    "c_alltoall",
    "c_broadcast",
    "c_clear_padding",
    "c_concat",
    "c_identity",
    "c_recut",
    "c_reduce_sum",
    "c_reducescatter",
    "c_shard",
    "c_split",
    "c_unshard",
    "recv_v2",
    "send_v2",
    "shard_size",
    "shard_tensor",
]
