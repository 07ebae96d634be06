"""Strings and maps at the ends of a model: inside they are numbers, which are moved, compared and looked up.

feeds {"x": ["a", "b"]}  ⇒  {"x": [0, 1]}        results {"label": [1, 1]}  ⇒  {"label": ["b", "b"]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.errors import InvalidType
from graphad.types import Array


class Text:
    """Strings and their numbers: each has one, in the order in which they come.

    >>> text = Text()
    >>> text.encode(["b", "a", "b"]).tolist(), text.decode(np.array([1, 0])).tolist()
    ([0, 1, 0], ['a', 'b'])
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.numbers: dict[str, int] = {}
        self.count = 0  # of the words that the model names: more come when it is fed

    def named(self) -> list[str]:
        """The strings that the model names."""
        return self.words[: self.count]

    def encode(self, words: object) -> Array:
        """The numbers of strings, as int64; TypeError for what is no string."""
        array = np.asarray(words)
        return np.asarray([self._number(word) for word in array.ravel().tolist()], "int64").reshape(array.shape)

    def decode(self, numbers: Array) -> Array:
        """The strings of numbers, as objects."""
        out = np.empty(numbers.shape, object)
        out.ravel()[:] = [self.words[number] for number in numbers.ravel().tolist()]
        return out

    def _number(self, word: object) -> int:
        if not isinstance(word, str):
            raise InvalidType(f"a string is expected, not {word!r}")
        if word not in self.numbers:
            self.numbers[word] = len(self.words)
            self.words.append(word)
        return self.numbers[word]


@dataclass(frozen=True)
class Ends:
    """The inputs and outputs of a model that are no tensors of numbers.

    Attributes:
        text: the strings of the model, and those that it was fed.
        inputs, outputs: names of those that hold strings.
        maps: output -> the keys of its columns: it is a list of dicts, one for each row.
    """

    text: Text = field(default_factory=Text)
    inputs: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)
    maps: dict[str, Sequence[int | str]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """The inputs and outputs that are no tensors of numbers."""
        return sorted({*self.inputs, *self.outputs, *self.maps})

    def fed(self, feeds: Mapping[str, object]) -> dict[str, object]:
        return {name: self.text.encode(value) if name in self.inputs else value for name, value in feeds.items()}

    def fetched(self, names: Iterable[str], results: Iterable[Any]) -> list[Any]:
        return [self._fetched(name, result) for name, result in zip(names, results, strict=True)]

    def _fetched(self, name: str, result: Any) -> Any:
        if name in self.outputs:
            return self.text.decode(result)
        if name in self.maps:
            return [dict(zip(self.maps[name], row.tolist(), strict=True)) for row in result]
        return result
