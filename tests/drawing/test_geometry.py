"""Drawings judged by numbers: no label overlaps another one, none is crossed by a line.

``python -m tests.drawing_geometry 200`` tries more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import graphad as ga
from graphad.drawing import to_svg
from tests.drawing_geometry import measured, pictures, random_program
from tests.shares import one_in

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">{}</svg>'
TEXT = '<text x="50" y="{}" font-size="10">label</text>'
LINE = '<g class="edge"><title>line</title><path d="M0,{0}C10,{0} 90,{0} 100,{0}"/></g>'


def test_what_is_measured() -> None:
    good = measured(SVG.format(TEXT.format(20) + TEXT.format(40) + LINE.format(30)))
    assert (good.overlaps, good.crossed, good.area, good.length) == ([], [], 10000.0, 100.0)
    assert measured(SVG.format(TEXT.format(20) + TEXT.format(25))).overlaps == [("label", "label")]
    assert measured(SVG.format(TEXT.format(20) + LINE.format(17))).crossed == [("line", "label")]
    plated = LINE.format(17).replace("</g>", '<rect x="30" y="10" width="40" height="12"/>' + TEXT.format(20) + "</g>")
    assert not measured(SVG.format(plated)).crossed, "a plate covers the line that it is on"
    assert measured(SVG.format(plated + LINE.format(16))).crossed == [("line", "label")], "another line crosses it"
    moved = '<svg x="0" y="30">' + TEXT.format(20) + "</svg>"
    assert measured(SVG.format(moved + LINE.format(47))).crossed == [("line", "label")]
    assert not measured(SVG.format(moved + LINE.format(17))).crossed


@pytest.mark.parametrize("path", one_in(3, pictures()), ids=lambda path: path.stem)
def test_labels_of_the_pictures_in_the_documentation_are_free(path: Path) -> None:
    found = measured(path.read_text(encoding="utf-8"))
    assert found.labels
    assert (found.overlaps, found.crossed) == ([], [])


@pytest.mark.parametrize("seed", one_in(3, [*range(20), 29]))  # in 29 Graphviz leads a line through the box that it ends at
def test_labels_of_random_programs_are_free(seed: int) -> None:
    found = measured(to_svg(random_program(seed)))
    assert (found.overlaps, found.crossed) == ([], [])


@pytest.mark.parametrize(
    "options", [{"values": "none"}, {"values": "shared"}, {"rankdir": "LR"}, {"columns": 3}, {"theme": "dark", "overlay": "flops"}]
)
def test_labels_are_free_however_it_is_drawn(options: dict[str, object]) -> None:
    found = measured(to_svg(random_program(7), **options))
    assert (found.overlaps, found.crossed) == ([], [])


def test_a_drawing_takes_little_room() -> None:
    """A chain of fully connected layers with its gradients: what each layer takes is bounded."""
    program = ga.Program()
    with ga.program_guard(program):
        h = ga.layers.data("x", [8])
        for _ in range(6):
            h = ga.layers.fc(h, 8, act="tanh")
        ga.append_backward(ga.layers.mean(h))
    found = measured(to_svg(program))
    assert found.area / 6 < 350_000
    assert found.length / 6 < 3_000
