"""Layers of Fluid 1.8 that are not here, why, and what takes their place: what an AttributeError says of them."""

from __future__ import annotations

# What a layer does in Fluid that tensors without lengths of sequences (LoD) cannot, and how the same is said here.
_ABSENT = {
    "lod_append": (
        "it adds a level to the lengths of sequences (LoD) that a tensor carries, and tensors carry none here",
        "a level more is an axis more, [batch, paragraphs, words, ...]; reshape makes it part of the batch for layers that take length=",
    ),
    "lod_reset": (
        "it changes the lengths of sequences (LoD) that a tensor carries, and tensors carry none here",
        "the layer that reads padded sequences, [batch, time, ...], takes other lengths: layers.sequence_pool(x, 'sum', length=lengths)",
    ),
}
NAMES = frozenset(_ABSENT)


def unavailable(name: str) -> tuple[str, str] | None:
    """Why a layer of Fluid 1.8 is not here, and what takes its place; None for other names."""
    return _ABSENT.get(name)
