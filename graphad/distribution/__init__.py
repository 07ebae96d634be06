"""Programs on several ranks: simulated in one process (``LocalGroup``), and over MPI (``MpiExecutor``).

Here belongs what runs ranks, and what predicts how long they take (``cost``). Collectives are operators, in ``graphad.ops.collective``; the
passes that put them into a program are in ``graphad.passes.distribution``.
"""

from __future__ import annotations

from graphad.distribution.group import Sent, Traffic, free_whole, split_feed, whole_state
from graphad.distribution.local import LocalGroup
from graphad.distribution.mpi import MpiExecutor, launched_ranks

__all__ = ["LocalGroup", "MpiExecutor", "Sent", "Traffic", "free_whole", "launched_ranks", "split_feed", "whole_state"]
