"""Rows of samples as the arrays that ``Executor.run`` is fed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from graphad.errors import InvalidType
from graphad.places import CPUPlace
from graphad.program import Program, Variable, default_main_program
from graphad.types import Array


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
        self.variables = [item if isinstance(item, Variable) else block.var(item) for item in feed_list]

    def feed(self, rows: Iterable[Sequence[object]]) -> dict[str, Array]:
        """The values of each variable in all rows, stacked; a row's value takes the variable's shape without the batch.

        Raises:
            TypeError: a row does not have as many values as there are variables.
        """
        batch = [tuple(row) for row in rows]
        for number, row in enumerate(batch):
            if len(row) != len(self.variables):
                raise InvalidType(f"row {number} has {len(row)} values for {[var.name for var in self.variables]}")
        return {var.name: _stacked(var, [row[i] for row in batch]) for i, var in enumerate(self.variables)}


def _stacked(var: Variable, values: list[object]) -> Array:
    array = np.array(values, dtype=var.dtype)
    row_shape = tuple(var.shape[1:])
    # A row may be flat, as Fluid's readers give images: it takes the variable's shape if it has as many elements.
    has_shape = -1 not in row_shape and array.size == len(values) * int(np.prod(row_shape))
    return array.reshape(len(values), *row_shape) if has_shape else array
