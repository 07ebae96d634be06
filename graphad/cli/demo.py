"""``graphad demo``: a convolutional net on handwritten digits; its graphs drawn pass by pass; trained by the numpy executor."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from graphad import layers
from graphad.cli.demo_page import Picture, Results, change, page
from graphad.drawing import draw
from graphad.errors import GraphadError
from graphad.execution import Executor, Scope
from graphad.interop import write_program
from graphad.ir import Graph, lower
from graphad.optimizer import Adam
from graphad.passes.backward import OpPath
from graphad.program import Program, Variable, program_guard
from graphad.rewriting import PASSES, Pass, Step, observing
from graphad.training import History, train
from graphad.types import Array

DATASETS = "sklearn.datasets"  # imported by the demo alone: that takes a second
TEST_IMAGES = 360
BATCH = 32
Sizes = tuple[tuple[int, int], tuple[int, int]]  # of a graph, before and after: operators, values


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
    """The net: its program, its cost, the share of right answers, and what it says of each digit: ``logits``, ``[-1, 10]``."""

    program: Program
    startup: Program
    cost: Variable
    accuracy: Variable
    logits: Variable


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
        return Model(program, startup, cost, layers.accuracy(logits, label), logits)


@dataclass
class Gallery:
    """Draws the graph after every backward pass, and keeps what each pass did."""

    folder: Path
    steps: list[Step] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    known: set[object] = field(default_factory=set)

    def forward(self, program: Program) -> None:
        """Draw the forward graph, before any pass."""
        graph = lower(program)
        self._draw(graph, "00-forward", "forward", "The program as it was written: the forward only, up to its cost.", _same(graph))

    def train(self, program: Program) -> None:
        """Draw the program that all passes have made, with the updates of its parameters."""
        last = self.steps[-1]
        text = "The program that is run at each step of the training: the updates of all parameters have been appended."
        self._draw(program, "train", "train", text, (last.ops, last.values))

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
            self._draw(graph, f"{len(self.pictures):02d}-{step.name}", step.name, _summary(step.name), (step.ops, step.values), new, means)

    def _draw(
        self, graph: Graph | Program, stem: str, name: str, text: str, sizes: Sizes, highlight: Collection[object] = (), means: str = ""
    ) -> None:
        for folder, theme in (self.folder, "light"), (self.folder / "dark", "dark"):
            draw(graph, folder / f"{stem}.svg", title=name, highlight=highlight, highlight_means=means, theme=theme)
        self.pictures.append(Picture(name, f"{stem}.svg", text, *sizes))


def run_demo(folder: Path, epochs: int = 15) -> int:
    """Draw, train, test; return the exit status."""
    console = Console()
    if folder.exists() and not folder.is_dir():
        raise GraphadError(f"'{folder}' is a file: -o names the folder that the demo draws into")
    digits = Digits.load()
    (folder / "dark").mkdir(parents=True, exist_ok=True)
    model, gallery = build_model(), Gallery(folder)
    gallery.forward(model.program)
    # Before the backward: the test program has neither gradients nor updates.
    test_program = model.program.clone(for_test=True)
    with observing(gallery):
        Adam(learning_rate=0.003).minimize(model.cost, model.startup)
    gallery.train(model.program)
    write_program(model.program, folder / "train.txt")
    console.print(_table(gallery.steps))
    for picture in gallery.pictures:
        console.print(f"  drawn: {folder / picture.file}")
    history, tested = _train(model, test_program, digits, epochs)
    console.print(
        f"trained on {tested.trained_on} images in {history.seconds:.1f} s; right on {tested.share:.1%} of {len(tested.labels)} others"
    )
    history.plot(folder / "cost.svg")
    (folder / "index.html").write_text(page(gallery.pictures, tested), encoding="utf-8")
    console.print(f"Look at {folder / 'index.html'} in a browser: what was learned, the graph after each pass, and what to try next.")
    console.print('Next: "Write a pass" in the documentation, docs/write-a-pass.md of the sources; `graphad passes` lists those there are.')
    return 0


def _train(model: Model, test_program: Program, digits: Digits, epochs: int) -> tuple[History, Results]:
    scope = Scope()
    # Each epoch has an order of its own, the same in each run of the demo.
    seeds = iter(range(epochs))
    history = train(model.cost, lambda: list(digits.batches(next(seeds))), epochs, {"accuracy": model.accuracy}, scope=scope)
    feed = {"image": digits.test_images, "label": digits.test_labels}
    (logits,) = Executor().run(test_program, feed=feed, fetch_list=[model.logits], scope=scope)
    return history, Results(digits.test_images, digits.test_labels[:, 0], np.argmax(logits, axis=1), len(digits.labels), epochs)


def _same(graph: Graph) -> Sizes:
    """How many operators and values a graph has, for what did not change it."""
    ops, values = len(graph.ops), len(graph.values)
    return (ops, ops), (values, values)


def _summary(name: str) -> str:
    """The first line that says what a pass does."""
    kind = PASSES.get(name)
    return "" if kind is None else kind.summary()


def _table(steps: list[Step]) -> Table:
    table = Table(title="from forward to training program, pass by pass")
    for column, justify in (("pass", "left"), ("ms", "right"), ("operators", "right"), ("values", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for step in steps:
        table.add_row(step.name, f"{step.seconds * 1e3:.2f}", change(*step.ops), change(*step.values))
    return table
