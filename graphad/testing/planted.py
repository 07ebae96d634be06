"""Random programs in which rules find something: ``planted_program``.

What a rule looks for hardly ever occurs in a random program, so it is written there: the operators of its ``before``, over data of
shapes and dtypes that it applies to, with other operators that read its inputs, what lies inside it, and its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphad.ops import OpDef
from graphad.program import Program, Variable
from graphad.rewriting import PatternRule, Rule
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.pattern import Constant, Result, Scalar, Several, Term
from graphad.rewriting.rule_check import applicable
from graphad.rewriting.rule_inputs import Drawn
from graphad.testing.cases import KINDS, MIXED, NON_FINITE, Case, Choices, array_of, outside_reads, outside_writes
from graphad.testing.open_extents import unknown_extent
from graphad.types import FLOATS, Array, TensorType

SEEDS = 10_000
TURNS = ("float32", "int64", "float64", "int32", "float32", "bool")  # dtypes that a rule is planted in, one after another


def planted_program(choices: Choices, rules: Sequence[Rule]) -> Case:
    """Programs with what one of the rules looks for, once or twice, and a scalar loss if it is about floating-point numbers.

    It may be in a loop's body or a branch; the second one may share inner operators with the first; and most of the programs have
    numbers at which rewrites go wrong: equal ones, kinks, zeros of both signs, large and tiny ones, nan and infinities.

    Args:
        rules: of those made with ``@rewrite``, at least one.
    """
    patterns = [rule for rule in rules if isinstance(rule, PatternRule)]
    return planted_with_all(choices, [(choices.one_of(patterns), choices.one_of(TURNS))], exact=all(rule.exact for rule in patterns))


def planted_with_all(choices: Choices, rules: Sequence[tuple[PatternRule, str]], exact: bool, hard: bool = False) -> Case:
    """A program as above, with what each of several rules looks for, as far as shapes and dtypes are found that they apply to.

    Args:
        choices: where the decisions come from.
        rules: what is planted, each with the dtype that is tried first: left to chance, most would be of floats.
        exact: whether all rules on trial keep every bit: others may differ where something is nan, infinite or out of range, which
            means hide, and single elements do not.
        hard: whether floating-point numbers are nan, infinite, zero and ordinary side by side, where the rules are exact. Left to chance,
            many a rule would meet nan only after thousands of programs.
    """
    planting = _Planting(Drawn(), choices, exact)
    for rule, dtype in rules:
        instance = applicable(rule, np.random.default_rng(choices.integer(0, SEEDS)), rule.example, dtype)
        if instance is not None:
            planting.begin(instance)
            planting.plant_some(rule.before)
    if planting.finals and hard and exact:
        planting.feed(MIXED)
    elif planting.finals and not choices.chance(4):
        planting.harden()
    case = planting.case()
    unknown_extent(choices, case.program, case.feeds)
    return case


class _Planting(Evaluation[str]):
    """Terms as variables of a program."""

    found: Drawn

    def __init__(self, drawn: Drawn, choices: Choices, exact: bool) -> None:
        super().__init__(drawn)
        self.exact = exact
        self.choices = choices
        self.program = Program()
        self.root = self.block = self.program.global_block()
        self.feeds: dict[str, Array] = {}
        self.data: dict[Term, list[str]] = {}
        self.inside: list[list[str]] = []
        self.finals: list[str] = []

    def begin(self, drawn: Drawn) -> None:
        """Go on with another pattern, over data of its own."""
        self.found, self.data, self.done, self.inside = drawn, {}, {}, []

    def plant_some(self, before: Sequence[Term]) -> None:
        """Write a pattern's operators once or twice, perhaps in a block, and let others read some of what they give."""
        first = len(self.finals)
        for _ in range(2 if self.choices.chance(3) else 1):
            if self.choices.chance(3):
                self.plant_in_block(before)
            else:
                self.plant(before, share=self.choices.boolean())
        self.read_some([name for names in self.inside for name in names if self.choices.boolean()])
        self.read_some([name for name in self.finals[first:] if self.choices.boolean()])

    def plant(self, before: Sequence[Term], share: bool = False) -> list[str]:
        """Write a pattern's operators, over the same inputs each time; return the names of its results.

        Args:
            before: the pattern.
            share: whether only the last operators are written again, over what the others gave the last time.
        """
        last = {term.call for term in before if isinstance(term, Result)}
        # ``done`` has what each call of the pattern wrote: calls that are left in it are not written again.
        self.done = {call: outputs for call, outputs in self.done.items() if share and call not in last}
        names = [self.of(term) for term in before]
        self.finals += names
        return names

    def plant_in_block(self, before: Sequence[Term]) -> None:
        """Write a pattern's operators into the body of a loop of 0 to 3 trips, or into a branch; pass the results out."""
        loop, trips = self.choices.boolean(), self.choices.one_of((1, 3, 0, 2))
        # For a branch too: it is taken where ``0 < trips``.
        counter, limit = self._number(0), self._number(trips)
        condition = self._append("less_than", {"X": [counter], "Y": [limit]}, {})
        data, finals, names_inside = dict(self.data), list(self.finals), list(self.inside)
        self.done = {}
        self.block = self.program.create_block()
        names = self.plant(before)
        results = [self._result_around(name) for name in dict.fromkeys(names)]
        if loop:
            self.block.append_op("increment", {"X": counter}, {"Out": counter}, {"step": 1.0})
            self.block.append_op("less_than", {"X": counter, "Y": limit}, {"Out": condition})
        body, self.block = self.block, self.root
        # Back to the block around: ``create_block`` made the new one current.
        self.program.rollback()
        # What was known before holds again outside; names of the block are not there.
        self.data, self.finals, self.inside, self.done = data, [*finals, *results], names_inside, {}
        read_names, written_names = [n for n in outside_reads(body) if n != condition], [n for n in outside_writes(body) if n != condition]
        if loop:
            slots = {"Condition": condition, "X": read_names}
            self.root.append_op("while", slots, {"Out": [*written_names, condition], "StepScopes": self._fresh()}, {"sub_block": body})
        else:
            slots = {"Cond": condition, **({"Input": read_names} if read_names else {})}
            self.root.append_op("conditional_block", slots, {"Out": written_names, "Scope": self._fresh()}, {"sub_block": body})

    def _result_around(self, name: str) -> str:
        """A variable around the block that takes a result; before, it is zero."""
        # Where the block does not run, the zeros stay: the name has a value in any case.
        var, out = self._var(name), self._fresh()
        self.root.append_op("fill_constant", {}, {"Out": out}, {"shape": list(var.shape), "value": 0.0, "dtype": var.dtype})
        self.block.append_op("assign", {"X": name}, {"Out": out})
        return out

    def _number(self, number: int) -> str:
        return self._append("fill_constant", {}, {"shape": [1], "value": float(number), "dtype": "int64"})

    def harden(self) -> None:
        """Feed numbers at which rewrites go wrong, where they are of floating point."""
        self.feed(self.choices.one_of((*KINDS, NON_FINITE, NON_FINITE, *(MIXED,) * (5 * self.exact))))

    def feed(self, kind: str) -> None:
        """Feed numbers of a kind, where they are of floating point."""
        for name, array in self.feeds.items():
            if array.dtype.kind == "f":
                self.feeds[name] = array_of(self.choices, array.shape, array.dtype.name, kind)

    def read_some(self, names: Sequence[str]) -> None:
        """Let other operators read some values."""
        for name in names:
            self.finals.append(self._append("assign", {"X": [name]}, {}))

    def case(self) -> Case:
        """The program, with a loss over what is floating-point; for exact rules mostly all results are requested, since means hide much.

        For others each mean is: where one rule's result is nan, so is the loss, in which another rule's could be anything.
        """
        floats = [name for name in dict.fromkeys(self.finals) if self._var(name).dtype in FLOATS[1:]]
        # ``sum`` takes one dtype: that of the first result. A mean of nothing is nan, and so would be the loss.
        alike = [name for name in floats if self._var(name).dtype == self._var(floats[0]).dtype]
        means = [self._append("mean", {"X": [name]}, {}) for name in alike]
        parts = [mean for mean, name in zip(means, alike, strict=True) if 0 not in self._var(name).shape] or means
        loss = self._append("sum", {"X": parts}, {}) if means else ""
        # A mean can hide a wrong element by another one, or by rounding.
        requested = self.finals if self.exact else means
        names = () if self.choices.chance(4) else tuple(dict.fromkeys([*requested, *([loss] if loss else [])]))
        return Case(self.program, loss, self.feeds, {}, names)

    # -- as an evaluation ------------------------------------------------------------------------

    def leaf(self, term: Term) -> str:
        if term not in self.data:
            self.data[term] = [self._leaf(term)]
        return self.data[term][0]

    def leaves(self, term: Several) -> list[str]:
        if term not in self.data:
            self.data[term] = [self._data(array) for array in self.found.lists[term]]
        return self.data[term]

    def _leaf(self, term: Term) -> str:
        array = self.found.values[term]
        if not isinstance(term, Constant):
            return self._data(array)
        attrs = {"shape": list(array.shape), "value": float(array.flat[0]) if array.size else 0.0, "dtype": array.dtype.name}
        return self._append("fill_constant", {}, attrs)

    def knows(self, constant: Constant) -> bool:
        return True

    def apply(self, definition: OpDef, inputs: Slots[str], attrs: Mapping[str, object]) -> Slots[str]:
        outputs = {
            slot.name: [self._fresh() for _ in range(self._count(definition, slot.name, inputs, attrs))]
            for slot in definition.outputs.values()
        }
        outputs = {slot: names for slot, names in outputs.items() if not definition.outputs[slot].optional}
        self.block.append_op(type=definition.type, inputs=inputs, outputs=outputs, attrs=dict(attrs))
        self.inside.append([name for names in outputs.values() for name in names])
        return outputs

    def _count(self, definition: OpDef, slot: str, inputs: Slots[str], attrs: Mapping[str, object]) -> int:
        if not definition.outputs[slot].variadic:
            return 1
        types = {s: [TensorType(self._var(n).shape, self._var(n).dtype) for n in names] for s, names in inputs.items()}
        return len(definition.infer_types(types, attrs)[slot])

    def filled(self, number: float, like: str) -> str:
        raise AssertionError("a constant is a leaf of its own")

    def scalar(self, value: object) -> object:
        value = value.value(self.found) if isinstance(value, Scalar) else value
        return list(value) if isinstance(value, tuple) else value

    # -- variables -------------------------------------------------------------------------------

    def _data(self, array: Array) -> str:
        name = self._fresh()
        is_float = array.dtype.name in FLOATS
        self.root.create_var(name=name, shape=list(array.shape), dtype=array.dtype.name, stop_gradient=not is_float)
        self.feeds[name] = np.array(array)
        return name

    def _append(self, op_type: str, inputs: Slots[str], attrs: Mapping[str, object]) -> str:
        name = self._fresh()
        self.block.append_op(type=op_type, inputs=inputs, outputs={"Out": name}, attrs=dict(attrs))
        return name

    def _fresh(self) -> str:
        return self.program.names.generate("v")

    def _var(self, name: str) -> Variable:
        return self.block.var_recursive(name)
