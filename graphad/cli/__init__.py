"""The ``graphad`` command."""

from graphad.cli.main import main

__all__ = ["main"]
