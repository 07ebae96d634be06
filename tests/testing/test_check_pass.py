"""``check_pass`` catches passes that are wrong, makes what it shows small, and finds nothing wrong with passes that are right."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad.ir import Graph
from graphad.rewriting import Fixpoint, Pass, Pipeline
from graphad.settings import SETTINGS
from graphad.testing import Case, Counterexample, MissingHypothesis, Vacuous, check_case, check_pass
from graphad.testing.cases import random_case
from graphad.testing.check import SELDOM, _Search
from graphad.testing.programs import case_with_gradients
from graphad.testing.trial import HEADLINES, Finding, Subject
from tests.drawing.test_drawing import labels, texts
from tests.scratch import Swap, passes
from tests.shares import one_in
from tests.source_tree import ROOT
from tests.testing.wrong_passes import (
    WRONG,
    DropsCapture,
    DropsCounter,
    DropsState,
    FoldsNan,
    FollowsHashes,
    ForgetsStopGradient,
    HoistsFromLoop,
    IsNotIdempotent,
    SwapsSubtraction,
)

EXAMPLES, OPERATORS = 800, 8


def size(program: ga.Program) -> int:
    return sum(len(block.ops) for block in program.blocks)


def caught(what: Pass, folder: Path, **options: int) -> Counterexample:
    with pytest.raises(Counterexample) as found:
        check_pass(what, examples=EXAMPLES, folder=folder, **options)  # type: ignore[arg-type]
    return found.value


LONG = (HoistsFromLoop, DropsCounter, DropsCapture, ForgetsStopGradient)  # many programs until one shows it, or large ones to make small
EACH = [pytest.param(kind, id=kind.name, marks=[pytest.mark.long] if kind in LONG else []) for kind in WRONG]


@pytest.mark.parametrize("kind", EACH)
def test_a_wrong_pass_is_caught(kind: type[Pass], tmp_path: Path) -> None:
    found = caught(kind(), tmp_path)
    assert found.finding.kind in WRONG[kind], str(found)
    assert found.examples <= EXAMPLES
    assert size(found.case.program) <= OPERATORS, str(found)
    assert found.finding.text in str(found)
    assert str(found).endswith(found.snippet)


def test_ten_at_least_are_wrong() -> None:
    assert len(WRONG) >= 10


def test_a_report_says_it_all(tmp_path: Path) -> None:
    found = caught(SwapsSubtraction(), tmp_path)
    assert [path.name for path in found.pictures] == ["before.svg", "after.svg", "before.png", "after.png"]
    assert found.before.global_block().ops[-1].type == "elementwise_sub"
    assert str(found.after) == str(ga.schedule(found.graph)) != str(found.before)
    assert re.match(r"wrong-swaps-subtraction: the results differ: \w+: .*-?\d+\S* before, -?\d+\S* after", str(found))
    assert "before and after:\n   program {" in str(found)
    assert "\n  -    elementwise_sub(" in str(found)
    assert all(f"{name} = {array.dtype}" in str(found) for name, array in found.case.feeds.items())
    assert found.file.read_text(encoding="utf-8") == found.snippet
    assert str(found).endswith(f"python {found.file}:\n\n{found.snippet}")


def test_the_folder_may_be_text_and_one_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(Counterexample) as found:
        check_pass(SwapsSubtraction(), examples=EXAMPLES, folder=str(tmp_path / "a" / "b"))
    assert found.value.file.parent == tmp_path / "a" / "b"
    (tmp_path / "file").write_text("")
    assert caught(SwapsSubtraction(), tmp_path / "file").file.read_text(encoding="utf-8") == found.value.snippet


def test_pictures_outline_what_the_pass_changed(tmp_path: Path) -> None:
    svgs = [path.read_text(encoding="utf-8") for path in caught(FoldsNan(), tmp_path).pictures[:2]]
    assert [labels(svg, "highlight") for svg in svgs] == [{"elementwise_sub"}, {"fill_constant"}]
    assert "removed or changed by the pass" in texts(svgs[0])
    assert "added or changed by the pass" in texts(svgs[1])
    assert "value=0.0" in texts(svgs[1])


@pytest.mark.parametrize("kind", one_in(3, [SwapsSubtraction, DropsState, IsNotIdempotent]), ids=lambda kind: kind.name)
def test_the_snippet_shows_it(kind: type[Pass], tmp_path: Path) -> None:
    found = caught(kind(), tmp_path)
    done = subprocess.run([sys.executable, "-c", found.snippet], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"AssertionError: {str(found.finding).splitlines()[0]}" in done.stderr


def test_the_same_is_found_for_the_same_seed(tmp_path: Path) -> None:
    one, other = (caught(SwapsSubtraction(), tmp_path, seed=5) for _ in range(2))
    assert str(one) == str(other)


def test_a_pass_that_follows_hashes_is_caught_in_another_process_only(tmp_path: Path) -> None:
    found = caught(FollowsHashes(), tmp_path)
    assert found.finding.kind == "deterministic"


def test_pipelines_and_fixpoints_are_tried_as_a_whole(tmp_path: Path) -> None:
    with passes(Swap):
        found = caught(Pipeline(Swap("sin", "sin"), SwapsSubtraction()), tmp_path)
    assert "Pipeline(Swap(old='sin', new='sin'), SwapsSubtraction())" in found.snippet
    found = caught(Fixpoint(DropsState(), limit=3), tmp_path)
    assert "Fixpoint(DropsState(), limit=3)" in found.snippet


# -- passes that are right -----------------------------------------------------------------------


with passes():

    @dataclass(frozen=True)
    class Nothing(Pass):
        """Does nothing, and says so."""

        name = "right-nothing"
        idempotent = True

        def apply(self, graph: Graph) -> bool:
            return False

    @dataclass(frozen=True)
    class AddsTwice(Pass):
        """x + y by another route, which rounds otherwise."""

        name = "right-adds-twice"
        tolerance = 1e-12

        def apply(self, graph: Graph) -> bool:
            found = [op for op in graph.ops if op.type == "elementwise_add" and op.output("Out").dtype == "float64" and not op.attrs]
            for op in found:
                x, y = op.input("X"), op.input("Y")
                if x.type != y.type:
                    continue
                third = graph.add_value("third", x.shape, x.dtype)
                graph.add_op("scale", {"X": [x]}, {"Out": [third]}, {"scale": 1 / 3}, before=op)
                graph.add_op("sum", {"X": [third, y, third, third]}, op.outputs, before=op)
                graph.remove_op(op)
            return bool(found)


def test_a_check_that_checked_nothing_fails() -> None:
    with pytest.raises(Vacuous, match="changed none of 300 programs") as raised:
        check_pass(Nothing(), examples=30)
    assert (raised.value.checked.examples, raised.value.checked.changed) == (300, 0)  # ten times as many as requested


def test_a_finding_without_details_is_its_headline() -> None:
    assert str(Finding("changed", "")) == HEADLINES["changed"]


def test_an_analysis_need_not_change_anything() -> None:
    assert check_pass("find-op-path{targets=[$loss]}", examples=10).changed == 0


def test_rounding_is_allowed_where_the_pass_says_so(tmp_path: Path) -> None:
    assert check_pass(AddsTwice(), examples=60).changed > 5
    with pytest.raises(Counterexample, match="the results differ"):
        check_pass(AddsTwice(), examples=EXAMPLES, tolerance=0.0, folder=tmp_path)


def test_a_failing_pass_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "reproducers", str(tmp_path / "reproducers"))
    caught(next(kind for kind in WRONG if kind.name == "wrong-stumbles")(), tmp_path)
    assert not (tmp_path / "reproducers").exists()
    assert str(tmp_path / "reproducers") == SETTINGS.reproducers


# -- without hypothesis --------------------------------------------------------------------------


def test_what_single_commands_need_is_not_imported_for_all() -> None:
    needed = {"hypothesis", "sklearn", "z3"}
    text = f"import sys, graphad, graphad.testing.shrinking, graphad.cli; sys.exit(bool({needed} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True)


def test_check_pass_works_without_hypothesis() -> None:
    text = "import sys; sys.modules['hypothesis'] = None; from graphad.testing import check_pass; check_pass('dead-code', examples=20)"
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True)


@pytest.mark.parametrize("statement", ["from graphad.testing import nested_programs", "import graphad.testing.strategies"])
def test_missing_hypothesis_is_said(statement: str) -> None:
    text = f"import sys; sys.modules['hypothesis'] = None\n{statement}"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    message = "graphad.testing.strategies draws random programs with hypothesis, which is not installed: pip install 'graphad[testing]'"
    assert done.stderr.splitlines()[-1] == f"graphad.testing.{MissingHypothesis.__name__}: {message}"


MARKED = """program { block 0 {
    var x: float64[2] var a: float64[2] var b: float64[2] var y: float64[2]
    scale(X=x) -> (Out=a) {scale=2.0}
    exp(X=a) -> (Out=y)
    tanh(X=a) -> (Out=b)
} }"""


@pytest.mark.parametrize(("marked", "is_right"), [("exp", False), ("tanh", True)])
def test_marks_of_reused_memory_are_tried(marked: str, is_right: bool) -> None:
    with passes():

        @dataclass(frozen=True)
        class Marks(Pass):
            name = "test-marks"

            def apply(self, graph: Graph) -> bool:
                found = [op for op in graph.ops if op.type == marked and "inplace" not in op.attrs]
                for op in found:
                    graph.set_attr(op, "inplace", ["Out:X"])
                return bool(found)

        case = Case(ga.Program.parse(MARKED), feeds={"x": np.array([0.5, 1.0])})
        if is_right:
            check_case(Marks(), case)
        else:
            with pytest.raises(AssertionError, match="into the memory of the inputs that are marked: b: at"):
                check_case(Marks(), case)


def test_what_a_collective_writes_may_be_overwritten_after_its_last_reader() -> None:
    text = """program { block 0 { var x: float64[2] var a: float64[2] var y: float64[2]
    c_concat(X=x) -> (Out=a)
    elementwise_mul(X=a, Y=x) -> (Out=y)
} }"""
    program = ga.Program.parse(text)
    graph = ga.lower(program)
    ga.Pipeline.parse("in-place").run(graph)
    assert [op.attrs.get("inplace") for op in graph.ops] == [None, ["Out:X"]]
    check_case("in-place", Case(program, feeds={"x": np.array([0.5, -1.0])}))


def test_programs_have_the_numbers_that_a_pass_looks_for() -> None:
    with passes():

        @dataclass(frozen=True)
        class ClipsTo(Pass):
            name = "test-clips-to"

            def apply(self, graph: Graph) -> bool:
                found = [op for op in graph.ops if op.type == "clip" and op.attrs.get("max") == 6.25]
                for op in found:
                    graph.set_attr(op, "max", 6.0)
                return bool(found)

        with pytest.raises(Counterexample, match="the results differ"):
            check_pass(ClipsTo(), examples=400)


def test_lines_of_the_user_are_named(tmp_path: Path) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[3])
        ga.layers.elementwise_sub(x, ga.layers.tanh(x))
    line = program.global_block().ops[-1].source
    assert line is not None
    with pytest.raises(Counterexample) as found:
        check_pass(SwapsSubtraction(), programs=[program], folder=tmp_path)
    assert re.search(rf"\nwritten at:\n  {re.escape(str(line))}: elementwise_sub\(", str(found.value))
    assert "\nwritten at:\n" not in str(caught(SwapsSubtraction(), tmp_path))


def test_names_that_look_like_the_renamed_ones_of_a_check_are_no_finding() -> None:
    names = "var renamed.x: float32[3] var x: float32[3] var renamed1.x: float32[3]"
    ops = "sum(X=[renamed.x, x, renamed1.x]) -> (Out=w) scale(X=w) -> (Out=y) {scale=1.0} tanh(X=y) -> (Out=z)"
    program = ga.Program.parse(f"program {{ block 0 {{ {names} {ops} }} }}")
    assert check_pass("simplify, dead-code", programs=[program], examples=20).changed == 20


def test_what_operators_with_effects_write_is_not_taken_for_something_else_where_one_is_added() -> None:
    """The tangent has a barrier of its own, and the barrier of the gradient goes: t5 is still what is broadcast."""
    program = ga.Program.parse(
        """program { block 0 { var x: float64[3] var s: float64[1] var t3: float64[3] var t5: float64[1] var g: float64[3]
        var loss: float64[]
        barrier(X=x) -> (Out=t3) c_broadcast(X=s) -> (Out=t5) {root=0} barrier_grad(Out@GRAD=t3) -> (X@GRAD=g) backward
        reduce_sum(X=g) -> (Out=loss) {reduce_all=true} } }"""
    )
    feeds = {"x": np.ones(3), "s": np.ones(1)}
    check_case("jvp{targets=[$loss]}", Case(program, "loss", feeds, requested=("loss",)))


def test_passes_that_expand_gradients_round_where_there_are_gradients_alone() -> None:
    text = "program { block 0 { var x: float64[3] tanh(X=x) -> (Out=y) mean(X=y) -> (Out=loss) } }"
    case = random_case(ga.Program.parse(text), loss_name="loss")
    with_gradients = case_with_gradients(case, 1)
    assert with_gradients is not None
    for name in ("jvp{targets=[$loss]}", "find-op-path{targets=[$loss]}, expand-grad-ops"):
        assert Subject(name).allowed(case) == 0.0
        assert Subject(name).allowed(with_gradients) == 1e-9


def test_programs_that_print_are_silent_while_they_are_tried(capfd: pytest.CaptureFixture[str]) -> None:
    program = ga.Program.parse(
        "program { block 0 { var x: float64[2] var z: float64[2] print(In=x) -> (Out=y) tanh(X=y) -> (Out=z) tanh(X=y) -> (Out=w) } }"
    )
    assert check_pass("cse", programs=[program], examples=4).changed == 4
    # While a counterexample is made small, too.
    names = " ".join(f"var {name}: float64[2]" for name in "xyzw")
    subtracts = ga.Program.parse(f"program {{ block 0 {{ {names} print(In=x) -> (Out=y) elementwise_sub(X=z, Y=y) -> (Out=w) }} }}")
    with pytest.raises(Counterexample):
        check_pass(SwapsSubtraction(), programs=[Case(subtracts, "", {"x": np.ones(2), "z": np.full(2, 3.0)})], examples=4)
    assert capfd.readouterr().out == ""
    ga.Executor().run(program, feed={"x": np.ones(2)}, fetch_list=["z"])
    assert "data: [1 1]" in capfd.readouterr().out


def test_an_empty_reference_is_the_program_as_it_is() -> None:
    assert check_pass("cse", reference="", examples=20).changed
    with pytest.raises(Counterexample, match="compared with the program as it is: the results differ"):
        check_pass(SwapsSubtraction(), reference="", examples=EXAMPLES)


@pytest.mark.parametrize("role", ["reference", "prepare"])
def test_a_mistake_in_what_is_compared_or_runs_before_is_said_at_once(role: str) -> None:
    with pytest.raises(ValueError, match="cleanup"):
        check_pass("cse", examples=2, **{role: "cleanup"})  # type: ignore[arg-type]


def test_chance_says_on_which_programs_expensive_checks_are_made() -> None:
    """In step with a sweep, which goes round in a circle, a check would be made on some of its programs only."""
    case = Case(ga.Program())
    search = _Search(Subject("cse"), lambda choices: case, seed=0)
    made = [search._seldom(case, is_new=False) for _ in range(1200)]
    assert made[0] == set(SELDOM)
    for kind, (_, often) in SELDOM.items():
        assert sum(kind in kinds for kinds in made) == pytest.approx(1200 / often, rel=0.4)
    for period in range(2, 13):
        assert all(any("gradients" in kinds for kinds in made[first::period]) for first in range(period))
