"""Running averages of the parameters, which are often better than the last ones, as Fluid has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphad import layers
from graphad.errors import InvalidType, InvalidValue
from graphad.execution import Executor
from graphad.execution.scope import global_scope
from graphad.optimizer.base import fraction
from graphad.program import OPTIMIZE, Parameter, Variable, default_main_program
from graphad.types import Array


class ExponentialMovingAverage:
    """Averages of the parameters in which a step counts ``decay`` times as much as the next.

    (B. Polyak and A. Juditsky, 1992, with weights that fade.) ``update`` appends ``average = decay * average + (1 - decay) * parameter``;
    call it after ``minimize``. Averages start at 0, and what is applied is divided by the sum of the weights, ``1 - decay**steps``, so that
    it is an average from the first step on.

    Args:
        decay: in [0, 1).
        thres_steps: a variable of one element, such as a counter of steps: then ``min(decay, (1 + t) / (10 + t))`` is used, t its value.
        name: what the names of averages begin with.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
    ...     w = ga.layers.create_parameter([1], "float32", name="w", default_initializer=ga.initializer.Constant(1.0))
    ...     _ = ga.optimizer.SGD(0.5).minimize(ga.layers.reduce_sum(w))
    ...     average = ga.optimizer.ExponentialMovingAverage(0.5)
    ...     average.update()
    ...     executor = ga.Executor()
    ...     _ = executor.run(ga.default_startup_program())
    ...     for _ in range(2):  # w is 0.5, then 0.0
    ...         _ = executor.run()
    ...     with average.apply(executor):
    ...         inside = ga.global_scope().get("w").item()
    ...     round(inside, 4), ga.global_scope().get("w").item()
    (0.1667, 0.0)
    """

    def __init__(self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None) -> None:
        if not isinstance(thres_steps, Variable | None):
            raise InvalidType(f"thres_steps is a Variable, a counter of steps, or None, not {thres_steps!r}")
        self._decay = fraction("decay", decay)
        self._steps = thres_steps
        self._prefix = "" if name is None else f"{name}."
        self._averages: dict[str, str] = {}
        self._remainder = ""
        self._raw: dict[str, Array] = {}

    def update(self) -> None:
        """Append the operators that bring the averages up to date to the current main program.

        Raises:
            ValueError: it was called before, or there is no trainable parameter.
        """
        program = default_main_program()
        parameters = [param for param in program.all_parameters() if param.trainable]
        if self._averages:
            raise InvalidValue("update has appended the averages already: call it once, after minimize")
        if not parameters:
            raise InvalidValue("there is no trainable parameter to average: call update after the network is built")
        block = program.global_block()
        start = len(block.ops)
        with program.atomic():
            remainder = self._kept("ema_remainder", [1], "float64", 1.0)
            decay: Variable | float = self._decay
            if self._steps is not None:
                steps = self._steps.astype("float64")
                decay = layers.clip((steps + 1.0) / (steps + 10.0), 0.0, self._decay)
            layers.assign(remainder * decay, remainder)
            averages = {param.name: self._appended(param, decay).name for param in parameters}
        for op in block.ops[start:]:
            op.role = OPTIMIZE  # so that a clone for tests does without
        self._averages, self._remainder = averages, remainder.name

    def _appended(self, param: Parameter, decay: Variable | float) -> Variable:
        """The average of one parameter, after the operators that bring it up to date."""
        average = self._kept(f"{param.name}.ema", param.shape, param.dtype, 0.0)
        old = decay.astype(param.dtype) if isinstance(decay, Variable) else decay
        layers.assign(average * old + param * (1.0 - old), average)
        return average

    def _kept(self, name: str, shape: object, dtype: str, value: float) -> Variable:
        return layers.create_global_var(list(shape), value, dtype, persistable=True, name=self._prefix + name)  # type: ignore[call-overload]

    @contextmanager
    def apply(self, executor: Executor, need_restore: bool = True) -> Iterator[None]:
        """Within it the parameters in the global scope are the averages; afterwards, unless ``need_restore`` is False, what they were.

        Raises:
            ValueError: no step has been averaged.
        """
        scope = global_scope()
        if not self._averages or self._remainder not in scope.arrays:
            raise InvalidValue("there are no averages: call update after minimize, run the startup program and then train")
        # The remainder is the product of all decays so far, which is 1 as long as no step was averaged.
        weights = 1.0 - scope.get(self._remainder).item()
        if not weights:
            raise InvalidValue("there are no averages: no step has been run since the startup program")
        self._raw = {name: scope.get(name).copy() for name in self._averages}
        for name, average in self._averages.items():
            array = scope.get(average)
            scope.set(name, (array / weights).astype(array.dtype))
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Executor) -> None:
        """Set the parameters to what they were before ``apply(executor, need_restore=False)``."""
        for name, array in self._raw.items():
            global_scope().set(name, array)
        self._raw = {}
