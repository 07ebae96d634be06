"""``fluid.contrib``: what many scripts take from it. The rest says what takes its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from graphad.errors import InvalidType, InvalidValue
from graphad.optimizer import MixedPrecisionOptimizer, Optimizer
from graphad.optimizer import decorate as decorated
from graphad.program import Program

_COSTS = "graphad.experiment(program, {'as written': None}, feed) counts operators, FLOPs and bytes"
INSTEAD = {
    "memory_usage": "graphad.memory_plan(program, feed) says how much memory a run takes",
    "summary": _COSTS,
    "model_stat": _COSTS,
    "layers": "layers.LSTMCell, GRUCell and rnn, or layers.lstm, dynamic_lstm and dynamic_gru",
    "decoder": "layers.BeamSearchDecoder and dynamic_decode",
    "Compressor": "operators of 8 bits are read from ONNX models; networks are not pruned here",
    "QuantizeTranspiler": "operators of 8 bits are read from ONNX models",
    "slim": "operators of 8 bits are read from ONNX models; networks are not pruned here",
    "quantize": "operators of 8 bits are read from ONNX models",
    "Trainer": "graphad.train(cost, reader=...)",
    "HDFSClient": "files are read by Python: fluid.io.batch and other readers",
}


@dataclass(frozen=True, init=False)
class AutoMixedPrecisionLists:
    """The choice of narrow operators: products are, except for those of types in ``custom_black_list``.

    Raises:
        ValueError: ``custom_white_list`` is not empty: other operators stay as wide as they are.
    """

    black_list: tuple[str, ...]

    def __init__(self, custom_white_list: Iterable[str] | None = None, custom_black_list: Iterable[str] | None = None) -> None:
        if white := sorted(custom_white_list or ()):
            raise InvalidValue(f"custom_white_list={white}: products alone are narrow, everything else stays as wide as it is")
        object.__setattr__(self, "black_list", tuple(sorted(custom_black_list or ())))


def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 1.0,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
) -> MixedPrecisionOptimizer:
    """``graphad.optimizer.decorate`` with Fluid's parameters and defaults.

    Raises:
        TypeError, ValueError: as ``graphad.optimizer.decorate``; or ``amp_lists`` is something else.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program(), fluid.Program()) as program:
    ...     cost = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
    ...     optimizer = fluid.contrib.mixed_precision.decorate(fluid.optimizer.Adam(0.1), init_loss_scaling=128.0)
    ...     _ = optimizer.minimize(cost)
    >>> optimizer.get_loss_scaling().name
    'loss_scaling_0'
    """
    if not isinstance(amp_lists, AutoMixedPrecisionLists | None):
        raise InvalidType(f"amp_lists is an AutoMixedPrecisionLists or None, not {amp_lists!r}")
    keep = () if amp_lists is None else amp_lists.black_list
    steps = (incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio)
    return decorated(optimizer, keep, init_loss_scaling, *steps, use_dynamic_loss_scaling)


def op_freq_statistic(program: Program) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """How often each type of operator comes, and each pair of which the second reads what the first has written; most often first.

    Raises:
        TypeError: it is no program.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()) as program:
    ...     x = fluid.data("x", [2])
    ...     y = fluid.layers.relu(fluid.layers.relu(fluid.layers.tanh(x)))
    >>> fluid.contrib.op_freq_statistic(program)
    ([('relu', 2), ('tanh', 1)], [('tanh->relu', 1), ('relu->relu', 1)])
    """
    if not isinstance(program, Program):
        raise InvalidType(f"op_freq_statistic takes a Program, not {program!r}")
    single: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    writers: dict[str, str] = {}
    for op in program.global_block().ops:
        single[op.type] += 1
        pairs.update(f"{writers[name]}->{op.type}" for name in op.input_names() if name in writers)
        writers.update(dict.fromkeys(op.output_names(), op.type))
    return single.most_common(), pairs.most_common()
