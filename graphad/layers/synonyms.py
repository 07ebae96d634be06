"""Paddle 2's and numpy's words for the parameters of Fluid's layers, and the other way round."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "activation": ("act",),
    "axis": ("dim", "axes", "dims"),
    "data_format": ("data_layout",),
    "data_layout": ("data_format",),
    "depth": ("num_classes",),
    "dim": ("axis",),
    "dims": ("axis",),
    "input": ("x",),
    "keep_dim": ("keepdim",),
    "keepdim": ("keep_dim", "keepdims"),
    "mode": ("dropout_implementation",),
    "keepdims": ("keep_dim", "keepdim"),
    "negative_slope": ("alpha",),
    "num_classes": ("depth",),
    "other": ("y",),
    "out_shape": ("output_shape",),
    "p": ("dropout_prob",),
    "value": ("pad_value",),
    "weight_attr": ("param_attr",),
    "x": ("input",),
}


def synonym(word: str, known: Container[str]) -> str | None:
    """The parameter that another word means; None if there is none."""
    return next((name for name in SYNONYMS.get(word, ()) if name in known), None)


def renamed(options: Mapping[str, object], known: Container[str]) -> dict[str, Any] | None:
    """Options under the names of a layer's parameters; None if that changes nothing, or would give one twice."""
    arguments = {word if word in known else synonym(word, known) or word: value for word, value in options.items()}
    return arguments if len(arguments) == len(options) and arguments.keys() != options.keys() else None
