"""A recurrent network that reads handwritten digits row by row, written with ``while_loop`` and with ``StaticRNN``.

python docs/examples/digits_rnn.py                  trains both; prints on how many digits it has not seen each is right
python docs/examples/digits_rnn.py --draw FOLDER    draws the graph of the loop, and the graph with its gradient
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import graphad as ga
from graphad import layers

Array = NDArray[Any]
Feed = dict[str, Array]
Recurrence = Callable[[ga.Variable], Any]

ROWS, WIDTH, HIDDEN, CLASSES = 8, 8, 64, 10
BATCH, TEST_DIGITS = 32, 360


# -- two ways to write the recurrence: rows [8, batch, hidden] -> state [batch, hidden] ----------


def by_while_loop(rows: ga.Variable) -> Any:
    """A loop over a counter and a state, with an array from which the body reads row by row."""
    array = layers.tensor_to_tensor_array(rows)

    def body(i: ga.Variable, state: ga.Variable) -> list[ga.Variable]:
        state = layers.tanh(layers.array_read(array, i) + layers.fc(state, HIDDEN, bias_attr=False))
        return [layers.increment(i), state]

    start = layers.fill_any_like(layers.array_read(array, 0), value=0.0)
    _, state = layers.while_loop(lambda i, state: layers.less_than(i, ROWS), body, [layers.zeros([1], "int64"), start])
    return state


def by_static_rnn(rows: ga.Variable) -> Any:
    """A network that is run for each row, with a memory."""
    rnn = layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(rows)
        memory = rnn.memory(shape=[-1, HIDDEN], batch_ref=row)
        state = layers.tanh(row + layers.fc(memory, HIDDEN, bias_attr=False))
        rnn.update_memory(memory, state)
        rnn.step_output(state)
    last = layers.slice(rnn(), axes=[0], starts=[ROWS - 1], ends=[ROWS])
    return layers.squeeze(last, axes=[0])


WAYS: dict[str, Recurrence] = {"while_loop": by_while_loop, "StaticRNN": by_static_rnn}


# -- model ---------------------------------------------------------------------------------------


class Model(NamedTuple):
    """The programs, the cost, and the share of right answers."""

    program: ga.Program
    startup: ga.Program
    cost: ga.Variable
    accuracy: ga.Variable


def build(recurrence: Recurrence) -> Model:
    """A layer on every row, the recurrence, and a layer on the last state."""
    program, startup = ga.Program(), ga.Program()
    program.random_seed = startup.random_seed = 1
    with ga.program_guard(program, startup):
        image = layers.data("image", [ROWS, -1, WIDTH])
        label = layers.data("label", [1], dtype="int64")
        state = recurrence(layers.fc(image, HIDDEN, num_flatten_dims=2))
        logits = layers.fc(state, CLASSES)
        cost = layers.mean(layers.softmax_with_cross_entropy(logits, label))
        return Model(program, startup, cost, layers.accuracy(logits, label))


def train(model: Model, digits: tuple[Feed, Feed], epochs: int) -> tuple[float, float]:
    """The cost at the end, and the share of held-out digits that are read right."""
    training, held_out = digits
    test_program = model.program.clone(for_test=True)
    ga.optimizer.Adam(learning_rate=0.005).minimize(model.cost, model.startup)
    scope, seeds = ga.Scope(), iter(range(epochs))
    history = ga.train(model.cost, reader=lambda: list(batches(training, next(seeds))), epochs=epochs, scope=scope)
    (accuracy,) = ga.Executor().run(test_program, feed=held_out, fetch_list=[model.accuracy], scope=scope)
    return float(np.mean(history.cost[-10:])), float(np.mean(accuracy))


# -- data ----------------------------------------------------------------------------------------


def load() -> tuple[Feed, Feed]:
    """The 1,797 digits, 8 x 8 values from 0 to 1, rows first: those to train on, and those held out."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images = (found.images[order] / 16.0).astype("float32").transpose(1, 0, 2)
    labels = found.target[order].astype("int64").reshape(-1, 1)
    parts = slice(TEST_DIGITS, None), slice(None, TEST_DIGITS)
    training, held_out = ({"image": images[:, part], "label": labels[part]} for part in parts)
    return training, held_out


def batches(digits: Feed, seed: int) -> Iterator[Feed]:
    """Minibatches in a new order."""
    order = np.random.default_rng(seed).permutation(len(digits["label"]))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        yield {"image": digits["image"][:, chosen], "label": digits["label"][chosen]}


# -- command line --------------------------------------------------------------------------------


def draw(folder: Path) -> None:
    """Draw the graph of the loop, and the graph with its gradient."""
    folder.mkdir(parents=True, exist_ok=True)
    model = build(by_while_loop)
    ga.draw(model.program, folder / "digits-rnn.svg")
    ga.append_backward(model.cost)
    ga.draw(model.program, folder / "digits-rnn-backward.svg")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="A recurrent network that reads handwritten digits row by row.")
    parser.add_argument("--epochs", type=int, default=20, help="how often to go through the digits (%(default)s)")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="draw the graphs into a folder instead")
    options = parser.parse_args()
    if options.draw is not None:
        draw(options.draw)
        return
    digits = load()
    for name, recurrence in WAYS.items():
        cost, accuracy = train(build(recurrence), digits, options.epochs)
        print(f"{name}: cost {cost:.4f}, right on {accuracy:.1%} of {TEST_DIGITS} digits it has not seen")


if __name__ == "__main__":
    main()
