"""Drawings as files: the same bytes every time, nothing half-written, and errors that say what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphad as ga
from graphad import drawing
from graphad.drawing import draw, find_renderer, repr_svg, to_dot, to_svg
from graphad.drawing.render import lay_out
from graphad.errors import InvalidType, InvalidValue, RenderError
from tests.drawing.test_drawing import forward_program, groups
from tests.source_tree import ROOT


def fake_renderer(folder: Path, body: str) -> str:
    path = folder / "fake-dot"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return str(path)


# -- the same bytes ----------------------------------------------------------------------------------

SCRIPT = """
import sys
from tests.drawing.test_drawing import training_program
from graphad.drawing import draw
for name in ("a.dot", "a.svg", "a.pdf", "a.png"):
    draw(training_program(4), sys.argv[1] + "/" + name, highlight={"y", "w", "h", "x"}, title="t")
"""


def test_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / seed)]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
    for name in ("a.dot", "a.svg", "a.pdf", "a.png"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_nothing_of_the_renderer_or_the_machine_is_left_in_an_svg(tmp_path: Path) -> None:
    svg = to_svg(forward_program())
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>\n")
    assert "<!--" not in svg
    assert "raphviz" not in svg
    assert str(ROOT) not in svg


# -- files -------------------------------------------------------------------------------------------


def test_files_are_of_the_kind_their_name_says(tmp_path: Path) -> None:
    program = forward_program()
    assert draw(program, tmp_path / "a.svg").read_text(encoding="utf-8") == to_svg(program) == repr_svg(program)
    assert draw(ga.lower(program), str(tmp_path / "b.dot")).read_text(encoding="utf-8") == to_dot(program)
    small, large = (draw(program, tmp_path / f"{dpi}.PNG", dpi=dpi).read_bytes() for dpi in (50, 150))
    assert small.startswith(b"\x89PNG")
    assert int.from_bytes(large[16:20]) > 2 * int.from_bytes(small[16:20])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["150.PNG", "50.PNG", "a.svg", "b.dot"]


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.svg"
    target.write_text("old")
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, "raise SystemExit(3)"))
    with pytest.raises(RenderError, match=r"exit code 3.*\n.*to_dot"):
        draw(forward_program(), target)
    assert target.read_text() == "old"
    monkeypatch.delenv("GRAPHAD_DOT")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        draw(forward_program(), target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "fake-dot"]


@pytest.mark.parametrize(
    ("path", "options", "error", "message"),
    [
        ("a.gif", {}, InvalidValue, r"\.svg, \.pdf, \.png, \.dot"),
        ("no/folder/a.svg", {}, InvalidValue, "no folder"),
        (7, {}, InvalidType, "path names a file"),
        ("a.svg", {"value": "all"}, InvalidType, "no option 'value'.*did you mean 'values'"),
        ("a.svg", {"values": "some"}, InvalidValue, "'shared'"),
        ("a.svg", {"links": True}, InvalidValue, "links is one of"),
        ("a.svg", {"nested": "some"}, InvalidValue, "nested is one of"),
        ("a.svg", {"title": 1}, InvalidType, "title"),
        ("a.svg", {"highlight": "y"}, InvalidType, "highlight"),
        ("a.svg", {"prefix": "a b"}, InvalidValue, "prefix"),
        ("a.svg", {"timeout": 0}, InvalidValue, "timeout"),
        ("a.svg", {"dpi": "high"}, InvalidValue, "dpi"),
    ],
)
def test_wrong_arguments_are_named(path: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        draw(forward_program(), path, **options)


def test_only_programs_and_graphs_are_drawn() -> None:
    with pytest.raises(InvalidType, match="a Program or a Graph is drawn, not 'program'"):
        to_dot("program")  # type: ignore[arg-type]


# -- the renderer ------------------------------------------------------------------------------------


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GRAPHAD_DOT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("graphad.drawing.render.sysconfig.get_path", lambda _: str(tmp_path / "nothing"))
    return tmp_path


def test_a_missing_renderer_says_what_to_install(nothing_installed: Path) -> None:
    with pytest.raises(RenderError, match="pip install graphviz-pure"):
        to_svg(forward_program())


def test_the_renderer_is_found_on_the_path(nothing_installed: Path) -> None:
    path = Path(fake_renderer(nothing_installed, "")).rename(nothing_installed / "dot")
    assert find_renderer() == str(path)
    better = Path(fake_renderer(nothing_installed, "")).rename(nothing_installed / "graphviz-pure")
    assert find_renderer() == str(better)


def test_the_renderer_beside_python_is_found_without_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHAD_DOT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert Path(find_renderer()).stem == "graphviz-pure"


def test_the_variable_comes_first_and_must_name_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = '{"bb": "0,0,100,50", "objects": [{"name": "n0", "pos": "50,25"}], "edges": []}'
    path = fake_renderer(tmp_path, f"import sys; sys.stdin.read(); print({told!r})")
    monkeypatch.setenv("GRAPHAD_DOT", path)
    assert find_renderer() == path
    assert len(groups(to_svg(forward_program()), "node")) == 1
    monkeypatch.setenv("GRAPHAD_DOT", str(tmp_path / "gone"))
    with pytest.raises(RenderError, match=r"GRAPHAD_DOT names .*gone"):
        to_svg(forward_program())


def test_failures_show_what_the_renderer_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, 'import sys; sys.exit("syntax error in line 1")'))
    with pytest.raises(RenderError, match=r"fake-dot failed \(exit code 1\): syntax error in line 1"):
        to_svg(forward_program())
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, ""))
    with pytest.raises(RenderError, match="it said nothing"):
        to_svg(forward_program())
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, 'print("no picture")'))
    with pytest.raises(RenderError, match="no JSON"):
        to_svg(forward_program())


def test_a_renderer_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, "import time; time.sleep(60)"))
    with pytest.raises(RenderError, match=r"within 0\.3 s; draw less of it .*timeout="):
        draw(forward_program(), tmp_path / "a.svg", timeout=0.3)
    assert not (tmp_path / "a.svg").exists()


LINK = "n0 -> n1 [id=e0 arrowhead=none]"
NO_WAY = """
import sys
if "-Gsplines=line" in sys.argv:
    print('{"straight": 1}')
else:
    print('{"edges": [{"id": "WHAT", "pos": "e,1,1 0,0"}]}')
    sys.exit("Error: in routesplines, Pshortestpath failed")
"""


def test_a_link_without_a_way_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, NO_WAY.replace("WHAT", "e1")))
    assert "straight" not in lay_out(f"digraph {{\n{LINK}\nn0:p1:w -> n2 [id=e1]\n}}", 60)


def test_an_arrow_without_a_way_to_its_slot_ends_at_the_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """
import sys
text = sys.stdin.read()
if "n0 -> n2 [id=e1]" in text and "n1:p0:s -> n2:p1:w [id=e2]" in text:
    print('{"bent": 1}')
else:
    print('{"edges": []}')
    sys.exit("Error: in routesplines, Pshortestpath failed\\nError: lost n0 n2 edge")
"""
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, script))
    assert "bent" in lay_out("digraph {\nn0:p1:w -> n2 [id=e1]\nn1:p0:s -> n2:p1:w [id=e2]\n}", 60)


def test_arrows_without_a_way_are_straight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, NO_WAY.replace("WHAT", "e0")))
    assert "straight" in lay_out(f"digraph {{\n{LINK}\nn0:p1:w -> n2 [id=e1]\n}}", 60)


def test_where_straight_lines_have_no_way_either_they_pass_over_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = NO_WAY.replace("WHAT", "e0").replace("=line", "=curved").replace("straight", "curved")
    monkeypatch.setenv("GRAPHAD_DOT", fake_renderer(tmp_path, script))
    assert "curved" in lay_out(f"digraph {{\n{LINK}\nn0:p1:w -> n2 [id=e1]\n}}", 60)


def test_the_public_names() -> None:
    names = [
        "DARK",
        "LIGHT",
        "Groups",
        "Look",
        "Options",
        "Theme",
        "draw",
        "draw_diff",
        "draw_pair",
        "draw_rule",
        "draw_steps",
        "find_renderer",
        "repr_svg",
    ]
    assert drawing.__all__ == [*names, "rule_graphs", "to_dot", "to_svg"]
