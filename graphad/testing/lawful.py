"""Whether a case that was made of another one by a change is one on which a pass has to be right: it runs, and its types hold.

What is drawn is so by how it is drawn. A changed program may run by accident: an operator broadcasts what inference took for one extent, a
range is longer than it is declared, a block reads what was never written and does not run. A pass may go by what is declared.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from graphad.errors import GraphadError
from graphad.execution.interpreter import Interpreter
from graphad.execution.names import Frames, Layout, Step
from graphad.ir import lower
from graphad.program import EMPTY, Operator
from graphad.testing.cases import Case, completed
from graphad.testing.equivalence import Stepwise, has_shape
from graphad.testing.program_edits import undeclare_written
from graphad.types import STEP_SCOPES


class _Unlike(Exception):
    """A result has another shape than is declared."""


class _Watching(Interpreter):
    """Compares the shape of every result, in blocks as well, with what is declared."""

    def step(self, op: Operator, layout: Layout, freed: Collection[str]) -> Step:
        inner = super().step(op, layout, freed)
        shapes = {name: op.block.var_recursive(name).declared[0] for name in op.output_names() if name != EMPTY}

        def watched(frames: Frames) -> None:
            inner(frames)
            for name, shape in shapes.items():
                value = next((frame[name] for frame in frames if name in frame), None)
                if isinstance(value, np.ndarray) and not has_shape(value, shape):
                    raise _Unlike

        return watched


def is_lawful(case: Case) -> bool:
    """Whether a case has all arrays that it reads, its types hold for their extents, and all results have the declared ones."""
    if missing(case) or not fits_extents(case):
        return False
    steps = Stepwise(case.program, [], _Watching)
    try:
        steps.run(case)
    except Exception:  # a kernel may raise anything
        return False
    finally:
        steps.close()
    return True


def missing(case: Case) -> set[str]:
    """The names that a program takes from outside, and that nothing is fed for."""
    return {value.name for value in lower(case.program).inputs if value.kind != STEP_SCOPES} - {*case.feeds, *case.params}


def fits_extents(case: Case) -> bool:
    """Whether inference accepts the extents of what is fed, where those declared are not known."""
    copy = case.program.clone()
    for name, array in case.feeds.items():
        var = copy.global_block().vars[name]
        if isinstance(array, np.ndarray):
            var.declare(array.shape, var.declared[1])
    try:
        undeclare_written(copy)
        completed(copy)
    except GraphadError:
        return False
    return True
