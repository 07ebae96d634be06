"""A search for annotations: which weights to cut along which axes of a mesh, so that a step is as short as can be within the memory.

    groups of weights, by name           candidates of each: whole, or one dimension along one axis
    partition, then the cost on paper    the cheapest few go on to the next group

Dynamic programming over the groups in the order of the program, with the cheapest ``beam`` states kept after each (Alpa's intra-operator
part solves an ILP over all operators: Zheng et al. 2022, section 4; here propagation fills in what follows from the weights, so that only
they are decided, and the price is that of the program that ``partition`` really makes).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from graphad.distribution.cost import Step, predicted
from graphad.errors import GraphadError, InvalidValue, Refused
from graphad.ir import Graph, Value
from graphad.ops.mesh import UNCUT, ProcessMesh, local_extent
from graphad.passes.analyses.batch_dependence import data_of
from graphad.passes.analyses.traffic import Mesh
from graphad.passes.distribution import Partition
from graphad.types import Sizes

_NUMBERS = re.compile(r"\d+")


class Found(NamedTuple):
    """Annotations, as ``shard`` takes them, and what a step costs with them.

    Attributes:
        spec: an entry for each value, or pattern of names.
        step: seconds and peak bytes of a rank.
        tried: how many partitioned programs were priced.
    """

    spec: tuple[str, ...]
    step: Step
    tried: int


def cheapest(
    graph: Graph,
    mesh: Mesh,
    *,
    batch: Sizes = 1,
    memory: float = float("inf"),
    overlap: float = 0.0,
    data_axis: str | None = None,
    beam: int = 3,
    smallest: int = 2,
) -> Found:
    """The cheapest annotations that are found for a training step on a mesh.

    Weights whose names differ in numbers alone, as those of the layers of a transformer, are cut alike.

    Args:
        graph: the graph of one process, which stays as it is.
        mesh: the machines, with the ``axes`` of their grid.
        batch: what unknown extents of the data are taken to be, on one rank.
        memory: the bytes that a rank has.
        overlap: the share of the communication that goes on beside the computation.
        data_axis: the axis that cuts the rows of the data; the first one if None, none of them if "".
        beam: how many states go on from group to group.
        smallest: dimensions that a weight has at least to be cut.

    Raises:
        Refused: nothing that was tried fits into the memory.
        ValueError: the mesh has no axes.
    """
    if not mesh.axes:
        raise InvalidValue("the search needs the axes of the mesh: Mesh.of('data=8,model=4')")
    grid = ProcessMesh.parse(mesh.axes)
    axis = grid.names[0] if data_axis is None else data_axis
    rows = [value for value in data_of(graph, ()) if value.shape and value.shape[0] not in (0, 1)] if axis else []
    start = tuple(f"{value.name}: {' '.join([axis, *[UNCUT] * (len(value.shape or ()) - 1)])}" for value in rows)
    prices: dict[tuple[str, ...], Step | None] = {}

    def price(spec: tuple[str, ...]) -> tuple[bool, float]:
        if spec not in prices:
            prices[spec] = _step(graph, mesh, spec, batch)
        step = prices[spec]
        if step is None:
            return True, float("inf")
        over = step.peak > memory
        # What does not fit comes after all that does, the nearest to fitting first: a beam of nothing but misfits still moves to a fit.
        return over, step.peak if over else step.seconds(overlap)

    # A beam search over the weights alone; propagation (GSPMD, Y. Xu et al., 2021) decides all else from them. Alpa (L. Zheng et al.,
    # 2022) instead solves an integer program over all operators: exact for its costs, where this one finds what a beam keeps.
    states = [start]
    for pattern, value in _groups(graph, smallest).items():
        # The empty entry leaves the group whole.
        extensions = [(*state, *entry) for state in states for entry in ((), *_candidates(pattern, value, grid))]
        states = sorted(dict.fromkeys(extensions), key=price)[:beam]
    best = min(states, key=price)
    step = prices.get(best) or _step(graph, mesh, best, batch)
    if step is None or step.peak > memory:
        least = "" if step is None else f"; the least is {step.peak / 1e9:.3g} GB a rank"
        raise Refused(f"no annotation that was tried fits into {memory / 1e9:.3g} GB{least}")
    return Found(best, step, len(prices))


def _step(graph: Graph, mesh: Mesh, spec: tuple[str, ...], batch: Sizes) -> Step | None:
    """The predicted cost of a step on each rank; None if the partition is refused."""
    copy = graph.clone()
    try:
        if spec:
            Partition(mesh.axes, spec).apply(copy)
    except GraphadError:
        # What cannot be cut like this is no candidate.
        return None
    return predicted(copy, mesh, batch)


def _groups(graph: Graph, smallest: int) -> dict[str, Value]:
    """The weights that are cut alike: a pattern of their names, and one of them."""
    groups: dict[str, Value] = {}
    for value in graph.inputs:
        if value.persistable and value.shape is not None and len(value.shape) >= smallest and _is_weight(value):
            # fc_0.w_0 and fc_7.w_0 are both fc_*.w_*: layers of one kind are cut alike, and decided once.
            groups.setdefault(_NUMBERS.sub("*", value.name), value)
    return groups


def _is_weight(value: Value) -> bool:
    """Whether an update changes it, and it is no state of the optimizer."""
    updates = [op for op in value.readers if op.definition is not None and op.definition.state is not None]
    return any(value in op.inputs.get("Param", ()) for op in updates)


def _candidates(pattern: str, value: Value, grid: ProcessMesh) -> Sequence[tuple[str]]:
    """One dimension along one axis."""
    shape = value.shape or ()
    candidates = []
    for name, size in grid.axes:
        for dim, extent in enumerate(shape):
            # Only cuts into equal parts, without padding.
            if size > 1 and extent >= size and local_extent(extent, size) * size == extent:
                words = " ".join(name if i == dim else UNCUT for i in range(len(shape)))
                candidates.append((f"{pattern}: {words}",))
    return candidates


__all__ = ["Found", "cheapest"]
