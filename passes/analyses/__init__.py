"""Facts about graphs that several passes ask for."""

from graphad.passes.analyses.cost import Cost, OpCost, estimated
from graphad.passes.analyses.liveness import Liveness
from graphad.passes.analyses.trips import trip_count

__all__ = ["Cost", "Liveness", "OpCost", "estimated", "trip_count"]
