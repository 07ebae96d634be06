"""Running averages of the parameters, which are often better than the last ones, as Fluid has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from graphad import layers
from graphad.errors import InvalidType, InvalidValue
from graphad.execution import Executor
from graphad.execution.scope import global_scope
from graphad.optimizer.base import fraction
from graphad.program import OPTIMIZE, Parameter, Program, Variable, default_main_program
from graphad.program.clipping import number
from graphad.types import Array


class _Averages:
    """A temporary replacement of parameters by averages, which a subclass computes."""

    _raw: Mapping[str, Array] = MappingProxyType({})  # the parameters while the averages are in their place

    def _now(self) -> dict[str, Array]:
        """The averages by the names of their parameters; ValueError if there are none."""
        raise NotImplementedError

    @contextmanager
    def apply(self, executor: Executor, need_restore: bool = True) -> Iterator[None]:
        """Within it the parameters in the global scope are the averages; afterwards, unless ``need_restore`` is False, what they were.

        Raises:
            ValueError: no step has been averaged.
        """
        scope, averages = global_scope(), self._now()
        # Copies: the parameters' own arrays may be updated in place.
        self._raw = {name: scope.get(name).copy() for name in averages}
        for name, array in averages.items():
            scope.set(name, array.astype(self._raw[name].dtype))
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


class ExponentialMovingAverage(_Averages):
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
                # Small at first, so that early parameters are forgotten soon.
                decay = layers.clip((steps + 1.0) / (steps + 10.0), 0.0, self._decay)
            # The product of all decays is the weight that the start, 0, still has: 1 less that is what the average is divided by.
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

    def _now(self) -> dict[str, Array]:
        scope = global_scope()
        if not self._averages or self._remainder not in scope.arrays:
            raise InvalidValue("there are no averages: call update after minimize, run the startup program and then train")
        # The remainder is the product of all decays so far, which is 1 as long as no step was averaged.
        weights = 1.0 - scope.get(self._remainder).item()
        if not weights:
            raise InvalidValue("there are no averages: no step has been run since the startup program")
        return {name: scope.get(average) / weights for name, average in self._averages.items()}


class ModelAverage(_Averages):
    """Averages of the parameters over a window of the last steps, which all count as much.

    Made after ``minimize``: it appends the operators that add up the parameters of the default main program (those that train, except for
    ``ParamAttr(do_model_average=False)``). The window is as long as ``average_window_rate`` times the number of updates, but within
    ``min_average_window`` and ``max_average_window``. When that many are added up a new sum begins, and the averages are over the
    last sum and the new one.

    Args:
        average_window_rate: how long the window is, in updates so far.
        min_average_window, max_average_window: bounds of its length.
        regularization: None: parameters are averaged, not updated.
        name: what the names of sums begin with.

    Raises:
        TypeError, ValueError: an argument is something else, or there is no parameter to average.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
    ...     w = ga.layers.create_parameter([1], "float32", name="w", default_initializer=ga.initializer.Constant(1.0))
    ...     _ = ga.optimizer.SGD(0.5).minimize(ga.layers.reduce_sum(w))
    ...     average = ga.optimizer.ModelAverage(0.15)
    ...     executor = ga.Executor()
    ...     _ = executor.run(ga.default_startup_program())
    ...     for _ in range(2):  # w is 0.5, then 0.0
    ...         _ = executor.run()
    ...     with average.apply(executor):
    ...         inside = ga.global_scope().get("w").item()
    ...     inside, ga.global_scope().get("w").item()
    (0.25, 0.0)
    """

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        regularization: None = None,
        name: str | None = None,
    ) -> None:
        rate = number("average_window_rate", average_window_rate)
        for label, value in (("min_average_window", min_average_window), ("max_average_window", max_average_window)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidType(f"{label} is a number of updates, not {value!r}")
        if not 0 < min_average_window <= max_average_window:
            raise InvalidValue(f"the window is from 1 on: min_average_window={min_average_window}, max_average_window={max_average_window}")
        if regularization is not None:
            raise InvalidValue(f"regularization has no effect on averages: give the optimizer {regularization!r}")
        self._prefix = "" if name is None else f"{name}."
        program = default_main_program()
        parameters = [param for param in program.all_parameters() if param.trainable and param.do_model_average]
        if not parameters:
            raise InvalidValue("there is no parameter to average: make a ModelAverage after the network is built and minimize was called")
        start = len(program.global_block().ops)
        with program.atomic():
            self._sums = self._appended(program, parameters, rate, min_average_window, max_average_window)
        for op in program.global_block().ops[start:]:
            op.role = OPTIMIZE  # so that a clone for tests does without

    def _appended(self, program: Program, parameters: list[Parameter], rate: float, least: int, most: int) -> dict[str, tuple[str, str]]:
        """The operators that add up, and for each parameter the names of the new sum and of the last one."""
        updates, count, last_count = (self._kept(f"average_{what}", [1], "int64") for what in ("updates", "count", "last_count"))
        self._counts = count.name, last_count.name
        for counter in (updates, count):
            program.global_block().append_op("increment", {"X": counter}, {"Out": counter}, {"step": 1.0})
        length = layers.clip(updates.astype("float64") * rate, float(least), float(most))
        # A full sum becomes the last one, and a new one begins at 0: two sums stand for a window without keeping each step.
        is_full = count.astype("float64") >= length
        sums = {}
        for param in parameters:
            new, last = (self._kept(f"{param.name}.{what}", list(param.shape), param.dtype) for what in ("sum", "last_sum"))
            total = new + param
            layers.assign(layers.where(is_full, total, last), last)
            layers.assign(layers.where(is_full, layers.zeros_like(total), total), new)
            sums[param.name] = new.name, last.name
        layers.assign(layers.where(is_full, count, last_count), last_count)
        layers.assign(layers.where(is_full, layers.zeros_like(count), count), count)
        return sums

    def _kept(self, name: str, shape: list[int], dtype: str) -> Variable:
        return layers.create_global_var(shape, 0.0, dtype, persistable=True, name=self._prefix + name)

    def _now(self) -> dict[str, Array]:
        scope = global_scope()
        # Both sums count, the one that grows and the last full one.
        count = sum(scope.get(name).item() for name in self._counts if name in scope.arrays)
        if not count:
            raise InvalidValue("there are no averages: run the startup program and then train")
        return {name: (scope.get(new) + scope.get(last)) / count for name, (new, last) in self._sums.items()}
