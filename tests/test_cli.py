"""The ``graphad`` command."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import graphad as ga
from graphad.cli import demo, main
from graphad.rewriting import PASSES


def program() -> ga.Program:
    written = ga.Program()
    with ga.program_guard(written):
        ga.layers.mean(ga.layers.fc(ga.layers.data("x", [3]), 2))
    return written


def test_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.txt").write_text(str(program()))
    assert main(["draw", str(tmp_path / "net.txt"), "-o", str(tmp_path / "net.svg")]) == 0
    assert "fc_0.w_0" in (tmp_path / "net.svg").read_text()
    assert "net.svg" in capsys.readouterr().out


def test_draw_reads_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(str(program())))
    assert main(["draw", "-", "-o", str(tmp_path / "net.dot")]) == 0
    assert (tmp_path / "net.dot").read_text().startswith("digraph")


@pytest.mark.parametrize(
    ("text", "output", "message"),
    [
        ("program {", "net.svg", "line 1, column 10: expected 'block'"),
        ("program { block 0 { } }", "net.pdf", "a drawing ends in"),
        ("program { block 0 { } }", "nowhere/net.svg", "there is no folder"),
        (None, "net.svg", "No such file"),
    ],
)
def test_a_failure_says_why_and_draws_nothing(
    text: str | None, output: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "net.txt").write_text(text)
    assert main(["draw", str(tmp_path / "net.txt"), "-o", str(tmp_path / output)]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / output).exists()


def test_passes_are_listed_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes"]) == 0
    listed = capsys.readouterr().out
    for name, kind in PASSES.items():
        if kind.__module__.startswith("graphad.passes"):
            assert name in listed
            assert kind.summary().split()[0] in listed


def test_help_and_wrong_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, status in ((["--help"], 0), (["draw", "--help"], 0), ([], 2), (["paint"], 2), (["draw", "net.txt"], 2)):
        with pytest.raises(SystemExit) as stop:
            main(argv)
        assert stop.value.code == status
    assert "graphad demo" in capsys.readouterr().out


def test_demo_draws_every_pass_and_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo"), "--epochs", "15"]) == 0
    names = ["find-op-path", "create-grad-ops", "prune-no-grad", "accumulate-grads", "create-grad-vars"]
    expected = {"00-forward.svg", "train.svg", *(f"{i:02d}-{name}.svg" for i, name in enumerate(names, 1))}
    assert {path.name for path in (tmp_path / "demo").iterdir()} == expected
    output = capsys.readouterr().out
    assert all(name in output for name in names)
    (share,) = re.findall(r"right on ([\d.]+)%", output)
    assert float(share) >= 97.0


def test_demo_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "load_digits", None)
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 1
    assert "pip install 'graphad[demo]'" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
