"""Programs on several ranks: simulated in one process (``LocalGroup``), and over MPI (``MpiExecutor``).

Collectives are operators (``graphad.ops.collective``); the passes that put them in are in ``graphad.passes``, under distribution.
"""

from __future__ import annotations

from graphad.distribution.group import Sent, Traffic, split_feed
from graphad.distribution.local import LocalGroup

__all__ = ["LocalGroup", "Sent", "Traffic", "split_feed"]
