"""Optimizers around another one, as Fluid has them: steps of several gradients, less memory for the backward, decay beside the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from graphad import layers
from graphad.backward import Named
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import lower, write_back
from graphad.optimizer.base import Optimizer, Pairs, at_least_zero, declare_state, flag, function
from graphad.passes.memory import Recompute
from graphad.program import OPTIMIZE, Block, Operator, Parameter, Program, Variable, default_startup_program, program_guard
from graphad.rewriting import diagnoses_only


def _checked(inner: object) -> Optimizer:
    if not isinstance(inner, Optimizer):
        raise InvalidType(f"the optimizer inside is an Optimizer, such as SGD(0.1), not {inner!r}")
    return inner


@contextmanager
def _updating(loss: object, startup_program: Program | None) -> Iterator[tuple[Block, Program]]:
    """The block and the startup program of what ``minimize`` appends; an error leaves both programs as they were."""
    if not isinstance(loss, Variable):
        raise InvalidType(f"loss is a Variable, not {loss!r}")
    program = loss.block.program
    startup = startup_program or program.startup or default_startup_program()
    with program.atomic(), startup.atomic(), program_guard(program, startup):
        yield program.global_block(), startup


class GradientMergeOptimizer:
    """Another optimizer, which makes a step every ``k_steps`` runs, of the gradients of all of them.

    What the optimizer inside clips and decays is their sum, or their mean. In between, parameters and all that the optimizer keeps stay
    as they are; learning rates that count runs go on counting.

    Args:
        inner_optimizer: makes the steps.
        k_steps: how many runs there are to a step, 1 at least.
        avg: whether it takes the mean of the gradients, and not the sum.

    Raises:
        TypeError, ValueError: an argument is something else.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
    ...     w = ga.layers.create_parameter([1], "float32", name="w", default_initializer=ga.initializer.Constant(1.0))
    ...     sgd = ga.optimizer.SGD(0.25)
    ...     _ = ga.optimizer.GradientMergeOptimizer(sgd, k_steps=2, avg=False).minimize(ga.layers.reduce_sum(w))
    ...     executor, values = ga.Executor(), []
    ...     _ = executor.run(ga.default_startup_program())
    ...     for _ in range(4):
    ...         _ = executor.run()
    ...         values.append(ga.global_scope().get("w").item())
    >>> values
    [1.0, 0.5, 0.5, 0.0]
    """

    def __init__(self, inner_optimizer: Optimizer, k_steps: int = 1, avg: bool = True) -> None:
        self.inner_optimizer, self.type = _checked(inner_optimizer), "gradient_merge"
        if isinstance(k_steps, bool) or not isinstance(k_steps, int):
            raise InvalidType(f"k_steps is a number of runs, not {k_steps!r}")
        if k_steps < 1:
            raise InvalidValue(f"k_steps is 1 or more, not {k_steps}")
        self.k_steps, self.avg = k_steps, flag("avg", avg)

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: Named | None = None, no_grad_set: Named | None = None
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward, sums of gradients, and updates that count every ``k_steps`` runs.

        Returns:
            The optimization operators, and pairs of a parameter and the gradient of one run.

        Raises:
            ValueError: as ``Optimizer.minimize``.
        """
        with _updating(loss, startup_program) as (block, startup):
            pairs = self.inner_optimizer.backward(loss, startup, parameter_list, no_grad_set)
            start = len(block.ops)
            runs = declare_state(block, startup.global_block(), block.program.names.generate("gradient_merge_step"), [1], "int64", 0.0)
            block.append_op("increment", {"X": runs}, {"Out": runs}, {"step": 1.0})
            is_turn = runs % self.k_steps == 0
            sums = [self._sum(block, startup, param, gradient) for param, gradient in pairs]
            means = [total / float(self.k_steps) if self.avg else total for total in sums]
            updates = self._updated(block, pairs, means, is_turn)
            for total in sums:
                # The next sum begins after a step.
                layers.assign(layers.where(is_turn, layers.zeros_like(total), total), total)
            for op in block.ops[start:]:
                op.role = OPTIMIZE  # so that a clone for tests does without
        return updates, pairs

    def _sum(self, block: Block, startup: Program, param: Parameter, gradient: Variable) -> Variable:
        total = declare_state(block, startup.global_block(), f"{param.name}@GradientMerge", list(param.shape), param.dtype, 0.0)
        layers.assign(total + gradient, total)
        return total

    def _updated(self, block: Block, pairs: Pairs, merged: Sequence[Variable], is_turn: Variable) -> list[Operator]:
        """The updates, each followed by what takes it back where it is not their turn."""
        # What the updates keep is declared by them: it is looked for afterwards, and copied before.
        start = len(block.ops)
        updates = self.inner_optimizer.apply_gradients([(param, total) for (param, _), total in zip(pairs, merged, strict=True)])
        names = dict.fromkeys(name for op in block.ops[start:] for name in op.output_names())
        states = [block.var(name) for name in names if block.var(name).persistable]
        appended = block.ops[start:]
        del block.ops[start:]
        before = [layers.assign(var) for var in states]
        block.ops.extend(appended)
        for var, old in zip(states, before, strict=True):
            layers.assign(layers.where(is_turn, var, old), var)
        return updates


class RecomputeOptimizer:
    """Another optimizer, whose programs then compute values again for the backward rather than keep them: the pass ``recompute``.

    What is kept follows from the graph, and results are the same to the last bit; the checkpoints that Fluid asks for have no effect.

    Args:
        optimizer: minimizes the loss.

    Raises:
        TypeError: ``optimizer`` is none.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()) as program:
    ...     h = ga.layers.fc(ga.data("x", [None, 4]), 8, act="tanh")
    ...     optimizer = ga.optimizer.RecomputeOptimizer(ga.optimizer.SGD(0.1))
    ...     optimizer._set_checkpoints([h])
    ...     _, pairs = optimizer.minimize(ga.layers.mean(h))
    >>> len(pairs)
    2
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = _checked(optimizer)

    def _set_checkpoints(self, checkpoints: Sequence[Variable | str]) -> None:
        """Take what Fluid would keep; TypeError for what is no list of variables or names."""
        if not isinstance(checkpoints, list | tuple) or not all(isinstance(item, Variable | str) for item in checkpoints):
            raise InvalidType(f"checkpoints is a list of variables or their names, not {checkpoints!r}")

    def backward(self, loss: Variable, *arguments: Any, **options: Any) -> Pairs:
        """``Optimizer.backward``; what runs again is chosen by ``apply_gradients``."""
        return self.optimizer.backward(loss, *arguments, **options)

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable | None]]) -> list[Operator]:
        """``Optimizer.apply_gradients``, and then the pass ``recompute`` on the whole program."""
        updates = self.optimizer.apply_gradients(params_grads)
        return self._recomputed(updates[0].block.program, len(updates)) if updates else updates

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: Named | None = None, no_grad_set: Named | None = None
    ) -> tuple[list[Operator], Pairs]:
        """``Optimizer.minimize``, and then the pass ``recompute`` on the whole program.

        Raises:
            ValueError: as ``Optimizer.minimize``.
        """
        with _updating(loss, startup_program) as (block, startup):
            _, pairs = self.optimizer.minimize(loss, startup, parameter_list, no_grad_set)
            return self._recomputed(block.program, len(pairs)), pairs

    def _recomputed(self, program: Program, updates: int) -> list[Operator]:
        graph = lower(program)
        with diagnoses_only():
            Recompute().run(graph)
        write_back(graph)
        # They are looked up again, since the program is written again.
        return [op for op in program.global_block().ops if op.role == OPTIMIZE and op.type == self.optimizer.type][-updates:]


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type[Optimizer]:
    """A class of optimizers with a decay beside the gradient: a parameter is multiplied by ``1 - weight_decay`` before its update.

    The decay is not multiplied by the learning rate, as in Fluid (``AdamW`` multiplies it). The class takes what the other one does, and
    by keyword ``weight_decay``, a number, and ``apply_decay_param_fun``, a function from a parameter's name to whether it decays.

    Raises:
        TypeError: it is no class of optimizers.

    >>> import graphad as ga
    >>> DecayedSGD = ga.contrib.extend_with_decoupled_weight_decay(ga.optimizer.SGD)
    >>> with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
    ...     w = ga.layers.create_parameter([1], "float32", name="w", default_initializer=ga.initializer.Constant(1.0))
    ...     _ = DecayedSGD(learning_rate=0.125, weight_decay=0.5).minimize(ga.layers.reduce_sum(w))
    ...     _ = ga.Executor().run(ga.default_startup_program())
    ...     _ = ga.Executor().run()
    ...     ga.global_scope().get("w").item()
    0.375
    """
    if not (isinstance(base_optimizer, type) and issubclass(base_optimizer, Optimizer)):
        raise InvalidType(f"base_optimizer is a class of optimizers, such as graphad.optimizer.Adam, not {base_optimizer!r}")

    class Decoupled(base_optimizer):  # type: ignore[misc, valid-type]
        """The optimizer, with a decay beside the gradient."""

        def __init__(
            self, *arguments: Any, weight_decay: float = 0.0, apply_decay_param_fun: Callable[[str], bool] | None = None, **options: Any
        ) -> None:
            super().__init__(*arguments, **options)
            self.weight_decay = at_least_zero("weight_decay", weight_decay)
            self.apply_decay_param_fun = function("apply_decay_param_fun", apply_decay_param_fun)

        def minimize(
            self,
            loss: Variable,
            startup_program: Program | None = None,
            parameter_list: Named | None = None,
            no_grad_set: Named | None = None,
        ) -> tuple[list[Operator], Pairs]:
            with _updating(loss, startup_program) as (block, startup):
                pairs = self.backward(loss, startup, parameter_list, no_grad_set)
                start = len(block.ops)
                for param, _ in pairs if self.weight_decay else ():
                    if self.apply_decay_param_fun is None or self.apply_decay_param_fun(param.name):
                        layers.assign(param - param * self.weight_decay, param)
                for op in block.ops[start:]:
                    op.role = OPTIMIZE
                return self.apply_gradients(pairs), pairs

    Decoupled.__name__ = Decoupled.__qualname__ = f"{base_optimizer.__name__}WithDecoupledWeightDecay"
    return Decoupled
