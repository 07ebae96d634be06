"""``graphad demo``: a convolutional net on handwritten digits; its graphs drawn pass by pass; trained by the numpy executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from graphad import layers
from graphad.drawing import draw
from graphad.errors import GraphadError
from graphad.execution import Executor, Scope
from graphad.ir import Graph, lower
from graphad.optimizer import Adam
from graphad.passes.backward import OpPath
from graphad.program import Program, Variable, program_guard
from graphad.rewriting import PASSES, Pass, Step, observing
from graphad.training import train
from graphad.types import Array

DATASETS = "sklearn.datasets"  # imported by the demo alone: that takes a second
TEST_IMAGES = 360
BATCH = 32


@dataclass(frozen=True)
class Digits:
    """1,797 images of handwritten digits, 8 x 8, values 0 to 1, in a fixed split."""

    images: Array
    labels: Array
    test_images: Array
    test_labels: Array

    @staticmethod
    def load() -> Digits:
        try:
            digits = import_module(DATASETS).load_digits()
        except ImportError:
            raise GraphadError("the demo needs the digits that come with scikit-learn: pip install 'graphad[demo]'") from None
        # With a fixed seed, so that the demo trains and tests on the same images each time.
        order = np.random.default_rng(0).permutation(len(digits.target))
        images = (digits.images[order] / 16.0).astype("float32").reshape(-1, 1, 8, 8)
        labels = digits.target[order].astype("int64").reshape(-1, 1)
        return Digits(images[TEST_IMAGES:], labels[TEST_IMAGES:], images[:TEST_IMAGES], labels[:TEST_IMAGES])

    def batches(self, seed: int) -> Iterator[dict[str, Array]]:
        """Minibatches of the training images in a new order."""
        order = np.random.default_rng(seed).permutation(len(self.labels))
        # The last few images that fill no minibatch are left out.
        for start in range(0, len(order) - BATCH + 1, BATCH):
            indices = order[start : start + BATCH]
            yield {"image": self.images[indices], "label": self.labels[indices]}


@dataclass(frozen=True)
class Model:
    """The net: its program, its cost, and the share of right answers."""

    program: Program
    startup: Program
    cost: Variable
    accuracy: Variable


def build_model() -> Model:
    """Two convolutions with pooling, the second beside a shortcut, then two fully connected layers."""
    program, startup = Program(), Program()
    program.random_seed = startup.random_seed = 1
    with program_guard(program, startup):
        image, label = layers.data("image", [1, 8, 8]), layers.data("label", [1], dtype="int64")
        x = layers.pool2d(layers.conv2d(image, 32, 3, padding=1, act="relu"), 2, pool_stride=2)
        x = layers.pool2d(x + layers.conv2d(x, 32, 3, padding=1, act="relu"), 2, pool_stride=2)
        logits = layers.fc(layers.fc(x, 64, act="relu"), 10)
        cost = layers.mean(layers.softmax_with_cross_entropy(logits, label))
        return Model(program, startup, cost, layers.accuracy(logits, label))


@dataclass
class Gallery:
    """Draws the graph after every backward pass, and keeps what each pass did."""

    folder: Path
    steps: list[Step] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    known: set[object] = field(default_factory=set)

    def forward(self, program: Program) -> None:
        """Draw the forward graph, before any pass."""
        self._draw(lower(program), "forward", ())

    def __call__(self, pass_: Pass, graph: Graph, step: Step) -> None:
        """Observe a pass."""
        self.steps.append(step)
        nodes = set(graph.nodes)
        # The first pass makes nothing new: it marks what lies on the way to the cost.
        new = set(graph.analyses[OpPath].ops) if not self.known else nodes - self.known
        means = "new in this pass" if self.known else "on the way to the cost"
        self.known = nodes
        # Updates of parameters would only repeat one picture.
        if "optimize" not in step.name:
            self._draw(graph, step.name, new, means)

    def _draw(self, graph: Graph, name: str, highlight: object, means: str = "") -> None:
        path = self.folder / f"{len(self.files):02d}-{name}.svg"
        self.files.append(draw(graph, path, title=name, highlight=highlight, highlight_means=means))


def run_demo(folder: Path, epochs: int = 15) -> int:
    """Draw, train, test; return the exit status."""
    console = Console()
    digits = Digits.load()
    folder.mkdir(parents=True, exist_ok=True)
    model, gallery = build_model(), Gallery(folder)
    gallery.forward(model.program)
    # Before the backward: the test program has neither gradients nor updates.
    test_program = model.program.clone(for_test=True)
    with observing(gallery):
        Adam(learning_rate=0.003).minimize(model.cost, model.startup)
    gallery.files.append(draw(model.program, folder / "train.svg", title="train"))
    console.print(_table(gallery.steps))
    for path in gallery.files:
        console.print(f"  drawn: {path}")
    _train(console, model, test_program, digits, epochs)
    index = _index(folder, gallery)
    console.print(f"Look at {index} in a browser: the network's graph, before and after each pass that builds its backward.")
    console.print("Next: docs/write-a-pass.md shows how to write such a pass; `graphad passes` lists those there are.")
    return 0


def _train(console: Console, model: Model, test_program: Program, digits: Digits, epochs: int) -> None:
    scope = Scope()
    # Each epoch has an order of its own, the same in each run of the demo.
    seeds = iter(range(epochs))
    history = train(model.cost, lambda: list(digits.batches(next(seeds))), epochs, {"accuracy": model.accuracy}, scope=scope)
    feed = {"image": digits.test_images, "label": digits.test_labels}
    (accuracy,) = Executor().run(test_program, feed=feed, fetch_list=[model.accuracy], scope=scope)
    share = float(np.mean(accuracy))
    console.print(
        f"trained on {len(digits.labels)} images in {history.seconds:.1f} s; right on {share:.1%} of {len(digits.test_labels)} others"
    )


def _index(folder: Path, gallery: Gallery) -> Path:
    """Write a page that shows all drawings in their order."""
    summaries = {step.name: _summary(step.name) for step in gallery.steps}
    figures = [
        f'<figure><figcaption><a href="{path.name}">{path.stem}</a> {escape(summaries.get(path.stem.partition("-")[2], ""))}</figcaption>'
        f'<img src="{path.name}" alt="the graph {path.stem}" style="max-width:100%;max-height:70vh"></figure>'
        for path in gallery.files
    ]
    page = folder / "index.html"
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>graphad demo</title><body style="font-family:sans-serif">'
        "<h1>From a network to its training program, pass by pass</h1><p>Boxes are operators, ellipses values; what is new after a "
        f"pass is outlined.</p>{''.join(figures)}</body></html>\n",
        encoding="utf-8",
    )
    return page


def _summary(name: str) -> str:
    """The first line that says what a pass does."""
    kind = PASSES.get(name)
    return "" if kind is None else kind.summary()


def _table(steps: list[Step]) -> Table:
    table = Table(title="from forward to training program, pass by pass")
    for column, justify in (("pass", "left"), ("ms", "right"), ("operators", "right"), ("values", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for step in steps:
        table.add_row(step.name, f"{step.seconds * 1e3:.2f}", _change(*step.ops), _change(*step.values))
    return table


def _change(before: int, after: int) -> str:
    return f"{after}" if before == after else f"{after} ({after - before:+d})"
