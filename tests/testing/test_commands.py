"""``graphad check``, ``bisect`` and ``reduce``: what they print, and their exit statuses."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import graphad as ga
from graphad import testing
from graphad.cli import bisect, check, reduce
from graphad.testing import bisection
from graphad.testing.cases import random_case
from graphad.testing.report import Checked
from graphad.testing.trial import Trial
from tests.scratch import passes
from tests.testing.wrong_passes import RewritesOneByOne, SwapsSubtraction

PROGRAM = """\
program {
  block 0 {
    var a: float64[2]
    var b: float64[2]
    var c: float64[2]
    var y: float64[2]
    elementwise_sub(X=a, Y=a) -> (Out=c)
    elementwise_sub(X=b, Y=a) -> (Out=y)
  }
}
"""
RIGHT = "find-op-path{targets=[y]}"


@pytest.fixture(autouse=True)
def wrong_passes_are_known() -> Iterator[None]:
    with passes(SwapsSubtraction, RewritesOneByOne):
        yield


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.txt"
    path.write_text(f"\n\n{PROGRAM}", encoding="utf-8")  # the user's lines are not those of the program as printed
    return str(path)


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for each in (check, bisect, reduce):
        each.add_parser(commands)
    args = parser.parse_args(words)
    return int(args.command(args))


# -- check ---------------------------------------------------------------------------------------


def test_check_finds_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "dead-code", "--examples", "5") == 0
    # The programs that it changes nothing of come on top, until there is one that it changes.
    assert re.match(r"dead-code: nothing wrong on \d+ programs, of which it changed [1-9]", capsys.readouterr().out)


def test_check_prepares(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "prune-no-grad", "--prepare", "find-op-path{targets=[$loss]}, create-grad-ops", "--examples", "20") == 0
    assert "nothing wrong on 20 programs" in capsys.readouterr().out


def test_check_of_a_pass_that_changes_nothing_is_3(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "fold-branches", "--program", program, "--examples", "3") == 3
    assert "fold-branches: it changed none of 30 programs" in capsys.readouterr().out


def test_check_takes_programs_and_a_reference(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--program", program, program]
    assert run("check", "wrong-swaps-subtraction", *files, "--seconds", "5", "-o", str(tmp_path / "out")) == 1
    assert "elementwise_sub(X=b, Y=a) -> (Out=y)" in capsys.readouterr().out
    same = ["--reference", "wrong-swaps-subtraction", "--examples", "3"]
    assert run("check", "wrong-swaps-subtraction", *files, *same) == 0


def test_check_refuses_a_program_with_an_unknown_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.txt").write_text("program { block 0 { var x: float32[2] tahn(X=x) -> (Out=y) } }", encoding="utf-8")
    assert run("check", "cse", "--program", str(tmp_path / "net.txt")) == 2
    assert "net.txt: line 1, column 39: operator 'tahn' is not registered; did you mean 'tan'" in capsys.readouterr().err


def test_check_passes_on_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    def check_pass(what: str, **options: Any) -> Checked:
        told.update(options, what=what)
        return Checked()

    monkeypatch.setattr(testing, "check_pass", check_pass)
    assert run("check", RIGHT, "--seconds", "1.5", "--seed", "7", "--tolerance", "0.5", "--no-gradients", "--prepare", "cse") == 0
    expected = {"what": RIGHT, "examples": None, "seconds": 1.5, "seed": 7, "tolerance": 0.5, "gradients": False, "prepare": "cse"}
    assert told == expected | {"reference": None, "programs": None, "folder": None}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_check_that_is_interrupted_says_what_it_has(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = Checked.count

    def count(checked: Checked, trial: Trial) -> None:
        tried(checked, trial)
        if checked.examples == 3:
            signal.raise_signal(number)

    monkeypatch.setattr(Checked, "count", count)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with it ignored
    try:
        assert run("check", "dead-code") == 130
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr().out
    assert said.startswith("dead-code: nothing wrong on 3 programs")
    assert "interrupted" in said


@pytest.mark.parametrize("command", ["check", "bisect", "reduce"])
def test_numbers_that_make_no_sense_are_refused_in_a_line(command: str, program: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command, RIGHT] if command == "check" else [command, program, "-p", RIGHT]
    for option, value in {
        "--seed": "-1",
        "--tolerance": "x",
        **({"--examples": "1.5", "--seconds": "x"} if command == "check" else {}),
    }.items():
        with pytest.raises(SystemExit) as left:
            run(*words, option, value)
        assert left.value.code == 2
        shown = capsys.readouterr().err
        assert f"argument {option}: " in shown
        assert f"not {value}" in shown


def test_check_shows_a_counterexample(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("check", "wrong-swaps-subtraction", "--examples", "200", "--seed", "1", "-o", str(tmp_path / "out")) == 1
    assert "wrong-swaps-subtraction: the results differ" in capsys.readouterr().out
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["after.png", "after.svg", "before.png", "before.svg", "page.html", "snippet.py"]
    assert '"start":"#pass=1"' in (tmp_path / "out" / "page.html").read_text(encoding="utf-8")  # what the pass changed


# -- bisect --------------------------------------------------------------------------------------


def test_bisect_names_the_rewrite_and_the_line(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bisect", program, "--pipeline", f"{RIGHT}, wrong-rewrites-one-by-one") == 1
    out = capsys.readouterr().out
    assert out.startswith("rewrite 2 of 2, by pass wrong-rewrites-one-by-one\n  rule swap\n  of elementwise_sub -> y")
    assert f"elementwise_sub -> y, written at {program}:10\n" in out
    assert "of the program as printed" not in out


def test_bisect_writes_a_page_that_shows_the_rewrite(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.html"
    assert run("bisect", program, "--pipeline", f"{RIGHT}, wrong-rewrites-one-by-one", "-o", str(path)) == 1
    assert f"  the rewrite: {path}#pass=2&step=2\n" in capsys.readouterr().out
    page = path.read_text(encoding="utf-8")
    assert '"name":"wrong-rewrites-one-by-one"' in page
    assert '"start":"#pass=2&step=2"' in page


def test_bisect_links_a_page_in_the_temporary_folder(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run("bisect", program, "--pipeline", f"{RIGHT}, wrong-rewrites-one-by-one") == 1
    (page,) = tmp_path.glob("*.html")
    assert f"  the rewrite: {page}#pass=2&step=2\n" in out.getvalue()


def test_bisect_refuses_a_folder_that_is_not_there_at_once(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bisect", program, "--pipeline", RIGHT, "-o", "nowhere/page.html") == 2
    assert "there is no folder 'nowhere' to write the page 'page.html' to" in capsys.readouterr().err


def test_bisect_shows_a_pipeline_that_fails_up_to_there(tmp_path: Path) -> None:
    main = ga.Program.parse(PROGRAM)
    culprit = bisection.bisect(random_case(main), "find-op-path{targets=[y]}, find-op-path{targets=[gone]}", page=tmp_path / "page.html")
    assert culprit is not None
    assert str(culprit).endswith(f"  the rewrite: {tmp_path / 'page.html'}")
    assert "no value 'gone'" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_bisect_names_the_line_of_a_program_of_this_process() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        ga.layers.data("b", [2], append_batch_size=False) - ga.layers.data("a", [2], append_batch_size=False)
    culprit = bisection.bisect(random_case(main), "wrong-rewrites-one-by-one")
    assert f"written at {__file__}:" in str(culprit)


def test_bisect_finds_nothing_wrong(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bisect", program, "-p", RIGHT) == 0
    assert "the results are the same" in capsys.readouterr().out


def test_a_tolerance_forgives(program: str) -> None:
    assert run("bisect", program, "-p", "wrong-swaps-subtraction", "--seed", "3") == 1
    with pytest.raises(SystemExit) as left:
        run("bisect", program, "-p", "wrong-swaps-subtraction", "--tolerance", "2")
    assert left.value.code == 2


# -- reduce --------------------------------------------------------------------------------------


def test_reduce_prints_the_smaller_program(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reduce", program, "--pipeline", "wrong-swaps-subtraction") == 1
    said = capsys.readouterr()
    (op,) = ga.Program.parse(said.out).global_block().ops
    assert (op.type, op.output_names()) == ("elementwise_sub", ["y"])
    assert "the results differ: y: " in said.err
    assert said.err.endswith(f"\n  elementwise_sub(X=b, Y=a) -> (Out=y), written at {program}:10\n")


def test_reduce_reads_standard_input_and_writes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PROGRAM))
    assert run("reduce", "-", "-p", "wrong-swaps-subtraction", "-o", str(tmp_path / "small.txt")) == 1
    assert (tmp_path / "small.txt").read_text(encoding="utf-8").count("elementwise_sub") == 1
    assert capsys.readouterr().out == ""


def test_reduce_finds_nothing_wrong(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reduce", program, "-p", RIGHT) == 0
    assert capsys.readouterr().out == ""


# -- wrong command lines -------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["no-such-pass"], [RIGHT, "--prepare", "no-such-pass"], [RIGHT, "--reference", "no-such-pass"]])
def test_pipelines_that_are_none(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", *words) == 2
    assert "no-such-pass" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bisect", "reduce"])
@pytest.mark.parametrize(("options", "said"), [(["-p", "no-such-pass"], "no-such-pass"), (["-p", RIGHT, "--loss", "nope"], "nope")])
def test_what_does_not_fit_the_program(
    command: str, options: list[str], said: str, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, program, *options) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bisect", "reduce"])
def test_a_program_that_is_not_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "no-such-file.txt", "-p", RIGHT) == 2
    assert "no-such-file.txt" in capsys.readouterr().err


def test_check_of_programs_that_are_not_there_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.txt").write_text("program", encoding="utf-8")
    for file in ("no-such-file.txt", str(tmp_path / "none.txt")):
        assert run("check", RIGHT, "--program", file) == 2
    assert "no-such-file.txt" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["check"], ["check", RIGHT, "--examples", "0"], ["check", RIGHT, "--seconds", "0"], ["bisect", "p.txt"], ["reduce", "-p", RIGHT]],
)
def test_missing_words(words: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(*words)
    assert left.value.code == 2
