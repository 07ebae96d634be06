"""Renderings of results: tables as text, HTML, rich, CSV and pandas; curves and bars as SVG.

Here is no drawing of graphs; that is ``graphad.drawing``.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from graphad.errors import InvalidType

Cell = str | int | float | bool | None
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # M. Okabe and K. Ito, 2008: told apart by all eyes


@dataclass(frozen=True)
class Table:
    """Rows under named columns. ``digits`` is how many digits that count are shown of a number that is not whole.

    >>> print(Table(("pass", "time"), (("cse", 0.1234), ("dead-code", 12.0)), digits=2))
    pass       time
    cse        0.12
    dead-code    12
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 4

    def shown(self) -> list[list[str]]:
        """The cells as text."""
        return [[self._cell(name) for name in row] for row in self.rows]

    def _cell(self, value: Cell) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}".replace(",", " ")
        return f"{value:.{self.digits}g}" if isinstance(value, float) else value

    def _is_number(self, column: int) -> bool:
        return all(isinstance(row[column], int | float | None) and not isinstance(row[column], bool) for row in self.rows)

    def __str__(self) -> str:
        cells = [list(self.columns), *self.shown()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        right = [self._is_number(i) for i in range(len(self.columns))]
        padded = ([f"{cell:>{w}}" if r else f"{cell:<{w}}" for cell, w, r in zip(row, widths, right, strict=True)] for row in cells)
        return "\n".join("  ".join(row).rstrip() for row in padded)

    def html(self) -> str:
        """The table as HTML, numbers to the right."""
        right = [' style="text-align:right"' if self._is_number(i) else ' style="text-align:left"' for i in range(len(self.columns))]
        head = "".join(f"<th{r}>{escape(name)}</th>" for name, r in zip(self.columns, right, strict=True))
        body = "".join(
            f"<tr>{''.join(f'<td{r}>{escape(cell)}</td>' for cell, r in zip(row, right, strict=True))}</tr>\n" for row in self.shown()
        )
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"

    def _repr_html_(self) -> str:
        return self.html()

    def __rich__(self) -> Any:
        table = import_module("rich.table").Table()
        text = import_module("rich.text").Text
        for at, name in enumerate(self.columns):
            table.add_column(name, justify="right" if self._is_number(at) else "left")
        for row in self.shown():
            table.add_row(*map(text, row))
        return table

    def csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as comma-separated values with all digits, a line of names first; also written to a file if a path is given."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([self.columns, *self.rows])
        if path is not None:
            Path(path).write_text(out.getvalue(), encoding="utf-8")
        return out.getvalue()

    def pandas(self) -> Any:
        """The table as a pandas DataFrame; TypeError where pandas is not installed."""
        return installed("pandas", "a DataFrame").DataFrame([list(row) for row in self.rows], columns=list(self.columns))


def installed(package: str, what: str) -> Any:
    """A package that graphad does not need by itself; TypeError says what is missing."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise InvalidType(f"{what} needs {package}, which is not installed: pip install {package}") from None


# -- curves and bars -------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 320, 70, 34, 16, 44
_PLOT = (_WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM)
_ROW, _LETTER, _LONGEST = 24, 6.0, 36  # a bar and its gap; the mean width of a letter of 12; the longest name that is written out


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from at most ``low`` to at least ``high``.

    >>> ticks(0.13, 0.97)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    # One number alone gets an interval around it.
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        low, high = (low - 0.5, low + 0.5) if math.isfinite(low) else (0.0, 1.0)
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    # P. Heckbert, "Nice numbers for graph labels", 1990: 1, 2 or 5 times a power of ten, the least that makes no more than ``count`` steps,
    # up to rounding.
    step = next(unit * number for number in (1, 2, 5, 10) if unit * number >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def curves(series: Mapping[str, Sequence[float]], title: str = "", across: str = "step", up: str = "") -> str:
    """Curves over 1, 2, 3 ... as one SVG, the same bytes for the same numbers. What is not finite is left out."""
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    # The scale is that of the marks, which reach as far as the numbers or farther.
    marks = ticks(min(finite, default=0.0), max(finite, default=1.0))
    last = max((len(values) for values in series.values()), default=1) - 1
    body = [_frame(title, across, up), *_marks_up(marks)]
    # A set: a run of three steps has three marks, not six.
    for step in sorted({round(last * at / 5) for at in range(6)}):
        body.append(_text(_across(step, last), _HEIGHT - _BOTTOM + 16, f"{step + 1}", "middle"))
    left = _LEFT + 8.0
    for number, (label, values) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        points = [(_across(i, last), _height(value, marks)) for i, value in enumerate(values) if math.isfinite(value)]
        body += _curve(points, color)
        body.append(_text(left, _TOP - 6, label, "start", color))
        left += _LETTER * len(label) + 18
    return _svg(body)


def _curve(points: Sequence[tuple[float, float]], color: str) -> list[str]:
    if len(points) == 1:  # a line of one point is invisible
        return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return [f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{path}"/>']


def bars(values: Mapping[str, float], title: str = "", across: str = "") -> str:
    """A bar a row as one SVG, the same bytes for the same numbers: its name before it, its number after it.

    A number that is not finite has no bar.
    """
    finite = [value for value in values.values() if math.isfinite(value)]
    # Zero is always shown: a bar says its value by its length.
    marks = ticks(min(0.0, *finite), max(0.0, *finite)) if finite else [0.0, 1.0]
    names = {name: name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in values}
    left = 20 + _LETTER * max(map(len, names.values()), default=0)
    wide = _WIDTH - left - 10 - _LETTER * max((len(_number(value)) for value in values.values()), default=0)
    bottom = _TOP + _ROW * len(values)

    def across_at(value: float) -> float:
        return left + wide * (value - marks[0]) / (marks[-1] - marks[0])

    body = [_text(left, 16, title, "start"), _text(left + wide / 2, bottom + 36, across, "middle")]
    for mark in marks:
        x = across_at(mark)
        body.append(f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>')
    # Marks that would touch are left out, from zero on in steps.
    room = _LETTER * max(len(_number(mark)) for mark in marks) + 8
    every = max(1, math.ceil(room * (len(marks) - 1) / wide))
    body += [_text(across_at(mark), bottom + 16, _number(mark), "middle") for mark in marks[::every]]
    for row, (name, value) in enumerate(values.items()):
        y = _TOP + _ROW * row
        begin, end = sorted((across_at(0.0), across_at(value if math.isfinite(value) else 0.0)))
        caption = f"<title>{escape(name)}: {value:.6g}</title>"
        body.append(_text(left - 8, y + _ROW / 2 + 1, names[name], "end"))
        body.append(f'<rect x="{begin:.1f}" y="{y:.1f}" width="{end - begin:.1f}" height="{_ROW - 7}" fill="{COLORS[0]}">{caption}</rect>')
        body.append(_text(end + 6, y + _ROW / 2 + 1, _number(value), "start"))
    return _svg(body, bottom + 44)


def _number(value: float) -> str:
    """A number as tables show it: digits in threes up to a million millions, four that count of what is not whole."""
    return f"{value:,.0f}".replace(",", " ") if float(value).is_integer() and abs(value) < 1e12 else f"{value:.4g}"


def _across(step: int, last: int) -> float:
    return _LEFT + _PLOT[0] * step / max(last, 1)


def _height(value: float, marks: Sequence[float]) -> float:
    return _HEIGHT - _BOTTOM - _PLOT[1] * (value - marks[0]) / (marks[-1] - marks[0])


def _marks_up(marks: Sequence[float]) -> list[str]:
    lines = []
    for item in marks:
        y = _height(item, marks)
        lines.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(_text(_LEFT - 6, y + 4, f"{item:g}", "end"))
    return lines


def _frame(title: str, across: str, up: str) -> str:
    x, y = _LEFT + _PLOT[0] / 2, _TOP + _PLOT[1] / 2
    return (
        _text(x, 16, title, "middle")
        + _text(x, _HEIGHT - 6, across, "middle")
        + _text(14, y, up, "middle", more=f' transform="rotate(-90 14 {y:.1f})"')
    )


def _text(x: float, y: float, text: str, anchor: str, color: str = "#222", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{more}>{escape(text)}</text>' if text else ""


def _svg(body: Sequence[str], height: int = _HEIGHT) -> str:
    inside = "\n".join(filter(None, body))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{inside}\n</svg>\n'
    )
