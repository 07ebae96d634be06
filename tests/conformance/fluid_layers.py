"""docs/fluid-layers.md: the layers of Fluid 1.8.5, and which of them graphad has with the same signature.

``fluid_layers.json`` holds the names that ``fluid.layers`` of Paddle 1.8.5 exports and the parameters of each, read from its source.
"""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from graphad import layers
from graphad.layers.signatures import EMPTY, read_signature
from graphad.layers.unavailable import unavailable
from tests.documented_fluid import FLUID
from tests.documented_fluid_more import FLUID_MORE
from tests.documented_fluid_rest import FLUID_REST
from tests.documented_spellings import SPELLINGS

PAGE = Path(__file__).resolve().parents[2] / "docs/fluid-layers.md"
HABITS = Path(__file__).resolve().parents[1] / "documented_habits.txt"
# Layers whose results have another number of rows, or that do more than compute, have tests of their own.
OWN = [
    Path(__file__).resolve().parents[1] / f"layers/test_{name}.py"
    for name in ("decoding", "callbacks", "suppression", "matched", "proposed", "second_stage", "image_regions", "recommending")
] + [Path(__file__).resolve().parents[1] / "test_readers.py"]
SIGNATURES: dict[str, str] = json.loads(Path(__file__).with_name("fluid_layers.json").read_text(encoding="utf-8"))

# Why a layer that is there differs.
DIFFERS = {
    "split": "`num_or_sections` may be left out where the operator's `num` or `sections` is given",
    "dropout": "`dropout_prob` may be called `p`, as in Paddle 2; with its `p`, `training` or `mode` it does what that does",
    "arange": "`end` may be left out, as numpy has it: the numbers up to `start`",
    "clip": "`min` or `max` may be left out, which leaves that side open",
    "lstm_unit": "`cell_t_prev` may be left out: with two tensors it is the operator `lstm_unit`",
    "squeeze": "`axes` may be left out: all axes of extent 1",
    "ones": "`dtype` may be left out",
    "zeros": "`dtype` may be left out",
    "linspace": "`dtype` may be left out",
}


class Row(NamedTuple):
    """A layer of Fluid and what graphad has of that name."""

    name: str
    fluid: str
    status: str
    why: str


def _parameters(layer: Any) -> list[tuple[str, Any]]:
    """The parameters of a layer that can be given by position, with their defaults."""
    found = inspect.signature(layer).parameters.values()
    return [(each.name, EMPTY if each.default is each.empty else each.default) for each in found if each.kind is not each.KEYWORD_ONLY]


def same_signature(name: str) -> bool:
    """Whether all that Fluid's signature has comes first in graphad's, in the same order and with the same defaults."""
    expected = read_signature(SIGNATURES[name])
    return _parameters(getattr(layers, name))[: len(expected)] == expected


def wider_signature(name: str) -> bool:
    """Whether graphad's takes each call that Fluid's takes, with the same meaning: parameters that Fluid requires may be left out."""
    expected = read_signature(SIGNATURES[name])
    found = _parameters(getattr(layers, name))[: len(expected)]
    pairs = zip(expected, found, strict=False)
    return len(found) == len(expected) and all(a == b or (a[0] == b[0] and a[1] is EMPTY) for a, b in pairs)


def reason_of_absence(name: str) -> str:
    """Why there is no layer of that name, and what takes its place."""
    why, instead = unavailable(name) or ("", "")
    return f"{why}; instead: {instead}" if why else ""


@cache
def rows() -> tuple[Row, ...]:
    """All layers of Fluid, in the order of their names."""
    return tuple(_row(name) for name in SIGNATURES)


def _row(name: str) -> Row:
    if not hasattr(layers, name):
        return Row(name, SIGNATURES[name], "absent", reason_of_absence(name))
    status = "same" if same_signature(name) else "wider" if wider_signature(name) else "differs"
    return Row(name, SIGNATURES[name], status, DIFFERS.get(name, "") if status != "same" else "")


def called() -> set[str]:
    """The layers of which a documented call is compared with numpy."""
    words = {word for call in (*FLUID, *FLUID_MORE, *FLUID_REST, *SPELLINGS) for word in re.findall(r"\w+", call.text)}
    return words | {
        name for path in (HABITS, *OWN) for name in re.findall(r"\b(?:L|fluid\.layers)\.(\w+)", path.read_text(encoding="utf-8"))
    }


HEAD = """\
# Fluid's layers

The {count} names that `fluid.layers` of Paddle 1.8.5 exports, with their signatures: {same} are in `graphad.layers` with the same
one, {wider} with a wider one, {differs} differ, {absent} are absent. This page is made by `make pictures`.

- *same*: what Fluid's signature has comes first in graphad's, in the same order and with the same defaults. There may be more.
- *wider*: what Fluid requires may be left out, and is otherwise the same: each call of Fluid's means what it means there.
- *tested*: a call as Fluid's documentation has it is compared with numpy, and its gradient with central differences
  (`tests/documented_fluid.py`, `tests/documented_fluid_more.py`, `tests/documented_fluid_rest.py`, `tests/documented_habits.txt`), or
  with what the layer is defined by (`tests/layers/test_decoding.py`, `test_callbacks.py`, `test_suppression.py`, `test_matched.py`,
  `test_proposed.py`, `test_second_stage.py`, `test_image_regions.py`,
  `test_recommending.py`, `tests/test_readers.py`).
- Everywhere: a reduction to one element has the shape `[]`, where Fluid has `[1]`; sequences are padded, and what takes
  Fluid's levels of detail (LoD) takes their lengths, `length=`; hints such as
  `use_cudnn` have no effect; a number or a numpy array may stand for a tensor.
- A parameter has Paddle 2's name as well where that says the same: `x` for `input`, `axis` for `dim`, `keepdim` for `keep_dim`.

| layer | Fluid's parameters | | tested |
| --- | --- | --- | --- |
"""


def text() -> str:
    """The text of docs/fluid-layers.md."""
    table, tested = rows(), called()
    count = {status: sum(row.status == status for row in table) for status in ("same", "wider", "differs", "absent")}
    return HEAD.format(count=len(table), **count) + "".join(_line(row, row.name in tested) for row in table)


def _line(row: Row, tested: bool) -> str:
    parameters = f"`{row.fluid}`" if row.fluid else ""
    verdict = f"{row.status}: {row.why}" if row.why else row.status
    return f"| `{row.name}` | {parameters} | {verdict} | {'yes' if tested and row.status != 'absent' else ''} |\n".replace("|  |", "| |")
