"""The view of editors and type checkers on layers and operators: names, parameters, docstrings, stubs."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphad as ga
from graphad import layers, ops
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from tests import stubs
from tests.source_tree import ROOT

OPERATORS = [name for name, definition in REGISTRY.items() if not isinstance(definition, GradOpDef | ControlDef)]
USER = """
import graphad as ga
import numpy as np
from graphad import layers as L

x = L.data("x", [3])
reveal_type(L.relu(x))
reveal_type(L.topk(x, 2))
reveal_type(L.split(x, 3))
reveal_type(x.sum(axis=1))
reveal_type(L.matmul(x, np.ones((3, 3)), False, True))
L.conca([x, x])
L.reduce_sum(x, keepdimm=True)
L.leaky_relu(x, alpha="0.1")
ga.ops.relo(x)
"""


def test_the_stubs_export_what_completes_and_no_more() -> None:
    for package, module in ("layers", layers), ("ops", ops):
        exported = set(re.findall(r"^from \S+ import \S+ as (\w+)$", stubs.STUBS[package].read_text(encoding="utf-8"), re.M))
        assert exported - {"Variable"} <= set(dir(module))


def test_the_stubs_are_current() -> None:
    for package, text in stubs.texts().items():
        assert stubs.STUBS[package].read_text(encoding="utf-8") == text, "run make stubs"


ONE_BY_ONE = {"einsum": ["operands"], "meshgrid": ["inputs"]}  # tensors that numpy takes one by one


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_a_layer_with_named_parameters(name: str) -> None:
    assert name in dir(layers)
    assert name in dir(ops)
    layer = getattr(layers, name)
    parameters = inspect.signature(layer).parameters.values()
    assert [each.name for each in parameters if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)] == ONE_BY_ONE.get(name, [])
    assert layer.__doc__
    assert name in pydoc.plain(pydoc.render_doc(layer))


@pytest.mark.parametrize("name", ["optimizer", "initializer", "metrics", "nets", "io", "clip", "contrib", ""])
def test_what_completes_is_what_a_user_may_want(name: str) -> None:
    """No private names, and nothing that a module has only imported."""
    part = getattr(ga, name) if name else ga
    listed = [each for each in dir(part) if not (each.startswith("__") and each.endswith("__"))]
    assert not [each for each in listed if each.startswith("_") or not hasattr(part, each)]
    assert not {"Any", "NoReturn", "TYPE_CHECKING", "annotations", "did_you_mean", "np", "import_module"} & {*listed}


def test_only_public_names_are_listed() -> None:
    for module in (layers, ops):
        assert dir(module) == sorted(dir(module))
        assert not [name for name in dir(module) if name.startswith("_") or "@" in name or not hasattr(module, name)]
    assert not {"did_you_mean", "annotations", "SPECS", "Any"} & {*dir(layers)}
    assert "relu" in ga.layers.__dir__()


def test_every_layer_says_what_it_computes() -> None:
    assert not [name for name in dir(layers) if (getattr(layers, name).__doc__ or "").startswith("The operator ``")]
    own = [op for op in REGISTRY.values() if op.kernel.__module__.startswith("graphad.") and not isinstance(op, GradOpDef)]
    assert not [op.type for op in own if not op.doc]


def test_a_layer_says_what_it_is() -> None:
    assert str(inspect.signature(layers.leaky_relu)) == (
        "(x: 'Any', alpha: 'Any' = 0.02, name: 'str | None' = None, *, act: 'str | None' = None) -> 'Variable'"
    )
    assert (layers.leaky_relu.__doc__ or "").startswith(REGISTRY["leaky_relu"].doc)
    assert layers.leaky_relu is layers.leaky_relu


def test_a_type_checker_knows_layers(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    file = tmp_path / "user.py"
    file.write_text(USER, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    said = [
        line.partition(": ")[2].replace("builtins.", "")
        for line in done.stdout.splitlines()
        if "user.py:" in line and "defined in" not in line  # a cached message names the file of an earlier run
    ]
    assert said, done.stdout + done.stderr
    assert said == [
        'note: Revealed type is "graphad.program.variable.Variable"',
        'note: Revealed type is "tuple[graphad.program.variable.Variable, graphad.program.variable.Variable]"',
        'note: Revealed type is "list[graphad.program.variable.Variable]"',
        'note: Revealed type is "graphad.program.variable.Variable"',
        'note: Revealed type is "graphad.program.variable.Variable"',
        'error: Module has no attribute "conca"; maybe "concat"?  [attr-defined]',
        'error: Unexpected keyword argument "keepdimm" for "reduce_sum"; did you mean "keep_dim"?  [call-arg]',
        'error: Argument "alpha" to "leaky_relu" has incompatible type "str"; expected "float | None"  [arg-type]',
        'error: Module has no attribute "relo"  [attr-defined]',
    ]
