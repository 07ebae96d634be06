"""Operators, slots and attributes that are not registered: the commands refuse them, unless told to keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphad as ga
from graphad.cli import main

UNKNOWN = [
    ("tahn(X=x) -> (Out=y)", "operator 'tahn' is not registered; did you mean 'tan' or 'tanh' or 'atan'?"),
    ("tanh(x=x) -> (Out=y)", "operator 'tanh' has no input slot 'x'; its input slots are X"),
    ("tanh(X=x) -> (Outt=y)", "operator 'tanh' has no output slot 'Outt'; its output slots are Out; did you mean 'Out'?"),
    ("tanh(X=[x, x]) -> (Out=y)", "operator 'tanh': input slot 'X' takes one name, got 2: x, x"),
    ("tanh() -> (Out=y)", "operator 'tanh': input slot 'X' is missing"),
    ("scale(X=x) -> (Out=y) {skale=2.0}", "operator 'scale' has no attribute 'skale'; its attributes are scale, bias"),
    ('scale(X=x) -> (Out=y) {scale="a"}', "operator 'scale': attribute 'scale' is float, got str 'a'"),
    ("net_grad(X=x, Scope=s, Out@GRAD=g) -> (X@GRAD=d) {sub_block=block(1)}", "attribute 'original_input' (list[str]) is missing"),
    ("while_grad(X=x, Out@GRAD=g) -> (X@GRAD=d) {sub_block=block(1)}", "operator 'while_grad': input slot 'StepScopes' is missing"),
]


@pytest.mark.parametrize(("line", "message"), UNKNOWN, ids=[message for _, message in UNKNOWN])
@pytest.mark.parametrize("end", [".txt", ".json"])
def test_what_is_not_registered_is_refused_at_its_place(
    line: str, message: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"program {{\n  block 0 {{\n    var x: float32[2]\n    {line}\n  }}\n  block 1 in 0 {{\n  }}\n}}\n"
    path = tmp_path / f"net{end}"
    ga.interop.write_program(ga.Program.parse(text), path)
    place = "line 4, column 5" if end == ".txt" else "blocks[0].ops[0]"
    for argv in (
        ["draw", str(path), "-o", str(tmp_path / "net.svg")],
        ["opt", str(path), "-p", "cse"],
        ["view", str(path), "-o", "v.html"],
    ):
        assert main(argv) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert f"{path}: {place}: " in err
        assert message in err
    assert not (tmp_path / "net.svg").exists()


def test_what_is_not_registered_is_kept_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.txt").write_text("program { block 0 { var x: float32[2] zork(X=x) -> (Out=y) {speed=3} } }")
    assert main(["opt", str(tmp_path / "net.txt"), "-p", "dead-code, cse", "--allow-unknown"]) == 0
    assert "zork(X=x) -> (Out=y) {speed=3}" in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "net.txt"), str(tmp_path / "net.txt"), "--allow-unknown"]) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("scale(X=x) -> (Out=y) {scael=2.0}", "no attribute 'scael'; .*did you mean 'scale'"),
        ("tanh(X=x, Z=x) -> (Out=y)", "no input slot 'Z'"),
        ("tanh(X=x) -> (Out=y, Outt=z)", "no output slot 'Outt'; .*did you mean 'Out'"),
    ],
)
def test_what_a_registered_operator_does_not_have_is_refused_where_it_is_lowered(line: str, message: str) -> None:
    text = f"program {{ block 0 {{ var x: float32[2] var y: float32[2] var z: float32[2] {line} }} }}"
    program = ga.Program.parse(text)
    assert line.split("(")[0] in str(program)
    with pytest.raises(ga.errors.InvalidValue, match=message):
        ga.lower(program.clone())
    assert ga.lower(ga.Program.parse(text, allow_unknown=True).clone()).ops


def test_an_operator_that_is_not_registered_is_kept_until_it_runs() -> None:
    program = ga.Program.parse("program { block 0 { var x: float32[2] var y: float32[2] tahn(X=x) -> (Out=y) } }")
    graph = ga.lower(program, [])
    ga.Pipeline.parse("dead-code, simplify, cse").run(graph)
    assert [op.type for op in graph.ops] == ["tahn"]
    with pytest.raises(ga.errors.ExecutionError, match="'tahn' is not registered, so it cannot run; did you mean 'tan' or 'tanh'"):
        ga.Executor().run(program, {"x": [1.0, 2.0]}, ["y"])
    with pytest.raises(ga.errors.InvalidValue, match="'tahn' is not registered"):
        ga.Program().global_block().append_op("tahn", {}, {"Out": "y"})
