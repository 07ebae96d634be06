"""Passes that report on a graph: its costs, and the range of its values."""

from graphad.passes.inspection.annotate_cost import AnnotateCost
from graphad.passes.inspection.probe_numerics import ProbeNumerics

__all__ = ["AnnotateCost", "ProbeNumerics"]
