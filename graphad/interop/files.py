"""Files as bytes: ``-`` is the standard streams, and a file is written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from graphad.errors import InvalidValue
from graphad.interop.commit import naming, read_committed, write_together

PathLike = str | os.PathLike[str]
STREAM = "-"


def read_bytes(source: PathLike) -> bytes:
    """The contents of a file; ``-`` is standard input."""
    if source != STREAM:
        path = Path(source)
        return path.read_bytes() if path.exists() and not path.is_file() else read_committed(path.parent, path.name)
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed", "standard input")
    return sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()


def write_bytes(target: PathLike, data: bytes) -> None:
    """Write a file through a temporary one beside it, so that a crash leaves the old file; ``-`` is standard output.

    A link stays, and its target is written; anything but a plain file (``/dev/null``) is written directly.
    """
    if target == STREAM:
        return _print(data)
    path = Path(target)
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    with naming(target, instead_of=path.parent):
        write_together(path.parent, {path.name: data})


def _print(data: bytes) -> None:
    """Write to standard output, which need not be a stream of bytes where it was redirected."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed", "standard output")
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("standard output is redirected to a stream of text, which cannot take bytes: write to a file") from None
    sys.stdout.write(text)
