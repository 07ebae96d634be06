"""Every message on the page of troubleshooting is one that graphad raises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.cli import main as command
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (`.*?`) \| .* \|$", re.MULTILINE)

# What is raised where something is not installed, takes a minute, or writes a folder: looked up in the sources.
OF_SURROUNDINGS = (
    "to reproduce it:",
    "no Graphviz found to draw with",
    "did not lay out the drawing within",
    "Paddle's programs are read and written",
    "needs the digits that come with scikit-learn",
    "completion needs shtab",
)


def fragments() -> list[str]:
    return [each.replace("\\|", "|") for cell in ROW.findall(PAGE) for each in re.findall(r"`(.*?)`", cell)]


def pattern(fragment: str) -> str:
    return r"[\s\S]*?".join(re.escape(part.strip()) for part in fragment.split("..."))


def run(feed: dict[str, Any] | None = None, fetch: Any = None, **options: Any) -> Any:
    return ga.Executor(**options).run(ga.default_main_program(), feed, fetch, scope=ga.Scope())


def x(*shape: int, dtype: str = "float32", name: str = "x") -> Any:
    return L.data(name, list(shape or (3,)), dtype=dtype, append_batch_size=not shape, stop_gradient=False)


def trained_twice() -> None:
    cost = L.mean(L.fc(x(), 1))
    ga.optimize(cost)
    ga.optimize(cost)


def trained(reader: object, epochs: int = 1) -> None:
    cost = L.mse(L.fc(x(), 1), L.data("y", [1]))
    ga.optimize(cost)
    ga.train(cost, reader=reader, epochs=epochs, progress=False)  # type: ignore[arg-type]


def frozen_loss() -> None:
    loss = L.mean(x() * 1.0)
    loss.stop_gradient = True
    ga.append_backward(loss)


def unreached_parameter() -> None:
    other = L.create_parameter([2], "float32")
    ga.append_backward(L.mean(L.fc(x(), 1)), parameter_list=[other])


def unsaved() -> None:
    L.fc(x(), 2)
    ga.save(ga.default_main_program(), "model.txt", ga.Scope())


def of_another_program() -> None:
    own = x()
    with ga.program_guard(ga.Program()):
        L.relu(own)


def narrowed() -> None:
    hidden, scope = L.fc(x(), 2, name="h"), ga.Scope()
    ga.optimizer.decorate(ga.optimizer.SGD(0.1)).minimize(L.mean(L.fc(hidden, 1)))
    ga.Executor().run(ga.default_startup_program(), scope=scope)
    ga.Executor().run(ga.default_main_program(), {"x": np.ones((2, 3), "float32")}, [hidden], scope=scope)


def unknown_operator() -> None:
    text = "program { block 0 { var x: float32[2] foo(X=x) -> (Out=x) } }"
    ga.Executor().run(ga.Program.parse(text, allow_unknown=True), {"x": np.ones(2, "float32")})


def embedded() -> None:
    rows = L.embedding(L.data("i", [1], "int64"), [4, 2], param_attr=ga.initializer.Constant(1.0))
    scope = ga.Scope()
    ga.Executor().run(ga.default_startup_program(), scope=scope)
    ga.Executor().run(ga.default_main_program(), {"i": [[7]]}, [rows], scope=scope)


@dataclass(frozen=True)
class Restless(ga.Pass):
    """A pass that always changes something."""

    name = "restless"

    def apply(self, graph: ga.Graph) -> bool:
        return True


def sequence_in_its_step() -> None:
    network, sequence = L.StaticRNN(), x(4, 3)
    with network.step():
        network.step_input(L.relu(sequence))


def lowered() -> ga.Graph:
    return ga.lower(ga.default_main_program(), [L.mean(L.relu(x()))])


RAISED: list[Callable[[], object]] = [
    lambda: float(x()),
    lambda: 1 if x() > 0.0 else 2,
    lambda: np.exp(x()),
    lambda: list(x()),
    lambda: x().__setitem__(0, 1.0),
    lambda: x(3, 4)[7],
    lambda: x(3, 4)[0, 0, 0],
    lambda: x().backward(),
    of_another_program,
    lambda: (x(), L.data("x", [4])),
    lambda: L.conca,  # type: ignore[attr-defined]
    lambda: L.lod_reset,  # type: ignore[attr-defined]
    lambda: L.relu("x"),  # type: ignore[arg-type]
    lambda: getattr(ga, "static"),  # noqa: B009
    sequence_in_its_step,
    lambda: L.fc(x(), 2, activation="relu", colour=3),  # type: ignore[call-arg]
    lambda: L.relu(x(), colour=3),  # type: ignore[call-arg]
    lambda: L.fc(x()),  # type: ignore[call-arg]
    lambda: L.relu(x(), "a", "b", "c"),  # type: ignore[call-arg]
    lambda: L.pool2d(x(1, 1, 4, 4), 2, "max", 2, 0, "relu"),  # type: ignore[arg-type]
    lambda: L.fc(x(), 2, bias_attr="relu"),
    lambda: L.fc(x(), 2, act="rulu"),
    lambda: x() + x(3, dtype="float64", name="y"),
    lambda: x(3) + x(4, name="y"),
    lambda: L.concat([x(3, 4), x(3, 5, name="y")], 0),
    lambda: L.reshape(x(3, 4), [5, -1]),
    lambda: L.log(x(3, dtype="int64")),
    lambda: L.embedding(x(), [4, 2]),
    lambda: L.scale(x(3, dtype="int64"), 0.5),
    lambda: L.fc(x(-1, -1), 2),
    lambda: L.conv2d(x(1, 3, 8, 8), 4, 3, groups=2),
    lambda: x(3, dtype="flaot32"),
    lambda: ga.rewrite(lambda x: (ga.ops.relu(x), ga.ops.abs(x))),
    lambda: L.cond(x() > 0.0, lambda: 1.0, lambda: 2.0),
    lambda: L.while_loop(lambda i: i < 3, lambda i: [L.cast(i, "float32") + 1.0], [L.zeros([1], "int64")]),
    lambda: L.cond(L.mean(x()) > 0.0, lambda: L.zeros([1], "int64"), lambda: L.zeros([2], "float32")),
    lambda: L.while_loop(lambda: L.ones([1], "bool"), list, []),
    lambda: run({}, [L.while_loop(lambda i: i >= 0, lambda i: [i + 1], [L.zeros([1], "int64")])[0]], max_iterations=10),
    lambda: run({"x": np.ones((2, 3), "float32")}, [L.fc(x(), 2)]),
    unsaved,
    lambda: ga.Scope().get("w"),
    lambda: run({}, [x() * 1.0]),
    lambda: (L.data("image", [3]), run({"imgae": [[1.0, 2.0, 3.0]]})),
    lambda: (x(), run({"x": np.ones((2, 3))})),
    lambda: (x(), run({"x": np.ones((2, 4), "float32")})),
    lambda: (L.data("i", [1], "int64"), run({"i": [[0.5]]})),
    lambda: (x(), run({"x": np.ma.array([[1.0, 2.0, 3.0]], mask=[[True, False, False]])})),
    lambda: (x(), run({}, ["y"])),
    embedded,
    narrowed,
    unknown_operator,
    lambda: run({"x": np.full((1, 3), -1.0, "float32")}, [L.sqrt(x())], check_finite=True),
    lambda: ga.append_backward(x() * 2.0),
    lambda: ga.append_backward(x(1)),
    frozen_loss,
    unreached_parameter,
    lambda: ga.train(L.mean(L.fc(x(), 1)), reader=[{"x": np.ones((2, 3), "float32")}]),
    lambda: ga.optimize(L.mean(x())),
    trained_twice,
    lambda: trained([(np.ones((2, 3), "float32"),)]),
    lambda: trained(iter([(np.ones((2, 3), "float32"), np.ones((2, 1), "float32"))]), epochs=2),
    lambda: ga.Pipeline.parse("simplify").run(ga.Program()),  # type: ignore[arg-type]
    lambda: ga.Pipeline.parse("simplfy"),
    lambda: ga.Pipeline.parse("simplify{speed=1}"),
    lambda: ga.Pipeline.parse("prune-no-grad").run(lowered()),
    lambda: ga.fixpoint(Restless(), limit=3).run(lowered()),
    lambda: (x(), ga.lower(ga.default_main_program(), ["y"])),
    lambda: ga.Program.parse("program { block 0 { var x float32[2] } }"),
    lambda: ga.interop.paddle.load_program(b"nonsense"),
    lambda: ga.interop.paddle.load_inference_model("."),
    lambda: ga.save(ga.Program(), "model.xyz"),
    lambda: ga.draw(ga.Program(), "drawing.xyz"),
    lambda: __import__("passes"),
]


NET = "program { block 0 { var x: float32[1, 3] param w: float32[3, 2] var y: float32[1, 2] mul(X=x, Y=w) -> (Out=y) } }"
OF_COMMANDS = {
    "there is no command 'verfy'; did you mean 'verify'?": ["verfy"],
    "there is no option '--valus'; did you mean '--values'": ["draw", "net.txt", "-o", "net.svg", "--valus", "none"],
    "is a file: -o names the folder": ["demo", "-o", "net.txt"],
    "--params FILE.npz gives parameters; missing:": ["run", "net.txt"],
}


@cache
def raised() -> str:
    return "\n".join(messages())


def messages() -> Iterator[str]:
    for number, call in enumerate(RAISED):
        with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
            try:
                with np.errstate(all="ignore"):
                    call()
            except (ga.errors.GraphadError, AttributeError, TypeError, ValueError, ImportError) as error:
                yield str(error)
            else:
                raise AssertionError(f"call {number} raises nothing")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("fragment", fragments())
def test_a_message_of_the_page_is_raised(fragment: str, capsys: pytest.CaptureFixture[str]) -> None:
    if fragment in OF_SURROUNDINGS:
        assert any(fragment in path.read_text(encoding="utf-8") for path in (ROOT / "graphad").rglob("*.py"))
        return
    if fragment in OF_COMMANDS:
        Path("net.txt").write_text(NET, encoding="utf-8")
        with suppress(SystemExit):
            command(OF_COMMANDS[fragment])
        assert fragment in capsys.readouterr().err
        return
    assert re.search(pattern(fragment), raised())


def test_the_page_has_the_messages_that_are_tried() -> None:
    assert len(fragments()) > 70
