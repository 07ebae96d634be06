"""Training in mixed precision: an optimizer whose ``minimize`` also narrows the program and scales the loss."""

from __future__ import annotations

from dataclasses import dataclass

from graphad.backward import Named
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import lower, write_back
from graphad.optimizer.base import Optimizer, Pairs, declare_state, flag
from graphad.passes.precision import MixedPrecision
from graphad.program import OPTIMIZE, Operator, Program, Variable, default_startup_program
from graphad.program.clipping import is_number, number
from graphad.rewriting import diagnoses_only

_COUNT = "int32"


@dataclass(eq=False)
class MixedPrecisionOptimizer:
    """An optimizer that ``decorate`` has wrapped, with the settings by which its programs are narrowed."""

    optimizer: Optimizer
    init_loss_scaling: float
    use_dynamic_loss_scaling: bool
    narrowing: MixedPrecision
    loss_scaling: Variable | None = None

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: Named | None = None, no_grad_set: Named | None = None
    ) -> tuple[list[Operator], Pairs]:
        """``Optimizer.minimize``, and then the pass ``mixed-precision`` on the whole program.

        Returns:
            The optimization operators, one a parameter, and the (parameter, gradient) pairs. A gradient is unscaled, and zeros in a step
            in which one has overflowed.

        Raises:
            ValueError: as ``Optimizer.minimize``; or the program has a dynamic scale of its loss already.
        """
        if not isinstance(loss, Variable):
            raise InvalidType(f"loss is a Variable, not {loss!r}")
        program = loss.block.program
        startup = startup_program or program.startup or default_startup_program()
        block = program.global_block()
        names = (self.narrowing.loss_scaling, self.narrowing.good_steps, self.narrowing.bad_steps)
        # Two losses would multiply one scale twice a step.
        if self.use_dynamic_loss_scaling and block.has_var(names[0]):
            raise InvalidValue(f"{program.identity} has a dynamic scale of its loss already, {names[0]!r}: minimize all losses as one sum")
        with program.atomic(), startup.atomic():
            _, pairs = self.optimizer.minimize(loss, startup, parameter_list, no_grad_set)
            if self.use_dynamic_loss_scaling:
                first, *counts = names
                self.loss_scaling = declare_state(block, startup.global_block(), first, [1], "float32", self.init_loss_scaling)
                for name in counts:
                    declare_state(block, startup.global_block(), name, [1], _COUNT, 0)
            graph = lower(program)
            # What the pass refuses is about the user's program, and needs no reproducer.
            with diagnoses_only():
                self.narrowing.run(graph)
            write_back(graph)
        # They are looked up again, since the pass rewrites updates that ``minimize`` has returned.
        updates = [op for op in block.ops if op.role == OPTIMIZE and op.type == self.optimizer.type]
        return updates[-len(pairs) :], pairs

    def get_loss_scaling(self) -> Variable | float:
        """The variable of the dynamic scale, after ``minimize``; else the number."""
        return self.init_loss_scaling if self.loss_scaling is None else self.loss_scaling


def decorate(
    optimizer: Optimizer,
    keep: tuple[str, ...] = (),
    init_loss_scaling: float = 2.0**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    dtype: str = "float16",
) -> MixedPrecisionOptimizer:
    """Let an optimizer train in mixed precision: products in float16, everything else and the parameters as wide as they are.

    The loss is scaled, so that small gradients do not become zero in the narrow type. Where a gradient overflows, the step is skipped:
    parameters, and what optimizers keep for them, stay as they are. The scale is a persistable variable ``loss_scaling_0``, saved with the
    parameters: it falls after ``decr_every_n_nan_or_inf`` such steps in sequence, and rises after ``incr_every_n_steps`` others
    (P. Micikevicius et al., "Mixed precision training", 2018). Defaults and operators are those of ``paddle.static.amp.decorate``.

    Args:
        optimizer: what minimizes the loss; it clips and decays gradients that are unscaled.
        keep: types of operators, or names of values whose writers, that stay wide. What becomes narrow is fetched as ``h@FLOAT16``: ``h``
            itself is there, as wide as it is declared, only where something wide reads it.
        init_loss_scaling: the scale at the beginning, or the scale if it is not dynamic.
        incr_every_n_steps, decr_every_n_nan_or_inf: how many steps in sequence without overflow, or with, it takes until the scale changes.
        incr_ratio, decr_ratio: what it is multiplied by then; it does not fall below 1.
        use_dynamic_loss_scaling: whether the scale changes at all.
        dtype: the narrow type: float16, or float32 for programs in float64.

    Raises:
        TypeError: ``optimizer`` is none, or an argument is not of its type.
        ValueError: a number is out of its range, or the type is not a narrow one.

    >>> import numpy as np, graphad as ga
    >>> main, startup = ga.Program(), ga.Program()
    >>> with ga.program_guard(main, startup):
    ...     x = ga.layers.data("x", shape=[2, 2], append_batch_size=False)
    ...     cost = ga.layers.mean(ga.layers.fc(x, size=1, param_attr="w", bias_attr=False))
    ...     optimizer = ga.optimizer.decorate(ga.optimizer.Adam(0.1), decr_every_n_nan_or_inf=1, decr_ratio=0.5)
    ...     _ = optimizer.minimize(cost)
    >>> scope, executor = ga.Scope(), ga.Executor()
    >>> _ = executor.run(startup, scope=scope)
    >>> before = scope.get("w")
    >>> _ = executor.run(main, {"x": np.full((2, 2), 6e4, "float32")}, scope=scope)  # times 32768 is too much for float16
    >>> scope.get("loss_scaling_0").tolist(), bool((scope.get("w") == before).all())
    ([16384.0], True)
    """
    if not isinstance(optimizer, Optimizer):
        raise InvalidType(f"optimizer is an Optimizer, not {optimizer!r}")
    scale, is_dynamic = _scale(init_loss_scaling), flag("use_dynamic_loss_scaling", use_dynamic_loss_scaling)
    narrowing = MixedPrecision(
        dtype,
        _kept(keep),
        loss_scale=1.0 if is_dynamic else scale,
        dynamic_loss_scale=is_dynamic,
        incr_every_n_steps=_whole("incr_every_n_steps", incr_every_n_steps),
        incr_ratio=number("incr_ratio", incr_ratio),
        decr_every_n_nan_or_inf=_whole("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf),
        decr_ratio=number("decr_ratio", decr_ratio),
    )
    return MixedPrecisionOptimizer(optimizer, scale, is_dynamic, narrowing)


def _kept(keep: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(keep, tuple | list) or not all(isinstance(name, str) for name in keep):
        raise InvalidType(f"keep is a sequence of types of operators and names of values, not {keep!r}")
    return tuple(keep)


def _scale(value: float) -> float:
    scale = number("init_loss_scaling", value)
    if scale < 1:
        raise InvalidValue(f"init_loss_scaling is 1 or more, not {value!r}")
    return scale


def _whole(what: str, value: int) -> int:
    if not is_number(value) or value != int(value):
        raise InvalidType(f"{what} is a whole number, not {value!r}")
    return int(value)
