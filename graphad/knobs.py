"""Deprecated: ``graphad.settings``, under its old name for one minor version more."""

import warnings

from graphad import settings

_NAMES = {"KNOBS": "SETTINGS", "Knobs": "Settings", "changed_knobs": "changed_settings", "read_knobs": "read_settings"}


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = f"graphad.knobs.{name} is deprecated and goes in the next minor version: use graphad.settings.{_NAMES[name]}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(settings, _NAMES[name])
