"""Learning rates that change with the step, computed by the program itself.

    @LR_DECAY_COUNTER@ ─▶ increment ─▶ @LR_DECAY_COUNTER@ ─▶ cast ─▶ ... ─▶ learning rate ─▶ sgd, adam, ...

The counter is persistable and one for all schedules of a program, and saved with the parameters. It is 0 in the first run, or 1
if the first schedule is ``noam_decay``, as in Paddle, whose checkpoints hold it, and one more in each run after that; each schedule
sees its own first step in the first run. The operators belong to the optimization part: a program cloned for a test has none of
them, and does not count.
They compute in float64, and give the learning rate in the requested dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import ParamSpec

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.initializer import Constant
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.values import constant
from graphad.ops import lookup
from graphad.program import OPTIMIZE, Variable, default_main_program, default_startup_program
from graphad.program.source import at_users_line
from graphad.types import FLOATS, as_float, dtype_name, element_count

P = ParamSpec("P")
COUNTER = "@LR_DECAY_COUNTER@"
_EXACT = "float64"


def _schedule(function: Callable[P, Variable]) -> Callable[P, Variable]:
    """A layer whose operators belong to the optimization part, and which no gradient goes through."""

    @layer
    @wraps(function)
    def scheduled(*args: P.args, **kwargs: P.kwargs) -> Variable:
        block = default_main_program().current_block()
        start = len(block.ops)
        with at_users_line(f"layers.{function.__name__}"):
            # In a loop the counter would count iterations.
            if block.idx:
                raise InvalidValue(f"a learning rate is computed once a run, in block 0, not in block {block.idx}")
            rate = function(*args, **kwargs)
        # With the role of updates, so that a program for tests is without them.
        for op in block.ops[start:]:
            op.role = OPTIMIZE
            for name in op.output_names():
                block.var(name).stop_gradient = True
        return rate

    return scheduled


@_schedule
def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """A counter that is ``begin`` in the first run and ``step`` more in each run after it: a persistable int64 of one element.

    Args:
        counter_name: its name, ``@STEP_COUNTER@`` if None. A counter that exists by that name is returned, and not counted twice.

    Raises:
        TypeError: ``begin`` or ``step`` is not a whole number.
        ValueError: the name is that of another variable.

    >>> import graphad as ga
    >>> main, startup = ga.Program(), ga.Program()
    >>> with ga.program_guard(main, startup):
    ...     steps = ga.layers.autoincreased_step_counter()
    >>> scope, executor = ga.Scope(), ga.Executor()
    >>> _ = executor.run(startup, scope=scope)
    >>> [executor.run(main, fetch_list=[steps], scope=scope)[0].item() for _ in range(3)]
    [1, 2, 3]
    """
    for label, value in (("begin", begin), ("step", step)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidType(f"{label} is a whole number, not {value!r}")
    return _counter("@STEP_COUNTER@" if counter_name is None else counter_name, begin, step)


def _counter(name: str, begin: int, step: int) -> Variable:
    helper = LayerHelper("global_step_counter")
    block = helper.main.global_block()
    # Several schedules of a program share one counter, which counts each run once.
    exists = block.has_var(name)
    counter = block.create_var(name, [1], "int64", persistable=True, stop_gradient=True)
    if not exists:
        # It is counted up before anything of the run reads it.
        helper.initialize(counter, Constant(begin - step))
        block.append_op("increment", {"X": counter}, {"Out": counter}, {"step": float(step)})
    return counter


# -- what the schedules take -----------------------------------------------------------------------


def _number(what: str, value: object, above: float = -math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidType(f"{what} is a number, not {value!r}")
    if not math.isfinite(as_float(value)):
        raise InvalidValue(f"{what} is a finite number, not {value!r}")
    if value <= above:
        raise InvalidValue(f"{what} is above {above:g}, not {value!r}")
    return float(value)


def _numbers(what: str, values: object) -> list[float]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise InvalidType(f"{what} is a list of numbers, not {values!r}")
    return [_number(f"{what}[{i}]", value) for i, value in enumerate(values)]


def _rate(value: object) -> float | Variable:
    """A learning rate to start from: a number, or a Variable of one element, as float64 of shape [1]."""
    if not isinstance(value, Variable):
        return _number("learning_rate", value)
    if element_count(value.shape) != 1:
        raise ShapeError(f"learning_rate is a number or a Variable of one element, not {value!r}")
    # In float64 until the end: step counts of 2^24 and more are no float32.
    rate = _cast(value, _EXACT)
    return rate if rate.shape == (1,) else lookup("reshape2")(rate, shape=[1])


def _cast(value: Variable, dtype: str) -> Variable:
    if value.dtype == dtype:
        return value
    result: Variable = lookup("cast")(value, in_dtype=value.dtype, out_dtype=dtype)
    return result


def _step(begin: int = 0) -> Variable:
    """How many runs there were before this one, and ``begin`` more; the first schedule of a program says where its counter begins."""
    step = _cast(_counter(COUNTER, begin, 1), _EXACT)
    # A schedule may begin at another step than the counter does, which the first schedule of the program has chosen.
    ahead = begin - _begin_of(COUNTER)
    return step + float(ahead) if ahead else step


def _begin_of(name: str) -> int:
    """The value of a counter in the first run, by its initialization; 0 if the startup program has none."""
    # The last initialization is the one that counts; the counter starts one step before its first value.
    initial = [op for op in default_startup_program().global_block().ops if name in op.output_names()]
    return int(initial[-1].attrs.get("value", -1.0)) + 1 if initial else 0


def _result(rate: Variable, dtype: object) -> Variable:
    name = dtype_name(dtype)
    if name not in FLOATS:
        raise InvalidValue(f"a learning rate is floating-point, not {name}")
    return _cast(rate, name)


def _constant(value: object, dtype: str = _EXACT) -> Variable:
    return constant(default_main_program().current_block(), "learning_rate.number", np.array(value, dtype).reshape(-1))


def _progress(decay_steps: object, staircase: bool) -> Variable:
    """The step in units of ``decay_steps``."""
    progress = _step() / _number("decay_steps", decay_steps, above=0)
    # In a staircase the exponent is whole, so that the rate stays for ``decay_steps`` steps.
    return lookup("floor")(progress) if staircase else progress


# -- schedules -------------------------------------------------------------------------------------


@_schedule
def exponential_decay(
    learning_rate: object, decay_steps: float, decay_rate: float, staircase: bool = False, dtype: object = "float32"
) -> Variable:
    """``learning_rate * decay_rate ** (step / decay_steps)``.

    Args:
        learning_rate: a number, or a Variable of one element.
        decay_steps: after how many steps the rate is multiplied by ``decay_rate``; above 0.
        decay_rate: a number above 0.
        staircase: whether the rate changes every ``decay_steps`` steps only.
        dtype: that of the result.

    Returns:
        The learning rate, a Variable of shape [1].

    Raises:
        TypeError: an argument is not a number.
        ValueError: one is out of range; the block being written is not block 0.
        ShapeError: ``learning_rate`` is a Variable of more than one element.

    >>> import graphad as ga
    >>> main, startup = ga.Program(), ga.Program()
    >>> with ga.program_guard(main, startup):
    ...     rate = ga.layers.exponential_decay(1.0, decay_steps=2, decay_rate=0.25)
    >>> scope, executor = ga.Scope(), ga.Executor()
    >>> _ = executor.run(startup, scope=scope)
    >>> [executor.run(main, fetch_list=[rate], scope=scope)[0].item() for _ in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """
    base = _number("decay_rate", decay_rate, above=0)
    # A power of a number: its exponent is the tensor.
    return _result(base ** _progress(decay_steps, staircase) * _rate(learning_rate), dtype)


@_schedule
def natural_exp_decay(
    learning_rate: object, decay_steps: float, decay_rate: float, staircase: bool = False, dtype: object = "float32"
) -> Variable:
    """``learning_rate * exp(-decay_rate * step / decay_steps)``; arguments and errors as ``exponential_decay``."""
    exponent = _progress(decay_steps, staircase) * -_number("decay_rate", decay_rate)
    return _result(lookup("exp")(exponent) * _rate(learning_rate), dtype)


@_schedule
def inverse_time_decay(
    learning_rate: object, decay_steps: float, decay_rate: float, staircase: bool = False, dtype: object = "float32"
) -> Variable:
    """``learning_rate / (1 + decay_rate * step / decay_steps)``; arguments and errors as ``exponential_decay``."""
    divisor = _progress(decay_steps, staircase) * _number("decay_rate", decay_rate) + 1.0
    return _result(_rate(learning_rate) / divisor, dtype)


@_schedule
def polynomial_decay(
    learning_rate: object,
    decay_steps: float,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    dtype: object = "float32",
) -> Variable:
    """``(learning_rate - end_learning_rate) * (1 - step / decay_steps) ** power + end_learning_rate``, and then the end.

    With ``cycle`` the rate rises again after ``decay_steps``, to fall over two, three, ... times as many steps from the beginning.
    Other arguments and errors as ``exponential_decay``.
    """
    end, exponent, progress = _number("end_learning_rate", end_learning_rate), _number("power", power), _progress(decay_steps, False)
    if cycle:
        # The first cycle counts from step 0 on, where the progress rounded up is 0.
        part = progress / lookup("elementwise_max")(lookup("ceil")(progress), _constant(1.0))
    else:
        part = lookup("elementwise_min")(progress, _constant(1.0))
    return _result((1.0 - part) ** exponent * (_rate(learning_rate) - end) + end, dtype)


@_schedule
def piecewise_decay(boundaries: Sequence[int], values: Sequence[float], dtype: object = "float32") -> Variable:
    """``values[i]`` from step ``boundaries[i - 1]`` on and before step ``boundaries[i]``.

    Raises:
        TypeError: an argument is not a list of numbers.
        ValueError: there is not one value more than boundaries, or the boundaries do not rise; others as ``exponential_decay``.
    """
    bounds, rates = _numbers("boundaries", boundaries), _numbers("values", values)
    if len(rates) != len(bounds) + 1:
        raise InvalidValue(f"{len(bounds)} boundaries take {len(bounds) + 1} values, not {len(rates)}")
    if any(later <= earlier for earlier, later in pairwise(bounds)):
        raise InvalidValue(f"boundaries rise from each to the next, unlike {list(boundaries)}")
    step = _step()
    if not bounds:
        return _result(_constant(rates), dtype)
    steps_passed = _cast(lookup("greater_equal")(step, _constant(bounds)), "int64")
    # The boundaries rise, so as many as the step has reached lie before its value.
    index = lookup("reduce_sum")(steps_passed, dim=[0], keep_dim=True)
    return _result(lookup("gather")(_constant(rates), index), dtype)


@_schedule
def cosine_decay(learning_rate: object, step_each_epoch: int, epochs: int, dtype: object = "float32") -> Variable:
    """``learning_rate / 2 * (cos(pi * epoch / epochs) + 1)``, where ``epoch`` is ``floor(step / step_each_epoch)``.

    Errors as ``exponential_decay``.
    """
    total = _number("epochs", epochs, above=0)
    epoch = lookup("floor")(_step() / _number("step_each_epoch", step_each_epoch, above=0))
    return _result((lookup("cos")(epoch * (math.pi / total)) * 0.5 + 0.5) * _rate(learning_rate), dtype)


@_schedule
def noam_decay(d_model: float, warmup_steps: float, learning_rate: object = 1.0, dtype: object = "float32") -> Variable:
    """``learning_rate * d_model ** -0.5 * min(step ** -0.5, step * warmup_steps ** -1.5)``, with steps from 1 on.

    A. Vaswani et al., "Attention is all you need", 2017. Errors as ``exponential_decay``.
    """
    step, width, warmup = _step(begin=1), _number("d_model", d_model, above=0), _number("warmup_steps", warmup_steps, above=0)
    # The two curves meet at the end of the warm-up, and the lower one counts.
    shape = lookup("elementwise_min")(step**-0.5, step * warmup**-1.5)
    return _result(shape * width**-0.5 * _rate(learning_rate), dtype)


@_schedule
def linear_lr_warmup(learning_rate: object, warmup_steps: float, start_lr: float, end_lr: float, dtype: object = "float32") -> Variable:
    """A linear warm-up from ``start_lr`` to ``end_lr`` in ``warmup_steps`` equal steps, and then ``learning_rate``.

    A ``learning_rate`` that is a schedule has counted all steps, also those of the warm-up. Errors as ``exponential_decay``.
    """
    start, end, count = _number("start_lr", start_lr), _number("end_lr", end_lr), _number("warmup_steps", warmup_steps, above=0)
    rate, step = _rate(learning_rate), _step()
    warmup = step / count * (end - start) + start
    after = rate if isinstance(rate, Variable) else _constant(rate)
    return _result(lookup("where")(step < count, warmup, after), dtype)


@_schedule
def lambda_decay(learning_rate: object, lr_lambda: Callable[[Variable], object], dtype: object = "float32") -> Variable:
    """``learning_rate * lr_lambda(step)``, the function being called once, with the step as a float64 Variable of shape [1].

    Other arguments and errors as ``exponential_decay``.

    Raises:
        TypeError: ``lr_lambda`` is not a function, or does not return a Variable.

    >>> import graphad as ga
    >>> main, startup = ga.Program(), ga.Program()
    >>> with ga.program_guard(main, startup):
    ...     rate = ga.layers.lambda_decay(3.0, lambda step: 1.0 / (step + 1.0))
    >>> scope, executor = ga.Scope(), ga.Executor()
    >>> _ = executor.run(startup, scope=scope)
    >>> [executor.run(main, fetch_list=[rate], scope=scope)[0].item() for _ in range(3)]
    [3.0, 1.5, 1.0]
    """
    if not callable(lr_lambda):
        raise InvalidType(f"lr_lambda is a function of the step, not {lr_lambda!r}")
    factor = lr_lambda(_step())
    if not isinstance(factor, Variable):
        raise InvalidType(f"lr_lambda gives a Variable, not {factor!r}")
    return _result(factor * _rate(learning_rate), dtype)
