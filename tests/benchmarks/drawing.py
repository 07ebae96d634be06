"""How long drawings take, how large they are, and how large their text is: python -m tests.benchmarks.drawing

Processor time includes Graphviz. Text is measured as on a screen on which the drawing is 1,600 pixels wide; labels that overlap or
are crossed are counted as the tests of geometry do.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Iterator

import graphad as ga
from graphad.drawing import to_svg
from tests.drawing_geometry import measured

SCREEN, NAME = 1600, 10.0  # pixels; the size of an operator's name, in points


def perceptron(layers: int) -> ga.Graph:
    """Fully connected layers, their gradients and updates; widths differ."""
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        h = ga.layers.data("x", [8])
        for i in range(layers):
            h = ga.layers.fc(h, 8 + i, act="tanh")
        ga.optimizer.SGD(0.1).minimize(ga.layers.mean(h), startup)
    return ga.lower(main)


def transformer(layers: int, width: int = 64, length: int = 16) -> ga.Graph:
    """A transformer's training step."""
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        h = ga.layers.data("x", [length, width])
        for _ in range(layers):
            q, k, v = (ga.layers.fc(h, width, num_flatten_dims=2) for _ in range(3))
            weights = ga.layers.softmax(ga.layers.scale(ga.layers.matmul(q, k, transpose_y=True), scale=width**-0.5))
            attended = ga.layers.fc(ga.layers.matmul(weights, v), width, num_flatten_dims=2)
            h = ga.layers.layer_norm(h + attended, begin_norm_axis=2)
            wide = ga.layers.fc(h, 4 * width, num_flatten_dims=2, act="relu")
            h = ga.layers.layer_norm(h + ga.layers.fc(wide, width, num_flatten_dims=2), begin_norm_axis=2)
        ga.optimizer.Adam(0.001).minimize(ga.layers.mean(h), startup)
    return ga.lower(main)


def flat(count: int) -> ga.Graph:
    """Operators that read what was written a little before: nothing in them repeats."""
    chance, graph = random.Random(0), ga.Graph()
    values = [graph.add_input("x", (3,), "float32")]
    for i in range(count):
        x, y = values[-1] if chance.random() < 0.7 else chance.choice(values[-10:]), chance.choice(values[-30:])
        kind = chance.choice(["tanh", "relu", "exp", "elementwise_add", "elementwise_mul"])
        inputs = {"X": [x], "Y": [y]} if kind.startswith("elementwise") else {"X": [x]}
        values.append(graph.add_value(f"v{i}", (3,), "float32"))
        graph.add_op(kind, inputs, {"Out": values[-1:]})
    return graph


def spent() -> float:
    """Seconds of processor time of this process and of those it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def rows() -> Iterator[str]:
    """A line of the table for each graph."""
    graphs: list[tuple[str, Callable[[], ga.Graph], str]] = [
        ("2 layers, gradients, updates", lambda: perceptron(2), "auto"),
        ("5 layers, gradients, updates", lambda: perceptron(5), "auto"),
        ("nothing repeats", lambda: flat(200), "auto"),
        ("transformer, 12 layers, training step", lambda: transformer(12), "auto"),
        ("nothing repeats", lambda: flat(2000), "auto"),
        ('the same, `fold="none"`', lambda: flat(2000), "none"),
        ("nothing repeats", lambda: flat(10_000), "auto"),
        ("transformer, 170 layers, training step", lambda: transformer(170), "auto"),
    ]
    for what, make, fold in graphs:
        graph = make()
        start = spent()
        svg = to_svg(graph, fold=fold)
        seconds, found = spent() - start, measured(svg)
        width = float(svg.split('width="')[1].split("pt")[0])
        nodes, size = svg.count('class="node'), f"{width:.0f} x {found.area / width:.0f}"
        text = f"{NAME * SCREEN / width:.1f} px"
        bad = len(found.overlaps) + len(found.crossed)
        yield f"| {len(graph.ops):,} | {what} | {seconds:.1f} s | {nodes:,} | {size} | {len(svg) / 1000:.0f} kB | {text} | {bad} |"


def main() -> None:
    """Print the table."""
    print("| operators | | processor time | nodes drawn | points | file | names, 1,600 px wide | labels not free |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
