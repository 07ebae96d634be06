"""Witnesses: a program, arrays and passes, and what comes of them.

What is wrong with a pass is judged without ``graphad.testing``, which is what the corpus measures: the program as written runs step by
step; the program after the passes has to give the same, and gradients that agree with central differences.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.backward import gradients
from graphad.errors import NoValue, PassError
from graphad.execution import Executor, Scope
from graphad.ir import Graph, lower, schedule
from graphad.ops import lookup
from graphad.program import Block, Program
from graphad.program.operator import check
from graphad.rewriting import Pass, Pipeline
from graphad.settings import SETTINGS
from graphad.types import TENSOR

Array = NDArray[Any]
Values = dict[str, Any]
LOSS = "$loss"
FIND = "find-op-path{targets=[$loss]}"
BACKWARD = f"{FIND}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars"
"""The text of the pipeline that differentiates a loss."""
_HEAD = re.compile(r"block (\d+)(?: in (\d+))?:")
_STEP = 1e-6
MARKS = "scope of marks"  # under which an outcome says whether they are wrong
VIEWS = ("reshape", "reshape2", "assign")  # operators whose output may lie in the memory of their input
_CLOSE = 1e-4  # how near gradients are to central differences, relatively


@dataclass(frozen=True)
class Witness:
    """A program on which a pass is wrong, or right.

    Args:
        text: lines ``name: type`` (or ``param name: type``) and operators; ``block 1 in 0:`` begins another block.
        what: the pass or pipeline on trial, or what makes it; ``$loss`` stands for ``loss``.
        prepare: the pipeline that runs before it and is right.
        feeds: arrays by name; what is not named is drawn, what is None is not fed.
        loss: the scalar that is differentiated; empty if there is none.
        sources: the names whose gradients count after forward passes.
        targets: the names that the program is lowered with; None: the final values that no operator reads.
        fetch: further names that are compared.
        runs: how often the program runs in one scope.
        twice: whether the passes run a second time, after which nothing may have changed.
        tolerance: by how much values may differ, relatively.
        free: whether nothing is to be compared with the program as written, since the passes change what it computes.
        refused: whether a right pass refuses the program with a ``PassError``, and so leaves it as it is.
        marks: whether it counts that operators overwrite what is still used, as ``inplace`` marks them.
    """

    text: str
    what: str | Pass | Callable[[], Pass] = ""
    prepare: str = ""
    feeds: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "loss"
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None
    fetch: tuple[str, ...] = ()
    runs: int = 1
    twice: bool = False
    tolerance: float = 1e-9
    free: bool = False
    refused: bool = False
    marks: bool = False

    def program(self) -> Program:
        """The program, with the types of what its operators write."""
        program = Program.parse(written_out(self.text))
        program.random_seed = 7
        _infer(program.global_block())
        return program

    def arrays(self, program: Program) -> tuple[Values, Values]:
        """The feeds, and the initial content of the scope."""
        feeds: Values = {}
        params: Values = {}
        for value in lower(program).inputs:
            if value.kind == TENSOR and value.shape is not None and value.dtype is not None and self.feeds.get(value.name, ()) is not None:
                array = self._array(value.name, value.shape, value.dtype)
                (params if value.persistable else feeds)[value.name] = array
        return feeds, params

    def _array(self, name: str, shape: Sequence[int], dtype: str) -> Array:
        if name in self.feeds:
            return np.asarray(self.feeds[name], dtype)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        shape = tuple(2 if extent == -1 else extent for extent in shape)
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        return rng.integers(0, 3, shape).astype(dtype) if "int" in dtype else np.round(rng.uniform(0.2, 1.5, shape), 3).astype(dtype)

    def passes(self) -> Pass:
        """The pass on trial."""
        what = self.what
        if isinstance(what, str):
            return Pipeline.parse(what.replace(LOSS, self.loss))
        return what if isinstance(what, Pass) else what()


def written_out(text: str) -> str:
    """The text of a program, from a witness's short form."""
    blocks: list[tuple[str, list[str]]] = [("block 0", [])]
    for line in filter(None, map(str.strip, text.strip().splitlines())):
        head = _HEAD.fullmatch(line)
        if head:
            blocks.append((line.rstrip(":"), []))
        else:
            operator = "->" in line or line.startswith(("param ", "print("))
            blocks[-1][1].append(line if operator else f"var {line}")
    return "program {\n" + "".join(f"{head} {{\n" + "\n".join(lines) + "\n}\n" for head, lines in blocks) + "}\n"


def _infer(block: Block) -> None:
    for op in block.ops:
        for inner in (value for value in op.attrs.values() if isinstance(value, Block)):
            _infer(inner)
        check(op, lookup(op.type))


# -- what comes of it ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """A witness made ready before anything is changed in graphad; ``changed`` gets whether the passes changed its graph."""

    witness: Witness
    program: Program
    feeds: Values
    params: Values
    changed: list[bool] = field(default_factory=list)

    @classmethod
    def of(cls, witness: Witness) -> Trial:
        """The witness's program and arrays."""
        program = witness.program()
        return cls(witness, program, *witness.arrays(program))

    def outcome(self) -> Values:
        """The results of the program after the passes: values by name, the contents of the scope, gradients.

        Raises:
            Exception: a pass fails, the graph is not valid or the program does not run.
            AssertionError: a second run of the passes changes the graph.
        """
        witness, SETTINGS.reproducers = self.witness, ""
        graph = lower(self.program, None if witness.targets is None else list(witness.targets))
        if witness.prepare:
            Pipeline.parse(witness.prepare.replace(LOSS, witness.loss)).run(graph)
        passes = witness.passes()
        before = str(graph)
        changed = self._run(passes, graph)
        assert changed or str(graph) == before, "the pass says that it changed nothing, and did"
        self.changed.append(changed)
        names = [value.name for value in graph.targets] + list(witness.fetch)
        after = schedule(graph)
        if witness.twice:
            text = str(graph)
            assert not passes.run(graph), f"a second run changes the graph to\n{graph}"
            assert str(graph) == text, f"a second run changes the graph, and says that it did not, to\n{graph}"
        marks = {MARKS: [np.array(overwrites_what_is_used(after, names))]} if witness.marks else {}
        return self.ran(after, names) | self.differentiated(after) | marks

    def _run(self, passes: Pass, graph: Graph) -> bool:
        try:
            return bool(passes.run(graph))
        except PassError:
            if not self.witness.refused:
                raise
            return False

    def written(self, names: Sequence[str]) -> Values:
        """The results of the program as it is written."""
        block = self.program.global_block()
        return self.ran(self.program, [name for name in names if block.has_var(name) and not name.startswith("scope ")])

    def ran(self, program: Program, names: Sequence[str]) -> Values:
        """The results of a program, and the content of the scope after it."""
        scope = Scope()
        for name, array in self.params.items():
            scope.set(name, array)
        block = program.global_block()
        feeds = {name: array for name, array in self.feeds.items() if block.has_var(name)}
        executor, results = Executor(), []
        for _ in range(self.witness.runs):
            results.append(executor.run(program, feeds, list(dict.fromkeys(names)), scope))
        values = {name: [run[i] for run in results] for i, name in enumerate(dict.fromkeys(names))}
        return values | {f"scope {name}": [np.array(array)] for name, array in scope.arrays.items()}

    def differentiated(self, program: Program) -> Values:
        """Gradients of a forward program, made by the backward passes; the program stays as it is."""
        wanted, program = self.witness.sources, program.clone()
        if not wanted:
            return {}
        block = program.global_block()
        there = [name for name in wanted if block.has_var(name)]
        results = gradients([block.var(self.witness.loss)], [block.var(name) for name in there])
        names = {name: gradient.name for name, gradient in zip(there, results, strict=True) if gradient is not None}
        values = self.ran(program, list(names.values()))
        arrays = {**self.feeds, **self.params}
        return {f"{name}@GRAD": values[names[name]] if name in names else [np.zeros_like(arrays[name])] for name in wanted}

    def central_differences(self, name: str) -> Array:
        """The gradient of the loss with respect to a name, from values of the program as written."""
        start = np.asarray({**self.feeds, **self.params}[name], "float64")
        gradient = np.zeros_like(start)
        for index in np.ndindex(start.shape):
            ends = []
            for step in (_STEP, -_STEP):
                moved = start.copy()
                moved[index] += step
                ends.append(float(self._loss_at(name, moved)))
            gradient[index] = (ends[0] - ends[1]) / (2 * _STEP)
        return gradient

    def _loss_at(self, name: str, array: Array) -> Any:
        feeds, params = ({key: array if key == name else old for key, old in each.items()} for each in (self.feeds, self.params))
        values = Trial(self.witness, self.program, feeds, params).ran(self.program, [self.witness.loss])
        return values[self.witness.loss][0].reshape(())[()]


def overwrites_what_is_used(program: Program, names: Sequence[str]) -> bool:
    """Whether an operator of a straight program is marked to overwrite an input whose memory is fed, kept, requested or read later."""
    block, memory, used = program.global_block(), dict[str, int](), set[int]()
    rows = []
    for number, op in enumerate(block.ops):
        read = [memory.setdefault(name, -1 - len(memory)) for name in op.input_names()]
        rows.append((op, read))
        memory.update((name, read[0] if op.type in VIEWS else number) for name in op.output_names())
    used.update(memory[name] for name in {*names, *(v.name for v in block.vars.values() if v.persistable)} if name in memory)
    for op, read in reversed(rows):
        if op.attrs.get("inplace") and (read[0] < 0 or read[0] in used):
            return True
        used.update(read)
    return False


# -- how two differ ------------------------------------------------------------------------------


def difference(one: Values, other: Values, tolerance: float) -> str:
    """How two outcomes differ, empty if they do not."""
    for name, arrays in one.items():
        if name not in other:
            return f"{name} is gone"
        for a, b in zip(arrays, other[name], strict=True):
            if not _same(a, b, tolerance):
                return f"{name} is {_shown(b)}, not {_shown(a)}"
    return ""


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        return type(one) is type(other) and len(one) == len(other) and all(_same(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    scale = float(np.abs(one[np.isfinite(one)]).max(initial=1e-3))
    return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def _shown(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)} {value.tolist()}" if isinstance(value, np.ndarray) else str(value)


def judged(trial: Trial) -> tuple[Values, str]:
    """The values of a witness, and the first that disagrees with its program as written; empty if all agree."""
    values = trial.outcome()
    return values, next(_disagreements(trial, values), "")


def _disagreements(trial: Trial, values: Values) -> Iterator[str]:
    witness = trial.witness
    if witness.marks and values[MARKS][0]:
        yield "an operator overwrites what is still used"
    if witness.free:
        return
    try:
        expected = trial.written([name for name in values if not name.startswith("scope ")])
    except NoValue:
        expected = {}
    common = {name: value for name, value in expected.items() if name in values}
    text = difference(common, values, witness.tolerance)
    if text:
        yield text
    if witness.sources:
        text = difference(trial.differentiated(trial.program), values, max(_CLOSE, witness.tolerance))
        if text:
            yield text
        return
    for name, array in {**trial.feeds, **trial.params}.items():
        gradient = values.get(f"{name}@GRAD")
        if gradient is None or f"{name}@GRAD" in expected or not witness.loss or array.dtype != "float64":
            continue
        expected_gradient = trial.central_differences(name)
        if not _same(expected_gradient, np.asarray(gradient[-1], "float64"), max(_CLOSE, witness.tolerance)):
            yield f"{name}@GRAD is {_shown(gradient[-1])}, central differences give {_shown(expected_gradient)}"
