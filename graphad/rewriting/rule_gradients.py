"""Gradients of the two sides of a rule: reverse mode over the operators of terms, by the operators' own gradient rules on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.errors import NoGradient
from graphad.ops.definition import GRAD
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.soundness import calls_in
from graphad.rewriting.terms import Call, Constant, Result, Several, Term

Array = NDArray[Any]
Place = tuple[Any, str, int]  # an operator (None: the rule's tensors), a slot or "", which of the arrays there


class Gradients:
    """The gradients of some terms with respect to the tensors of the pattern.

    Args:
        terms: the terms to differentiate.
        values: the arrays of all terms.
        seeds: the cotangents of the terms.
    """

    def __init__(self, terms: Sequence[Term], values: Evaluation, seeds: Sequence[Array]) -> None:
        self.values = values
        self.cotangents: dict[Any, Array] = {}
        for term, seed in zip(terms, seeds, strict=True):
            if seed.dtype.kind == "f":
                self._add(self._place(term), seed)
        for call in dict.fromkeys(_in_order(terms)):
            self._differentiate(call)

    def of(self, leaf: Term) -> list[Array]:
        """The gradients of a tensor of the pattern, one for each array bound to it; zeros where nothing depends on it."""
        arrays = self.values.leaf(leaf) if isinstance(leaf, Several) else [self.values.leaf(leaf)]
        return [self.cotangents.get((leaf, i), np.zeros_like(array)) for i, array in enumerate(arrays)]

    def _place(self, term: Term) -> Any:
        return (term.call, term.slot, term.index) if isinstance(term, Result) else (term, 0)

    def _add(self, place: Any, cotangent: Any) -> None:
        present = self.cotangents.get(place)
        self.cotangents[place] = np.asarray(cotangent) if present is None else present + cotangent

    def _differentiate(self, call: Call) -> None:
        outputs = self.values.done.get(call)
        if outputs is None or not any((call, slot, i) in self.cotangents for slot, arrays in outputs.items() for i in range(len(arrays))):
            return
        row = call.row
        if row.grads is None:
            raise NoGradient(f"operator {row.type!r} has no gradient rule")
        grad = row.grad
        if grad is None:
            return
        places = {slot: [place for term in terms for place in self._places(term)] for slot, terms in call.inputs.items()}
        operands = {slot: [array for term in terms for array in self.values.operands(term, call)] for slot, terms in call.inputs.items()}
        inputs = {slot: [np.asarray(array) for array in arrays] for slot, arrays in operands.items()}
        wanted = [slot + GRAD for slot in row.grads if inputs.get(slot) and inputs[slot][0].dtype.kind == "f"]
        given: Slots = {**inputs, **outputs, **{slot + GRAD: self._cotangents(call, slot, arrays) for slot, arrays in outputs.items()}}
        attrs = {name: self.values.scalar(value) for name, value in call.attrs.items()}
        for name, arrays in grad.run({s: given[s] for s in grad.inputs if given.get(s)}, _with_defaults(call, attrs), wanted).items():
            for place, array in zip(places[name.removesuffix(GRAD)], arrays, strict=True):
                if array is not None and place is not None:
                    self._add(place, array)

    def _places(self, term: Term) -> list[Any]:
        """Where the cotangents of an operator's inputs are added up; None where none is needed."""
        if isinstance(term, Several):
            return [(term, i) for i in range(len(self.values.leaf(term)))]
        return [None if isinstance(term, Constant) else self._place(term)]

    def _cotangents(self, call: Call, slot: str, arrays: Sequence[Array]) -> list[Array]:
        return [self.cotangents.get((call, slot, i), np.zeros_like(array)) for i, array in enumerate(arrays)]


def _with_defaults(call: Call, attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: attrs.get(name, attr.default) for name, attr in call.row.attrs.items()}


def _in_order(terms: Sequence[Term]) -> list[Call]:
    """The operators of terms, each before those that it reads from."""
    walked = [call for term in terms for call in calls_in(term)]
    return list(reversed(list(dict.fromkeys(reversed(walked)))))
