"""Passes and operators that other packages bring, found by entry points.

    [project.entry-points."graphad.passes"]
    my-passes = "my_package.passes"          # a module that defines passes, or a function to call

    [project.entry-points."graphad.ops"]
    my-operators = "my_package.operators"    # a module that defines rows

They are loaded by ``import graphad``, operators first, in the order of their names; graphad's own are entry points like any
other's. One that fails to load is reported as a warning, and the rest goes on. ``GRAPHAD_PLUGINS=0`` loads none.
"""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from graphad.knobs import KNOBS

GROUPS = ("graphad.ops", "graphad.passes")


def plugins() -> list[EntryPoint]:
    """The entry points of all packages installed, operators before passes, by name."""
    found = entry_points()
    return [point for group in GROUPS for point in sorted(found.select(group=group), key=lambda p: (p.name, p.value))]


def load_plugins() -> list[str]:
    """Load what other packages bring; return the names of the entry points that were loaded."""
    if not KNOBS.plugins:
        return []
    return [point.name for point in plugins() if _load(point)]


def _load(point: EntryPoint) -> bool:
    try:
        loaded = point.load()
        if not isinstance(loaded, ModuleType) and callable(loaded) and not isinstance(loaded, type):
            loaded()
    except Exception as error:
        warnings.warn(f"entry point {point.name} = {point.value} of {point.group} was not loaded: {error!r}", RuntimeWarning, stacklevel=3)
        return False
    return True
