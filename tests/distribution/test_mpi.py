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
from pathlib import Path

import numpy as np
import pytest

from tests.distribution.test_data_parallel import BYTES, STEPS
from tests.source_tree import ROOT

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
HAS_MPI = MPIEXEC is not None and importlib.util.find_spec("mpi4py") is not None
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="mpi4py or mpiexec is missing: pip install 'graphad[distributed-tests]'")
SECONDS = 10.0  # in which a fault has to end all ranks, once they run


def launched(ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_losses_and_parameters_are_those_of_one_process(ranks: int) -> None:
    done = launched(ranks, "tests/distribution/mpi_training.py", str(STEPS))
    assert done.returncode == 0, done.stderr
    parts = re.findall(r"\{.*?\}\}", done.stdout)  # ranks may write into each other's lines
    found = sorted(map(json.loads, parts), key=lambda each: int(each["rank"]))
    assert [each["rank"] for each in found] == list(range(ranks))
    for each in found:
        assert each["losses"] < 1e-6
        assert each["parameters"] < 1e-6
        assert each["bytes"]["c_allreduce_sum"] == BYTES


@needs_mpi
@pytest.mark.parametrize(("ranks", "case"), [(2, 4), (3, 1), (4, 10)])
def test_partitioned_programs(ranks: int, case: int) -> None:
    """Cases of test_partition.py: a pair of matrices on 2 ranks, parts of different sizes on 3, a transformer on 2 x 2."""
    done = launched(ranks, "tests/distribution/mpi_partition.py", str(case))
    assert done.returncode == 0, done.stderr
    found = [json.loads(text) for text in re.findall(r"\{.*?\}", done.stdout)]
    assert sorted(each["rank"] for each in found) == list(range(ranks))
    assert all(each["losses"] < 1e-6 and each["parameters"] < 1e-6 for each in found)


@needs_mpi
@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("fail", "operator 'softmax_with_cross_entropy' failed"),
        ("differ", "rank 1 is at barrier"),
        ("leave", "rank 1"),
        ("die", ""),
    ],
)
def test_a_fault_of_one_rank_ends_all(what: str, shown: str) -> None:
    """With the error, and soon: the ranks wait 30 seconds for each other otherwise."""
    start = time.monotonic()
    assert launched(2, "tests/distribution/mpi_training.py", "2").returncode == 0
    usual = time.monotonic() - start
    start = time.monotonic()
    done = launched(2, "tests/distribution/mpi_training.py", "6", what)
    assert time.monotonic() - start < usual + SECONDS
    assert done.returncode != 0
    assert shown in done.stderr
    if what == "fail":
        assert "test_data_parallel.py" in done.stderr  # the line of the program


@needs_mpi
@pytest.mark.parametrize(
    ("ranks", "case", "what", "shown"),
    [
        (2, 4, "fail", "operator 'softmax_with_cross_entropy' failed"),  # after collectives that rank 0 has passed as well
        (4, 10, "fail", "operator 'lookup_table' failed"),
        (4, 17, "die", ""),  # rings of a loop
        (4, 17, "leave", "rank 1 leaves"),
    ],
)
def test_a_fault_in_a_partitioned_program_ends_all(ranks: int, case: int, what: str, shown: str) -> None:
    start = time.monotonic()
    assert launched(ranks, "tests/distribution/mpi_partition.py", str(case)).returncode == 0
    usual = time.monotonic() - start
    start = time.monotonic()
    done = launched(ranks, "tests/distribution/mpi_partition.py", str(case), what)
    assert time.monotonic() - start < usual + SECONDS
    assert done.returncode != 0
    assert shown in done.stderr
    if what == "fail":
        assert ("test_partition.py" if case == 10 else "test_data_parallel.py") in done.stderr  # the line of the program


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


@pytest.mark.skipif(HAS_MPI, reason="mpi4py is installed")
def test_without_mpi_the_error_says_what_to_install() -> None:
    code = "import graphad as ga; ga.MpiExecutor()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert "ImportError: MpiExecutor needs mpi4py and an MPI library: pip install 'graphad[mpi]'" in done.stderr
