"""Costs on paper, against closed forms and against what simulated ranks sent."""

from __future__ import annotations

import pytest

import graphad as ga
from graphad.distribution import LocalGroup, split_feed
from graphad.distribution.cost import Mesh, bubble, communication, draw_timeline, in_flight, predicted, timeline, travels
from graphad.errors import InvalidValue
from graphad.rewriting import Pipeline
from tests.distribution.test_data_parallel import BYTES, batches, network
from tests.distribution.test_shard_optimizer import pipeline

SCHEDULES = ("fthenb", "1f1b")


@pytest.mark.parametrize("text", ["data-parallel{ranks=2}", "data-parallel{ranks=2}, bucket-all-reduce", pipeline(2, 1), pipeline(2, 2)])
def test_predicted_counts_and_bytes_are_those_that_ranks_pass_in(text: str) -> None:
    main, startup, loss = network()
    graph = ga.lower(main, [loss.name])
    Pipeline.parse(text).run(graph)
    found = communication(graph, 2, batch=5)
    group = LocalGroup(2)
    group.run(startup)
    for feed in batches()[:2]:
        group.run(ga.schedule(graph), split_feed(feed, 2), [loss.name])
    names = {"c_unshard": "c_allgather"}
    counts: dict[str, int] = {}
    for type, count in found.calls.items():
        if type != "c_shard":
            counts[names.get(type, type)] = counts.get(names.get(type, type), 0) + count
    assert counts == group.traffic[0].counts()


@pytest.mark.parametrize("ranks", [1, 2, 8, 64, 4096])
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(ranks: int) -> None:
    whole = travels("c_allreduce_sum", BYTES, ranks)
    parts = travels("c_reducescatter", BYTES, ranks), travels("c_allgather", BYTES / ranks, ranks)
    assert whole.messages == parts[0].messages + parts[1].messages == 2 * (ranks - 1)
    assert whole.bytes == pytest.approx(parts[0].bytes + parts[1].bytes)
    assert whole.bytes == pytest.approx(2 * (ranks - 1) / ranks * BYTES)


@pytest.mark.parametrize("ranks", [1, 16, 256, 4096])
def test_the_predicted_step_is_the_closed_form(ranks: int) -> None:
    """One bucket: 2 (n - 1) messages, 2 (n - 1) / n of the parameters' bytes; and two gathers of 4 bytes."""
    main, _, loss = network()
    graph = ga.lower(main, [loss.name])
    Pipeline.parse(f"data-parallel{{ranks={ranks}}}, bucket-all-reduce").run(graph)
    mesh = Mesh(ranks, alpha=1e-5, beta=1e9)
    others = ranks - 1
    expected = 0.0 if ranks == 1 else 4 * others * 1e-5 + (2 * others / ranks * BYTES + 8 * others) / 1e9
    assert predicted(graph, mesh, batch=32).communicate == pytest.approx(expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (2, 3), (4, 4), (4, 16), (8, 5)])
def test_the_bubble_of_a_simulated_pipeline_is_the_closed_form(stages: int, micro_batches: int, schedule: str) -> None:
    tasks = timeline(stages, micro_batches, schedule)
    assert len(tasks) == 2 * stages * micro_batches
    end = max(task.end for task in tasks)
    assert 1 - 3.0 * micro_batches / end == pytest.approx(bubble(stages, micro_batches))
    for stage in range(stages):
        own = [task for task in tasks if task.stage == stage]
        changes = sorted([(t.end, 1) for t in own if t.kind == "F"] + [(t.end, -1) for t in own if t.kind == "B"])
        most = max(sum(by for _, by in changes[: i + 1]) for i in range(len(changes)))
        assert most == in_flight(stages, micro_batches, schedule)[stage]


@pytest.mark.parametrize(("stages", "parts", "schedule"), [(2, 5, "1f1b"), (3, 4, "fthenb")])
def test_annotations_of_a_stage_say_how_long_it_waits(stages: int, parts: int, schedule: str) -> None:
    """As long as in the simulated pipeline whose tasks take as long as the stage is busy."""
    main, _, loss = network()
    graph = ga.lower(main, [loss.name])
    split = f"pipeline-split{{stages={stages}, micro_batches={parts}, schedule={schedule}}}"
    ga.Pipeline.parse(f'{split}, annotate-cost{{mesh="stage={stages}", batch=10}}').run(graph)
    found = graph.graph
    assert (found["stages"], found["micro_batches"]) == (stages, parts)
    assert found["bubble"] == bubble(stages, parts)
    busy = found["compute"] + found["communicate"]
    tasks = timeline(stages, parts, schedule, forward=busy / parts / 3, backward=busy / parts * 2 / 3)
    assert found["idle"] == pytest.approx(max(task.end for task in tasks) - busy)


def test_messages_between_stages_make_a_step_longer_and_a_picture_shows_it() -> None:
    plain, slow = (max(task.end for task in timeline(4, 8, "1f1b", message=seconds)) for seconds in (0.0, 0.5))
    assert slow >= plain + 6 * 0.5
    picture = draw_timeline(timeline(2, 3, "1f1b"))
    assert picture.count("<rect") == 1 + 12
    assert "waiting 25.0% of the time" in picture


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no collective"):
        travels("tanh", 4, 2)
    with pytest.raises(InvalidValue, match="schedule is fthenb or 1f1b, not 'other'"):
        timeline(2, 2, "other")
    with pytest.raises(InvalidValue, match="ranks are 1 or more"):
        Mesh(0)
