"""Operators that compute into the memory of an input, where a pass has marked them: ``{inplace=["Out:X"]}``.

The mark promises that nothing else uses that memory. Whether the input is read later is looked up here, since that changes with
every operator that is added; and arrays that were fed, or are the scope's, are never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from graphad.execution.layout import Layout, depth, home
from graphad.execution.steps import Frames, Place, Reader, Step
from graphad.ops import OpDef
from graphad.ops.in_place import INPLACE, Write, takes_required, writer, writes_into
from graphad.program import EMPTY, Operator


class Owner(Reader, Protocol):
    """The run that a step belongs to."""

    def is_given(self, array: Any) -> bool:
        """Whether an array was fed or is the scope's."""


def in_place(run: Owner, op: Operator, row: OpDef, layout: Layout, freed: Collection[str], plain: Step) -> Step:
    """The step of an operator that may be marked; ``plain`` is the one that makes a new array, ``freed`` names that are dead after it."""
    marks = op.attrs.get(INPLACE)
    if not marks or run.check_finite:
        return plain
    slot, _, source = marks[0].partition(":")
    outs, names = op.outputs.get(slot, []), op.inputs.get(source, [])
    if not takes_required(row, op.inputs) or len(outs) != 1 or not names or EMPTY in (*outs, *op.input_names()):
        return plain
    if depth(layout, names[0]) or (names[0] not in freed and names[0] != outs[0]):
        return plain
    reads = [(depth(layout, name), name) for name in op.input_names()]
    return _reusing(run, partial(_writer, row, op.attrs), reads, reads.index((0, names[0])), (home(layout, outs[0]), outs[0]), plain)


def _writer(row: OpDef, attrs: Mapping[str, Any], dtype: np.dtype[Any], count: int, reused: int) -> Write | None:
    """The function for arrays of one dtype, None if the operator makes another one of them."""
    dtypes = [dtype] * count
    return writer(row, attrs, dtypes, dtype, [reused]) if writes_into(row, dtypes, attrs) else None


def _reusing(
    run: Owner, make: Callable[..., Write | None], reads: list[Place], reused: int, place: Place, plain: Callable[[Frames], None]
) -> Step:
    at, name = place
    writers: dict[np.dtype[Any], Write | None] = {}

    def step(frames: Frames) -> None:
        try:
            arrays = [frames[d][n] for d, n in reads]
        except KeyError:
            return plain(frames)
        out = arrays[reused]
        if not _fit(arrays, out) or run.is_given(out):
            return plain(frames)
        if out.dtype not in writers:
            writers[out.dtype] = make(out.dtype, len(arrays), reused)
        write = writers[out.dtype]
        if write is None:
            return plain(frames)
        try:
            write(arrays, out)
        except (TypeError, ValueError):
            return plain(frames)
        frames[at][name] = out

    return step


def _fit(arrays: list[Any], out: Any) -> bool:
    """Whether all are arrays of one dtype; more than two, which are computed one after the other, have to be of one shape, too.

    They are laid out in the order of their elements, as a new array would be: what adds them up later adds in that order.
    """
    if type(out) is not np.ndarray or not out.ndim:
        return False
    if any(type(each) is not np.ndarray or each.dtype != out.dtype or not each.flags.c_contiguous for each in arrays):
        return False
    return len(arrays) < 3 or all(each.shape == out.shape for each in arrays)
