"""Facts about graphs that several passes ask for."""

from graphad.passes.analyses.cost import Cost, OpCost, estimated
from graphad.passes.analyses.liveness import VIEWS, Liveness
from graphad.passes.analyses.trips import trip_count

__all__ = ["VIEWS", "Cost", "Liveness", "OpCost", "estimated", "trip_count"]
