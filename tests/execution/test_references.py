"""Arrays that a caller holds are never written to by later runs: references are counted as the running Python counts them."""

from sys import getrefcount

import numpy as np
import pytest

import graphad as ga
from graphad.execution.runtime import own_or_taken
from graphad.references import COUNTING, PASSED


def test_another_holder_is_seen() -> None:
    thing = np.zeros(3)
    assert getrefcount(thing) == 1 + COUNTING
    assert own_or_taken(thing) is thing
    holder = [thing]
    assert getrefcount(thing) == 2 + COUNTING
    assert own_or_taken(thing) is not thing
    holder.clear()
    assert own_or_taken(thing) is thing
    assert {COUNTING, PASSED} <= {0, 1}


@pytest.mark.parametrize("size", [3, 5000])
def test_a_result_in_one_variable_stays_as_it_was(size: int) -> None:
    main = ga.Program()
    with ga.program_guard(main):
        x = ga.layers.data("x", [size], append_batch_size=False)
        y = ga.layers.relu(x * 2.0) + 1.0
        z = ga.layers.reduce_sum(y)
    executor = ga.Executor()
    held = []
    for number in range(6):
        (first, _) = executor.run(main, {"x": np.full(size, number, "float32")}, [y, z])
        held.append(first)  # the one reference outside, once the variable has the next
    assert [float(array[0]) for array in held] == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    assert len({array.__array_interface__["data"][0] for array in held}) == 6
