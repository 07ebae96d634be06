"""Random programs in which rules find something: ``planted_programs(rules)``.

What a rule looks for hardly ever stands in a random program, so it is written there: the operators of its ``before``, over data of
shapes and dtypes that it applies to, with other operators that read its inputs, what lies inside it, and its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from graphad.ops import OpDef
from graphad.program import Block, Program, Variable
from graphad.rewriting import PatternRule, Rule
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.rule_check import applicable
from graphad.rewriting.rule_settings import Drawn
from graphad.rewriting.terms import Constant, Scalar, Several, Term
from graphad.testing.cases import Array, Case
from graphad.testing.operators import Draw
from graphad.types import FLOATS, TensorType

SEEDS = 10_000


@st.composite
def planted_programs(draw: Draw, rules: Sequence[Rule]) -> Case:
    """Programs with what one of the rules looks for, once or twice, and a scalar loss if it is about floating-point numbers.

    Args:
        rules: of those made with ``@rewrite``, at least one.
    """
    patterns = [rule for rule in rules if isinstance(rule, PatternRule)]
    rule: PatternRule = draw(st.sampled_from(patterns))
    drawn = applicable(rule, np.random.default_rng(draw(st.integers(0, SEEDS))), rule.example)
    planting = _Planting(drawn or Drawn())
    if drawn is not None:
        for _ in range(draw(st.integers(1, 2))):
            results = planting.plant(rule.before)
        planting.read_some([name for names in planting.inside for name in names if draw(st.booleans())])
        planting.read_some([name for name in results if draw(st.booleans())])
    return planting.case()


class _Planting(Evaluation):
    """Terms as variables of a program."""

    def __init__(self, drawn: Drawn) -> None:
        super().__init__(drawn)
        self.program = Program()
        self.block: Block = self.program.global_block()
        self.feeds: dict[str, Array] = {}
        self.leaves: dict[Term, Any] = {}
        self.inside: list[list[str]] = []
        self.finals: list[str] = []

    def plant(self, before: Sequence[Term]) -> list[str]:
        """Write a pattern's operators, over the same inputs each time; return the names of its results."""
        self.done.clear()
        names = [self.of(term) for term in before]
        self.finals += names
        return names

    def read_some(self, names: Sequence[str]) -> None:
        """Let other operators read some values."""
        for name in names:
            self.finals.append(self._append("assign", {"X": [name]}, {}))

    def case(self) -> Case:
        """The program, with a loss over what is floating-point."""
        means = [self._append("mean", {"X": [name]}, {}) for name in dict.fromkeys(self.finals) if self._var(name).dtype == "float64"]
        loss = self._append("sum", {"X": means}, {}) if means else ""
        return Case(self.program, loss, self.feeds, {})

    # -- as an evaluation ------------------------------------------------------------------------

    def leaf(self, term: Term) -> Any:
        if term not in self.leaves:
            self.leaves[term] = [self._data(a) for a in self.found.lists[term]] if isinstance(term, Several) else self._leaf(term)
        return self.leaves[term]

    def _leaf(self, term: Term) -> str:
        array = self.found.values[term]
        if not isinstance(term, Constant):
            return self._data(array)
        attrs = {"shape": list(array.shape), "value": float(array.flat[0]), "dtype": array.dtype.name}
        return self._append("fill_constant", {}, attrs)

    def knows(self, constant: Constant) -> bool:
        return True

    def apply(self, row: OpDef, inputs: Slots, attrs: Mapping[str, Any]) -> Slots:
        outputs = {slot.name: [self._fresh() for _ in range(self._count(row, slot.name, inputs, attrs))] for slot in row.outputs.values()}
        outputs = {slot: names for slot, names in outputs.items() if not row.outputs[slot].optional}
        self.block.append_op(type=row.type, inputs=inputs, outputs=outputs, attrs=dict(attrs))
        self.inside.append([name for names in outputs.values() for name in names])
        return outputs

    def _count(self, row: OpDef, slot: str, inputs: Slots, attrs: Mapping[str, Any]) -> int:
        if not row.outputs[slot].variadic:
            return 1
        types = {s: [TensorType(self._var(n).shape, self._var(n).dtype) for n in names] for s, names in inputs.items()}
        return len(row.infer_types(types, attrs)[slot])

    def filled(self, number: Any, like: Any) -> Any:
        raise AssertionError("a constant is a leaf of its own")

    def scalar(self, value: Any) -> Any:
        value = value.value(self.found) if isinstance(value, Scalar) else value
        return list(value) if isinstance(value, tuple) else value

    # -- variables -------------------------------------------------------------------------------

    def _data(self, array: Array) -> str:
        name = self._fresh()
        floating = array.dtype.name in FLOATS
        self.block.create_var(name=name, shape=list(array.shape), dtype=array.dtype.name, stop_gradient=not floating)
        self.feeds[name] = np.array(array)
        return name

    def _append(self, op_type: str, inputs: Slots, attrs: Mapping[str, Any]) -> str:
        name = self._fresh()
        self.block.append_op(type=op_type, inputs=inputs, outputs={"Out": name}, attrs=dict(attrs))
        return name

    def _fresh(self) -> str:
        return self.program.names.generate("v")

    def _var(self, name: str) -> Variable:
        return self.block.var(name)
