"""Stages of a training step on simulated ranks: the same training, and messages by the closed form."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.distribution import LocalGroup, whole_state
from graphad.distribution.cost import in_flight
from graphad.errors import InvalidValue, Refused
from graphad.rewriting import Pipeline
from graphad.types import Array
from tests.distribution.ranks import parsed
from tests.distribution.test_data_parallel import OPTIMIZERS, ROWS, alone, batches, network

HOW = [(2, 1, "1f1b"), (2, 5, "1f1b"), (3, 5, "fthenb"), (4, 5, "1f1b"), (8, 5, "1f1b")]


def stages_of(main: ga.Program, loss: str, stages: int, parts: int, schedule: str, before: str = "") -> list[ga.Program]:
    found = []
    for stage in range(stages):
        graph = ga.lower(main, [loss])
        Pipeline.parse(f"{before}pipeline-split{{stages={stages}, stage={stage}, micro_batches={parts}, schedule={schedule}}}").run(graph)
        found.append(ga.schedule(graph))
    return found


def fed(programs: list[ga.Program], feed: dict[str, Array]) -> list[dict[str, Array]]:
    return [{name: array for name, array in feed.items() if program.global_block().has_var(name)} for program in programs]


@pytest.mark.parametrize("rows", [-1, ROWS])
@pytest.mark.parametrize(("stages", "parts", "schedule"), HOW)
def test_losses_and_parameters_are_those_of_one_process(stages: int, parts: int, schedule: str, rows: int) -> None:
    losses, scope = alone(network())
    main, startup, loss = network(rows=rows)
    programs, group = stages_of(main, loss.name, stages, parts, schedule), LocalGroup(stages)
    group.run(startup)
    last: list[list[str]] = [*([] for _ in range(stages - 1)), [loss.name]]
    found = [float(group.run(programs, fed(programs, feed), last)[-1][0]) for feed in batches()]
    assert found == pytest.approx(losses, abs=1e-6)
    updated: set[str] = set()
    for program, each in zip(programs, group.scopes, strict=True):
        own = {name for op in program.global_block().ops for name in op.output_names()}.intersection(scope.names())
        assert not updated & own
        updated |= own
        for name in own:
            np.testing.assert_allclose(each.get(name), scope.get(name), rtol=0, atol=1e-6, err_msg=name)
    assert updated == {name for name in scope.names() if not name.startswith("learning_rate")}
    for name, array in whole_state(programs, group.scopes).items():
        np.testing.assert_allclose(array, scope.get(name), rtol=0, atol=1e-6, err_msg=name)


def test_in_mixed_precision_each_stage_updates_the_parameters_that_it_uses() -> None:
    """A stage reads parameters in a narrower type there, and gradients have names of their own."""
    main, startup, loss = network()
    graph, scope = ga.lower(main, [loss.name]), ga.Scope()
    Pipeline.parse("mixed-precision").run(graph)
    alone_program = ga.schedule(graph)
    programs, group = stages_of(main, loss.name, 2, 5, "1f1b", "mixed-precision, "), LocalGroup(2)
    ga.Executor().run(startup, scope=scope)
    group.run(startup)
    for feed in batches():
        (expected,) = ga.Executor().run(alone_program, feed, [loss.name], scope)
        _, (got,) = group.run(programs, fed(programs, feed), [[], [loss.name]])
        assert float(got) == pytest.approx(float(expected), abs=2e-3)  # rounding of float16
    for program in programs:
        assert any(op.type == "adam" for op in program.global_block().ops)


@pytest.mark.parametrize(("stages", "parts", "schedule"), HOW)
def test_each_boundary_is_crossed_once_by_each_part_in_both_directions(stages: int, parts: int, schedule: str) -> None:
    main, startup, loss = network()
    programs, group = stages_of(main, loss.name, stages, parts, schedule), LocalGroup(stages)
    group.run(startup)
    group.run(programs, fed(programs, batches()[0]), [[] for _ in range(stages)])
    for stage, traffic in enumerate(group.traffic):
        crossed = (stage > 0) + (stage < stages - 1)
        assert traffic.counts() == {"send_v2": parts * crossed, "recv_v2": parts * crossed}
    sent = [traffic.bytes()["send_v2"] for traffic in group.traffic]
    assert sum(sent) % (2 * ROWS * 4) == 0  # rows of floats, forward and back


@pytest.mark.parametrize("schedule", ["fthenb", "1f1b"])
def test_a_stage_keeps_the_activations_of_no_more_parts_than_its_schedule_says(schedule: str) -> None:
    stages, parts = 3, 5
    main, _, loss = network()
    for stage, program in enumerate(stages_of(main, loss.name, stages, parts, schedule)):
        last: dict[str, int] = {}  # the operator after which nothing of a part is computed any more
        first: dict[str, int] = {}
        for at, op in enumerate(program.global_block().ops):
            for part in {name.rpartition("@")[2] for name in op.output_names() if "@MICRO@" in name}:
                first.setdefault(part, at)
                last[part] = at
        most = max(sum(first[part] <= at <= last[part] for part in first) for at in first.values())
        assert most == in_flight(stages, parts, schedule)[stage]


# -- refusals ------------------------------------------------------------------------------------


def refused(program: ga.Program, text: str = "pipeline-split") -> str:
    with pytest.raises(Refused) as caught:
        Pipeline.parse(text).run(ga.lower(program))
    return str(caught.value)


def test_a_norm_of_all_gradients_is_refused() -> None:
    assert "needs gradients of the stages [0, 1]" in refused(network(OPTIMIZERS["momentum, clipped and decayed"])[0])


def test_a_parameter_of_two_stages_is_refused() -> None:
    program = parsed(
        "var x: float32[-1, 2] stop_gradient param w: float32[2, 2]"
        " var h: float32[-1, 2] var t: float32[-1, 2] var y: float32[-1, 2] var l: float32[]"
        " mul(X=x, Y=w) -> (Out=h) tanh(X=h) -> (Out=t) mul(X=t, Y=w) -> (Out=y) mean(X=y) -> (Out=l)"
    )
    with ga.program_guard(program):
        ga.append_backward(program.global_block().var("l"))
    assert "'w' is used in the stages [0, 1]" in refused(program)


def test_numbers_that_do_not_fit_are_refused() -> None:
    assert "10 rows, which do not make 3 parts of one size" in refused(network(rows=ROWS)[0], "pipeline-split{micro_batches=3}")
    assert "forward operators for 40 stages" in refused(network()[0], "pipeline-split{stages=40}")
    with pytest.raises(InvalidValue, match="there are 1 programs and 2 scopes"):
        whole_state([parsed("var x: float32[2]")], LocalGroup(2).scopes)
    with pytest.raises(InvalidValue, match="of 2 stages none has the number 2"):
        Pipeline.parse("pipeline-split{stage=2}")
