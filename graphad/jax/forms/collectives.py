"""Collectives over the named axes of ``jax.shard_map``: a ring is the axes along which its groups differ.

    c_allreduce_sum{ring_id=2}  ─▶  lax.psum(x, ("model",))          ring 2 of the mesh data=2,model=4

Outside of a ``shard_map`` a process is alone, and each is the identity, as on the interpreter.
"""

from __future__ import annotations

from math import prod

import jax.numpy as jnp
from jax import lax

from graphad.errors import NotLowered
from graphad.jax.registry import replaces
from graphad.ops import collective
from graphad.ops.communication import Alone, check_rank, check_size, current
from graphad.ops.mesh import ProcessMesh
from graphad.types import Tensor


class NamedAxes(Alone):
    """The ranks of a mesh while a program is traced under ``shard_map``.

    Args:
        mesh: whose axes the map names.
    """

    def __init__(self, mesh: ProcessMesh) -> None:
        self.mesh = mesh
        # A ring of a mesh is all ranks that differ along some of its axes: there is one for each set of axes.
        self.by_ring = {mesh.ring(axes): axes for axes in _subsets(mesh.names)}

    def axes(self, ring: int) -> tuple[str, ...]:
        """The names of a ring's axes.

        Raises:
            NotLowered: the ring is none of the mesh's.
        """
        if ring not in self.by_ring:
            raise NotLowered(f"ring {ring} is none of the mesh {self.mesh}; it has {', '.join(map(str, sorted(self.by_ring)))}")
        return self.by_ring[ring]

    def rank(self, ring: int) -> Tensor:
        return lax.axis_index(self.axes(ring))

    def size(self, ring: int) -> int:
        return self.mesh.parts(self.axes(ring))


def _subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The names in their order, each there or not; not none of them."""
    return [tuple(name for i, name in enumerate(names) if bits >> i & 1) for bits in range(1, 1 << len(names))]


def _axes(ring: int) -> tuple[str, ...]:
    """The axes that a collective is over; none in a process that is alone."""
    communicator = current()
    return communicator.axes(ring) if isinstance(communicator, NamedAxes) else ()


_REDUCED = {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}

for _kind, _reduce in _REDUCED.items():

    @replaces(getattr(collective, f"c_allreduce_{_kind}").kernel)
    def _all_reduced(X: Tensor, *, ring_id: int = 0, _reduce: Tensor = _reduce, **_: Tensor) -> Tensor:
        axes = _axes(ring_id)
        return _reduce(jnp.asarray(X), axes) if axes else X


@replaces(collective.c_allreduce_prod.kernel)
def _product(X: Tensor, *, ring_id: int = 0, **_: Tensor) -> Tensor:
    axes = _axes(ring_id)
    # XLA has no product over devices: it is gathered, and multiplied on each.
    return jnp.prod(lax.all_gather(jnp.asarray(X), axes), axis=0, dtype=X.dtype) if axes else X


@replaces(collective.c_reduce_sum.kernel)
def _reduced(X: Tensor, *, ring_id: int = 0, root_id: int = 0, **_: Tensor) -> Tensor:
    check_rank("root_id", ring_id, root_id)
    axes = _axes(ring_id)
    if not axes:
        return X
    total = lax.psum(jnp.asarray(X), axes)
    # One program for all devices: zeros for the others are chosen by the rank when it runs.
    return jnp.where(lax.axis_index(axes) == root_id, total, jnp.zeros_like(total))


@replaces(collective.c_broadcast.kernel)
def _broadcast(X: Tensor, *, ring_id: int = 0, root: int = 0, **_: Tensor) -> Tensor:
    check_rank("root", ring_id, root)
    axes = _axes(ring_id)
    # There is no broadcast from one device either.
    return lax.all_gather(jnp.asarray(X), axes)[root] if axes else X


@replaces(collective.c_allgather.kernel)
def _gathered(X: Tensor, *, ring_id: int = 0, nranks: int = 1, axis: int = 0, **_: Tensor) -> Tensor:
    return _all_gathered("c_allgather", X, ring_id, nranks, axis)


@replaces(collective.c_concat.kernel)
def _concatenated(X: Tensor, *, ring_id: int = 0, nranks: int = 1, axis: int = -1, **_: Tensor) -> Tensor:
    return _all_gathered("c_concat", X, ring_id, nranks, axis)


def _all_gathered(type: str, X: Tensor, ring: int, nranks: int, axis: int) -> Tensor:
    check_size(type, ring, nranks)
    axes = _axes(ring)
    return lax.all_gather(jnp.asarray(X), axes, axis=axis % X.ndim, tiled=True) if axes else X


@replaces(collective.c_reducescatter.kernel)
def _scattered(X: Tensor, *, ring_id: int = 0, nranks: int = 1, axis: int = 0, **_: Tensor) -> Tensor:
    check_size("c_reducescatter", ring_id, nranks)
    axes = _axes(ring_id)
    return lax.psum_scatter(jnp.asarray(X), axes, scatter_dimension=axis % X.ndim, tiled=True) if axes else X


@replaces(collective.c_split.kernel)
def _split(X: Tensor, *, ring_id: int = 0, nranks: int = 1, rank: int = -1, axis: int = -1, **_: Tensor) -> Tensor:
    size = check_size("c_split", ring_id, nranks)
    axes = _axes(ring_id)
    if not axes:
        return X
    extent = X.shape[axis] // size
    # The rank is known only when it runs, so the slice begins at a number that is computed.
    number = lax.axis_index(axes) if rank < 0 else rank
    return lax.dynamic_slice_in_dim(jnp.asarray(X), number * extent, extent, axis % X.ndim)


@replaces(collective.c_clear_padding.kernel)
def _cleared(X: Tensor, *, axis: int, extent: int, ring_id: int = 0, nranks: int = 1) -> Tensor:
    size = check_size("c_clear_padding", ring_id, nranks)
    axes, local_extent = _axes(ring_id), X.shape[axis]
    if local_extent * size == extent:
        return X
    begin = lax.axis_index(axes) * local_extent if axes else 0
    # The places in the whole tensor that this part has.
    places = begin + lax.broadcasted_iota(jnp.int32, X.shape, axis % X.ndim)
    return jnp.where(places < extent, jnp.asarray(X), jnp.zeros((), X.dtype))


@replaces(collective.c_recut.kernel)
def _recut(X: Tensor, *, split_axis: int, concat_axis: int, ring_id: int = 0, nranks: int = 1) -> Tensor:
    check_size("c_recut", ring_id, nranks)
    axes = _axes(ring_id)
    return lax.all_to_all(jnp.asarray(X), axes, split_axis % X.ndim, concat_axis % X.ndim, tiled=True) if axes else X


@replaces(collective.c_alltoall.kernel, collective.alltoall.kernel)
def _exchanged(X: Tensor, *, ring_id: int = 0, **_: Tensor) -> Tensor:
    axes = _axes(ring_id)
    return lax.all_to_all(jnp.asarray(X), axes, 0, 0, tiled=True) if axes else X


@replaces(collective.c_shard.kernel)
def _sharded(X: Tensor, *, ring_id: int = 0, nranks: int = 1, reduce: bool = False) -> Tensor:
    size = check_size("c_shard", ring_id, nranks)
    axes, count = _axes(ring_id), collective.shard_size(X.size, size)
    flat = jnp.pad(jnp.asarray(X).reshape(-1), (0, count * size - X.size))
    if not axes:
        return flat
    if reduce:
        return lax.psum_scatter(flat, axes, scatter_dimension=0, tiled=True)
    return lax.dynamic_slice_in_dim(flat, lax.axis_index(axes) * count, count, 0)


@replaces(collective.c_unshard.kernel)
def _unsharded(X: Tensor, *, shape: list[int], ring_id: int = 0, nranks: int = 1) -> Tensor:
    flat = _all_gathered("c_unshard", X, ring_id, nranks, 0)
    return flat[: prod(shape)].reshape(shape)


@replaces(collective.barrier.kernel)
def _barrier(X: Tensor, *, ring_id: int = 0) -> Tensor:
    """XLA keeps the collectives of a program in one order on all devices."""
    return X


@replaces(collective.send_v2.kernel, collective.recv_v2.kernel)
def _one_to_one(*_: Tensor, **__: Tensor) -> Tensor:
    raise NotLowered(
        "stages send to each other from different programs, while all devices of XLA run one: graphad.jax.pipelined makes one of them"
    )
