"""Running programs on numpy arrays.

Here belongs what a program means when it runs: ``interpreter`` and ``blocks`` go step by step, ``codegen`` makes Python functions
of blocks that run again and again. How one operator computes is its kernel's business, in ``graphad.ops``.
"""

from graphad.execution.executor import Executor
from graphad.execution.scope import Scope, global_scope, scope_guard

__all__ = ["Executor", "Scope", "global_scope", "scope_guard"]
