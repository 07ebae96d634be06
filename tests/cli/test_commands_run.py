"""The ``graphad`` command."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import graphad as ga
from graphad.cli import main
from graphad.rewriting import PASSES, Pass, RuleSet
from tests.rewriting.samples import Apply, Fail, log_exp, written
from tests.scratch import Swap, passes


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
        ("program { block 0 { } }", "net.gif", "a drawing ends in"),
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
    for argv, status in ((["--help"], 0), (["draw", "--help"], 0), (["paint"], 2), (["draw", "net.txt"], 2)):
        with pytest.raises(SystemExit) as stop:
            main(argv)
        assert stop.value.code == status
    assert "graphad demo" in capsys.readouterr().out


def test_without_a_command_it_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert "graphad demo" in out
    assert err == ""


def test_a_wrong_name_in_a_pipeline_is_a_line_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["opt", "net.txt", "-p", "cse, fixpoint(dead-cod)"])
    assert capsys.readouterr().err == (
        "graphad opt: argument -p/--pipeline: no pass is named 'dead-cod'; did you mean 'dead-code'?\n"
        "  cse, fixpoint(dead-cod)\n"
        "                ^\n"
        "graphad opt --help shows how it is used\n"
    )
    with pytest.raises(SystemExit):
        main(["opt", "net.txt", "-p", "zork"])
    assert "no pass is named 'zork'; the command graphad passes lists the" in capsys.readouterr().err


# -- passes on programs ----------------------------------------------------------------------------

PIPELINE = "swap{old=sin, new=cos}, swap{old=exp, new=tanh}"


@pytest.fixture
def net(tmp_path: Path) -> Iterator[str]:
    """A program in a file: ``y = log(exp(sin(x)))``, ``z = sin(x)``; and the passes of the tests."""
    lines = ("sin", "x", "a"), ("exp", "a", "b"), ("log", "b", "y"), ("sin", "x", "z")
    (tmp_path / "net.txt").write_text(str(written(*lines)))
    with passes(Swap, Apply, Fail):
        yield str(tmp_path / "net.txt")


def types(text: str) -> list[str]:
    """The operators of a program's text."""
    return [op.type for op in ga.Program.parse(text).global_block().ops]


def test_opt_writes_text_on_standard_output(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", PIPELINE]) == 0
    out, err = capsys.readouterr()
    assert types(out) == ["cos", "tanh", "log", "cos"]
    assert err == ""


def test_opt_reads_standard_input(net: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(Path(net).read_bytes())))
    assert main(["opt", "-", "-p", "apply"]) == 0
    assert types(capsys.readouterr().out) == ["sin", "sin"]


@pytest.mark.parametrize("name", ["out.txt", "out.json", "out.pdmodel", "__model__"])
def test_opt_writes_every_format(name: str, net: str, tmp_path: Path) -> None:
    assert main(["opt", net, "-p", "apply", "-o", str(tmp_path / name)]) == 0
    assert main(["opt", str(tmp_path / name), "-p", "swap", "-o", str(tmp_path / "again.txt")]) == 0
    assert types((tmp_path / "again.txt").read_text()) == ["cos", "cos"]


def test_opt_writes_the_format_it_is_told(net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "apply", "--to", "json"]) == 0
    out = capsys.readouterr().out
    json.loads(out)
    (tmp_path / "odd").write_text(out)
    assert main(["opt", str(tmp_path / "odd"), "--from", "json", "-p", "swap"]) == 0
    assert types(capsys.readouterr().out) == ["cos", "cos"]


def test_opt_keeps_what_is_requested(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "apply", "--fetch", "b, y"]) == 0
    program = ga.Program.parse(capsys.readouterr().out)
    assert [str(op).split(" {")[0] for op in program.global_block().ops] == [
        "sin(X=x) -> (Out=y)",
        "exp(X=y) -> (Out=b)",
        "sin(X=x) -> (Out=z)",
    ]
    assert main(["opt", net, "-p", "apply", "--fetch", "nothing"]) == 1
    assert "the graph has no value 'nothing'" in capsys.readouterr().err


def test_opt_takes_a_pipeline_from_a_file(net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "passes.txt").write_text("swap,\n  apply\n")
    assert main(["opt", net, "-p", f"@{tmp_path / 'passes.txt'}"]) == 0
    assert types(capsys.readouterr().out) == ["cos", "cos"]


def test_opt_shows_the_graph_after_every_pass(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "swap{old=relu}, fixpoint(swap), nested(swap)", "--print-after"]) == 0
    err = capsys.readouterr().err
    heads = [line for line in err.splitlines() if line.startswith("# after ")]
    assert heads == ["# after swap{old=relu}", "# after swap", "# after swap", "# after nested(swap)"]
    assert err.count("graph (x: float64[2, 3])") == 4


def test_opt_shows_what_changed(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "swap{old=relu}, swap, swap{old=exp, new=tanh}", "--print-changed"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("+++")] == ["+++ after swap", "+++ after swap{old=exp, new=tanh}"]
    changed = [line.split("(")[0] for line in lines if line.startswith(("-  ", "+  "))]
    assert changed == ["-  sin", "+  cos", "-  sin", "+  cos", "-  exp", "+  tanh"]
    assert "-  exp(X=a) -> (Out=b: float64[2, 3])" in lines
    assert "+  tanh(X=a) -> (Out=b: float64[2, 3])" in lines


def test_opt_draws_every_change(net: str, tmp_path: Path) -> None:
    folder = tmp_path / "drawn" / "here"
    assert main(["opt", net, "-p", "swap{old=relu}, fixpoint(swap), apply", "--draw", str(folder), "-o", str(tmp_path / "out.txt")]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["00-before.svg", "01-swap.svg", "02-apply.svg"]
    assert "cos" in (folder / "01-swap.svg").read_text()


def test_opt_takes_the_time(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "swap, apply", "--time"]) == 0
    err = capsys.readouterr().err
    steps, rules = err.split("\n\n")
    assert [line.split()[-1] for line in steps.splitlines()] == ["pass", "swap", "apply", "all"]
    assert "4 -> 2" in steps
    assert [line.split()[-1] for line in rules.splitlines()] == ["rule", "log-exp"]


def test_opt_times_passes_without_rules(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "swap", "--time"]) == 0
    assert "rule" not in capsys.readouterr().err


def test_opt_verifies_as_it_is_told(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    def forget(self: Pass, graph: ga.Graph) -> bool:
        return bool(graph.add_value("nothing").name)

    with passes():
        dataclass(frozen=True)(type("Forgetting", (Pass,), {"name": "forgetting", "apply": forget}))
        assert main(["opt", net, "-p", "forgetting"]) == 1
        assert "after pass forgetting: typed: value nothing: it has no type" in capsys.readouterr().err
        assert main(["opt", net, "-p", "forgetting", "--no-verify-each"]) == 0
        assert main(["opt", net, "-p", "forgetting", "--verify-each"]) == 1


@pytest.mark.parametrize(
    ("count", "said", "left"),
    [
        (0, "0 rewrites", ["sin", "exp", "log", "sin"]),
        (1, "1 rewrites; the last: rule log-exp on log -> y, exp -> b", ["sin", "sin"]),
        (2, "2 rewrites; the last: rule swap on the graph", ["cos", "cos"]),
        (9, "2 rewrites; the last: rule swap on the graph", ["cos", "cos"]),
    ],
)
def test_opt_stops_after_the_nth_rewrite(count: int, said: str, left: list[str], net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "apply, swap", "--stop-after", str(count)]) == 0
    out, err = capsys.readouterr()
    assert err == said + "\n"
    assert types(out) == left


def test_opt_says_what_was_last_although_passes_after_it_change_nothing(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "apply, swap{old=relu}", "--stop-after", "5"]) == 0
    assert capsys.readouterr().err == "1 rewrites; the last: rule log-exp on log -> y, exp -> b\n"


def test_a_failing_pass_is_a_failure(net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", net, "-p", "swap, create-grad-ops", "-o", str(tmp_path / "out.txt")]) == 1
    assert "create-grad-ops, pass 2 of the 2 in the pipeline, requires OpPath" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()
    with pytest.raises(ZeroDivisionError):
        main(["opt", net, "-p", "swap, fail"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "swop"], "no pass is named 'swop'; did you mean 'swap'?"),
        (["-p", "swap{old=3}"], "option old of pass swap is str, not 3\n  swap{old=3}\n  ^"),
        (["-p", ""], "the pipeline is empty"),
        (["-p", "@/nowhere/passes.txt"], "/nowhere/passes.txt: No such file or directory"),
        ([], "the following arguments are required: -p/--pipeline"),
        (["-p", "swap", "--stop-after", "many"], "invalid int value: 'many'"),
        (["-p", "swap", "--to", "onnx"], "invalid choice: 'onnx'"),
    ],
)
def test_a_wrong_command_line_is_2(arguments: list[str], message: str, net: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["opt", net, *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.txt", "-p", "swap"], "gone.txt: No such file or directory"),
        (["net.txt", "-p", "swap", "-o", "out.odd"], "does not say in which format to write"),
        (["net.txt", "-p", "swap", "--from", "json"], "net.txt: "),
    ],
)
def test_what_cannot_be_read_or_written_is_1(
    arguments: list[str], message: str, net: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(net).parent)
    assert main(["opt", *arguments]) == 1
    assert message in capsys.readouterr().err


# -- why, passes NAME, draw -p ---------------------------------------------------------------------


def test_why(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "y", net]) == 0
    head, op, *_ = capsys.readouterr().out.splitlines()
    assert (head, op) == ("y: float64[2, 3]", "  log(X=b) -> (Out=y: float64[2, 3])")
    assert main(["why", "y", net, "-p", "swap, apply"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == ["  cos(X=x) -> (Out=y: float64[2, 3])", "    made by swap"]
    assert main(["why", "w@GRAD", net]) == 1
    assert "the graph has no value 'w@GRAD'" in capsys.readouterr().err


def test_why_a_gradient_has_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_program = ga.Program()
    with ga.program_guard(main_program):
        x = ga.layers.data("x", [3])
        w = main_program.global_block().create_parameter(name="w", shape=[3], dtype="float32")
        loss = ga.layers.mean(x * w + w)
    (tmp_path / "net.txt").write_text(str(main_program))
    assert main(["why", "w@GRAD@RENAME@0", str(tmp_path / "net.txt"), "-p", str(ga.backward_pipeline((loss.name,)))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "w@GRAD@RENAME@0: float32[3], the gradient of w"
    assert any("made by create-grad-ops" in line for line in lines)
    assert "    for elementwise_add -> " in "\n".join(lines)


def test_a_pass_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes", "create-grad-ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("create-grad-ops: ")
    assert "  create-grad-ops{target_gradients=[]}  tuple[str, ...]" in lines
    assert "  requires OpPath" in lines
    assert any(line.startswith("  clears single_writer") for line in lines)
    assert main(["passes", "create-grad-op"]) == 1
    assert "no pass is named 'create-grad-op'; did you mean 'create-grad-ops'" in capsys.readouterr().err


def test_the_rules_of_a_pass_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with passes():

        class WithRules(Apply):
            """Apply rules."""

            name = "with-rules"
            tolerance = 1e-6
            preserves = (Pass,)

            @classmethod
            def rules(cls) -> RuleSet:
                return RuleSet(log_exp)

        assert main(["passes", "with-rules"]) == 0
    out = capsys.readouterr().out
    assert out == (
        "with-rules: Apply rules.\n  preserves Pass\n  may change values by a relative 1e-06\n\n1 rules:\nlog-exp  log(exp(x)) ⇒ x\n"
    )


def test_a_pipeline_is_drawn(net: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "net.svg"
    assert main(["draw", net, "-p", "swap{old=exp, new=tanh}", "-o", str(target)]) == 0
    assert ">tanh<" in target.read_text()
    assert ">exp<" not in target.read_text()
    assert capsys.readouterr().out == f"drawn: {target}\n"


# -- export --------------------------------------------------------------------------------------


def test_export_is_read_back_with_equal_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jax = pytest.importorskip("jax", reason="jax is missing: pip install 'graphad[jax]'")
    written = program()
    (tmp_path / "net.txt").write_text(str(written))
    rng = np.random.default_rng(0)
    params = {each.name: rng.normal(size=each.shape).astype("float32") for each in written.all_parameters()}
    np.savez(tmp_path / "params.npz", allow_pickle=False, **params)
    command = ["export", str(tmp_path / "net.txt"), "--to", "stablehlo", "--batch", "5", "--params", str(tmp_path / "params.npz")]
    assert main([*command, "-o", str(tmp_path / "net.bin")]) == 0
    assert main([*command, "-o", str(tmp_path / "net.mlir")]) == 0
    assert "stablehlo.dot_general" in (tmp_path / "net.mlir").read_text()
    (name,) = capsys.readouterr().err.splitlines()[0].rpartition(": ")[2].split(", ")
    x, scope = rng.normal(size=(5, 3)).astype("float32"), ga.Scope()
    for each, array in params.items():
        scope.set(each, array)
    (expected,) = ga.Executor().run(written, {"x": x}, [name], scope)
    found = jax.export.deserialize(bytearray((tmp_path / "net.bin").read_bytes())).call({"x": x}, params)
    np.testing.assert_allclose(found[0][0], expected, rtol=1e-6)


def test_a_training_step_is_exported_without_its_state(tmp_path: Path) -> None:
    """Only the types of what persists count."""
    jax = pytest.importorskip("jax", reason="jax is missing: pip install 'graphad[jax]'")
    step, startup = ga.Program(), ga.Program()
    with ga.program_guard(step, startup):
        loss = ga.layers.mean(ga.layers.fc(ga.layers.data("x", shape=[3]), size=1))
        ga.optimizer.Momentum(0.1, 0.9).minimize(loss)
    (tmp_path / "step.txt").write_text(str(step))
    command = ["export", str(tmp_path / "step.txt"), "--to", "stablehlo", "--batch", "2", "--fetch", loss.name]
    assert main([*command, "-o", str(tmp_path / "step.bin")]) == 0
    scope, x = ga.Scope(), np.ones((2, 3), "float32")
    ga.Executor().run(startup, scope=scope)
    state = ga.to_jax(step, [loss]).state(scope)
    (found,), _ = jax.export.deserialize(bytearray((tmp_path / "step.bin").read_bytes())).call({"x": x}, state)
    np.testing.assert_allclose(found, ga.Executor().run(step, {"x": x}, [loss], scope)[0], rtol=1e-6)


def test_export_without_a_shape_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jax", reason="jax is missing: pip install 'graphad[jax]'")
    (tmp_path / "net.txt").write_text(str(program()))
    assert main(["export", str(tmp_path / "net.txt"), "--to", "stablehlo", "-o", str(tmp_path / "net.mlir")]) == 1
    assert "say batch=" in capsys.readouterr().err
    assert not (tmp_path / "net.mlir").exists()
