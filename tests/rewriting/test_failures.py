"""Reproducers: a folder from which the failure of a pass can be repeated."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphad as ga
from graphad.errors import NoGradient, PassError
from graphad.rewriting import Step, diagnoses_only, observing
from graphad.settings import SETTINGS
from tests.rewriting.samples import Fail, body, looping, lowered
from tests.scratch import Swap, passes
from tests.source_tree import ROOT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where reproducers go."""
    monkeypatch.setattr(SETTINGS, "reproducers", str(tmp_path / "left"))
    with passes(Swap, Fail):
        yield tmp_path / "left"


def graph() -> ga.Graph:
    return lowered(("sin", "x", "a"), ("exp", "a", "y"))


def left(folder: Path) -> dict[str, str]:
    """The files of the only reproducer."""
    (one,) = folder.iterdir()
    return {path.name: path.read_text() for path in sorted(one.iterdir())}


def failed(pipeline: ga.Pass, graph: ga.Graph) -> BaseException:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        pipeline.run(graph)
    return raised.value


def test_the_files(folder: Path) -> None:
    error = failed(Swap(old="exp", new="tanh") | Swap() | Fail(), graph())
    (one,) = folder.iterdir()
    assert isinstance(error, ZeroDivisionError)
    assert error.__notes__ == [f"pass by pass: {one / 'page.html'}\n  to reproduce it: {one}"]
    files = left(folder)
    assert sorted(files) == ["before.txt", "command.txt", "error.txt", "page.html", "pipeline.txt", "program.txt", "trace.txt"]
    assert files["pipeline.txt"] == "swap{old=exp, new=tanh}, swap, fail\n"
    assert files["program.txt"] == str(graph().block.program)  # type: ignore[union-attr]
    assert files["before.txt"].count("cos(X=x)") == files["before.txt"].count("tanh(X=a)") == 1
    assert files["command.txt"] == "graphad opt program.txt -p 'swap{old=exp, new=tanh}, swap, fail'\n"
    assert files["error.txt"] == "ZeroDivisionError: cos was found\n"
    assert "in apply" in files["trace.txt"]


def test_the_page_shows_the_passes_up_to_the_failure(folder: Path) -> None:
    seen: list[str] = []
    with observing(lambda pass_, graph, step: seen.append(step.name)):
        failed(Swap(old="exp", new="tanh") | Swap() | Fail(), graph())
    page = left(folder)["page.html"]
    assert [name for name in ("before", "swap", "fail") if f'"name":"{name}"' in page] == ["before", "swap", "fail"]
    assert '"error":"ZeroDivisionError: cos was found"' in page
    assert seen == ["swap", "swap"], "who observes the passes is not told of the run that the page shows"


def test_who_records_passes_writes_the_page(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        ga.view(graph(), Swap() | Fail(), tmp_path / "mine.html")
    (one,) = folder.iterdir()
    assert raised.value.__notes__ == [f"to reproduce it: {one}", f"the page up to the failure: {tmp_path / 'mine.html'}"]
    assert not (one / "page.html").exists()


def test_one_of_graphads_own_errors_names_the_folder_in_its_message(folder: Path) -> None:
    error = failed(ga.passes.CreateGradOps(), graph())
    (one,) = folder.iterdir()
    assert str(error).endswith(f"it has single_writer, typed\n  pass by pass: {one / 'page.html'}\n  to reproduce it: {one}")
    assert isinstance(error, PassError)


def test_the_graph_before_is_the_one_before_the_failing_pass_did_something(folder: Path) -> None:
    def half(self: ga.Pass, graph: ga.Graph) -> bool:
        Swap().apply(graph)
        raise KeyError("half way")

    failing = type("Half", (ga.Pass,), {"name": "half", "apply": half, "__str__": lambda self: "half"})()
    failed(failing, graph())
    assert left(folder)["before.txt"] == str(graph())


def test_the_same_failure_leaves_the_same_folder(folder: Path) -> None:
    for _ in range(2):
        failed(Swap() | Fail(), graph())
    assert len(list(folder.iterdir())) == 1
    failed(Swap() | Fail("exp"), graph())
    assert len(list(folder.iterdir())) == 2


def test_what_was_requested_is_in_the_command(folder: Path) -> None:
    lines = ("sin", "x", "a"), ("cos", "a", "y")
    failed(ga.Pipeline(Fail()), lowered(*lines, targets=["a", "y"]))
    assert left(folder)["command.txt"] == "graphad opt program.txt --fetch a,y -p fail\n"


def test_the_command_keeps_what_is_not_registered(folder: Path) -> None:
    program = ga.Program.parse("program { block 0 { var x: float32[2] zork(X=x) -> (Out=y) cos(X=y) -> (Out=z) } }")
    failed(ga.Pipeline(Fail()), ga.lower(program))
    assert left(folder)["command.txt"] == "graphad opt program.txt --allow-unknown -p fail\n"


def test_nothing_that_was_requested_is_said_too(folder: Path) -> None:
    failed(ga.Pipeline(Fail()), lowered(("cos", "x", "y"), targets=[]))
    assert left(folder)["command.txt"] == "graphad opt program.txt --fetch '' -p fail\n"


@pytest.mark.parametrize("pipeline", ["fixpoint(swap, fail)", "swap, fixpoint(fixpoint(fail))"])
def test_a_pass_in_a_fixpoint_is_reported_once(pipeline: str, folder: Path) -> None:
    error = failed(ga.Pipeline.parse(pipeline), graph())
    assert len(error.__notes__) == 1
    assert left(folder)["pipeline.txt"] == "swap, fail\n"


def test_a_fixpoint_without_end_is_reported_from_its_start(folder: Path) -> None:
    error = failed(Swap(old="exp", new="relu") | ga.fixpoint(Swap(), Swap(old="cos", new="sin"), limit=3), graph())
    assert "to reproduce it" in str(error)
    files = left(folder)
    assert files["pipeline.txt"] == "swap{old=exp, new=relu}, fixpoint{limit=3}(swap, swap{old=cos, new=sin})\n"
    assert "sin(X=x)" in files["before.txt"]


def test_a_failure_in_a_nested_graph_is_had_again_from_the_whole(folder: Path) -> None:
    error = failed(Swap() | ga.nested(Swap(old="tanh"), Fail()), looping())
    assert len(error.__notes__) == 1
    files = left(folder)
    assert files["pipeline.txt"] == "swap, nested(swap{old=tanh}, fail)\n"
    assert files["before.txt"] == str(looping())
    assert "block 1 in 0" in files["program.txt"]


def test_a_pass_run_by_hand_on_a_nested_graph_leaves_that(folder: Path) -> None:
    inner = body(looping())
    failed(Fail("tanh"), inner)
    files = left(folder)
    assert sorted(files) == ["error.txt", "graph.txt", "pipeline.txt", "trace.txt"]
    assert files["graph.txt"] == str(inner)


def test_a_graph_without_a_program_leaves_itself(folder: Path) -> None:
    made = ga.Graph()
    made.add_op("cos", {"X": [made.add_input("x", (2,), "float64")]}, {"Out": [made.add_value("y", (2,), "float64")]})
    failed(Fail(), made)
    assert left(folder)["graph.txt"] == str(made)


def test_making_it_is_not_observed() -> None:
    seen: list[Step] = []
    with observing(lambda each, graph, step: seen.append(step)):
        failed(Swap() | Swap(old="exp") | Fail(), graph())
    assert [step.text for step in seen] == ["swap", "swap{old=exp}"]


def test_what_is_said_about_the_users_program_leaves_nothing_where_it_is_quiet(folder: Path) -> None:
    with diagnoses_only():
        failed(ga.passes.CreateGradOps(), graph())
        assert not folder.exists()
        failed(Swap() | Fail(), graph())
        assert len(left(folder)) == 7


def test_a_gradient_that_cannot_be_is_a_diagnosis(folder: Path) -> None:
    with ga.program_guard(ga.Program()):
        x = ga.layers.data("x", shape=[3], stop_gradient=False)
        loss = ga.layers.mean(x)
        loss.stop_gradient = True
        with pytest.raises(NoGradient):
            ga.append_backward(loss)
    assert not folder.exists()


def test_where_nothing_can_be_written_the_error_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(SETTINGS, "reproducers", str(tmp_path / "file"))
    error = failed(Swap() | Fail(), graph())
    assert isinstance(error, ZeroDivisionError)
    (note,) = error.__notes__
    assert note.startswith("no reproducer was written: ")


def test_nowhere_is_a_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "reproducers", "")
    assert not hasattr(failed(Swap() | Fail(), graph()), "__notes__")
    assert not folder.exists()


def opt(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """``graphad opt``, in a process of its own that leaves its reproducers in ``again``."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "GRAPHAD_REPRODUCERS": str(cwd / "again")}
    command = [sys.executable, "-m", "graphad.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=env, text=True, capture_output=True, timeout=60, check=False)


def test_the_command_reproduces_it(folder: Path) -> None:
    pipeline = ga.Pipeline.parse("fixpoint(expand-grad-ops), find-op-path{targets=[y]}, find-op-path{targets=[gone]}")
    ga.passes.FindOpPath(("y",)).run(made := lowered(("sin", "x", "a"), ("exp", "a", "y"), targets=["y", "a"]))
    error = failed(pipeline, made)
    (one,) = folder.iterdir()
    program, *arguments = shlex.split((one / "command.txt").read_text())
    assert (program, arguments[0]) == ("graphad", "opt")
    done = opt(arguments[1:] if arguments[0] != "opt" else arguments, one)
    first = str(error).split("\n")[0]
    assert done.returncode == 1
    assert first in done.stderr
    (again,) = (one / "again").iterdir()
    same = ("program.txt", "before.txt", "pipeline.txt", "command.txt")
    assert [(again / name).read_text() for name in same] == [(one / name).read_text() for name in same]
