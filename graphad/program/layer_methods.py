"""Where the methods of variables are that are layers: ``x.lerp(y, 0.3)`` is ``layers.lerp(x, y, 0.3)``.

Layers are written over programs, which do not know them: ``graphad.layers.variable_methods`` puts them here. ``layer_methods.pyi``, made by
``make stubs``, shows them to type checkers and editors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar


class LayerMethods:
    """The methods that are layers; ``layer_names`` gives the names of all layers, for hints."""

    __slots__ = ()
    layer_names: ClassVar[Callable[[], Iterable[str]]] = tuple
