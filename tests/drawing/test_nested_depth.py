"""Drawings of programs that are nested as deep as a program may be."""

from __future__ import annotations

from pathlib import Path

import graphad as ga
from tests.ir.test_pickling import nested


def frames(path: Path, depth: int) -> int:
    return ga.draw(nested(depth)[0], path).read_text().count("subgraph cluster")


def test_automatic_drawings_close_what_is_too_deep_to_read(tmp_path: Path) -> None:
    path = tmp_path / "deep.dot"
    assert frames(path, 3) < frames(path, 16) == frames(path, 20) == frames(path, 98)
    assert "[+]" in path.read_text()


def test_a_part_is_drawn_however_deep_it_is(tmp_path: Path) -> None:
    main, _ = nested(40)
    deep = next(block for block in main.blocks if len(list(block.chain())) > 35)
    name = deep.ops[0].output_names()[0]
    assert name in ga.draw(main, tmp_path / "part.dot", focus=name).read_text()
