"""The methods of variables that are layers: ``x.lerp(y, 0.3)`` is ``layers.lerp(x, y, 0.3)``.

Layers are written over programs, which do not know them: ``graphad.layers.variable_methods`` puts them here. ``layer_methods.pyi``, made by
``make stubs``, shows them to type checkers and editors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class LayerMethods:
    """The methods that are layers."""

    __slots__ = ()


_NAMES: list[Callable[[], Iterable[str]]] = []


def hint_at(names: Callable[[], Iterable[str]]) -> None:
    """Say what gives the names of layers, which hints mention."""
    _NAMES.append(names)


def is_layer(name: str) -> bool:
    """Whether a layer has a name."""
    return any(name in names() for names in _NAMES)
