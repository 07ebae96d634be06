"""An operator that is defined again: in a cell of a notebook that runs again it replaces the first; elsewhere it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ops import REGISTRY

CELL = """
from graphad.ops import operator
from graphad.ops.inference import same_float

@operator("X -> Out", name="redefined", infer=same_float, grad={grad})
def redefined(X):
    return X * {factor}
"""
GRAD = '{"X": lambda dOut: dOut * FACTOR}'


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for name in ("redefined", "redefined_grad"):
        REGISTRY.pop(name, None)


def define(factor: float, file: str, module: str = "__main__", grad: bool = True, lines: int = 0) -> None:
    text = CELL.replace("{grad}", GRAD.replace("FACTOR", str(factor)) if grad else "{}").replace("{factor}", str(factor))
    exec(compile("\n" * lines + text, file, "exec"), {"__name__": module})


def program() -> tuple[ga.Program, Any, Any]:
    main = ga.Program()
    with ga.program_guard(main):
        x = ga.layers.data("x", [2], append_batch_size=False, stop_gradient=False)
        y = ga.layers.redefined(x)  # type: ignore[attr-defined]
        (gradient,) = ga.gradients(y, x)
    return main, y, gradient


def run(written: tuple[ga.Program, Any, Any], executor: ga.Executor) -> list[list[float]]:
    main, *fetched = written
    return [each.tolist() for each in executor.run(main, {"x": np.ones(2, "float32")}, fetched)]


@pytest.mark.parametrize("second", ["<ipython-input-1-ab>", "<ipython-input-2-cd>"])
def test_a_cell_that_runs_again_replaces_the_operator(second: str) -> None:
    executor = ga.Executor()
    define(2.0, "<ipython-input-1-ab>")
    before = program()
    assert run(before, executor) == [[2.0, 2.0], [2.0, 2.0]]
    define(3.0, second, lines=4)
    assert run(program(), executor) == [[3.0, 3.0], [3.0, 3.0]]
    assert run(before, ga.Executor()) == [[3.0, 3.0], [3.0, 3.0]]


def test_the_gradient_goes_with_the_operator() -> None:
    define(2.0, "<stdin>")
    define(2.0, "<stdin>", grad=False)
    assert "redefined_grad" not in REGISTRY


def test_a_module_that_is_loaded_again_replaces_the_operator() -> None:
    define(2.0, __file__, "some_module")
    define(3.0, __file__, "some_module")
    assert ga.layers.redefined(np.ones(2)).tolist() == [3.0, 3.0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("file", "module", "lines"), [(__file__, "__main__", 9), (__file__, "some_module", 9), ("<stdin>", "other", 0)])
def test_another_definition_is_refused(file: str, module: str, lines: int) -> None:
    define(2.0, __file__, "some_module" if module != "__main__" else "__main__")
    with pytest.raises(ValueError, match=r"operator 'redefined' is defined twice, first at .*test_redefinition.py:5"):
        define(3.0, file, module, lines=lines)


def test_graphads_own_operators_are_not_replaced() -> None:
    with pytest.raises(ValueError, match="operator 'relu' is defined twice"):
        exec(CELL.replace('"redefined"', '"relu"').replace("{grad}", "{}").replace("{factor}", "2.0"), {"__name__": "__main__"})
