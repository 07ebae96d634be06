"""Files as bytes, written as a whole or not at all; several files of one folder that change together."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from graphad.errors import InvalidValue, ParseError

# -- commit ----------------------------------------------------------------------------------------
# Several files of one folder that change together: after a crash at any point a reader sees all of the old ones, or all of the new.
#
# The protocol is a redo log of one directory entry:
#
# 1. Each new content is written to a temporary file beside its target and flushed to the disk.
# 2. The folder's log, ``.graphad.commit``, is put in place by one rename. It names the targets and the token in the names of their
#    temporary files. This rename is the commit: before it the old files are valid, after it the new ones are.
# 3. The temporary files are renamed to their targets, and the log is removed.
#
# A single file needs no log: the rename to its target is the commit.
#
# A reader takes a target's temporary file where a log names it and it still exists, else the target. A writer first finishes
# a log that a killed process left, and removes temporary files that no log names. Readers and writers exclude each other by a lock
# on the folder (``flock``), which the system drops when a process dies. File systems without it work, as long as one process at a time
# uses the files.

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]

LOG = ".graphad.commit"
_LONGEST = 200  # bytes of a target's name that go into the name of its temporary file: file systems allow 255
_TOKEN = re.compile(r"[0-9a-f]{12}")
_LEFTOVER = re.compile(rf"\.(.+)\.{_TOKEN.pattern}\.tmp", re.DOTALL)


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files of one folder so that a crash leaves all of the old ones or all of the new.

    Args:
        folder: an existing folder.
        contents: what each file is to hold, by its name in the folder; a name with folders in it, ``encoder/w``, gets them.

    Raises:
        ParseError: the folder has a damaged log.
        OSError: a file cannot be written. Before the commit nothing has changed; after it, readers see the new files.
    """
    with _locked(folder, exclusive=True):
        # A commit that an earlier process began and did not end is ended first: its log says which files belong together.
        _finish(folder)
        for around in {parent for name in contents if (parent := Path(name).parent) != Path()}:
            (folder / around).mkdir(parents=True, exist_ok=True)
        targets = {name: _target(folder, name) for name in contents}
        _remove_leftovers([*targets.values(), folder / LOG])
        token = secrets.token_hex(6)
        try:
            for name, target in targets.items():
                with naming(folder / name, instead_of=_temporary(target, token)):
                    _write(_temporary(target, token), contents[name], target)
            # The log is what decides: before it is there the old files stand, after it the new ones, whenever the process ends.
            _commit(folder, targets, token)
        except BaseException:
            for target in (*targets.values(), folder / LOG):
                _temporary(target, token).unlink(missing_ok=True)
            raise
        _finish(folder)


def read_together(folder: Path, names: Sequence[str]) -> list[bytes]:
    """The contents of files that ``write_together`` wrote, or that came there in any other way, all of one state.

    Raises:
        ParseError: the folder has a damaged log.
        OSError: a file cannot be read.
    """
    with _locked(folder, exclusive=False):
        return [read_committed(folder, name) for name in names]


def read_committed(folder: Path, name: str) -> bytes:
    """The contents of one file, as of the last commit; raises as ``read_together`` does."""
    while True:
        token, names = _read_log(folder)
        target = _target(folder, name)
        source = _temporary(target, token) if token is not None and name in names else target
        try:
            return (source if source.is_file() else target).read_bytes()
        except FileNotFoundError:
            if source == target or not target.exists():
                raise  # else it was renamed between the two looks


@contextlib.contextmanager
def naming(path: str | os.PathLike[str], instead_of: Path) -> Iterator[None]:
    """Let errors of the system name the user's path instead of the folder or the temporary file that is used for it."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is None or os.fspath(error.filename) != str(instead_of):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _temporary(target: Path, token: str) -> Path:
    return target.with_name(f".{_stem(target)}.{token}.tmp")


def _stem(target: Path) -> str:
    """The name of a file, or a digest of it where it is too long to have something added."""
    data = os.fsencode(target.name)
    return target.name if len(data) <= _LONGEST else hashlib.sha256(data).hexdigest()


def _target(folder: Path, name: str) -> Path:
    """The target of a path: a link stays, and the file that it points to is written."""
    target = Path(os.path.realpath(folder / name))
    if target.exists() and not target.is_file():
        raise OSError(f"{str(folder / name)!r} cannot be replaced: it is no plain file")
    return target


def _write(path: Path, data: bytes, replaced: Path) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if replaced.exists():
        os.chmod(path, replaced.stat().st_mode & 0o7777)


def _flush(folder: Path) -> None:
    """Make what was renamed in a folder survive a loss of power, where the system can."""
    with _opened(folder) as descriptor:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.fsync(descriptor)


def _remove_leftovers(targets: Iterable[Path]) -> None:
    """Remove the temporary files of targets that no log names; each folder is looked through once."""
    stems: dict[Path, set[str]] = {}
    for target in targets:
        stems.setdefault(target.parent, set()).add(_stem(target))
    for folder, of_targets in stems.items():
        names: list[str] = []
        with contextlib.suppress(PermissionError):  # the user may write in the folder but not list it
            names = sorted(os.listdir(folder))
        for name in names:
            leftover = _LEFTOVER.fullmatch(name)
            if leftover is not None and leftover[1] in of_targets:
                (folder / name).unlink(missing_ok=True)


# -- the log -------------------------------------------------------------------------------------


def _commit(folder: Path, targets: Mapping[str, Path], token: str) -> None:
    # One file needs no log: renaming it is all or nothing.
    if len(targets) == 1:
        (target,) = targets.values()
        os.replace(_temporary(target, token), target)
        return
    log = folder / LOG
    _write(_temporary(log, token), json.dumps({"token": token, "files": list(targets)}).encode(), log)
    # The temporary files reach the disk before the log that names them.
    for directory in sorted({target.parent for target in targets.values()} | {folder}):
        _flush(directory)
    os.replace(_temporary(log, token), log)


def _read_log(folder: Path) -> tuple[str | None, list[str]]:
    """The token and the files of a commit that is not finished; no token if there is none."""
    try:
        data = (folder / LOG).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None, []
    try:
        entry = json.loads(data)
        token, files = entry["token"], entry["files"]
        # The log names files that will be renamed: one from elsewhere must not reach out of its folder.
        valid = bool(_TOKEN.fullmatch(token)) and all(map(_is_inside, files))
    except (ValueError, TypeError, KeyError, RecursionError):
        valid = False
    if not valid:
        raise ParseError(f"{folder / LOG}: this is no log of files that were saved; remove it to read the files as they are")
    return token, files


def _is_inside(name: str) -> bool:
    path = Path(name)
    return bool(path.name) and not path.is_absolute() and ".." not in path.parts


def _finish(folder: Path) -> None:
    """Carry out what the log says, if there is one, and remove it."""
    token, files = _read_log(folder)
    _flush(folder)
    if token is None:
        return
    targets = [_target(folder, name) for name in files]
    # Doing it twice does no harm: a file that has been moved already has no temporary one any more. So a crash in between is carried on by
    # whoever reads or writes next.
    for target in targets:
        if (temporary := _temporary(target, token)).is_file():
            os.replace(temporary, target)
    # The new names reach the disk before the log goes, which would bring them there.
    for directory in sorted({target.parent for target in targets}):
        _flush(directory)
    (folder / LOG).unlink()


# -- the lock ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """A descriptor of a folder; None where the user may write in it but not list it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(folder: Path, *, exclusive: bool) -> Iterator[None]:
    with _opened(folder) as descriptor:
        if fcntl is not None and descriptor is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


# -- files -----------------------------------------------------------------------------------------
# Files as bytes: ``-`` is the standard streams, and a file is written as a whole or not at all.

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
        # A device or a pipe is written to as it is.
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
