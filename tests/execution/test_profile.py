"""Profiles: every operator is counted as often as it runs, times add up, and the trace is what Perfetto reads."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers

RUNS = 4


def trained(mode: str) -> tuple[ga.Program, Any]:
    """Two layers, a loop of three iterations on what they make, and a training step; profiled."""
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 1
    with ga.program_guard(main, startup):
        x = layers.data("x", [8])
        h = layers.fc(x, 4, act="tanh", param_attr="w")
        three = layers.fill_constant([1], "int64", 3)
        _, h = layers.while_loop(
            lambda i, h: layers.less_than(i, three), lambda i, h: [layers.increment(i), h * 0.5], [layers.zeros([1], "int64"), h]
        )
        loss = layers.mean(layers.square(h))
        ga.optimizer.SGD(0.1).minimize(loss)
    scope, executor = ga.Scope(), ga.Executor(profile=True, mode=mode)
    ga.Executor().run(startup, scope=scope)
    for _ in range(RUNS):
        executor.run(main, {"x": np.ones((5, 8), "float32")}, [loss], scope)
    return main, executor.profile


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_operators_are_counted_as_often_as_they_run(mode: str) -> None:
    main, profile = trained(mode)
    times = {op.type: spent.times for op, spent in profile.operators.items() if op.block.idx == 0 and op.role == "forward"}
    assert times["mul"] == times["tanh"] == times["mean"] == RUNS
    (scale,) = [op for op in main.block(1).ops if op.type == "scale"]
    assert profile.operators[scale].times == 3 * RUNS
    (mul,) = [op for op in main.global_block().ops if op.type == "mul"]
    assert profile.operators[mul].flops == RUNS * 2 * 5 * 8 * 4
    assert profile.operators[mul].moved == RUNS * 4 * (5 * 8 + 8 * 4 + 5 * 4)


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_times_add_up(mode: str) -> None:
    _, profile = trained(mode)
    own = sum(spent.seconds for spent in profile.operators.values())
    assert profile.runs == RUNS
    assert 0 < own <= profile.seconds
    for table in (profile.by_line(), profile.by_type()):
        assert sum(spent.seconds for spent in table.values()) == pytest.approx(own)
        assert [spent.seconds for spent in table.values()] == sorted((spent.seconds for spent in table.values()), reverse=True)
    lines = [line for line in profile.by_line() if Path(__file__).name in line]
    assert len(lines) >= 3  # the layer, the loop and its body, the loss; gradients have the lines of what they are of


def test_tables_show_what_is_left_out_as_one_row() -> None:
    _, profile = trained("compiled")
    table = profile.table(most=3)
    assert len(table.rows) == 4
    assert table.rows[-1][0] == f"{len(profile.operators) - 3} more"
    assert sum(float(row[table.columns.index("share")] or 0) for row in table.rows) == pytest.approx(1)
    assert str(profile).startswith("operator")
    assert [table.columns[0] for table in (profile.table("line"), profile.table("type"))] == ["line", "type"]


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_the_trace_is_of_complete_events_that_nest(mode: str, tmp_path: Path) -> None:
    _, profile = trained(mode)
    profile.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X"}
    for event in events:
        assert {key: type(event[key]) for key in ("name", "cat", "pid", "tid", "args")} == {
            "name": str, "cat": str, "pid": int, "tid": int, "args": dict
        }  # fmt: skip
        assert event["ts"] >= 0
        assert event["dur"] >= 0
    assert sum(event["cat"] == "run" for event in events) == RUNS
    ends: list[float] = []
    for event in events:  # in the order of their beginnings: each lies in the one around it
        while ends and ends[-1] <= event["ts"] + 0.01:
            ends.pop()
        assert not ends or event["ts"] + event["dur"] <= ends[-1] + 0.01
        ends.append(event["ts"] + event["dur"])
    assert all(one["ts"] <= other["ts"] for one, other in pairwise(events))


def test_a_drawing_shows_the_heat(tmp_path: Path) -> None:
    main, profile = trained("compiled")
    ga.draw(main, tmp_path / "heat.svg", overlay="time", measured=profile.heat())
    plain = tmp_path / "plain.svg"
    ga.draw(main, plain)
    assert "seconds" in (tmp_path / "heat.svg").read_text()
    assert "seconds" not in plain.read_text()


def test_a_profiled_run_gives_the_same() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    main = ga.Program()
    with ga.program_guard(main):
        y = layers.softmax(layers.data("x", [2, 3], append_batch_size=False))
    found = [ga.Executor(profile=profile).run(main, {"x": x}, [y])[0] for profile in (True, False)]
    np.testing.assert_array_equal(found[0], found[1])
    assert ga.Executor().profile is None
