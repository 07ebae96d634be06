"""Pictures of rules: the pattern, and its replacement."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from graphad.drawing.pictures import draw_pair
from graphad.errors import InvalidType
from graphad.ir import Graph, Value
from graphad.ops import OpDef
from graphad.rewriting import PatternRule
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.matcher import Match
from graphad.rewriting.pattern import Call, Scalar, Several, Term

WIDTH = 56  # letters of conditions in a line


class _Sketch(Evaluation[Value]):
    """Terms as values of a graph that is only looked at: operators show the attributes that the rule names."""

    def __init__(self) -> None:
        super().__init__(Match())
        self.graph = Graph()
        self.drawn: dict[Term, Value] = {}

    def draw(self, terms: Sequence[Term], names: Sequence[str]) -> Graph:
        """The graph of some terms, whose values get these names."""
        for term, name in zip(terms, names, strict=True):
            value = self.of(term)
            # Only made-up names: a result that is also a leaf, or that is two results at once, keeps the name that it has.
            if value.writers and value.name.startswith("·"):
                self.graph.rename(value, name)
        return self.graph

    def leaf(self, term: Term) -> Value:
        if term not in self.drawn:
            self.drawn[term] = self.graph.add_input(repr(term))
        return self.drawn[term]

    def leaves(self, term: Several) -> list[Value]:
        return [self.leaf(term)]

    # Nothing is computed here: every constant counts as known, and is drawn by its name.
    def knows(self, constant: Term) -> bool:
        return True

    def scalar(self, value: object) -> object:
        return repr(value) if isinstance(value, Scalar) else value

    def apply(self, definition: OpDef, inputs: Slots[Value], attrs: Mapping[str, object]) -> Slots[Value]:
        text = ", ".join(f"{name}={value}" for name, value in attrs.items())
        outputs = {slot.name: [self._fresh()] for slot in definition.outputs.values() if not slot.optional}
        self.graph.add_op(f"{definition.type} {{{text}}}" if text else definition.type, inputs, outputs)
        return outputs

    def _fresh(self) -> Value:
        # A name of its own for each value, which none of a rule's variables can have.
        return self.graph.add_value("·" + "'" * len(self.graph.ops))

    def filled(self, number: float, like: Value) -> Value:
        raise AssertionError("a constant is a leaf of its own")

    def _call(self, call: Call) -> Slots[Value]:
        outputs = super()._call(call)
        return {slot: _Endless(values) for slot, values in outputs.items()}


# A rule may take results by number from a list whose length only a match decides.
class _Endless(list[Value]):
    """Results of a slot that holds a list, all drawn as one."""

    def __getitem__(self, index: object) -> Value:  # type: ignore[override]
        return super().__getitem__(0)


def rule_graphs(rule: PatternRule) -> tuple[Graph, Graph]:
    """The two sides of a rule as graphs to look at: their values have no types, their results one name on both sides."""
    if not isinstance(rule, PatternRule):
        raise InvalidType(f"a rule made with @rewrite has two sides, {rule!r} has none")
    names = ["result"] if len(rule.before) == 1 else [f"result {i}" for i in range(len(rule.before))]
    return _Sketch().draw(rule.before, names), _Sketch().draw(rule.after, names)


def draw_rule(rule: PatternRule, path: str | os.PathLike[str], **options: Any) -> Path:
    """Draw a rule, before ⇒ after, as one SVG; its name and conditions are above the left side.

    Raises:
        TypeError: the rule was not made with ``@rewrite``.
        ValueError: another ending than ``.svg``.
    """
    before, after = rule_graphs(rule)
    condition_text = f"where {' and '.join(map(repr, rule.conditions))}" if rule.conditions else ""
    return draw_pair(
        before,
        after,
        path,
        titles=("\n".join([rule.name, *wrap(condition_text, WIDTH)]), ""),
        legend=False,
        **{"values": "shared"} | options,
    )
