"""Cost models of communication and of training on many ranks: alpha-beta for collectives, a roofline for operators.

A message of b bytes takes ``alpha + b / beta`` seconds. Collectives go round a ring (Patarasuk and Yuan 2009; Thakur et al. 2005): an
all-reduce of b bytes on n ranks is n - 1 steps that reduce and n - 1 that gather, each of b / n bytes. An operator takes what it computes
or what it moves, whichever is longer (Williams et al. 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from graphad.errors import InvalidValue
from graphad.ir import Graph
from graphad.passes.analyses import estimated
from graphad.passes.analyses.cost import extents
from graphad.passes.analyses.traffic import Mesh, Traveled, bubble, roofline, sends, travels
from graphad.passes.distribution import order_of
from graphad.types import Sizes


class Communication(NamedTuple):
    """The bytes that one rank sends in a run of a program, by the type of operator."""

    calls: dict[str, int]
    passed_in: dict[str, int]
    traveled: Traveled


def communication(graph: Graph, ranks: int | Mesh, batch: Sizes = 1) -> Communication:
    """The bytes that the collectives of a graph send, outside of loops.

    Args:
        graph: a whole graph, as a pass of distribution leaves it.
        ranks: how many there are in one ring; or the mesh of which its rings are axes.
        batch: what unknown extents of the data are taken to be, on one rank.
    """
    mesh = Mesh(ranks) if isinstance(ranks, int) else ranks
    count: dict[str, int] = {}
    passed_in: dict[str, int] = {}
    messages, size = 0, 0.0
    for _, type, size_passed, travel in sends(graph, mesh, extents(graph, batch)):
        count[type] = count.get(type, 0) + 1
        passed_in[type] = passed_in.get(type, 0) + size_passed
        messages, size = messages + travel.messages, size + travel.bytes
    return Communication(count, passed_in, Traveled(messages, size))


class Step(NamedTuple):
    """A step of training on paper: seconds that are computed and communicated, and the bytes that one rank needs at once."""

    compute: float
    communicate: float
    peak: int

    def seconds(self, overlap: float = 0.0) -> float:
        """How long it takes, if a share ``overlap`` of the communication goes on beside the computation."""
        # No more of the communication can go on beside the computation than the computation takes.
        hidden = min(overlap * self.communicate, self.compute)
        return self.compute + self.communicate - hidden


def predicted(graph: Graph, mesh: Mesh, batch: Sizes) -> Step:
    """A run of a graph on each rank of a mesh, which has ``batch`` rows: operators by the roofline, collectives by alpha-beta."""
    cost = estimated(graph, batch)
    compute = sum(roofline(op_cost, mesh) for op, op_cost in cost.ops.items() if op.definition is None or not op.definition.ordered)
    return Step(compute, communication(graph, mesh, batch).traveled.seconds(mesh), cost.peak)


# -- pipelines -----------------------------------------------------------------------------------


def in_flight(stages: int, micro_batches: int, schedule: str) -> list[int]:
    """How many micro-batches each stage has the activations of at once, at most: all, or with 1F1B one for each stage from it on."""
    if schedule == "fthenb":
        return [micro_batches] * stages
    if schedule == "1f1b":
        return [min(stages - stage, micro_batches) for stage in range(stages)]
    raise InvalidValue(f"schedule is fthenb or 1f1b, not {schedule!r}")


class Task(NamedTuple):
    """A task of a stage on one micro-batch, with its times."""

    stage: int
    kind: str  # "F" forward, "B" backward
    micro_batch: int
    begin: float
    end: float


def timeline(
    stages: int, micro_batches: int, schedule: str, forward: float = 1.0, backward: float = 2.0, message: float = 0.0
) -> list[Task]:
    """When each stage does what, simulated: a stage waits for what the one before, or in the backward the one after it, sends.

    Args:
        stages: how many there are.
        micro_batches: into how many parts the batch is cut.
        schedule: ``fthenb``, all forwards and then all backwards; ``1f1b``, one of each in turn as soon as possible.
        forward, backward, message: how long these take.

    Returns:
        The tasks, by the time when they begin.

    >>> max(task.end for task in timeline(4, 8, "1f1b")) / (8 * 3.0)
    1.375
    """
    in_flight(stages, micro_batches, schedule)  # refuses a schedule that there is not
    orders = [order_of(stage, stages, micro_batches, schedule) for stage in range(stages)]
    ends: dict[tuple[int, str, int], float] = {}
    free_times = [0.0] * stages
    tasks: list[Task] = []
    # Each stage has its order, so the times do not depend on the order in which stages are visited. Some stage can always go on: a
    # micro-batch goes forward along the stages and backward against them, without a cycle.
    while any(orders):
        for stage, order in enumerate(orders):
            while order and (causes := _needed(stage, *order[0], stages)) <= ends.keys():
                kind, i = order.pop(0)
                waits = (ends[task] + (message if task[0] != stage else 0.0) for task in causes)
                begin = max(free_times[stage], *waits, 0.0)
                free_times[stage] = ends[(stage, kind, i)] = begin + (forward if kind == "F" else backward)
                tasks.append(Task(stage, kind, i, begin, free_times[stage]))
    return sorted(tasks, key=lambda task: (task.begin, task.stage))


def _needed(stage: int, kind: str, i: int, stages: int) -> set[tuple[int, str, int]]:
    """The tasks that a task depends on."""
    if kind == "F":
        return {(stage - 1, "F", i)} if stage else set()
    # A backward needs the stage's own activations, and the cotangent from the stage after it.
    return {(stage, "F", i), (stage + 1, "B", i)} if stage + 1 < stages else {(stage, "F", i)}


# -- a timeline as a picture -----------------------------------------------------------------------

_COLORS: Mapping[str, tuple[str, str]] = {"F": ("#dbe9f9", "#2563a8"), "B": ("#fdebd3", "#b45f06")}  # fill, line


def draw_timeline(tasks: list[Task], width: int = 900, row: int = 28) -> str:
    """A timeline as SVG: a row for each stage, forwards blue and backwards orange, with the number of the micro-batch."""
    end, stages = max(task.end for task in tasks), 1 + max(task.stage for task in tasks)
    left, top, scale = 70, 8, (width - 80) / end
    height = top + stages * (row + 6) + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="Helvetica,sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for stage in range(stages):
        parts.append(f'<text x="8" y="{top + stage * (row + 6) + row * 0.65:.1f}">stage {stage}</text>')
    for task in tasks:
        fill, line = _COLORS[task.kind]
        x, y, wide = left + task.begin * scale, top + task.stage * (row + 6), (task.end - task.begin) * scale
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{row}" fill="{fill}" stroke="{line}"/>')
        parts.append(f'<text x="{x + wide / 2:.1f}" y="{y + row * 0.65:.1f}" text-anchor="middle">{task.micro_batch}</text>')
    # Of the time of all stages together, the part in which none of its tasks runs on a stage.
    busy = sum(task.end - task.begin for task in tasks)
    idle = 1 - busy / (end * stages)
    parts.append(f'<text x="{left}" y="{height - 6}">forward blue, backward orange; waiting {idle:.1%} of the time</text>')
    return "\n".join([*parts, "</svg>", ""])


__all__ = [
    "Communication",
    "Mesh",
    "Step",
    "Task",
    "Traveled",
    "bubble",
    "communication",
    "draw_timeline",
    "in_flight",
    "predicted",
    "timeline",
    "travels",
]
