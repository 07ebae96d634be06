"""Clean up what other passes, and people, leave over.

Here belong passes that make a graph smaller and keep what it computes to the bit or nearly so. Loops and branches are cleaned up
in ``graphad.passes.control_flow``; passes that make one operator of several are in ``graphad.passes.fusion``.

fixpoint(canonical-order, simplify, constant-folding, cse, dead-code)
"""

from graphad.passes.cleanup.canonical_order import CanonicalOrder
from graphad.passes.cleanup.constant_folding import ConstantFolding
from graphad.passes.cleanup.cse import Cse
from graphad.passes.cleanup.dead_code import DeadCode
from graphad.passes.cleanup.simplify import Simplify

__all__ = ["CanonicalOrder", "ConstantFolding", "Cse", "DeadCode", "Simplify"]
