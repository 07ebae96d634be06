"""Programs of ranks on the devices of a mesh: ``jax.shard_map`` over their collectives.

feeds, state (whole)  ─▶ pad, cut  ─▶ each device: its part of the program, lax.psum and the like  ─▶ joined, cut to size ─▶
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from graphad.distribution import Part, declared_parts
from graphad.distribution.group import SHARD
from graphad.errors import InvalidValue
from graphad.jax.executor import RANDOM, JaxFunction, State, to_jax
from graphad.jax.forms.collectives import NamedAxes
from graphad.ops.communication import communicating
from graphad.ops.mesh import ProcessMesh, local_extent
from graphad.program import Program
from graphad.types import Tensor


class ShardedFunction:
    """A program of ranks as a pure function ``(feeds, state) -> (fetches, state)`` of whole arrays, which lie on the devices of a mesh.

    Attributes:
        function: the program of one rank, as ``to_jax`` makes it.
        mesh: jax's mesh of devices.
        parts: how the variables lie that the program declares parts of.
    """

    def __init__(self, function: JaxFunction, shape: ProcessMesh, devices: Sequence[jax.Device], parts: Mapping[str, Part]) -> None:
        if len(devices) < shape.size:
            raise InvalidValue(f"the mesh {shape} takes {shape.size} devices, but there are {len(devices)}")
        self.function, self.shape, self.parts = function, shape, parts
        grid = np.array(devices[: shape.size], dtype=object).reshape([size for _, size in shape.axes])
        self.mesh = Mesh(grid, shape.names)

    def __call__(self, feeds: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[Tensor], State]:
        """The fetched values, which all ranks have, and the new state."""
        fetches, new, _ = self.checked(feeds, state)
        return fetches, new

    @property
    def failures(self) -> list[str]:
        """The refusals of operators in the last tracing."""
        return self.function.failures

    def checked(self, feeds: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[Tensor], State, Tensor]:
        """The same, and the number of one of ``failures`` that happened on some rank, 0 if none did."""
        with jax.enable_x64(True):
            padded_feeds = {name: self._padded(name, value) for name, value in feeds.items()}
            padded_state = {name: self._padded(name, value) for name, value in state.items()}
            # shard_map wants the shardings of the results before it has traced them: of what has a value, or gets one.
            names = [name for name in self.function.persistable if name in padded_state or self._is_written(name)]
            specs = {name: self.spec(name, None) for name in (*names, *([RANDOM] if RANDOM in padded_state else []))}
            ins = (
                {name: self.spec(name, value) for name, value in padded_feeds.items()},
                {name: self.spec(name, None) for name in padded_state},
            )
            step = jax.shard_map(
                self._on_rank,
                mesh=self.mesh,
                in_specs=ins,
                out_specs=([PartitionSpec()] * len(self.function.fetched), specs, PartitionSpec()),
                check_vma=False,
            )
            fetches, new, failed = step(padded_feeds, padded_state)
            return fetches, {name: self._cut(name, value) for name, value in new.items()}, failed

    def _on_rank(self, feeds: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> tuple[list[Tensor], State, Tensor]:
        with communicating(NamedAxes(self.shape)):
            fetches, new, failed = self.function.checked(feeds, state)
        if not self.failures:
            return fetches, new, jnp.asarray(failed)
        # What fails on one rank fails: all return the same number.
        return fetches, new, lax.pmax(jnp.asarray(failed), self.shape.names)

    def _is_written(self, name: str) -> bool:
        return any(name in op.output_names() for op in self.function.program.global_block().ops)

    def spec(self, name: str, fed: Tensor) -> PartitionSpec:
        """The sharding of a variable; what is fed to a program that declares no parts is cut by rows, as ``split_feed`` does."""
        if name.endswith(SHARD):  # which are of one size, and lie one after the other
            return PartitionSpec(self.shape.names)
        if name in self.parts:
            return PartitionSpec(*(axes or None for axes in self.parts[name].spec))
        return PartitionSpec() if self.parts or fed is None else PartitionSpec(self.shape.names)

    def _padded(self, name: str, value: Tensor) -> Tensor:
        part = self.parts.get(name)
        if part is None:
            return value
        parts = [self.shape.parts(axes) for axes in part.spec]
        # shard_map cuts equal parts: an extent that the ranks do not divide is padded, and cut off again after the step.
        amounts = [(0, local_extent(e, n) * n - e) for e, n in zip(np.shape(value), parts, strict=True)]
        return jnp.pad(value, amounts) if any(more for _, more in amounts) else value

    def _cut(self, name: str, value: Tensor) -> Tensor:
        part = self.parts.get(name)
        if part is None or all(e in (-1, a) for e, a in zip(part.shape, value.shape, strict=True)):
            return value
        return value[tuple(slice(None if e == -1 else e) for e in part.shape)]


def sharded(
    program: Program,
    fetch_list: object = None,
    *,
    mesh: ProcessMesh | str | None = None,
    devices: Sequence[jax.Device] | None = None,
    max_trips: int | None = None,
) -> ShardedFunction:
    """A program of ranks, as the passes of distribution make it, as a function of whole arrays on the devices of a mesh.

    Args:
        program: what each rank runs: of ``partition``, ``data-parallel``, ``shard-optimizer``.
        fetch_list: variables or names whose values it returns, which have to be the same on all ranks.
        mesh: the grid of devices; None where the program declares it, as ``partition`` leaves it.
        devices: in the order of the ranks; all of JAX's if None.
        max_trips: see ``to_jax``.

    Raises:
        ValueError: the program declares no mesh and none is given, or there are too few devices.

    >>> import graphad as ga
    >>> graph = ga.lower(ga.Program.parse("program { block 0 { var x: float32[4] var y: float32[] reduce_sum(X=x) -> (Out=y) } }"))
    >>> _ = ga.Pipeline.parse('partition{mesh="data=1", spec=["x: data"]}').run(graph)
    >>> function = jax.jit(sharded(ga.schedule(graph), ["y"]))
    >>> function({"x": np.ones(4, "float32")}, {})[0]
    [Array(4., dtype=float32)]
    """
    parts = declared_parts(program)
    grid = ProcessMesh.parse(mesh) if isinstance(mesh, str) else mesh or next((part.mesh for part in parts.values()), None)
    if grid is None:
        raise InvalidValue("the program declares no mesh: say mesh='data=8'")
    return ShardedFunction(to_jax(program, fetch_list, max_trips=max_trips), grid, list(devices or jax.devices()), parts)


__all__ = ["ShardedFunction", "sharded"]
