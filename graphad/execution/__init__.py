"""Running programs on numpy arrays."""

from graphad.execution.executor import Executor
from graphad.execution.scope import Scope, global_scope, scope_guard

__all__ = ["Executor", "Scope", "global_scope", "scope_guard"]
