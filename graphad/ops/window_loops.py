"""Depthwise convolutions and gradients of maxima over windows as compiled loops: of one image of one channel after the other.

    image [H, W]                  phases (stride 2)         line                      result
    a b c d     elements a        a c   b d     every row   w0 a + w1 b + w2 c + ..   without the columns
    e f g h  ⇒  stride apart  ⇒   i k   j l  ⇒  and tap in  one run of memory      ⇒  between the rows
    i j k l     side by side      e g   f h     one loop

The image of a channel is copied once, with its padding, so that each tap of the filter is a run of memory, from another place on. All taps
of some rows of the filter are one loop over the runs, each of which is summed by itself. A loop is made for each
extent, stride and dilation of a filter; extents of images are arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, product
from math import prod
from textwrap import indent

import numpy as np

from graphad.ops.loops import APART, UNCOUNTED, argument, function_of
from graphad.ops.scratch import aligned, scratch
from graphad.ops.vector_moves import LANES, fills
from graphad.ops.windows import Axes, Axis, check_fit
from graphad.types import Array, Function, Shape

# An index without a sign needs no test for being counted from the end, which keeps loops from working on many elements at a time. Nothing
# is allocated, so that views of images need not be counted, which took a tenth of the time of images of 7x7.
_HEAD = '''\
"""Windows, by graphad."""
import numpy as np
from numba import njit
{uncounted}{apart}options = dict(nogil=True, cache={cached}, error_model="numpy", fastmath={{fast}}, **uncounted)

@njit(**options)
def fill(image, x, pitch, size, top, left):
    """An image in its phases, each of so many elements; the padding is there."""
    # Whole groups of a stride's elements together: what is read with gaps is not vectorized. After them are a few elements.
    width, groups = x.shape[1], x.shape[1] // {sw}
    for r in range(x.shape[0]):
        down = r + top
        first = (down % {sh}) * {sw} * size + (down // {sh}) * pitch + left // {sw}
        {targets}
        for i in range(np.uint64(groups)):
            {moves}
        for c in range(groups * {sw}, width):
            image[first + c % {sw} * size + groups] = x[r, c]

'''

_PRODUCT = """\
@njit(["void({t}[:, :, :, ::1], {t}[:, ::1], {t}[:, :, :, ::1], {t}[::1], {t}[::1], intp, intp, intp, intp)"], **options)
def loop(x, w, out, image, line, pitch, size, top, left):
    apart()
    rows, columns = out.shape[2], out.shape[3]
    length = np.uint64((rows - 1) * pitch + columns)
    {starts}
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            fill(image, x[n, c], pitch, size, top, left)
            {sums}
            for r in range(rows):
                source, target = line[r * pitch : r * pitch + columns], out[n, c, r]
                for i in range(np.uint64(columns)):
                    target[i] = source[i]
"""

_FILTER = """\
@njit(["void({t}[:, :, :, ::1], {t}[:, :, :, ::1], {t}[:, ::1], {t}[::1], {t}[::1], intp, intp, intp, intp)"], **options)
def loop(x, y, total, image, line, pitch, size, top, left):
    apart()
    rows, columns = y.shape[2], y.shape[3]
    length = np.uint64((rows - 1) * pitch + columns)
    {starts}
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            fill(image, x[n, c], pitch, size, top, left)
            for r in range(rows):
                source, target = y[n, c, r], line[r * pitch : r * pitch + columns]
                for i in range(np.uint64(columns)):
                    target[i] = source[i]
            {sums}
"""

# With strides: each element of the image is a sum over the taps of its phase.
_SPREAD = """\
@njit(["void({t}[:, :, :, ::1], {t}[:, ::1], {t}[:, :, :, ::1], {t}[::1], intp, intp, intp)"], **options)
def loop(y, w, out, line, pitch, top, left):
    apart()
    rows, columns, margin = y.shape[2], y.shape[3], {margin}
    groups, rest = np.uint64(out.shape[3] // {sw}), out.shape[3] % {sw}
    for p in range(y.shape[0]):
        for c in range(y.shape[1]):
            {starts}
            for o in range(rows):
                source, target = y[p, c, o], line[o * pitch + margin : o * pitch + margin + columns]
                for i in range(np.uint64(columns)):
                    target[i] = source[i]
            for r in range(out.shape[2]):
                down = r + top
                first = np.uint64(margin + down // {sh} * pitch + left // {sw})
                {totals}
"""

RUNS = 6  # runs of memory that one loop reads: addresses that it keeps in registers
TAPS = 25  # sums that one loop keeps in registers


# -- depthwise convolutions ------------------------------------------------------------------------


class _Geometry:
    """The places of the taps of a filter in the phases of an image."""

    def __init__(self, window_axes: Axes) -> None:
        down, across = window_axes
        self.strides, extra = (down.stride, across.stride), _extra(across)
        cells = [-(-down.padded // down.stride), -(-(across.padded + extra) // across.stride)]
        self.pitch, self.size = cells[1], prod(cells) + LANES  # what vectors of a row write beyond the last one
        self.top, self.left = down.before, across.before + extra
        self.length = (down.count - 1) * self.pitch + across.count

    def memory(self, dtype: np.dtype[np.generic]) -> tuple[Array, Array]:
        """For an image in its phases, and for the line that is a result: zeros."""
        image, line = scratch("lines", (self.size * prod(self.strides),), dtype), scratch("columns", (self.length + LANES,), dtype)
        image.fill(0)
        line.fill(0)
        return image, line

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        return self.pitch, self.size, self.top, self.left


def can_loop(window_axes: Axes) -> bool:
    """Whether loops can go over such windows."""
    return len(window_axes) == 2 and all(a.before >= 0 and a.after >= 0 and 0 not in (a.kernel, a.size, a.count) for a in window_axes)


def product_for(image: Shape, window_axes: Axes, dtype: np.dtype[np.generic]) -> Callable[[Array, Array], Array]:
    """The products of each channel's filter with every window of images of a shape, ``[N, C, *counts]``, in memory that this thread keeps.

    What does not depend on their elements is found once.
    """
    geometry, shape = _Geometry(window_axes), (*image[:2], *(a.count for a in window_axes))
    loop, numbers = _depthwise(_PRODUCT, _form(window_axes), dtype.name), geometry.numbers
    memory, line = geometry.memory(dtype)

    def product(x: Array, filter_: Array) -> Array:
        out = aligned(shape, dtype)
        memory.fill(0)  # the padding: others have written to it
        loop(argument(x), argument(filter_).reshape(len(filter_), -1), out, memory, line, *numbers)
        return out

    return product


def cotangent_of(x: Array, y: Array, window_axes: Axes) -> Array | None:
    """The sums over samples of the products of y with every window of x, ``[C, kernel]``; None if one of them is not finite.

    Between the rows of y are zeros in the line, which meet elements of x: where these are infinite, that is no sum of products of windows.
    """
    geometry = _Geometry(window_axes)
    total = np.zeros((x.shape[1], prod(a.kernel for a in window_axes)), x.dtype)
    loop = _depthwise(_FILTER, _form(window_axes), x.dtype.name)
    loop(argument(x), argument(y), total, *geometry.memory(x.dtype), *geometry.numbers)
    return total if np.isfinite(total).all() else None


def spread_of(filter_: Array, y: Array, window_axes: Axes) -> Array:
    """The image whose windows receive y, each element through its tap of the filter: the transpose of ``product_for``."""
    geometry, form = _Geometry(window_axes), _form(window_axes)
    out = aligned((*y.shape[:2], *(a.size for a in window_axes)), y.dtype)
    line = scratch("lines", (_margin(form, geometry.pitch) + geometry.size,), y.dtype)
    line.fill(0)
    weights, (pitch, _, top, left) = argument(filter_).reshape(len(filter_), -1), geometry.numbers
    _spread(form, y.dtype.name)(argument(y), weights, out, line, pitch, top, left)
    return out


_Form = tuple[tuple[int, int, int, int], tuple[int, int, int, int]]


def _form(window_axes: Axes) -> _Form:
    """The key of a compiled loop: extent, stride, dilation and additional padding along each axis."""
    down, across = window_axes
    return (down.kernel, down.stride, down.dilation, 0), (across.kernel, across.stride, across.dilation, _extra(across))


def _extra(axis: Axis) -> int:
    """Padding before the axis that makes up a multiple of the stride, so that the axis begins with a group of a stride's elements."""
    return -axis.before % axis.stride


_Tap = tuple[int, str, int]  # its number, the run that it is in, and how much further


def _taps(form: _Form) -> tuple[list[str], list[_Tap]]:
    """The starts of the runs of the taps, and the taps: a run for each row of the filter and each phase of its columns."""
    (height, sh, dh, _), (width, sw, dw, extra) = form
    runs: dict[tuple[int, int], str] = {}
    taps = []
    for k, (a, b) in enumerate(product(range(height), range(width))):
        run = runs.setdefault((a, (b * dw + extra) % sw), f"run{len(runs)}")
        taps.append((k, run, (b * dw + extra) // sw))
    starts = [
        f"{name} = np.uint64(({a * dh % sh} * {sw} + {column}) * size + {a * dh // sh} * pitch)" for (a, column), name in runs.items()
    ]
    return starts, taps


def _by_runs(taps: Iterable[_Tap]) -> Iterator[tuple[int, list[_Tap]]]:
    """Taps that one loop reads, from a few runs; with the number of the loop."""
    parts = groupby(taps, key=lambda tap: int(tap[1].removeprefix("run")) // RUNS)
    return ((number, list(some)) for number, (_, some) in enumerate(parts))


def _written(
    text: str, fast: str, form: _Form, starts: list[str], sums: list[str], names: Mapping[str, str], totals: Sequence[str] = ()
) -> Function:
    """The loop of a text, for a form of windows."""
    (_, sh, _, _), (_, sw, _, _) = form
    whole = _HEAD.replace("{{fast}}", fast).replace("{uncounted}", UNCOUNTED).replace("{apart}", APART) + text
    targets = [f"start{column} = np.uint64(first + {column} * size)" for column in range(sw)]
    moves = [f"image[start{column} + i] = x[r, i * np.uint64({sw}) + np.uint64({column})]" for column in range(sw)]
    for name, lines in (("starts", starts), ("sums", sums), ("totals", totals), ("targets", targets), ("moves", moves)):
        # As deep as the line that they are put for.
        whole = re.sub(rf"^( *)\{{{name}\}}$", lambda place: indent("\n".join(lines), place[1]), whole, flags=re.MULTILINE)  # noqa: B023
    for name, value in {**names, "sh": sh, "sw": sw}.items():
        whole = whole.replace(f"{{{name}}}", str(value))
    return function_of(whole)


@cache
def _depthwise(text: str, form: _Form, dtype: str) -> Function:
    starts, taps = _taps(form)
    if text is _PRODUCT:
        return _written(text, '{"contract"}', form, starts, _products(taps), {"t": dtype})
    return _written(text, '{"contract", "reassoc"}', form, starts, _totals(taps), {"t": dtype})


@cache
def _spread(form: _Form, dtype: str) -> Function:
    (height, *_), (width, *_) = form

    def total(row: int, column: int) -> list[str]:
        # A sum for each row of the filter: a single one would be a chain of additions that wait for each other.
        reaching = groupby(_reaching(form, row, column), key=lambda tap: tap[0] // width)
        sums = [f"({' + '.join(f'w{k} * line[{at}]' for k, at in some)})" for _, some in reaching]
        return [f"{_target(form, 'p, c, r', column)} = {' + '.join(sums) or f'np.{dtype}(0)'}"]

    starts = [f"w{k} = w[c, {k}]" for k in range(height * width)]
    text = _SPREAD.replace("{margin}", _margin_text(form))
    return _written(text, '{"contract"}', form, starts, [], {"t": dtype}, _by_rows(form, total))


def _margin(form: _Form, pitch: int) -> int:
    """How far the last tap is from the first, in the lines of phases."""
    (height, sh, dh, _), (width, sw, dw, extra) = form
    return (height - 1) * dh // sh * pitch + ((width - 1) * dw + extra) // sw


def _margin_text(form: _Form) -> str:
    return f"{_margin(form, 1) - _margin(form, 0)} * pitch + {_margin(form, 0)}"


def _reaching(form: _Form, row: int, column: int) -> Iterator[tuple[int, str]]:
    """The taps that reach the elements of a phase, and from where in the line of the windows."""
    (height, sh, dh, _), (width, sw, dw, extra) = form
    for k, (a, b) in enumerate(product(range(height), range(width))):
        across = b * dw + extra
        if (a * dh % sh, across % sw) == (row, column):
            yield k, f"first + i - np.uint64({a * dh // sh} * pitch + {across // sw})"


def _target(form: _Form, row: str, column: int) -> str:
    """An element of a row of the image, which is read as one of the whole array: a third quicker than by a view of the row."""
    stride = form[1][1]
    return f"out[{row}, i * np.uint64({stride}) + np.uint64({column})]"


def _by_rows(form: _Form, total: Callable[[int, int], list[str]]) -> list[str]:
    """The elements of a row of the image, a stride's at a time, by how the ones of a phase are found."""
    (_, sh, *_), (_, sw, *_) = form
    lines = []
    for row in range(sh):
        totals = [total(row, column) for column in range(sw)]
        lines += [f"if down % {sh} == {row}:", "    for i in range(groups):"]
        lines += [f"        {line}" for some in totals for line in some]
        for column, some in enumerate(totals[:-1]):  # beyond the last whole group
            lines += [f"    if rest > {column}:", "        i = groups", *(f"        {line}" for line in some)]
    return lines


def _element(run: str, further: int) -> str:
    return f"image[i + {run} + np.uint64({further})]"


def _products(taps: list[_Tap]) -> list[str]:
    """The line as the sum over taps, of some runs at a time."""
    lines = [f"w{k} = w[c, {k}]" for k, _, _ in taps]
    for number, some in _by_runs(taps):
        # A sum for each run: a single one would be a chain of additions that wait for each other.
        of_runs: dict[str, list[str]] = {}
        for k, run, further in some:
            of_runs.setdefault(run, []).append(f"w{k} * {_element(run, further)}")
        sums = " + ".join(f"({' + '.join(terms)})" for terms in of_runs.values())
        lines += ["for i in range(length):", f"    line[i] = {'line[i] + ' if number else ''}{sums}"]
    return lines


def _totals(taps: list[_Tap]) -> list[str]:
    """The total of each tap, of some at a time."""
    lines = []
    for start in range(0, len(taps), TAPS):
        some = taps[start : start + TAPS]
        lines += [f"s{k} = np.{{t}}(0)" for k, _, _ in some]
        lines += ["for i in range(length):", "    value = line[i]"]
        lines += [f"    s{k} += {_element(run, further)} * value" for k, run, further in some]
        lines += [f"total[c, {k}] += s{k}" for k, _, _ in some]
    return lines


# -- gradients of maxima ---------------------------------------------------------------------------

# The place of each maximum is found for all windows of an image: taps from the last to the first, so that the first one stays. Then each
# element is a sum over the taps that reach it, of the windows whose place it is: the last window first, in the order of ``maxima``, and so
# the same bits. Padding is the least number: where that is the maximum, its place may be outside of the image, and is not taken. Between
# the rows of the maxima is nan, which is equal to nothing.
_MAXIMA = """\
images = "{t}[:, :, ::1], "

@njit(["void(" + images * 4 + "{i}[::1], {t}[::1], {t}[::1], {t}[::1], intp, intp, intp, intp)"], **options)
def loop(x, peaks, values, out, places, image, line, shares, pitch, size, top, left):
    apart()
    length = np.uint64((peaks.shape[1] - 1) * pitch + peaks.shape[2])
    margin = {margin}
    place = places[margin : margin + length]
    groups, rest = np.uint64(x.shape[2] // {sw}), x.shape[2] % {sw}
    {starts}
    for p in range(x.shape[0]):
        of_x, of_peaks = x.size - p * x.shape[1] * x.shape[2], peaks.size - p * peaks.shape[1] * peaks.shape[2]
        fill_{sh}x{sw}(image, x[p], of_x, pitch, size, top, left, np.{t}(-np.inf))
        fill_1x1(line, peaks[p], of_peaks, pitch, 0, 0, 0, np.{t}(np.nan))
        fill_1x1(shares, values[p], of_peaks, pitch, 0, 0, margin, np.{t}(0))
        {sums}
        for r in range(x.shape[1]):
            down = r + top
            first = np.uint64(margin + down // {sh} * pitch + left // {sw})
            {totals}
"""


def scattered_by_loop(X: Array, peaks: Array, pooled: Array, window_axes: Axes) -> Array:
    """Every pooled value at the first place of its window where X is the largest, ``[N, C, H, W]``."""
    check_fit("X", X.shape[2:], tuple(a.size for a in window_axes))
    x, tops, values = (argument(each).reshape(-1, *each.shape[2:]) for each in (X, peaks, pooled))
    out, form = aligned(x.shape, x.dtype), _form(window_axes)
    kind = "int32" if x.itemsize == 4 else "int64"  # as wide as a number, so that vectors have as many of both
    geometry = _Geometry(window_axes)
    image, line = geometry.memory(x.dtype)
    image.fill(-np.inf)
    line.fill(np.nan)
    margin = _margin(form, geometry.pitch)
    places, shares = (scratch(use, (margin + geometry.size,), np.dtype(of)) for use, of in (("number", kind), ("shares", x.dtype)))
    places.fill(-1)
    _maxima(form, x.dtype.name, kind)(x, tops, values, out, places, image, line, shares, *geometry.numbers)
    return out.reshape(X.shape)


@cache
def _maxima(form: _Form, dtype: str, kind: str) -> Function:
    starts, taps = _taps(form)
    lines = []
    for number, some in _by_runs(reversed(taps)):
        lines += ["for i in range(length):", f"    top_, place_ = line[i], {'place[i]' if number else f'np.{kind}(-1)'}"]
        lines += [f"    place_ = np.{kind}({k}) if {_element(run, further)} == top_ else place_" for k, run, further in some]
        lines.append("    place[i] = place_")

    def total(row: int, column: int) -> list[str]:
        terms = [f"total_ = np.{dtype}(0)"]
        for k, at in _reaching(form, row, column):
            terms += [f"at_ = {at}", "place_, share_ = places[at_], shares[at_]"]
            terms.append(f"total_ += share_ if place_ == np.{kind}({k}) else np.{dtype}(0)")
        return [*terms, f"{_target(form, 'p, r', column)} = total_"]

    text = fills((1, 1), (form[0][1], form[1][1])) + _MAXIMA.replace("{margin}", _margin_text(form))
    return _written(text, "False", form, starts, lines, {"t": dtype, "i": kind}, _by_rows(form, total))
