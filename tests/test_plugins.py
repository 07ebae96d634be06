"""Passes and operators that other packages bring: found by entry points, as in docs/example-package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphad import plugins
from graphad.settings import SETTINGS
from tests.source_tree import ROOT

EXAMPLE = ROOT / "docs" / "example-package"
PROGRAM = """\
program {
  block 0 {
    var x: float64[3]
    var a: float64[3]
    var b: float64[3]
    var c: float64[3]
    var y: float64[]
    scale(X=x) -> (Out=a) {scale=2.0}
    sigmoid(X=a) -> (Out=b)
    elementwise_mul(X=b, Y=x) -> (Out=c)
    mean(X=c) -> (Out=y)
  }
}
"""
CHECK = """
import numpy as np
import graphad as ga

with ga.program_guard(ga.Program()):
    x = ga.layers.data("x", shape=[3], dtype="float64", append_batch_size=False, stop_gradient=False)
    total = ga.layers.reduce_sum(ga.layers.sharp_swish(x, beta=2.0))
    (first,) = ga.gradients(total, x)
    (second,) = ga.gradients(ga.layers.reduce_sum(first), x)
    run = lambda at: ga.Executor().run(total.block.program, {"x": at}, [total, first, second])

at, step = np.array([0.3, -1.2, 2.0]), 1e-5
for i in range(3):
    up, down = (run(at + sign * step * np.eye(3)[i]) for sign in (1, -1))
    print(abs((up[0] - down[0]) / (2 * step) - run(at)[1][i]) < 1e-8, abs((up[1][i] - down[1][i]) / (2 * step) - run(at)[2][i]) < 1e-7)
"""


# -- a package ------------------------------------------------------------------------------------


def run(*arguments: str, cwd: Path, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GRAPHAD_")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env={**env, **environment}, text=True, capture_output=True, timeout=120, check=False
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example installed; what graphad itself depends on is where the tests run."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    options = ("--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--no-index", "--no-compile")
    run("-m", "pip", "install", *options, "--target", str(folder / "site"), str(folder / "source"), cwd=folder)
    return folder / "site"


def graphad(site: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, with the example on the path."""
    path = os.pathsep.join([str(site), str(ROOT)])
    return run(
        "-W", "error", "-m", "graphad.cli", *arguments, cwd=site.parent, check=False, PYTHONPATH=path, GRAPHAD_REPRODUCERS="", **environment
    )


def test_the_pass_is_listed_with_its_rules(site: Path) -> None:
    described = graphad(site, "passes", "find-sharp-swish").stdout
    assert described.startswith("find-sharp-swish: Compute x * sigmoid(beta x) with one operator.\n  idempotent\n")
    assert "2 rules:\nplain  elementwise_mul(x, sigmoid(x)) ⇒ sharp_swish(x) where is_float(x)\n" in described


def test_the_pass_runs(site: Path) -> None:
    (site.parent / "net.txt").write_text(PROGRAM)
    done = graphad(site, "opt", "net.txt", "-p", "find-sharp-swish")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "sharp_swish(X=x) -> (Out=" in done.stdout
    assert "{beta=2.0}" in done.stdout
    assert "sigmoid(" not in done.stdout


def test_the_operator_has_its_gradients(site: Path) -> None:
    path = os.pathsep.join([str(site), str(ROOT)])
    assert run("-W", "error", "-c", CHECK, cwd=site.parent, PYTHONPATH=path).stdout == "True True\n" * 3


def test_without_plugins_it_is_not_there(site: Path) -> None:
    listed = graphad(site, "passes", GRAPHAD_PLUGINS="0").stdout
    assert "create-grad-ops" in listed
    assert "find-sharp-swish" not in listed


def test_the_example_says_what_it_brings() -> None:
    assert all(word in (EXAMPLE / "README.md").read_text() for word in ("sharp_swish", "find-sharp-swish", "GRAPHAD_PLUGINS"))


# -- entry points ----------------------------------------------------------------------------------


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Load entry points given as ``group: (name, what it stands for)``; return the names of those that were loaded."""
    monkeypatch.setattr(SETTINGS, "plugins", True)
    monkeypatch.setattr(plugins, "_loader", plugins._Loader())

    class Point(EntryPoint):
        def load(self) -> Any:
            return things[self.value]()

    things: dict[str, Callable[[], Any]] = {}

    def load(*points: tuple[str, str, Callable[[], Any]]) -> list[str]:
        made = []
        for i, (group, name, thing) in enumerate(points):
            things[f"m{i}"] = thing
            made.append(Point(name, f"m{i}", group))
        monkeypatch.setattr(plugins, "entry_points", lambda: EntryPoints(made))
        return plugins.load_plugins()

    return load


def test_operators_come_first_then_by_name(loads: Callable[..., list[str]]) -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[], Callable[[], None]]:
        return lambda: lambda: order.append(name)

    groups = [("graphad.passes", "b"), ("graphad.ops", "z"), ("graphad.passes", "a"), ("other", "o"), ("graphad.ops", "y")]
    assert loads(*((group, name, note(name)) for group, name in groups)) == ["y", "z", "a", "b"]
    assert order == ["y", "z", "a", "b"], "a function is called"


def test_a_module_is_imported_and_a_class_is_not_made(loads: Callable[..., list[str]]) -> None:
    class Never:
        def __init__(self) -> None:
            raise AssertionError

    assert loads(("graphad.passes", "module", lambda: sys), ("graphad.passes", "class", lambda: Never)) == ["class", "module"]
    assert loads(("graphad.passes", "thing", SimpleNamespace)) == ["thing"]


def test_one_that_fails_is_told_and_the_rest_goes_on(loads: Callable[..., list[str]]) -> None:
    def fails() -> Any:
        raise ImportError("no module named nothing")

    with pytest.warns(
        RuntimeWarning, match=r"entry point bad = m0 of graphad.passes was not loaded: ImportError\('no module named nothing'\)"
    ):
        assert loads(("graphad.passes", "bad", fails), ("graphad.passes", "good", lambda: sys)) == ["good"]
    with pytest.warns(RuntimeWarning, match="bad = m0 of graphad.ops was not loaded: ZeroDivisionError"):
        assert loads(("graphad.ops", "bad", lambda: lambda: 1 // 0)) == []


def test_nothing_is_loaded_where_it_is_switched_off(loads: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "plugins", False)
    assert loads(("graphad.passes", "good", lambda: pytest.fail("loaded"))) == []


def test_graphads_own_are_entry_points_like_any_others() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"] == {"graphad.ops": {"graphad": "graphad.ops"}, "graphad.passes": {"graphad": "graphad.passes"}}
