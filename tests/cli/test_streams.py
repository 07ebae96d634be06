"""Wrong inputs and streams at the command line: one clear line and an exit status, never a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphad.cli.main import main

PROGRAM = "program { block 0 { var x: float32[2] var y: float32[2] tanh(X=x) -> (Out=y) } }"
COMMANDS = {
    "draw": ["draw", "FILE", "-o", "drawing.svg"],
    "run": ["run", "FILE"],
    "opt": ["opt", "FILE", "-p", "cse"],
    "view": ["view", "FILE", "-p", "cse", "-o", "page.html"],
    "diff": ["diff", "FILE", "program.txt"],
    "diff, second": ["diff", "program.txt", "FILE"],
    "why": ["why", "y", "FILE"],
    "bisect": ["bisect", "FILE", "-p", "cse"],
    "reduce": ["reduce", "FILE", "-p", "cse"],
}
NOISE = bytes(range(256)) * 2
FILES = {"missing.txt": None, "empty.txt": b"", "noise.txt": NOISE, "noise.json": NOISE, "noise.pdmodel": NOISE, "cut.json": b"[1, 2"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run: with a program, files that hold none, and a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.txt").write_text(PROGRAM)
    (tmp_path / "folder").mkdir()
    for name, data in FILES.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("file", [*FILES, "folder"])
def test_what_holds_no_program(command: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [file if word == "FILE" else word for word in COMMANDS[command]]
    assert main(words) in (1, 2)
    shown = capsys.readouterr()
    assert shown.err.startswith("graphad: ")
    assert not shown.out


@pytest.mark.parametrize("name", ["fixpoint", "nested"])
def test_a_pass_that_combines_others_is_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes", name]) == 0
    assert f"{name}(PASS, ...)" in capsys.readouterr().out


def test_protobuf_does_not_go_to_a_stream_of_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    half = PROGRAM.replace("tanh(X=x) -> (Out=y)", "scale(X=x) -> (Out=y) {scale=0.3}")
    Path("half.txt").write_text(half)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    status = main(["opt", "half.txt", "-p", "cse", "--to", "protobuf"])
    monkeypatch.undo()
    assert (status, shown.getvalue()) == (1, "")
    error = capsys.readouterr().err
    assert error == "graphad: standard output is redirected to a stream of text, which cannot take bytes: write to a file\n"


@pytest.mark.parametrize(
    ("name", "encoding", "changes", "message"),
    [
        ("é", "ascii", "utf-8", "ascii, which has no '\\xe9'"),
        ("\\ud800", "utf-8", "utf-8:backslashreplace", "utf-8, which has no '\\ud800'"),
    ],
)
def test_a_character_that_standard_output_does_not_have(name: str, encoding: str, changes: str, message: str) -> None:
    Path("odd.txt").write_text(PROGRAM.replace("x", f'"{name}"'), encoding="utf-8")

    def why(encoding: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "graphad.cli", "why", "y", "odd.txt"]
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)

    done = why(encoding)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"graphad: standard output is {message}; PYTHONIOENCODING={changes} changes it\n"
    assert name in why(changes).stdout


def test_the_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "program.txt", "-p", "cse", "-o", "nowhere/out.txt"]) == 1
    assert capsys.readouterr().err == "graphad: nowhere/out.txt: No such file or directory\n"


def test_a_limit_is_not_negative(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["opt", "program.txt", "-p", "cse", "--stop-after", "-1"])
    assert caught.value.code == 2
    assert "--stop-after: it is 0 or more, not -1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("opt program.txt -p cse >&-", 1, "graphad: standard output: it is closed\n"),
        ("opt - -p cse <&-", 1, "graphad: standard input: it is closed\n"),
        ("passes > /dev/full", 1, "graphad: standard input or output: No space left on device\n"),
        ("opt program.txt -p cse > /dev/full", 1, "graphad: standard input or output: No space left on device\n"),
        ("why y program.txt | true; exit ${PIPESTATUS[0]}", None, ""),
    ],
)
def test_streams_that_are_closed_or_full(command: str, status: int | None, message: str) -> None:
    words = f"{sys.executable} -m graphad.cli {command}"
    run = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=60, check=False)
    assert run.stderr == message
    assert run.returncode == status or (status is None and run.returncode in (0, 1))
