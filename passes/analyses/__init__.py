"""Facts about graphs that several passes need.

Here belong analyses of whole graphs: costs, liveness, known values, layouts on a mesh. What one pass alone needs is in its file; the
framework that computes facts is in ``graphad.rewriting``.
"""

from graphad.passes.analyses.cost import Cost, OpCost, estimated
from graphad.passes.analyses.liveness import Liveness
from graphad.passes.analyses.sharding import Sharding
from graphad.passes.analyses.trip_counts import TripCounts, trip_count

__all__ = ["Cost", "Liveness", "OpCost", "Sharding", "TripCounts", "estimated", "trip_count"]
