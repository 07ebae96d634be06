"""Files as bytes: ``-`` is the standard streams, and a file is written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

PathLike = str | os.PathLike[str]
STREAM = "-"


def read_bytes(source: PathLike) -> bytes:
    """What a file holds; ``-`` is standard input."""
    if source != STREAM:
        return Path(source).read_bytes()
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed", "standard input")
    return sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()


def write_bytes(target: PathLike, data: bytes) -> None:
    """Write a file through a temporary one beside it, so that a crash leaves the old file; ``-`` is standard output.

    A link stays a link to what is written; what is no plain file (``/dev/null``) is written as it is.
    """
    if target == STREAM:
        return _print(data)
    path = Path(os.path.realpath(target))
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    _replace(path, data)


def _print(data: bytes) -> None:
    """Write to standard output, which need not be a stream of bytes where somebody has redirected it."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed", "standard output")
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(data.decode())


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o7777)
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None  # the name the user knows
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
