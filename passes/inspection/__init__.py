"""Passes that say something about a graph: what it costs, and what numbers go through it."""

from graphad.passes.inspection.annotate_cost import AnnotateCost
from graphad.passes.inspection.probe_numerics import ProbeNumerics

__all__ = ["AnnotateCost", "ProbeNumerics"]
