"""Ranks that are processes of MPI: values, and what happens when one fails. The extra ``distributed-tests`` has what this needs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ops.collective import shard_size
from tests.distribution.test_data_parallel import BYTES, STEPS
from tests.distribution.test_shard_optimizer import SIZES
from tests.source_tree import ROOT

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
HAS_MPI = MPIEXEC is not None and importlib.util.find_spec("mpi4py") is not None
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="mpi4py or mpiexec is missing: pip install 'graphad[distributed-tests]'")
SCRIPT = "tests/distribution/on_ranks.py"
SECONDS = 10.0  # in which a fault has to end all ranks, once they run


def launched(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)


def found_by(ranks: int, *runs: Sequence[object]) -> list[list[dict[str, Any]]]:
    """The output of the ranks of runs without a fault, in their order; the same processes do the runs, one after another."""
    words = [word for run in runs for word in ("+", *map(str, run))][1:]
    done = launched(ranks, SCRIPT, *words)
    assert done.returncode == 0, done.stderr
    printed = [json.loads(text) for text in re.findall(r"\{(?:[^{}]|\{[^{}]*\})*\}", done.stdout)]  # ranks may share a line
    of_rank = [[each for each in printed if each["rank"] == rank] for rank in range(ranks)]
    assert [len(each) for each in of_rank] == [len(runs)] * ranks
    assert all(each["losses"] < 1e-6 and each["parameters"] < 1e-6 for each in printed)
    return [list(each) for each in zip(*of_rank, strict=True)]


def buckets(ranks: int, most: int, stage: int) -> str:
    passes = [f"data-parallel{{ranks={ranks}}}"]
    passes += [f"bucket-all-reduce{{bytes={most}}}"] * bool(most) + [f"shard-optimizer{{ranks={ranks}, stage={stage}}}"] * bool(stage)
    return ", ".join(passes)


# What is done without a fault by this many ranks, started once for all of it: to start them takes longer than what they do.
RUNS: dict[int, list[tuple[object, ...]]] = {
    2: [("training", STEPS), ("passes", buckets(2, 550, 0)), ("partition", 4), ("pipeline", 5, "1f1b")],
    3: [("training", STEPS), ("partition", 1)],
    4: [("training", STEPS), ("partition", 10)],
}


@cache
def all_found(ranks: int) -> list[list[dict[str, Any]]]:
    return found_by(ranks, *RUNS[ranks])


def on_ranks(ranks: int, *run: object) -> list[dict[str, Any]]:
    if run in RUNS.get(ranks, ()):
        return all_found(ranks)[RUNS[ranks].index(run)]
    return found_by(ranks, run)[0]


@needs_mpi
@pytest.mark.parametrize("ranks", [2, *(pytest.param(ranks, marks=pytest.mark.long) for ranks in (3, 4, 8))])
def test_losses_and_parameters_are_those_of_one_process(ranks: int) -> None:
    """10 rows on 3, 4 and 8 ranks are parts of different sizes."""
    for each in on_ranks(ranks, "training", STEPS):
        assert each["bytes"]["c_allreduce_sum"] == BYTES
        assert each["steps"] == STEPS


@needs_mpi
@pytest.mark.parametrize(
    ("ranks", "most", "stage"), [(2, 550, 0), *(pytest.param(*how, marks=pytest.mark.long) for how in ((3, 0, 1), (4, 550, 1), (8, 0, 2)))]
)
def test_buckets_and_shards_of_states(ranks: int, most: int, stage: int) -> None:
    """Bytes by the closed forms of test_shard_optimizer.py; the gradients fill three buckets of 550 bytes."""
    shards = 4 * sum(shard_size(size, ranks) for size in SIZES) if stage else 0
    for each in on_ranks(ranks, "passes", buckets(ranks, most, stage)):
        reduced = {"c_reducescatter": ranks * shards} if stage == 2 else {"c_allreduce_sum": BYTES}
        assert each["bytes"] == {**reduced, "c_allgather": shards + 2 * 4}
        assert each["counts"] == {**dict.fromkeys(reduced, 3 if most else 6), "c_allgather": (6 if stage else 0) + 2}


@needs_mpi
@pytest.mark.parametrize(("ranks", "case"), [(2, 4), *(pytest.param(*how, marks=pytest.mark.long) for how in ((3, 1), (4, 10), (8, 3)))])
def test_partitioned_programs(ranks: int, case: int) -> None:
    """Cases of test_partition.py: a pair of matrices on 2 ranks, parts of different sizes on 3 and 8, a transformer on 2 x 2."""
    assert all(each["steps"] == STEPS for each in on_ranks(ranks, "partition", case))


@needs_mpi
@pytest.mark.parametrize(
    ("ranks", "parts", "schedule"),
    [(2, 5, "1f1b"), *(pytest.param(*how, marks=pytest.mark.long) for how in ((3, 5, "fthenb"), (4, 5, "1f1b"), (8, 5, "1f1b")))],
)
def test_stages(ranks: int, parts: int, schedule: str) -> None:
    """20 steps; each boundary is crossed once by each part in both directions."""
    found = on_ranks(ranks, "pipeline", parts, schedule)
    crossed = [parts * ((rank > 0) + (rank < ranks - 1)) for rank in range(ranks)]
    assert [each["sent"] for each in found] == [each["got"] for each in found] == crossed
    assert [each["steps"] for each in found] == [*([0] * (ranks - 1)), STEPS]


def seconds_to_end(ranks: int, *arguments: str) -> tuple[float, str]:
    """How long after a fault all ranks have ended, and what the run shows."""
    done = launched(ranks, SCRIPT, *arguments)
    end = time.time()
    assert done.returncode != 0
    (begin,) = re.findall(r'\{"fault": ([\d.]+)\}', done.stdout)
    return end - float(begin), done.stderr


FAULTS = [
    ("training 6", "fail", 2, 1, "operator 'softmax_with_cross_entropy' failed"),
    ("training 6", "differ", 2, 1, "rank 1 is at barrier"),
    ("training 6", "leave", 2, 1, "rank 1"),
    ("training 6", "die", 2, 1, ""),
    ("training 6", "die", 3, 0, ""),
    ("training 6", "fail", 3, 2, "operator 'softmax_with_cross_entropy' failed"),
    ("partition 4", "fail", 2, 1, "operator 'softmax_with_cross_entropy' failed"),  # after collectives that rank 0 has passed as well
    ("partition 10", "fail", 4, 1, "operator 'lookup_table' failed"),
    ("partition 10", "die", 4, 3, ""),
    ("partition 17", "die", 4, 1, ""),  # rings of a loop
    ("partition 17", "leave", 4, 0, "rank 0 leaves"),
    ("pipeline 5 1f1b", "fail", 3, 2, "operator 'softmax_with_cross_entropy' failed"),  # the stage that has the labels
    ("pipeline 5 1f1b", "die", 3, 0, ""),
    ("pipeline 5 1f1b", "die", 3, 1, ""),
    ("pipeline 5 fthenb", "leave", 3, 2, "rank 2 leaves"),
]
ALWAYS = (
    0,
    3,
    13,
)  # an error, a rank that dies, a stage that waits for one that died; the others with the long ones


@needs_mpi
@pytest.mark.parametrize(
    ("words", "what", "ranks", "rank", "shown"),
    [pytest.param(*each, marks=() if i in ALWAYS else pytest.mark.long) for i, each in enumerate(FAULTS)],
)
def test_a_fault_of_one_rank_ends_all(words: str, what: str, ranks: int, rank: int, shown: str) -> None:
    """With the error, and soon: the ranks wait 60 seconds for each other otherwise."""
    seconds, errors = seconds_to_end(ranks, *words.split(), what, str(rank))
    print(f"{seconds:.1f} s")
    assert seconds < SECONDS
    assert shown in errors
    if what == "fail":
        assert ("test_partition.py" if "lookup" in shown else "test_data_parallel.py") in errors  # the line of the program


@needs_mpi
@pytest.mark.long
def test_a_checkpoint_outlives_a_rank_and_another_number_of_ranks_goes_on(tmp_path: Path) -> None:
    """Rank 1 of 3 is killed in the third step, while rank 0 may be saving; 2 ranks make the other steps, as one process would have."""
    done = launched(3, SCRIPT, "checkpoint", str(tmp_path), "die", "1")
    assert done.returncode != 0
    steps = int(ga.load(tmp_path / "checkpoint.json").arrays["steps"][0])
    assert steps in (1, 2)
    assert all(each["steps"] == STEPS - steps for each in on_ranks(2, "checkpoint", str(tmp_path)))
    assert int(ga.load(tmp_path / "checkpoint.json").arrays["steps"][0]) == STEPS


@needs_mpi
def test_the_command_runs_on_the_ranks_that_mpiexec_starts(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(
        "program { block 0 { var x: float64[-1, 2] var t: float64[2] var y: float64[2]"
        " reduce_sum(X=x) -> (Out=t) {dim=[0]} c_allreduce_sum(X=t) -> (Out=y) } }"
    )
    np.savez(tmp_path / "x.npz", x=np.arange(10.0).reshape(5, 2))
    done = launched(3, "-m", "graphad", "run", str(tmp_path / "p.txt"), "--feed", str(tmp_path / "x.npz"), "--fetch", "y")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "y =\n[20. 25.]\n"


def test_without_mpi_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['mpi4py'] = None; import graphad as ga; ga.MpiExecutor()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert "ImportError: MpiExecutor needs mpi4py and an MPI library: pip install 'graphad[mpi]'" in done.stderr
