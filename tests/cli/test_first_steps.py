"""A newcomer's commands: none, a wrong one, --version, verify, diff, drawing options, completion."""

import argparse
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad.cli import draw as draw_command
from graphad.cli.main import main
from graphad.drawing.options import Options
from graphad.interop import onnx
from graphad.interop.formats import read_program
from tests.source_tree import ROOT

NET = "program { block 0 { var x: float32[-1, 3] var y: float32[-1, 3] relu(X=x) -> (Out=y) } }"


@pytest.fixture
def net(tmp_path: Path) -> str:
    path = tmp_path / "net.txt"
    path.write_text(NET, encoding="utf-8")
    return str(path)


def status_of(*argv: str) -> int:
    try:
        return main(argv)
    except SystemExit as stop:
        return int(stop.code or 0)


def test_the_module_runs_as_the_command_does(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "graphad", "--version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"graphad {ga.__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["drwa", "net.txt"], "graphad: there is no command 'drwa'; did you mean 'draw'?\n"),
        (["zork"], "graphad: there is no command 'zork'\n"),
        (["draw", "net.txt", "-o", "a.svg", "--values", "shard"], "'shard' (choose from auto, all, shared, none); did you mean 'shared'?"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion_and_no_long_list(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(*argv) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "bisect" not in said


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--verson"], "graphad: there is no option '--verson'; did you mean '--version'?\n"),
        (["draw", "net.txt", "-o", "a.svg", "--valus", "none"], "graphad draw: there is no option '--valus'; did you mean '--values'"),
        (["draw", "net.txt", "-o", "a.svg", "--zork=1"], "graphad draw: there is no option '--zork'\n"),
        (["draw", "net.txt", "other.txt", "-o", "a.svg"], "graphad draw: not expected: other.txt\n"),
    ],
)
def test_a_mistyped_option_is_named_with_the_nearest(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(*argv) == 2
    assert message in capsys.readouterr().err


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, text in (["help"], "graphad demo"), (["help", "draw"], "usage: graphad draw"), (["-V"], f"graphad {ga.__version__}"):
        with pytest.raises(SystemExit):
            main(argv)
        assert text in capsys.readouterr().out


def test_why_says_which_argument_comes_first(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("why", net) == 1
    assert f"graphad why VALUE {net}" in capsys.readouterr().err


# -- verify ----------------------------------------------------------------------------------------


def test_verify_says_that_nothing_is_wrong(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("verify", net) == 0
    assert capsys.readouterr().out == f"{net}: 1 block, 1 operator, nothing is wrong\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NET.replace("relu", "rleu"), "'rleu' is not registered; did you mean 'relu'"),
        (NET.replace("X=x", "Y=x"), "Y"),
        (NET.replace("(Out=y)", "(Out=y) {slope=1.0}"), "slope"),
        (NET.replace("y: float32[-1, 3]", "y: float32[-1, 4]"), "relu: y is declared float32[-1, 4], but Out is float32[-1, 3]"),
        (NET.replace("y: float32", "y: float64"), "relu: y is declared float64[-1, 3], but Out is float32[-1, 3]"),
    ],
)
def test_verify_names_what_is_wrong(text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.txt").write_text(text, encoding="utf-8")
    assert status_of("verify", str(tmp_path / "net.txt")) == 1
    said = capsys.readouterr().out
    assert expected in said
    assert "block 0, operator 0" in said


def test_verify_takes_all_complaints_in_one_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = NET.replace("relu(X=x) -> (Out=y)", "rleu(X=x) -> (Out=y) tahn(X=x) -> (Out=y)")
    (tmp_path / "net.txt").write_text(wrong, encoding="utf-8")
    assert status_of("verify", str(tmp_path / "net.txt")) == 1
    assert capsys.readouterr().out.count("operator") >= 2


def test_verify_may_allow_what_is_not_registered(tmp_path: Path) -> None:
    (tmp_path / "net.txt").write_text(NET.replace("relu", "rleu"), encoding="utf-8")
    assert status_of("verify", "--allow-unknown", str(tmp_path / "net.txt")) == 0


def test_verify_of_no_program_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.txt").write_text("program { block", encoding="utf-8")
    assert status_of("verify", str(tmp_path / "net.txt")) == 2
    assert status_of("verify", str(tmp_path / "none.txt")) == 2
    assert f"{tmp_path / 'none.txt'}: No such file" in capsys.readouterr().err


# -- ONNX ----------------------------------------------------------------------------------------


def test_commands_take_onnx_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("google.protobuf", reason="the extra onnx is not installed")
    model = tmp_path / "net.onnx"
    with ga.program_guard(ga.Program(), ga.Program()):
        x = ga.layers.data("x", shape=["batch", 3])
        onnx.save(onnx.from_program(ga.default_main_program(), [x], [ga.layers.relu(x) + ga.layers.relu(x)]), model)
    assert status_of("verify", str(model)) == 0
    assert status_of("diff", str(model), str(model)) == 0
    assert status_of("check", "fuse-elementwise", "--program", str(model), "--examples", "2") == 0
    assert "nothing is wrong" in capsys.readouterr().out


# -- run -------------------------------------------------------------------------------------------


def test_run_names_all_that_its_files_lack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """program { block 0 { var x: float32[-1, 3] param w: float32[3, 2] param b: float32[2]
        var y: float32[-1, 2] var z: float32[-1, 2] mul(X=x, Y=w) -> (Out=y) elementwise_add(X=y, Y=b) -> (Out=z) } }"""
    (tmp_path / "net.txt").write_text(text, encoding="utf-8")
    np.savez(tmp_path / "feed.npz", x=np.ones((1, 3), "float32"))
    assert status_of("run", str(tmp_path / "net.txt"), "--feed", str(tmp_path / "feed.npz")) == 1
    said = capsys.readouterr().err
    assert "--params FILE.npz gives parameters; missing: 'w', 'b'\n" in said
    assert "--feed" not in said
    assert status_of("run", str(tmp_path / "net.txt")) == 1
    assert "--feed FILE.npz gives data; missing: 'x'\n" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_of_the_demo_is_named(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("demo", "-o", net) == 1
    assert f"graphad: '{net}' is a file: -o names the folder" in capsys.readouterr().err


# -- diff ------------------------------------------------------------------------------------------


def test_diff_tells_same_different_and_unreadable_apart(net: str, tmp_path: Path) -> None:
    renamed, other = tmp_path / "renamed.txt", tmp_path / "other.txt"
    renamed.write_text(NET.replace("y", "z"), encoding="utf-8")
    other.write_text(NET.replace("relu", "tanh"), encoding="utf-8")
    assert status_of("diff", net, str(renamed)) == 0
    assert status_of("diff", net, str(other)) == 1
    assert status_of("diff", net, str(tmp_path / "none.txt")) == 2
    assert status_of("diff", net) == 2


# -- drawing ---------------------------------------------------------------------------------------


def test_every_option_of_a_drawing_is_one_of_the_command() -> None:
    parser = argparse.ArgumentParser()
    draw_command.add_parser(parser.add_subparsers())
    known = {action.dest for action in parser._subparsers._group_actions[0].choices["draw"]._actions}  # type: ignore[union-attr,index]
    assert {f"draw_{each.name}" for each in fields(Options)} <= known


def test_options_reach_the_drawing(net: str, tmp_path: Path) -> None:
    out = tmp_path / "net.svg"
    options = ("--title", "My net", "--rankdir", "LR", "--no-legend", "--attributes", "--highlight", "y", "--highlight-means", "here")
    assert status_of("draw", net, "-o", str(out), *options) == 0
    ga.draw(
        read_program(net),
        tmp_path / "same.svg",
        title="My net",
        rankdir="LR",
        legend=False,
        attributes=True,
        highlight=["y"],
        highlight_means="here",
    )
    assert out.read_text() == (tmp_path / "same.svg").read_text()


def test_a_pdf_needs_no_other_program(net: str, tmp_path: Path) -> None:
    assert status_of("draw", net, "-o", str(tmp_path / "net.pdf")) == 0
    assert (tmp_path / "net.pdf").read_bytes().startswith(b"%PDF")


# -- where files go --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        ["verify", "net.txt"],
        ["opt", "net.txt", "-p", "cse"],
        ["diff", "net.txt", "net.txt"],
        ["check", "cse", "--examples", "2", "--program", "net.txt"],
        ["bisect", "net.txt", "-p", "cse"],
        ["why", "y", "net.txt", "-p", "cse"],
        ["passes"],
    ],
    ids=lambda argv: argv[0],
)
def test_no_command_leaves_files_in_the_current_folder(argv: list[str], net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(net).parent
    monkeypatch.chdir(folder)
    status_of(*argv)
    assert [path.name for path in folder.iterdir()] == ["net.txt"]


# -- completion ------------------------------------------------------------------------------------


def test_completion_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert status_of("completion", "bash") == 1
    assert "pip install 'graphad[completion]'" in capsys.readouterr().err


def test_completion_knows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    assert status_of("completion", "bash") == 0
    script = capsys.readouterr().out
    assert "verify" in script
    assert "--print-changed" in script


# The shell splits a line into words, calls the function, and shows what it leaves in COMPREPLY.
ASKED = """
. ./graphad.sh
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=()
_shtab_graphad graphad "${@: -1}" "${@: -2:1}" 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_files_and_passes(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    folder = Path(net).parent
    assert status_of("completion", "bash") == 0
    (folder / "graphad.sh").write_text(capsys.readouterr().out, encoding="utf-8")
    (folder / "ask.sh").write_text(ASKED, encoding="utf-8")
    for line, expected in (
        (["draw", "ne"], ["net.txt"]),
        (["opt", "net.txt", "-o", "ne"], ["net.txt"]),
        (["check", "simp"], ["simplify"]),
        (["opt", "net.txt", "-p", "'cse, dead"], ["cse, dead-code"]),
        (["draw", "net.txt", "--values", "sh"], ["shared"]),
    ):
        done = subprocess.run(
            ["bash", "--norc", "ask.sh", "graphad", *line], cwd=folder, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.split("\n")[:-1] == expected, line


# How a shell without the user's files is started, and told where the script is.
INTERACTIVE = {
    "zsh": (["zsh", "-f", "-i"], "_graphad", "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d $PWD/dump; echo rea''dy\n"),
    "tcsh": (["tcsh", "-f"], "graphad.csh", "set edit autolist; source graphad.csh; echo rea''dy\n"),
}


def typed(fd: int, text: str, expected: str, seconds: float = 30.0) -> str:
    """Type keys into a terminal, and return its output up to the expected text, or until the time is over."""
    os.write(fd, text.encode())
    shown, end = "", time.monotonic() + seconds
    while expected not in shown and time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            shown += os.read(fd, 1 << 16).decode(errors="replace")
    return shown


@pytest.mark.parametrize("shell", INTERACTIVE)
def test_zsh_and_tcsh_complete_as_one_types(shell: str, net: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command, script, start = INTERACTIVE[shell]
    assert status_of("completion", shell) == 0
    (Path(net).parent / script).write_text(capsys.readouterr().out, encoding="utf-8")
    ours, theirs = os.openpty()
    # zsh shows plain text on a dumb terminal; tcsh edits no line there.
    environment = {**os.environ, "TERM": "dumb" if shell == "zsh" else "vt100"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=Path(net).parent, env=environment, start_new_session=True
    ) as process:
        try:
            typed(ours, start, "ready")
            lines = [("graphad veri", "graphad verify "), ("graphad draw ne", "draw net.txt"), ("graphad check simp", "check simplify")]
            if shell == "zsh":  # within quotes, the last name of a pipeline
                lines.append(("graphad opt net.txt -p 'cse, dead", "'cse, dead-code"))
            for keys, expected in lines:
                assert expected in typed(ours, keys + "\t", expected)
                typed(ours, "\x15", "", 1.0)  # the line is taken back
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)
