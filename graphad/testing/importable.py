"""Whether another process can import what is defined here, and which folder its ``sys.path`` then needs.

A module in ``sys.modules`` says little: a test runner may have put it there under a name that no import finds, and the current
folder or a script's own may have been on the path. So the search is repeated with the folder that holds the top-level package.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from functools import reduce
from importlib.machinery import ModuleSpec, PathFinder
from keyword import iskeyword
from typing import Any

MAIN = "__main__"
OWN = "graphad"


def import_root(name: str) -> str | None:
    """The folder that has to be on ``sys.path`` for a module to be imported; empty if it always is, None if nothing helps.

    >>> import_root("json"), import_root("__main__")
    ('', None)
    """
    parts = name.split(".")
    if name == MAIN or name not in sys.modules or any(not part.isidentifier() or iskeyword(part) for part in parts):
        return None
    if parts[0] == OWN or parts[0] in sys.stdlib_module_names:
        return ""
    location = _location(sys.modules[name])
    if location is None or _is_being_imported(sys.modules[name]):
        return None
    folder = os.path.abspath(location)
    for _ in parts:
        folder = os.path.dirname(folder)
    spec = _spec(parts, [folder, *sys.path])
    if spec is None or not _leads_to(spec, location):
        return None
    return "" if folder in _always_searched() else folder


def _is_being_imported(module: Any) -> bool:
    """Whether the module's own statements are still running: whoever imports it runs them too, a check among them."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _location(module: Any) -> str | None:
    """The file of a module, or the folder of a package, None for a module made at run time."""
    file: str | None = getattr(module, "__file__", None)
    if file is None:
        return next(iter(getattr(module, "__path__", ())), None)
    return os.path.dirname(file) if hasattr(module, "__path__") else file


def _spec(parts: Sequence[str], folders: Sequence[str]) -> ModuleSpec | None:
    """What a fresh search finds, part by part; the modules there are already are not asked."""
    spec: ModuleSpec | None = None
    for part in parts:
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or ())
    return spec


def _leads_to(spec: ModuleSpec, location: str) -> bool:
    places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
    return os.path.abspath(location) in map(os.path.abspath, places)


def _always_searched() -> set[str]:
    paths = sysconfig.get_paths()
    folders = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return {os.path.abspath(folder) for folder in (*folders, *site.getsitepackages(), site.getusersitepackages())}


def is_importable(value: Any) -> bool:
    """Whether a class or function can be imported from its module by its name, which has to lead to just this object.

    >>> is_importable(ModuleSpec), is_importable(lambda: 0)
    (True, False)
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name or import_root(module) is None:
        return False
    return leads_to(module, name, value)


def leads_to(module: str, name: str, value: Any) -> bool:
    """Whether a name of a module, with dots, stands for just this object."""
    try:
        return reduce(getattr, name.split("."), sys.modules[module]) is value
    except (AttributeError, KeyError):
        return False
