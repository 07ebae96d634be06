"""Passes that report on a graph: its costs, and the range of its values.

Here belong passes that add notes or probes and change nothing that was computed. The estimates themselves are in
``graphad.passes.analyses``, pictures in ``graphad.drawing``.
"""

from graphad.passes.inspection.annotate_cost import AnnotateCost
from graphad.passes.inspection.probe_numerics import ProbeNumerics

__all__ = ["AnnotateCost", "ProbeNumerics"]
