"""How ``check_pass`` searches: from a seed alone, against a reference, on given programs, with gradients that passes make."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import SINGLE_WRITER, Builder, Graph, Op
from graphad.ops import lookup
from graphad.passes import ConstantFolding, Jvp, MixedPrecision, OptimizeParameters
from graphad.passes.backward import GradOps, OpPath
from graphad.program import BACKWARD
from graphad.rewriting import Pass
from graphad.testing import Case, Choices, Counterexample, Vacuous, check_pass
from graphad.testing.cases import RandomChoices, random_case, renumbered_case
from graphad.testing.check import _Search
from graphad.testing.checks import after_pass, examine
from graphad.testing.mentions import interest_of
from graphad.testing.programs import any_program
from graphad.testing.reach import Reach
from graphad.testing.training import trainable_program
from graphad.testing.trial import BACKWARD as STANDARD
from graphad.testing.trial import Subject, Trial, Unfit, standard_preparation
from tests.scratch import Swap, passes
from tests.source_tree import ROOT

TANH = "program { block 0 { var x: float64[3] var y: float64[3] var z: float64[3] tanh(X=x) -> (Out=y) tanh(X=x) -> (Out=z) } }"
TRAINABLE = trainable_program(RandomChoices("two layers"))
BACKWARD_OF_LOSS = "find-op-path{targets=[$loss]}, create-grad-ops, prune-no-grad"


with passes():

    @dataclass(frozen=True)
    class DropsWhatReadsShapes(Pass):
        """Asks for a trait that few operators have."""

        name = "wrong-drops-what-reads-shapes"

        def apply(self, graph: Graph) -> bool:
            for op in [op for op in graph.ops if op.definition is not None and op.definition.of_shape]:
                graph.remove_op(op)
            return True

    @dataclass(frozen=True)
    class DropsTheLastTerm(Pass):
        """Adds up gradients, but for the last."""

        name = "wrong-drops-the-last-term"
        requires = (GradOps,)
        establishes = (SINGLE_WRITER,)
        preserves = (OpPath, GradOps)

        def apply(self, graph: Graph) -> bool:
            shared = [value for each in graph.tree() for value in each.values if len(value.writers) > 1]
            for total in shared:
                parts = [total.graph.add_value(f"{total.name}@PART") for _ in total.writers]
                for part in parts:
                    part.grad_of, part.kind = total.grad_of, total.kind
                unused = iter(parts)
                total.graph.ordered_ops()
                before = min(total.readers, key=lambda op: op.order, default=None)
                writers = list(dict.fromkeys(total.writers))
                total.graph.add_op("sum", {"X": parts[:-1]}, {"Out": [total]}, before=before, role=BACKWARD)
                for op in writers:
                    for slot, values in list(op.outputs.items()):
                        total.graph.set_outputs(op, slot, [next(unused) if value is total else value for value in values])
            return bool(shared)

    @dataclass(frozen=True)
    class SquareByPower(Pass):
        """x * x as pow(x, 2), in two ways, of which one hardly ever runs."""

        name = "right-square-by-power"

        def apply(self, graph: Graph) -> bool:
            squares = [op for each in graph.tree() for op in each.ops if op.type == "square"]
            for op in squares:
                if op.output("Out").name == "a name that nothing has":
                    self.never(op)
                op.graph.add_op("elementwise_mul", {"X": op.inputs["X"], "Y": op.inputs["X"]}, op.outputs, before=op, role=op.role)
                op.graph.remove_op(op)
            return bool(squares)

        def never(self, op: Op) -> None:
            op.graph.remove_op(op)

    @dataclass(frozen=True)
    class UpdatesTwice(OptimizeParameters):
        """Updates every parameter twice with the same gradient."""

        name = "wrong-updates-twice"

        def apply(self, graph: Graph) -> bool:
            return super().apply(graph) and super().apply(graph)

    @dataclass(frozen=True)
    class StartsFromTwo(Pass):
        """Lets the backward start from 2, and forgets what the passes after it go by."""

        name = "wrong-starts-from-two"
        requires = (GradOps,)

        def apply(self, graph: Graph) -> bool:
            seeds = [op for op in graph.ops if op.role == BACKWARD and op.type in ("fill_constant", "fill_any_like")]
            for op in seeds[:1]:
                graph.set_attr(op, "value", 2.0)
            return bool(seeds)

    @dataclass(frozen=True)
    class NarrowExponentials(Pass):
        """Exponentials of float32 in float16."""

        name = "narrow-exponentials"

        def apply(self, graph: Graph) -> bool:
            for op in [op for op in graph.ops if op.type == "exp"]:
                build = Builder(graph, "narrow", before=op)
                narrow = lookup("cast")(build.symbol(op.input("X")), out_dtype="float16", in_dtype="float32")
                wide = lookup("cast")(lookup("exp")(narrow), out_dtype="float32", in_dtype="float16")
                graph.substitute(op.output("Out"), wide.value)
                graph.remove_op(op)
                return True
            return False

    @dataclass(frozen=True)
    class SignOfNothing(Pass):
        """Takes what a sign is of for zero, as narrow numbers do where that is tiny."""

        name = "wrong-sign-of-nothing"

        def apply(self, graph: Graph) -> bool:
            for op in [op for op in graph.ops if op.type == "sign"]:
                graph.add_op("scale", op.inputs, op.outputs, {"scale": 0.0}, before=op)
                graph.remove_op(op)
            return True

    @dataclass(frozen=True)
    class TakesTanhForSin(Pass):
        """Takes tanh for sin."""

        name = "wrong-takes-tanh-for-sin"

        def apply(self, graph: Graph) -> bool:
            chosen = [op for each in graph.tree() for op in each.ops if op.type == "tanh"]
            for op in chosen:
                op.graph.add_op("sin", {"X": op.inputs["X"]}, op.outputs, before=op, role=op.role)
                op.graph.remove_op(op)
            return bool(chosen)


def test_gradients_that_passes_make_are_compared(tmp_path: Path) -> None:
    with pytest.raises(Counterexample) as raised:
        check_pass(DropsTheLastTerm(), examples=200, prepare=BACKWARD_OF_LOSS, folder=tmp_path)
    assert raised.value.finding.kind == "gradients"
    assert sum(len(block.ops) for block in raised.value.case.program.blocks) <= 4


def test_a_pass_that_no_other_of_the_backward_can_follow_comes_after_all_of_them(tmp_path: Path) -> None:
    assert standard_preparation(StartsFromTwo()) == ", ".join(STANDARD)
    assert standard_preparation(DropsTheLastTerm()).endswith("create-grad-ops")  # which establishes what is needed to run
    with pytest.raises(Counterexample) as raised:
        check_pass(StartsFromTwo(), examples=20, folder=tmp_path)
    assert raised.value.finding.kind == "gradients"


def test_a_check_of_graphs_that_cannot_run_fails() -> None:
    with pytest.raises(Vacuous, match=r"none of 20 programs that it changed can run after it.*\n.*\nnot compared: 20 programs") as raised:
        check_pass(StartsFromTwo(), examples=20, prepare="find-op-path{targets=[$loss]}, create-grad-ops")
    assert raised.value.checked.unfinished == 20


@pytest.mark.parametrize("kind", [OptimizeParameters, UpdatesTwice])
def test_what_a_pass_is_there_to_change_is_as_it_says(kind: type[Pass]) -> None:
    finding = examine(Subject(kind(), standard_preparation(kind())), TRAINABLE, {"values"})
    assert (finding is None) == (kind is OptimizeParameters)
    assert finding is None or re.match(r"the results differ: persistable fc_\d\.\w_0: .* intended, .* after", str(finding))


@pytest.mark.parametrize(("tiny", "found"), [(-1e-8, False), (-0.5, True)])
def test_a_jump_is_no_finding_within_a_tolerance(tiny: float, found: bool) -> None:
    program = ga.Program.parse("program { block 0 { var x: float32[1] var s: float32[1] sign(X=x) -> (Out=s) } }")
    case = Case(program, "", {"x": np.array([tiny], "float32")})
    finding = examine(Subject(SignOfNothing(), tolerance=0.02), case, {"values"})
    assert (finding is not None) == found


@pytest.mark.parametrize(("number", "found"), [(12.0, True), (10.0, False)])
def test_what_becomes_infinite_is_a_finding_although_it_is_steep(number: float, found: bool) -> None:
    """In float16, exp(12) is infinite; that of a number a fiftieth larger is a quarter larger."""
    program = ga.Program.parse("program { block 0 { var x: float32[1] var y: float32[1] exp(X=x) -> (Out=y) } }")
    case = Case(program, "", {"x": np.array([number], "float32")})
    finding = examine(Subject(NarrowExponentials(), tolerance=0.02), case, {"values"})
    assert (finding is not None and finding.kind == "values") == found


def test_what_is_below_the_normal_numbers_is_rounded_anyhow() -> None:
    """``x * y / y`` is x, and its gradient of y is 0, or what rounding leaves of 1e280 - 1e280."""
    rows = "elementwise_mul(X=x, Y=y) -> (Out=p) elementwise_div(X=p, Y=y) -> (Out=q) mean(X=q) -> (Out=loss)"
    names = "".join(f"var {name}: float64[1] " for name in "xypq") + "var loss: float64[] "
    program = ga.Program.parse(f"program {{ block 0 {{ {names}{rows} }} }}")
    case = Case(program, "loss", {"x": np.array([1e-20]), "y": np.array([1e-300])})
    assert examine(Subject("simplify{fast=true}"), case) is None


def test_a_pass_after_one_that_changed_the_graph_may_refuse() -> None:
    both = "clip-gradients, optimize-parameters{learning_rate=nowhere}"
    with pytest.raises(Unfit, match="the program declares no 'nowhere'"):
        examine(Subject(both, standard_preparation(both)), TRAINABLE)


def test_what_ranks_cannot_share_out_is_unfit_for_them() -> None:
    """Data parallelism cuts all that is fed along its rows, of which each array has as many."""
    program = ga.Program()
    with ga.program_guard(program):
        x, y = (ga.layers.data(name, shape=[2], dtype="float64") for name in "xy")
        loss = ga.layers.mean(x) + ga.layers.mean(y)
    case = Case(program, loss.name, {"x": np.ones((4, 2)), "y": np.ones((3, 2))})
    trial = Trial(Subject("data-parallel{ranks=2}"), case, after=program, changed=True)
    with pytest.raises(Unfit, match="different numbers of rows"):
        trial.check_rows()
    replace(trial, case=replace(case, feeds={"x": np.ones((4, 2)), "y": np.ones((4, 2))})).check_rows()


def test_what_a_pass_goes_by_stays_in_smaller_programs(tmp_path: Path) -> None:
    with pytest.raises(Counterexample) as raised:
        check_pass(UpdatesTwice(), programs=[TRAINABLE], folder=tmp_path)
    assert sum(len(block.ops) for block in raised.value.case.program.blocks) <= 4


def test_gradients_belong_to_what_a_name_stood_for() -> None:
    """``x`` is read, then written anew; a pass that takes the new one away leaves a gradient that isn't that of the old one."""
    rows = "tanh(X=x) -> (Out=t) assign(X=y) -> (Out=x) square(X=x) -> (Out=s) mean(X=s) -> (Out=loss)"
    program = ga.Program.parse("program { block 0 { var x: float64[2] var y: float64[2] " + rows + " } }")
    case = random_case(program, loss_name="loss")
    assert check_pass("simplify", 4, programs=[case], prepare=", ".join(STANDARD)).changed == 4


def test_what_a_pass_requires_is_prepared() -> None:
    assert check_pass("accumulate-grads", examples=20).changed


def test_a_pass_that_names_the_loss_is_tried_on_programs_with_one() -> None:
    """Of 60 programs of every kind, 18 more would be unfit."""
    assert check_pass("jvp{targets=[$loss]}", 60).unfit < 8


def test_a_reference_is_another_pipeline(tmp_path: Path) -> None:
    assert check_pass("dead-code, cse", examples=20, reference="cse, dead-code").changed
    with pytest.raises(Counterexample, match="compared with dead-code"):
        check_pass(TakesTanhForSin(), examples=60, reference="dead-code", folder=tmp_path)


def test_the_name_of_a_pass_that_is_defined_anew_is_the_new_one() -> None:
    case = Case(ga.Program.parse(TANH), "", {"x": np.zeros(3)})
    with passes():
        for to in ("sin", "tan"):
            type("Anew", (Swap,), {"name": "anew", "apply": lambda self, graph, to=to: Swap("tanh", to).apply(graph)})
            assert {op.type for op in after_pass(Subject("anew"), case).ops} == {to}


def test_what_a_renamed_operator_draws_may_be_said_in_the_program() -> None:
    """``inline-net`` moves a variable to where its name is taken, so that its operator says which stream it draws from."""
    inner = 'block 1 in 0 { var d: float64[3] uniform_random() -> (Out=d) {shape=[3], dtype="float64"} assign(X=d) -> (Out=y) }'
    around = "block 0 { var x: float64[3] var d: float64[3] var y: float64[3] sin(X=x) -> (Out=d) net() -> (Out=y) {sub_block=block(1)} }"
    case = random_case(ga.Program.parse(f"program {{ {around} {inner} }}"))
    assert 'random_stream="d"' in str(ga.schedule(after_pass(Subject("inline-net"), case)))
    assert examine(Subject("inline-net"), case) is None


def test_programs_can_be_given() -> None:
    checked = check_pass("cse", examples=3, programs=[ga.Program.parse(TANH), Case(ga.Program.parse(TANH), "", {"x": np.ones(3)})])
    assert (checked.examples, checked.changed, set(checked.operators)) == (3, 3, {"tanh"})


def test_programs_can_be_drawn_by_the_user() -> None:
    def program(choices: Choices) -> Case:
        extent = choices.integer(1, 4)
        return Case(ga.Program.parse(TANH.replace("[3]", f"[{extent}]")), "", {"x": np.zeros(extent)})

    assert {1, 2, 3, 4} >= set(check_pass("cse", examples=10, programs=program).extents)


@pytest.mark.parametrize("programs", [ga.Program.parse(TANH), ["cse"]])
def test_what_is_no_program_is_refused(programs: object) -> None:
    with pytest.raises(InvalidType, match="programs are a list of Programs or Cases"):
        check_pass("cse", programs=programs)  # type: ignore[arg-type]


def test_no_program_is_refused() -> None:
    with pytest.raises(InvalidValue, match="programs is empty"):
        check_pass("cse", programs=[])


def test_what_is_expected_is_checked(tmp_path: Path) -> None:
    def one_tanh(before: ga.Program, after: ga.Program) -> bool:
        return sum(op.type == "tanh" for op in after.global_block().ops) <= 1

    assert check_pass("cse", examples=2, programs=[ga.Program.parse(TANH)], expect=one_tanh).changed == 2
    with pytest.raises(Counterexample, match="what was expected after the pass does not hold"):
        check_pass("canonical-order", examples=50, programs=[ga.Program.parse(TANH)], expect=one_tanh, folder=tmp_path)


def test_a_pass_that_refuses_everything_cannot_be_tried() -> None:
    message = r"cannot be tried: 401 programs are unfit for it, and 0 are not; 401 of them as this one: .*loss"
    with pytest.raises(InvalidValue, match=message):
        check_pass("gradient-accumulation", programs=[ga.Program.parse(TANH)])


def test_a_stage_of_a_pipeline_that_waits_for_others_cannot_be_tried_alone() -> None:
    with pytest.raises(InvalidValue, match=r"^pipeline-split after .* cannot be tried: .* is one of several that differ"):
        check_pass("pipeline-split", examples=5)


def test_seconds_are_a_budget() -> None:
    checked = check_pass("cse", seconds=0.5)
    assert checked.examples > 3
    assert 0.5 <= checked.seconds < 5.0


def test_lines_that_never_ran_are_named() -> None:
    checked = check_pass(SquareByPower(), seconds=3.0)
    assert [line.text for line in checked.unreached] == ["self.never(op)", "op.graph.remove_op(op)"]
    assert "never ran: SquareByPower.apply, line" in str(checked)


def test_a_rule_that_makes_no_operator_counts_as_a_rewrite_and_as_something_new() -> None:
    """Programs on which such a rule fires for the first time are varied as others are."""
    text = "var x: float32[2] var t: float32[2] var y: float32[2] assign(X=x) -> (Out=t) tanh(X=t) -> (Out=y)"
    found = check_pass("simplify", programs=[ga.Program.parse(f"program {{ block 0 {{ {text} }} }}")], examples=3)
    assert found.rewrites == {"simplify: assign-away": 3}


def test_a_report_says_how_often_loops_ran() -> None:
    trips = check_pass("dead-code", examples=12, programs=[random_case(_loop(count)) for count in (0, 1, 3)]).trips
    assert set(trips) == {0, 1, 3}
    assert sum(trips.values()) == 12


def _loop(trips: int) -> ga.Program:
    """A loop of so many iterations, in which one value is unused."""
    program = ga.Program()
    with ga.program_guard(program):
        start, end = (ga.layers.fill_constant([1], "int64", number) for number in (0, trips))

        def body(i: ga.Variable) -> ga.Variable:
            ga.layers.cast(i, out_dtype="float64")
            return ga.layers.increment(i, in_place=False)

        ga.layers.while_loop(lambda i: ga.layers.less_than(i, end), body, [start])
    return program


def test_names_in_the_code_of_a_pass_are_its_interest() -> None:
    assert interest_of([SquareByPower()]).types == ("elementwise_mul", "square")


def pass_about(name: str) -> Pass:
    """A pass that has operators among the variables of the function around it, and in an attribute."""
    with passes():

        @dataclass(frozen=True)
        class About(Pass):
            types = ("where", "cumsum")

            def apply(self, graph: Graph) -> bool:
                return any(op.type == name or op.type in self.types for op in graph.ops)

    return About()


def test_names_that_the_code_of_a_pass_has_from_elsewhere_are_its_interest() -> None:
    assert interest_of([pass_about("greater_than")]).types == ("cumsum", "greater_than", "where")


def test_code_mentions_operators_by_a_field_of_their_definitions() -> None:
    """``row.narrow == "gains"`` is about products; the many that follow are left out, and so are those without such a word."""
    types = interest_of([MixedPrecision()]).types
    assert {"mul", "matmul_v2", "conv2d"} <= {*types}
    assert not {"reshape2", "tanh"} & {*types}


def test_code_mentions_operators_by_a_trait_of_their_definitions() -> None:
    """Constant folding asks which operators read shapes alone; what names no operator is about all."""
    types = interest_of([ConstantFolding()]).types
    assert {"fill_any_like", "fill_zeros_like", "size"} <= {*types}
    assert "tanh" not in types
    assert interest_of([DropsWhatReadsShapes()]).types == ()


def test_a_pass_with_a_table_of_nearly_all_operators_is_about_none_in_particular() -> None:
    """Forward mode names operators of all kinds, gradient operators too: not every program should have been differentiated for that."""
    interest = interest_of([Jvp()])
    assert interest.types == ()
    assert not interest.gradients
    assert interest.blocks


def test_lines_are_traced_only_within() -> None:
    reach = Reach.of([SquareByPower()])
    before = sys.gettrace()
    with reach.probing() as arcs:
        after_pass(Subject(SquareByPower()), Case(ga.Program.parse(TANH), "", {"x": np.zeros(3)}))
    assert sys.gettrace() is before
    assert bool(arcs) is (before is None)


@pytest.mark.parametrize("count", [8, pytest.param(40, marks=pytest.mark.long)])
def test_one_seed_gives_one_set_of_programs_in_every_process(count: int) -> None:
    text = "from graphad.testing.programs import any_program; from graphad.testing.cases import RandomChoices; import hashlib; "
    text += "from graphad.testing.sweeps import sweeps; from graphad.testing.calls import Interest; swept = sweeps(Interest(), False); "
    text += "cases = [generator(RandomChoices(str(i))) for i in range(COUNT) for generator in (any_program, swept)]; "
    text += "print(hashlib.sha256(''.join(map(str, cases)).encode()).hexdigest())"
    hashes = set()
    for seed, imported in (("1", "decimal"), ("2", "graphad.interop, unittest.mock")):
        command = [sys.executable, "-W", "ignore", "-c", f"import {imported}\nCOUNT = {count}\n{text}"]
        done = subprocess.run(
            command, cwd=ROOT, env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
        )
        hashes.add(done.stdout)
    assert len(hashes) == 1


def test_choices_are_replayed() -> None:
    choices = RandomChoices("seed")
    program = any_program(choices)
    assert str(any_program(RandomChoices("other", choices.numbers))) == str(program)


def test_programs_that_show_something_run_on_other_numbers() -> None:
    """floor and rint differ between integers; all that is fed here are integers."""

    def program(choices: Choices) -> Case:
        text = "program { block 0 { var x: float64[3] var y: float64[3] floor(X=x) -> (Out=y) } }"
        return Case(ga.Program.parse(text), "", {"x": np.full(3, float(choices.below(5)))})

    with pytest.raises(Counterexample) as raised:
        check_pass(Swap("floor", "rint"), examples=100, programs=program)
    assert raised.value.finding.kind == "values"


def test_an_interruption_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(100))

    def program(choices: Choices) -> Case:
        if next(calls) == 5:
            raise KeyboardInterrupt
        return Case(ga.Program.parse(TANH), "", {"x": np.zeros(3)})

    with pytest.raises(KeyboardInterrupt) as raised:
        check_pass("cse", examples=50, programs=program)
    assert raised.value.checked.examples == 5  # type: ignore[attr-defined]
    assert "before it was interrupted" in str(raised.value.checked)  # type: ignore[attr-defined]


def test_vacuous_is_an_assertion() -> None:
    assert issubclass(Vacuous, AssertionError)


def test_other_numbers_are_small_integers_and_any_floats() -> None:
    """An operator may take an integer for an extent: an array of 2 ** 31 rows fills the memory."""
    program = ga.Program.parse(
        "program { block 0 { var n: int64[1] var x: float32[40] tanh(X=x) -> (Out=y) fill_constant(ShapeTensor=n) -> (Out=z) } }"
    )
    case = Case(program, feeds={"n": np.array([2]), "x": np.ones(40, "float32")})
    arrays = [renumbered_case(RandomChoices(f"other {i}"), case, ("large", "offset")).feeds for i in range(20)]
    assert max(int(feeds["n"].max()) for feeds in arrays) < 10
    assert max(float(feeds["x"].max()) for feeds in arrays) > 99


def test_a_finding_on_other_numbers_counts_only_if_the_declared_extents_hold() -> None:
    """Other integers may be extents that are not the declared ones: no elements have to move for ``simplify`` to be right then."""
    text = """
    program { block 0 {
        var x: float32[2, 0] var at: int64[2] var y: float32[0, 3] var z: float32[0, 2, 0] var t: float32[0, 3] var u: float32[0, 0, 3]
        reshape2(X=x, Shape=at) -> (Out=y, XShape=z) {shape=[-1, 3], allow_zero=true}
        reshape2(X=y) -> (Out=t, XShape=u) {shape=[-1, 3]}
    } }
    """
    drawn = Case(ga.Program.parse(text), feeds={"x": np.zeros((2, 0), "float32"), "at": np.array([-1, 3])})
    other = replace(drawn, feeds={**drawn.feeds, "at": np.array([-1, 4])})
    assert examine(Subject("simplify"), drawn) is None
    assert examine(Subject("simplify"), other) is not None
    search = _Search(Subject("simplify"), lambda choices: drawn, 0, corpus=[(2, [1, 2, 3])])
    cases = [each.case for each in islice(search._cases(), 100)]
    renumbered = [case for case in cases if not np.array_equal(case.feeds["at"], drawn.feeds["at"])]
    assert renumbered
    assert all(case.altered for case in renumbered)
    with pytest.raises(Unfit):
        examine(Subject("simplify"), replace(other, altered=True))


def test_what_an_effect_writes_may_get_the_name_of_a_requested_value() -> None:
    program = ga.Program.parse(
        "program { block 0 { var x: float64[] var t: float64[] var loss: float64[] print(In=x) -> (Out=t) reduce_sum(X=t) -> (Out=loss) } }"
    )
    assert examine(Subject("simplify"), Case(program, "loss", {"x": np.array(1.0)})) is None
