"""``import graphad``: reads no file, runs no foreign code, and leaves for later what building and running programs does without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphad as ga
from tests.source_tree import ROOT

SCRIPT = """
import os, sys
import networkx, numpy
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
import graphad as ga
print(sorted({path for path in opened if not path.endswith((".py", ".pyc", ".so")) and not os.path.isdir(path)}))
late = ("stranger", "tomllib", "pydot", "rich", "google.protobuf", "graphad.passes", "graphad.execution")
print([name for name in late if name in sys.modules])
print(ga.ops.stranger.type, "stranger" in sys.modules)
print(ga.Pipeline.parse("dead-code, strange"))
"""
STRANGER = """
import dataclasses
import graphad as ga

@ga.ops.operator("X -> Out", infer=lambda X: X, grad={})
def stranger(X):
    return X

@dataclasses.dataclass(frozen=True)
class Strange(ga.Pass):
    name = "strange"

    def apply(self, graph):
        return False
"""


def test_nothing_is_read_or_run_until_a_name_is_not_known(tmp_path: Path) -> None:
    info = tmp_path / "stranger-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[graphad.ops]\nstranger = stranger\n")
    (tmp_path / "stranger.py").write_text(STRANGER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]), "GRAPHAD_PLUGINS": "1"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["[]", "[]", "stranger True", "dead-code, strange"]


COLLECTING = """
import gc, sys
sys.modules["graphad.ir"] = None
try:
    import graphad
except ImportError:
    print("no graphad", gc.isenabled())
del sys.modules["graphad.ir"]
import graphad
print(gc.isenabled())
for name in [name for name in sys.modules if name.startswith("graphad")]:
    del sys.modules[name]
gc.disable()
import graphad
print(gc.isenabled())
"""


def test_the_collector_is_as_it_was() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", COLLECTING], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["no graphad True", "True", "False"]


@pytest.mark.parametrize("name", [*ga.__all__, "backward", "drawing", "rewriting", "training"])
def test_every_name_is_there(name: str) -> None:
    assert getattr(ga, name) is not None
    assert name in dir(ga)


def test_completion_offers_nothing_that_the_package_imports_for_itself() -> None:
    assert not {"Any", "Path", "TYPE_CHECKING", "annotations", "did_you_mean", "gc", "import_module"} & {*dir(ga)}


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'graphad' has no attribute 'zork'"):
        ga.zork  # type: ignore[attr-defined]  # noqa: B018
