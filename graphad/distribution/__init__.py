"""Programs on several ranks: simulated in one process (``LocalGroup``), and over MPI (``MpiExecutor``).

Here belongs what runs ranks, and what predicts how long they take (``cost``). Collectives are operators, in ``graphad.ops.collective``; the
passes that put them into a program are in ``graphad.passes.distribution``.
"""

from __future__ import annotations

from graphad.distribution.group import Part, Sent, Traffic, declared_parts, free_whole, split_arrays, split_feed, whole_state
from graphad.distribution.local import LocalGroup
from graphad.distribution.mpi import MpiExecutor, launched_ranks
from graphad.ops.mesh import ProcessMesh
from graphad.passes.distribution import stages_of

__all__ = [
    "LocalGroup",
    "MpiExecutor",
    "Part",
    "ProcessMesh",
    "Sent",
    "Traffic",
    "declared_parts",
    "free_whole",
    "launched_ranks",
    "split_arrays",
    "split_feed",
    "stages_of",
    "whole_state",
]
