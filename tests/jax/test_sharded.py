"""Programs of ranks under ``jax.shard_map``: 8 devices of one process, and two processes; what they compute, and what XLA sends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is missing: pip install 'graphad[distributed-tests]'")

import graphad as ga
from graphad.errors import CommunicationError, InvalidValue
from graphad.jax import pipelined, sharded
from tests.distribution.ranks import parsed
from tests.source_tree import ROOT

SECONDS = 10.0  # in which a fault has to end all processes


def begun(*arguments: str, devices: int = 8) -> subprocess.Popen[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.jax.on_devices", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error[-3000:]
    return dict(json.loads(out.splitlines()[-1]))


def check(found: dict[str, Any]) -> None:
    assert found["losses"] < 1e-6
    assert found["parameters"] < 1e-6
    if "expected" not in found:
        return
    assert found["sent"].keys() == found["expected"].keys()
    for type, each in found["sent"].items():
        ours = found["expected"][type]
        assert each["count"] <= ours["count"]  # XLA sends several together
        # Of what is gathered XLA leaves out what only a part is read of again.
        assert each["bytes"] <= ours["bytes"] if type == "c_allgather" else each["bytes"] == ours["bytes"]


@pytest.mark.parametrize(
    "cases", ["1", *(pytest.param(each, marks=pytest.mark.long) for each in ("0 2 3", "4 5 6 7", "8 9", "10 11", "13 14"))]
)
def test_on_devices_of_one_process(cases: str) -> None:
    """The cases of test_partition.py on 2, 3, 4 and 8: data and tensor parallel, weights in parts, parts of different sizes."""
    for found in ended(begun("devices", *cases.split())).values():
        check(found)


@pytest.mark.long
def test_loops_and_branches_on_devices() -> None:
    (found,) = ended(begun("devices", "17")).values()
    assert found["losses"] < 1e-6
    assert found["parameters"] < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("passes", ["", ", bucket-all-reduce, shard-optimizer{ranks=2, stage=2}", ", shard-optimizer{ranks=2, stage=1}"])
def test_passes_on_devices(passes: str) -> None:
    found = ended(begun("passes", "data-parallel{ranks=2}" + passes))
    assert found["losses"] < 1e-6
    assert found["parameters"] < 1e-6


@pytest.mark.long
@pytest.mark.parametrize(("stages", "parts", "schedule"), [(2, 5, "1f1b"), (3, 5, "fthenb"), (4, 5, "1f1b"), (8, 5, "1f1b")])
def test_stages_on_devices(stages: int, parts: int, schedule: str) -> None:
    """20 steps of a pipeline: losses and parameters of one process, and the bytes of simulated ranks in the compiled program."""
    found = ended(begun("stages", str(stages), str(parts), schedule))
    assert found["losses"] < 1e-6
    assert found["parameters"] < 1e-6
    assert found["permuted"] == found["simulated"] > 0


def port() -> str:
    """A free one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.long
def test_two_processes() -> None:
    """Two devices each, on the loopback address."""
    place = port()
    processes = [begun("process", str(number), place, devices=2) for number in range(2)]
    for found in map(ended, processes):
        check(found)
        assert found["devices"] == 4


@pytest.mark.long
@pytest.mark.parametrize("how", ["fail", "die"])
def test_a_fault_of_one_process_ends_both(how: str) -> None:
    """Within ten seconds, though the other one waits in a collective; what failed is shown by both, at the line of the program."""
    place = port()
    processes = [begun("faulty", str(number), place, how, devices=2) for number in range(2)]
    outputs = [process.communicate(timeout=120) for process in processes]
    end = time.time()
    assert all(process.returncode != 0 for process in processes)
    last = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    assert last[1]["step"] == 2
    assert end - min(each["seconds"] for each in last) < SECONDS
    for _, errors in outputs if how == "fail" else ():
        assert "ExecutionError: operator 'softmax_with_cross_entropy' failed" in errors
        assert "test_data_parallel.py" in errors


def test_refusals() -> None:
    program = parsed("var x: float32[4] var y: float32[4] c_allreduce_sum(X=x) -> (Out=y)")
    with pytest.raises(InvalidValue, match="declares no mesh: say mesh='data=8'"):
        sharded(program, ["y"])
    with pytest.raises(InvalidValue, match="takes 4096 devices, but there are"):
        sharded(program, ["y"], mesh="data=4096")
    (value,), _ = sharded(program, ["y"], mesh="data=1")({"x": np.ones(4, "float32")}, {})
    np.testing.assert_array_equal(value, np.ones(4))


STAGE = "var x: float32[2] var y: float32[2] "
SEND, RECEIVE = "send_v2(X=x) -> () {peer=0} ", "recv_v2() -> (Out=y) {peer=0, out_shape=[2]} "


def test_stages_are_one_program_only_together() -> None:
    program = parsed("var x: float32[4] send_v2(X=x) -> ()")
    with pytest.raises(ga.errors.NotLowered, match="stages send to each other from different programs"):
        sharded(program, [], mesh="data=1")({"x": np.ones(4, "float32")}, {})


BEYOND = "var i: int64[1] gather(X=x, Index=i) -> (Out=y) "


@pytest.mark.long
def test_what_operators_refuse_is_known_after_a_step() -> None:
    """On ranks and in stages, as of ``JaxFunction.checked``."""
    feeds = {"x": np.ones(2, "float32"), "i": np.array([5])}
    for function in (sharded(parsed(STAGE + BEYOND), [], mesh="data=1"), pipelined([parsed(STAGE + SEND + RECEIVE + BEYOND)])):
        *_, failed = function.checked(feeds, {})
        assert "operator 'gather' failed: Index has an index outside of [-2, 2)" in function.failures[int(failed) - 1]
        *_, failed = function.checked({**feeds, "i": np.array([1])}, {})
        assert int(failed) == 0


def test_a_stage_and_its_state() -> None:
    program = parsed(STAGE + "param p: float32[2] assign(X=p) -> (Out=x) " + SEND + RECEIVE + "scale(X=p) -> (Out=p) {scale=2.0}")
    function = pipelined([program], [["y", "p"]])
    ((sent, updated),), state = function({}, function.state({"p": np.array([1, 2], "float32")}))
    np.testing.assert_array_equal(sent, [1, 2])
    np.testing.assert_array_equal(updated, [2, 4])
    np.testing.assert_array_equal(function.arrays(state)["p"], [2, 4])
    with pytest.raises(InvalidValue, match=r"'p' of the state is missing; it is declared float32\[2\]"):
        function.state({})


def test_stages_that_cannot_run_are_refused() -> None:
    x = {"x": np.ones(2, "float32")}
    receives_first = parsed(STAGE + RECEIVE + SEND)
    with pytest.raises(CommunicationError, match="none can go on:\n  stage 0 waits at recv_v2"):
        pipelined([receives_first])(x, {})
    with pytest.raises(ga.errors.NotLowered, match="operator 'c_allreduce_sum': a collective in a stage"):
        pipelined([parsed(STAGE + "c_allreduce_sum(X=x) -> (Out=y)")])(x, {})
    with pytest.raises(InvalidValue, match="200 stages take as many devices"):
        pipelined([receives_first] * 200)
    with pytest.raises(InvalidValue, match="1 stages and 2 fetch lists"):
        pipelined([receives_first], [[], []])
