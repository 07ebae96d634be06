"""Passes and operators that other packages bring, found by entry points.

    [project.entry-points."graphad.passes"]
    my-passes = "my_package.passes"          # a module that defines passes, or a function to call

    [project.entry-points."graphad.ops"]
    my-operators = "my_package.operators"    # a module that defines operators

``import graphad`` loads none of them. They are loaded, operators first, in the order of their names, when an operator or a pass is
first named that is not known, when the passes are listed, and by ``load_plugins()``; graphad's own passes are loaded with them.
One that fails to load is reported as a warning, and the rest goes on. ``GRAPHAD_PLUGINS=0`` loads none.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from types import ModuleType

from graphad.settings import SETTINGS

GROUPS = ("graphad.ops", "graphad.passes")


def plugins() -> list[EntryPoint]:
    """The entry points of all packages installed, operators before passes, by name."""
    points = entry_points()
    return [point for group in GROUPS for point in sorted(points.select(group=group), key=lambda p: (p.name, p.value))]


class _Loader:
    """Loads each entry point once. Unknown operators that are named meanwhile, by what is being loaded, load nothing more."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.is_loading = False
        self.is_done = False
        self.tried: set[tuple[str, str, str]] = set()

    def load(self) -> list[str]:
        with self.lock:
            # A plugin looks up names while it is loaded: then what is not there yet is missing, instead of loading it again.
            if self.is_loading:
                return []
            self.is_loading = True
            try:
                # graphad's own passes come first, so that of two passes of one name the plugin's is refused.
                import_module("graphad.passes")
                return [point.name for point in self._untried() if _load(point)]
            finally:
                self.is_loading, self.is_done = False, True

    def _untried(self) -> Iterator[EntryPoint]:
        for point in plugins() if SETTINGS.plugins else ():
            key = (point.group, point.name, point.value)
            if key not in self.tried:
                self.tried.add(key)
                yield point


_loader = _Loader()


def load_plugins() -> list[str]:
    """Load what other packages bring and has not been loaded; return the names of the entry points that were loaded."""
    return _loader.load()


def ensure_plugins() -> None:
    """Load them if that has not happened: a name is not known, or all names are requested."""
    if not _loader.is_done:
        _loader.load()


def _load(point: EntryPoint) -> bool:
    try:
        plugin = point.load()
        # A module has registered what it has when it was imported, a class of a pass when it was defined; a function does it when it is
        # called.
        if not isinstance(plugin, ModuleType) and callable(plugin) and not isinstance(plugin, type):
            plugin()
    # One plugin that fails must not take graphad and the others with it.
    except Exception as error:
        warnings.warn(f"entry point {point.name} = {point.value} of {point.group} was not loaded: {error!r}", RuntimeWarning, stacklevel=4)
        return False
    return True
