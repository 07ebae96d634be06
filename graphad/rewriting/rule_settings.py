"""Types, attributes and arrays in the place of a match, to test a rule on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.ops import OpDef
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.terms import Constant, Several, Term
from graphad.types import TensorType

Array = NDArray[Any]


@dataclass
class Drawn:
    """Arrays and attributes in the place of a match."""

    values: dict[Term, Array] = field(default_factory=dict)
    lists: dict[Term, list[Array]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    types: Setting | None = None

    def type_of(self, term: Term) -> TensorType:
        """Shape and dtype of the value bound to a term."""
        assert self.types is not None
        return self.types.type_of(term)

    def uses_of(self, term: Term) -> int:
        """One: nothing else is there."""
        return 1

    def __str__(self) -> str:
        tensors = {repr(term): array for term, array in self.values.items() if not isinstance(term, Constant)}
        lists = {repr(term): arrays for term, arrays in self.lists.items()}
        return "\n".join(f"  {name} = {shown(value)}" for name, value in {**tensors, **lists, **self.attrs}.items())


def shown(value: Any) -> str:
    """An array with its dtype and shape, or any other value, as text."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return f"[{', '.join(map(shown, value))}]"
    return f"{value.dtype}{list(value.shape)} {value.tolist()}" if isinstance(value, np.ndarray | np.generic) else repr(value)


@dataclass
class Setting:
    """Types for the tensors of a pattern, and values for its attributes: in the place of a match, as far as conditions go."""

    values: dict[Term, TensorType] = field(default_factory=dict)
    lists: dict[Term, list[TensorType]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    originals: Mapping[str, Any] = field(default_factory=dict)  # what an example gave, by the name of a parameter
    kinks: tuple[float, ...] = ()
    is_hopeless: bool = False  # whether the first operator takes none of the attributes that were tried

    @cached_property
    def shown(self) -> dict[str, str]:
        """The attributes as text."""
        return {name: repr(value) for name, value in self.attrs.items()}

    @cached_property
    def inferred(self) -> _Inferred:
        """The types of all terms."""
        return _Inferred(self)

    def type_of(self, term: Term) -> TensorType:
        """Shape and dtype of the value bound to a term."""
        result = self.inferred.of(term)
        assert isinstance(result, TensorType)
        return result

    def uses_of(self, term: Term) -> int:
        """One: nothing else is there."""
        return 1


class _Inferred(Evaluation):
    """Terms as types, over a ``Setting``."""

    def leaf(self, term: Term) -> Any:
        return self.found.lists[term] if isinstance(term, Several) else self.found.values[term]

    def apply(self, row: OpDef, inputs: Slots, attrs: Mapping[str, Any]) -> Slots:
        return row.infer_types(inputs, attrs)

    def filled(self, number: Any, like: TensorType) -> TensorType:
        return TensorType((), like.dtype)
