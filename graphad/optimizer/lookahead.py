"""Lookahead: parameters that are pulled back, every few steps, to a slow copy of themselves."""

from __future__ import annotations

from graphad import layers
from graphad.backward import Named
from graphad.errors import InvalidType, InvalidValue
from graphad.layers.helper import declare_in
from graphad.optimizer.base import Optimizer, Pairs, declare_state
from graphad.program import OPTIMIZE, Operator, Parameter, Program, Variable, default_startup_program, program_guard
from graphad.program.clipping import number


class LookaheadOptimizer:
    """Another optimizer, and every ``k`` steps ``slow += alpha * (parameter - slow); parameter = slow``.

    (M. Zhang et al., "Lookahead optimizer: k steps forward, 1 step back", 2019.) The slow copies begin as the parameters do.

    Args:
        inner_optimizer: makes the steps in between.
        alpha: how far the slow copy goes, from 0 to 1.
        k: how many steps there are in between, 1 at least.

    Raises:
        TypeError, ValueError: an argument is something else.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
    ...     w = ga.layers.create_parameter([1], "float32", name="w", default_initializer=ga.initializer.Constant(1.0))
    ...     sgd = ga.optimizer.SGD(0.25)
    ...     _ = ga.optimizer.LookaheadOptimizer(sgd, alpha=0.5, k=2).minimize(ga.layers.reduce_sum(w))
    ...     executor = ga.Executor()
    ...     _ = executor.run(ga.default_startup_program())
    ...     for _ in range(2):  # 0.75, then halfway from 1 to 0.5
    ...         _ = executor.run()
    ...     ga.global_scope().get("w").item()
    0.75
    """

    def __init__(self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5) -> None:
        if not isinstance(inner_optimizer, Optimizer):
            raise InvalidType(f"inner_optimizer is an Optimizer, such as SGD(0.1), not {inner_optimizer!r}")
        self.alpha = number("alpha", alpha)
        if not 0 <= self.alpha <= 1:
            raise InvalidValue(f"alpha is from 0 to 1, not {alpha!r}")
        if isinstance(k, bool) or not isinstance(k, int):
            raise InvalidType(f"k is a number of steps, not {k!r}")
        if k < 1:
            raise InvalidValue(f"k is 1 or more, not {k}")
        self.inner_optimizer, self.k, self.type = inner_optimizer, k, "lookahead"

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: Named | None = None, no_grad_set: Named | None = None
    ) -> tuple[list[Operator], Pairs]:
        """Append the inner optimizer's backward and updates, and what pulls the parameters back.

        Returns:
            What the inner optimizer's ``minimize`` does.

        Raises:
            ValueError: as ``Optimizer.minimize``.
        """
        if not isinstance(loss, Variable):
            raise InvalidType(f"loss is a Variable, not {loss!r}")
        program = loss.block.program
        startup = startup_program or program.startup or default_startup_program()
        with program.atomic(), startup.atomic():
            results = self.inner_optimizer.minimize(loss, startup, parameter_list, no_grad_set)
            block = program.global_block()
            start = len(block.ops)
            with program_guard(program, startup):
                self._pull_back(program, startup, [param for param, _ in results[1]])
            for op in block.ops[start:]:
                op.role = OPTIMIZE  # so that a clone for tests does without
        return results

    def _pull_back(self, program: Program, startup: Program, parameters: list[Parameter]) -> None:
        block, start = program.global_block(), startup.global_block()
        steps = declare_state(block, start, program.names.generate("lookahead_step"), [1], "int64", 0.0)
        block.append_op("increment", {"X": steps}, {"Out": steps}, {"step": 1.0})
        # Counted from 1, so the first turn is after k steps.
        is_turn = steps % self.k == 0
        for param in parameters:
            slow = block.create_var(f"{param.name}@SLOW", param.shape, param.dtype, persistable=True, stop_gradient=True)
            # After the parameter's own initialization, whose value it copies.
            start.append_op("assign", {"X": declare_in(start, param)}, {"Out": declare_in(start, slow)}, {"run_once": True})
            mixed = slow + (param - slow) * self.alpha
            layers.assign(layers.where(is_turn, mixed, slow), slow)
            layers.assign(layers.where(is_turn, mixed, param), param)


__all__ = ["LookaheadOptimizer"]
