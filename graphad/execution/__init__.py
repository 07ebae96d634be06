"""Running programs on numpy arrays.

Here belongs what a program means when it runs: ``interpreter`` defines it step by step. ``compiler`` makes a Python function over numpy of
it, by ``tracing`` kernels on examples, ``planning`` their memory and ``codegen``. How one operator computes is in ``graphad.ops``.
"""

from graphad.execution.executor import Executor
from graphad.execution.planning import MemoryPlan
from graphad.execution.profiling import Profile
from graphad.execution.python_form import memory_plan, to_python
from graphad.execution.scope import Scope, global_scope, scope_guard

__all__ = ["Executor", "MemoryPlan", "Profile", "Scope", "global_scope", "memory_plan", "scope_guard", "to_python"]
