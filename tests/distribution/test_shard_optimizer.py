"""States of optimizers in shards (ZeRO 1 and 2): the same training, less memory for each rank, and the bytes of the closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.distribution import LocalGroup, free_whole, split_feed, whole_state
from graphad.errors import InvalidValue, Refused
from graphad.ops.collective import shard_size
from graphad.passes.distribution.shard_optimizer import is_by_element
from graphad.rewriting import Pipeline
from tests.distribution.ranks import parsed
from tests.distribution.test_data_parallel import BYTES, OPTIMIZERS, STEPS, alone, batches, network

SIZES = (96, 16, 128, 8, 24, 3)  # elements of the parameters


def pipeline(ranks: int, stage: int) -> str:
    return f"data-parallel{{ranks={ranks}}}, shard-optimizer{{ranks={ranks}, stage={stage}}}"


def sharded(made: tuple[ga.Program, ga.Program, ga.Variable], text: str) -> ga.Program:
    graph = ga.lower(made[0], [made[2].name])
    Pipeline.parse(text).run(graph)
    return ga.schedule(graph)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("ranks", "stage"), [(2, 1), (3, 2)])
def test_training_is_that_of_one_process(ranks: int, stage: int, optimizer: str) -> None:
    """96 elements are 3 times 32; 128, 16 and 8 are not divisible by 3."""
    made = network(OPTIMIZERS[optimizer])
    losses, scope = alone(network(OPTIMIZERS[optimizer]))
    program, group = sharded(made, pipeline(ranks, stage)), LocalGroup(ranks)
    group.run(made[1])
    for feed, expected in zip(batches(), losses, strict=True):
        found = group.run(program, split_feed(feed, ranks), [made[2].name])
        assert [float(each[0]) for each in found] == pytest.approx([expected] * ranks, abs=1e-6)
        for each in group.scopes:
            free_whole(each)
    state = whole_state(program, group.scopes)
    assert set(state) == set(scope.names())
    for name, array in state.items():
        np.testing.assert_allclose(array, scope.get(name), rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("stage", [1, 2])
def test_bytes_and_memory_are_those_of_the_closed_form(stage: int) -> None:
    """A rank passes in the gradients, and its part of each new parameter; of two moments it keeps its part."""
    ranks = 4
    made = network()
    program, group = sharded(made, pipeline(ranks, stage)), LocalGroup(ranks)
    group.run(made[1])
    for feed in batches()[:2]:
        group.run(program, split_feed(feed, ranks), [])
        freed = [free_whole(each) for each in group.scopes]
    shards = sum(shard_size(size, ranks) for size in SIZES)
    reduced = {1: ("c_allreduce_sum", BYTES), 2: ("c_reducescatter", 4 * ranks * shards)}[stage]
    for traffic, scope in zip(group.traffic, group.scopes, strict=True):
        assert traffic.bytes() == dict([reduced, ("c_allgather", 4 * shards + 2 * 4)])
        assert traffic.counts() == {reduced[0]: 6, "c_allgather": 6 + 2}
        moments = [name for name in scope.names() if "moment" in name]
        assert sum(scope.get(name).nbytes for name in moments) == 2 * 4 * shards
    assert freed == [[]] * ranks  # already gone after the first step


def test_a_checkpoint_goes_on_with_another_number_of_ranks() -> None:
    made = network()
    losses, _ = alone(network())
    program, group = sharded(made, pipeline(4, 2)), LocalGroup(4)
    group.run(made[1])
    found = [float(group.run(program, split_feed(feed, 4), [made[2].name])[0][0]) for feed in batches()[:10]]
    checkpoint, runs = whole_state(program, group.scopes), group.scopes[0].runs
    program, group = sharded(network(), pipeline(3, 1)), LocalGroup(3)
    for scope in group.scopes:
        scope.runs = runs
        for name, array in checkpoint.items():
            scope.set(name, array)
    found += [float(group.run(program, split_feed(feed, 3), [made[2].name])[0][0]) for feed in batches()[10:]]
    assert found == pytest.approx(losses, abs=1e-6)
    assert len(found) == STEPS


def test_an_update_with_a_norm_is_refused() -> None:
    main, _, _ = network(lambda: ga.optimizer.Lamb(0.01))
    with pytest.raises(Refused, match="computes more than each element by itself, as a norm"):
        Pipeline.parse("data-parallel, shard-optimizer").run(ga.lower(main))


@pytest.mark.parametrize(("update", "by_element"), [("lamb", False), ("adam", True)])
def test_whether_an_update_is_by_element_is_tried_on_steps_that_are_not_skipped(update: str, by_element: bool) -> None:
    """An update that is skipped is by element, whatever it computes."""
    text = "var p: float64[-1] var g: float64[-1] var r: float64[-1] var m: float64[-1] var v: float64[-1] var k: bool[-1] "
    text += f"var a: float64[-1] var b: float64[-1] {update}(Param=p, Grad=g, LearningRate=r, Moment1=m, Moment2=v, Beta1Pow=a, "
    text += "Beta2Pow=b, SkipUpdate=k) -> (ParamOut=p, Moment1Out=m, Moment2Out=v, Beta1PowOut=a, Beta2PowOut=b)"
    graph = ga.lower(parsed(text + (" {weight_decay=0.01}" if update == "lamb" else "")))
    assert is_by_element(next(iter(graph.ops))) == by_element


def test_there_are_two_stages() -> None:
    with pytest.raises(InvalidValue, match="stage is 1 or 2, not 3"):
        Pipeline.parse("shard-optimizer{stage=3}")
