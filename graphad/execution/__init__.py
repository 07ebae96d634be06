"""Running programs on numpy arrays.

Here belongs what a program means when it runs. ``interpreter`` goes step by step, which defines it. ``compiler`` traces the kernels
on examples (``tracing``) into calls of numpy, ``planning`` says which share memory, and ``codegen`` writes them as a Python function,
which ``compiled`` runs. ``profiling`` says where the time went.
How one operator computes is its kernel's business, in ``graphad.ops``.
"""

from graphad.execution.executor import Executor
from graphad.execution.planning import MemoryPlan
from graphad.execution.profiling import Profile
from graphad.execution.python_form import memory_plan, to_python
from graphad.execution.scope import Scope, global_scope, scope_guard

__all__ = ["Executor", "MemoryPlan", "Profile", "Scope", "global_scope", "memory_plan", "scope_guard", "to_python"]
