"""Loops, branches and nets rewritten.

Here belong passes about operators that hold graphs. Edits of regions that any pass may make are in ``graphad.ir.edits``;
gradients of loops are in ``graphad.passes.backward``.

hoist-invariants, fold-branches, unroll-while, inline-net, outline-repeated
"""

from graphad.passes.control_flow.fold_branches import FoldBranches
from graphad.passes.control_flow.hoist_invariants import HoistInvariants
from graphad.passes.control_flow.inline_net import InlineNet
from graphad.passes.control_flow.outline_repeated import OutlineRepeated
from graphad.passes.control_flow.unroll_while import UnrollWhile

__all__ = ["FoldBranches", "HoistInvariants", "InlineNet", "OutlineRepeated", "UnrollWhile"]
