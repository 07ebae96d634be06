"""Programs on several ranks: simulated in one process (``LocalGroup``), and over MPI (``MpiExecutor``).

Collectives are operators (``graphad.ops.collective``); the passes that put them in are in ``graphad.passes``, under distribution.
"""

from __future__ import annotations

from graphad.distribution.group import Sent, Traffic, free_whole, split_feed, whole_state
from graphad.distribution.local import LocalGroup
from graphad.distribution.mpi import MpiExecutor, launched_ranks

__all__ = ["LocalGroup", "MpiExecutor", "Sent", "Traffic", "free_whole", "launched_ranks", "split_feed", "whole_state"]
