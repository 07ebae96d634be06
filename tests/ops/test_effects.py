"""Behavior of operators beyond their results: which do without an operand, which draw random numbers, and which have effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from graphad.ops import REGISTRY, GradOpDef
from graphad.ops.aggregates import Tape
from graphad.ops.parameters import parameters_of
from graphad.testing.samples import SAMPLES
from graphad.testing.samples.valid import computed
from tests.ops.test_traits import alike, having

X = np.arange(1.0, 7.0).reshape(2, 3)
MASK = np.array([[True], [False]])
# What each operator makes of operands of which one has no value.
WITHOUT: Mapping[str, tuple[dict[str, list[Any]], dict[str, Any], Sequence[Any]]] = {
    "assign": ({"X": [None]}, {}, [None]),
    "fill_zeros_like": ({"X": [None]}, {}, [None]),
    "merge_lod_tensor": ({"Mask": [MASK[:1]], "InTrue": [X[:1]], "InFalse": [None]}, {}, [X[:1]]),
    "push_tape": ({"Scopes": [Tape()], "X": [X, None]}, {"count": 2}, [(X, None)]),
    "pop_tape": ({"Scopes": [Tape().push([X, None])]}, {"count": 2}, [(), X, None]),
    "select_input": ({"X": [X, None], "Mask": [np.array([0])]}, {}, [X]),
    "select_output": ({"X": [None], "Mask": [np.array([1])], "Like": [X, X]}, {}, [0.0 * X, None]),
    "shard_tensor": ({"X": [None]}, {"mesh": "data=1", "spec": [""]}, [None]),
    "sum": ({"X": [X, None, X]}, {}, [2 * X]),
    "undefined": ({}, {}, [None]),
}


def forward(types: set[str]) -> set[str]:
    return {type for type in types if not isinstance(REGISTRY[type], GradOpDef)}


@pytest.mark.parametrize("type", sorted(WITHOUT))
def test_an_operand_without_a_value(type: str) -> None:
    """Results are computed of the operands that exist; one that cannot be is absent itself."""
    slots, attrs, expected = WITHOUT[type]
    outputs = computed(REGISTRY[type], slots, attrs)
    assert outputs is not None
    found = [value for values in outputs.values() for value in values]
    assert len(found) == len(expected)
    for value, other in zip(found, expected, strict=True):
        if isinstance(other, tuple):
            top = [None] * len(other) if not other else [*_top(value, len(other))]
            assert [item is None for item in top] == [item is None for item in other]
        else:
            assert (value is None and other is None) or alike(value, other)


def _top(tape: Any, count: int) -> Sequence[Any]:
    """The values that were pushed last."""
    outputs = computed(REGISTRY["pop_tape"], {"Scopes": [tape]}, {"count": count})
    assert outputs is not None
    return outputs["X"]


def test_partial() -> None:
    """Those that say so are those of the table, and gradients of these: a kernel of another operator would fail without its operands."""
    assert forward(having("partial")) == WITHOUT.keys()
    assert having("partial") - WITHOUT.keys() <= {f"{type}_grad" for type in WITHOUT}


def drawn(type: str, seed: int) -> list[Any]:
    """The results of an operator on its samples, with numbers of a seed where it draws any."""
    definition, found = REGISTRY[type], []
    for sample in SAMPLES[type]:
        extra = {"rng": np.random.default_rng(seed)} if definition.random else {}
        with np.errstate(all="ignore"):
            outputs = definition.run(sample.slots(), {**sample.attrs, **extra}, list(definition.outputs))
        found += [value for values in outputs.values() for value in values]
    return found


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("type", sorted(forward(having("random")) & SAMPLES.keys()))
def test_random(type: str) -> None:
    """The numbers are those of the generator: another one gives others, the same one the same."""
    first, again, other = (drawn(type, seed) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


def test_what_takes_a_generator_is_random() -> None:
    takes = {type for type in SAMPLES if any(parameter.name == "rng" for parameter in parameters_of(REGISTRY[type].kernel))}
    assert takes == forward(having("random")) & SAMPLES.keys()


def test_side_effects() -> None:
    """Besides those whose effects have an order, only what a run is fed and what it gives back."""
    assert having("ordered") <= having("side_effect")
    assert having("side_effect") - having("ordered") == {"feed", "fetch"}
