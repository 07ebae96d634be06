"""The ``graphad`` command.

One file a command, and what commands share in ``arguments``. A command reads its arguments, calls the library and prints; what
could be called from Python is in the library.
"""

from graphad.cli.main import main

__all__ = ["main"]
