"""The names of Fluid's top level that are elsewhere here, so that an old script runs with ``import graphad as fluid``.

``fluid.data``, ``fluid.DataFeeder``, ``fluid.regularizer`` and ``fluid.clip``; and for what is not here, what takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace

import numpy as np

from graphad import layers
from graphad.errors import InvalidType, InvalidValue
from graphad.execution.places import CPUPlace
from graphad.optimizer.base import ClipByGlobalNorm, ClipByNorm, ClipByValue
from graphad.program import Program, Variable, default_main_program
from graphad.program.variable import L1Decay, L2Decay
from graphad.types import Array

INSTEAD = {
    "CompiledProgram": "an Executor compiles programs by itself: pass the program to Executor.run",
    "ParallelExecutor": "Executor.run runs programs; LocalGroup runs one on several ranks",
    "dygraph": "there is no eager mode: layers append operators to a program",
    "io": "graphad.save(program, path, scope) writes a program and its values, graphad.load(path) reads them",
    "metrics": "layers.accuracy and layers.auc, or numpy on what was fetched",
    "nets": "layers.conv2d, layers.pool2d and layers.fc, one after another",
}


def data(name: str, shape: Sequence[int | str | None], dtype: object = "float32", lod_level: int = 0) -> Variable:
    """A variable to feed, of just this shape: ``layers.data`` without a batch in front.

    Args:
        name: what it is fed as.
        shape: its extents; None or -1 is any, ``"batch"`` any of that name.
        dtype: its dtype.
        lod_level: 0; sequences of different lengths (LoD) are not here.

    Raises:
        ValueError: ``lod_level`` is not 0.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     fluid.data("x", [None, 3])
    Variable x: float32[-1, 3]
    """
    if lod_level:
        raise InvalidValue(f"data: lod_level={lod_level}: sequences are padded here, [batch, time, ...], with layers.sequence_mask")
    extents = [-1 if each is None else each for each in shape]
    return layers.data(name, extents, dtype=dtype, append_batch_size=False)


class DataFeeder:
    """Rows of a reader as what ``Executor.run`` is fed.

    Args:
        feed_list: the variables that a row has values for, themselves or by name.
        place: the CPU, or None.
        program: whose variables the names are; the default main program if None.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     feeder = fluid.DataFeeder([fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")])
    >>> feeder.feed([([1.0, 2.0], 0), ([3.0, 4.0], 1)])["label"].tolist()
    [[0], [1]]
    """

    def __init__(self, feed_list: Sequence[Variable | str], place: CPUPlace | None = None, program: Program | None = None) -> None:
        block = (default_main_program() if program is None else program).global_block()
        self.variables = [each if isinstance(each, Variable) else block.var(each) for each in feed_list]

    def feed(self, rows: Iterable[Sequence[object]]) -> dict[str, Array]:
        """The values of each variable in all rows, stacked; a row's value takes the variable's shape without the batch.

        Raises:
            TypeError: a row does not have as many values as there are variables.
        """
        taken = [tuple(row) for row in rows]
        for number, row in enumerate(taken):
            if len(row) != len(self.variables):
                raise InvalidType(f"row {number} has {len(row)} values for {[var.name for var in self.variables]}")
        return {var.name: _stacked(var, [row[i] for row in taken]) for i, var in enumerate(self.variables)}


def _stacked(var: Variable, values: list[object]) -> Array:
    stacked = np.array(values, dtype=var.dtype)
    one = tuple(var.shape[1:])
    fits = -1 not in one and stacked.size == len(values) * int(np.prod(one))
    return stacked.reshape(len(values), *one) if fits else stacked


# -- namespaces, spelt as Fluid spells them ------------------------------------------------------


def _l1_decay(regularization_coeff: float = 0.0) -> L1Decay:
    return L1Decay(regularization_coeff)


def _l2_decay(regularization_coeff: float = 0.0) -> L2Decay:
    return L2Decay(regularization_coeff)


def _clip_by_value(max: float, min: float | None = None) -> ClipByValue:
    return ClipByValue(max, min)


def _clip_by_norm(clip_norm: float) -> ClipByNorm:
    return ClipByNorm(clip_norm)


def _clip_by_global_norm(clip_norm: float, group_name: str = "default_group") -> ClipByGlobalNorm:
    return ClipByGlobalNorm(clip_norm)


regularizer = SimpleNamespace(L1Decay=_l1_decay, L2Decay=_l2_decay, L1DecayRegularizer=_l1_decay, L2DecayRegularizer=_l2_decay)
clip = SimpleNamespace(GradientClipByValue=_clip_by_value, GradientClipByNorm=_clip_by_norm, GradientClipByGlobalNorm=_clip_by_global_norm)
