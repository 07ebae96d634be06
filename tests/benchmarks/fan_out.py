"""Every pass, lower and schedule on one value that very many operators read: the time an operator takes must not depend on how many.

    w ─▶ scale, tanh, mul ... (n of them) ─▶ sum ─▶ loss        also equal operators, dead ones, chains that read w, and their gradients

Target: what an operator takes among 8,000 readers is at most 1.3 times what it takes among 500.

    python -m tests.benchmarks.fan_out [--few 500] [--many 8000] [PASS ...]
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from functools import partial

import graphad as ga
from graphad.ir.verify import verify
from graphad.rewriting import Pass, Pipeline, verification

FEW, MANY, TARGET = 500, 8_000, 1.3
Stage = Callable[[], object]


# -- programs --------------------------------------------------------------------------------------


def readers(count: int) -> ga.Program:
    """A parameter that ``count`` operators read: unlike and equal ones, dead ones, redexes of rules; chains; the loss is of their sum."""
    main = ga.Program()
    block = main.global_block()
    block.create_parameter("w", [4])
    block.create_var("learning_rate_0", [1], "float32", persistable=True, stop_gradient=True)
    block.create_var("x", [-1, 4], "float32", stop_gradient=True)
    names = ["x"]
    for i in range(count // 8):
        for type_, inputs, attrs in (
            ("scale", {"X": "w"}, {"scale": 2.0 + i}),
            ("tanh", {"X": "w"}, {}),
            ("elementwise_mul", {"X": "x", "Y": "w"}, {}),
            ("scale", {"X": "w"}, {"scale": 1.0}),
            ("elementwise_add", {"X": names[-1], "Y": "w"}, {}),
            ("elementwise_sub", {"X": names[-1], "Y": "w"}, {}),
            ("relu", {"X": "w"}, {}),
        ):
            names.append(f"y{len(names)}")
            block.append_op(type_, inputs, {"Out": names[-1]}, attrs)
        block.append_op("exp", {"X": "w"}, {"Out": f"dead{i}"})
    block.append_op("sum", {"X": [name for name in names if block.var(name).shape == (-1, 4)]}, {"Out": "rows"})
    block.append_op("sum", {"X": [name for name in names if block.var(name).shape == (4,)]}, {"Out": "flat"})
    block.append_op("elementwise_add", {"X": "rows", "Y": "flat"}, {"Out": "total"})
    block.append_op("mean", {"X": "total"}, {"Out": "loss"})
    return main


def chained(count: int) -> ga.Program:
    """One parameter that every operator of a chain reads."""
    main = ga.Program()
    block = main.global_block()
    block.create_parameter("w", [4])
    block.create_var("learning_rate_0", [1], "float32", persistable=True, stop_gradient=True)
    block.create_var("x0", [-1, 4], "float32", stop_gradient=True)
    for i in range(count):
        block.append_op("elementwise_mul", {"X": f"x{i}", "Y": "w"}, {"Out": f"x{i + 1}"})
    block.append_op("mean", {"X": f"x{count}"}, {"Out": "loss"})
    return main


def differentiated(make: Callable[[int], ga.Program], count: int) -> ga.Program:
    main = make(count)
    with ga.program_guard(main):
        ga.append_backward(main.global_block().var("loss"))
    return main


def trained(make: Callable[[int], ga.Program], count: int) -> ga.Program:
    main = make(count)
    with ga.program_guard(main):
        ga.optimizer.SGD(0.1).minimize(main.global_block().var("loss"))
    return main


# -- stages ----------------------------------------------------------------------------------------

# Pipelines, of which the last pass is measured, by what they run on; the rest of the library is measured on both others.
BACKWARD = (
    "find-op-path{targets=[loss]}",
    "find-op-path{targets=[loss]}, create-grad-ops",
    "find-op-path{targets=[loss]}, create-grad-ops, prune-no-grad",
    "find-op-path{targets=[loss]}, create-grad-ops, prune-no-grad, accumulate-grads",
    "find-op-path{targets=[loss]}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars",
    "find-op-path{targets=[loss]}, create-grad-ops, prune-no-grad, accumulate-grads, clip-errors",
    "jvp{targets=[loss]}",
)
ON_GRADIENTS = (
    "find-op-path{targets=[w@GRAD]}, expand-grad-ops",
    "canonical-order",
    "constant-folding",
    "cse",
    "dead-code",
    "simplify",
    "fixpoint(canonical-order, simplify, constant-folding, cse, dead-code)",
    "nested(cse)",
    "fold-branches",
    "hoist-invariants",
    "inline-net",
    "outline-repeated",
    "unroll-while",
    "fuse-elementwise",
    "fold-batch-norm",
    "checkpoint-while",
    "in-place",
    "reorder",
    "annotate-cost",
    "probe-numerics",
    "recompute",
    "mixed-precision",
    "clip-gradients{bound=0.1}",
    "decay-weights{kind=l2, coefficient=0.1}",
    "optimize-parameters",
    "gradient-accumulation",
)
ON_TRAINING = (
    "data-parallel{ranks=2}",
    "data-parallel{ranks=2}, bucket-all-reduce",
    "data-parallel{ranks=2}, shard-optimizer",
    'shard{mesh="data=2"}',
    'shard{mesh="data=2"}, partition',
    "pipeline-split{stages=1, micro_batches=2}",
)
PROGRAMS: dict[str, Callable[[int], ga.Program]] = {"readers": readers, "chain": chained}


def prepared(text: str, program: ga.Program) -> tuple[Pass, ga.Graph]:
    """The last pass of a pipeline, and the graph after those before it."""
    *before, last = Pipeline.parse(text).passes
    graph = ga.lower(program, ["loss"])
    for each in before:
        each.run(graph)
    return last, graph


def work(stage: str, program: ga.Program) -> Stage:
    """The function that runs a stage on the results of the earlier stages."""
    if stage == "lower":
        return partial(ga.lower, program, ["loss"])
    if stage == "schedule":
        return partial(ga.schedule, ga.lower(program, ["loss"]))
    if stage == "clone":
        return ga.lower(program, ["loss"]).clone
    if stage == "verify":
        return partial(verify, ga.lower(program, ["loss"]))
    last, graph = prepared(stage, program)
    return partial(last.run, graph)


def measured(stage: str, make: Callable[[int], ga.Program], count: int, repeat: int = 3) -> float:
    """Seconds that a stage takes, at best."""
    seconds = []
    program = make(count)
    for _ in range(repeat):
        run = work(stage, program)
        gc.collect()
        gc.disable()
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
        gc.enable()
    return min(seconds)


def rows(names: list[str]) -> list[tuple[str, str, Callable[[int], ga.Program]]]:
    """Stages with what they run on: its name, and what makes it."""
    own = ("lower", "verify", "schedule", "clone")
    result = []
    for title, make in PROGRAMS.items():
        on = ((title, make, BACKWARD), (f"{title} with gradients", partial(differentiated, make), (*own, *ON_GRADIENTS)))
        result += [
            (stage, what, each)
            for what, each, texts in (*on, (f"{title}, trained", partial(trained, make), ON_TRAINING))
            for stage in texts
        ]
    return [row for row in result if not names or any(name in row[0] for name in names)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="measure these alone")
    parser.add_argument("--few", type=int, default=FEW)
    parser.add_argument("--many", type=int, default=MANY)
    options = parser.parse_args(arguments)
    print(f"{'microseconds a reader among':66} {options.few:>8} {options.many:>8}    ratio")
    with verification(False):
        for stage, what, make in rows(options.names):
            few, many = (measured(stage, make, count, repeat) / count * 1e6 for count, repeat in ((options.few, 5), (options.many, 2)))
            print(f"{stage if '(' in stage else stage.split(', ')[-1]:44} {what:21} {few:8.1f} {many:8.1f} {many / few:8.2f}", flush=True)


if __name__ == "__main__":
    main()
