"""The few settings, from the environment or from the file ``graphad.toml`` in the current folder.

| environment            | graphad.toml       | default             |                                                                  |
|------------------------|--------------------|---------------------|------------------------------------------------------------------|
| GRAPHAD_VERIFY         | verify = true      | true                | verify the graph after every pass                                |
| GRAPHAD_CHECK_CLAIMS   | check_claims =     | false               | compute what passes claim to preserve again, and compare         |
| GRAPHAD_REPRODUCERS    | reproducers = "."  | graphad-reproducers | where a failing pass leaves its reproducer; empty: nowhere       |
| GRAPHAD_PLUGINS        | plugins = true     | true                | load passes and operators that other packages bring              |

The folder graphad-reproducers is in the temporary folder. The environment wins. Truth is written 1, true, yes, on or 0, false, no, off.

They are read when one of them is first used, not by ``import graphad``, and hold for the process: ``SETTINGS.verify = False`` changes one
for all threads. ``with changed_settings(verify=False):`` changes it for what runs within, and for no other thread or asyncio task.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from graphad.contexts import binding
from graphad.errors import InvalidValue

Value = TypeVar("Value")
FILE = "graphad.toml"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass
class Settings:
    """The settings; ``SETTINGS`` has those that hold now."""

    verify: bool = True
    check_claims: bool = False
    reproducers: str = field(default_factory=lambda: str(Path(tempfile.gettempdir()) / "graphad-reproducers"))
    plugins: bool = True


def read_settings(environment: Mapping[str, str], folder: Path) -> Settings:
    """The settings that an environment and the file in a folder say.

    Raises:
        ValueError: a setting that does not exist, or a value that it cannot have; the message says where it was set.
    """
    settings = Settings()
    kinds = {f.name: type(getattr(settings, f.name)) for f in fields(settings)}
    for name, value in _from_file(folder / FILE).items():
        if name not in kinds:
            raise InvalidValue(f"{FILE}: there is no setting {name!r}; there are {', '.join(kinds)}")
        # By exact type: in Python, and not in TOML, true is a number.
        if type(value) is not kinds[name]:
            raise InvalidValue(f"{FILE}: {name} is {kinds[name].__name__}, not {value!r}")
        setattr(settings, name, value)
    # After the file, so that the environment decides.
    for name, kind in kinds.items():
        variable = f"GRAPHAD_{name.upper()}"
        if variable in environment:
            text = environment[variable]
            setattr(settings, name, text if kind is str else _truth(variable, text))
    return settings


def _from_file(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    except ValueError as error:
        raise InvalidValue(f"{FILE}: {error}") from None
    try:
        return dict(import_module("tomllib").loads(text))  # only where there is a file: it costs 4 ms
    except ValueError as error:
        raise InvalidValue(f"{FILE}: {error}") from None


def _truth(variable: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise InvalidValue(f"{variable} is one of {', '.join(_TRUE + _FALSE)}, not {text!r}")
    return word in _TRUE


class _Setting(Generic[Value]):
    """A setting as it holds now; to assign it changes that of the process."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> Value:
        changes = _changes.get()
        return changes[self.name] if self.name in changes else getattr(_of_process(), self.name)  # type: ignore[no-any-return]

    def __set__(self, instance: object, value: Value) -> None:
        setattr(_of_process(), self.name, value)


class _Current:
    """The settings that hold now: those that ``changed_settings`` has changed in this context, else those of the process."""

    verify = _Setting[bool]()
    check_claims = _Setting[bool]()
    reproducers = _Setting[str]()
    plugins = _Setting[bool]()

    def __repr__(self) -> str:
        return repr(Settings(**{**asdict(_of_process()), **_changes.get()}))


_NAMES = frozenset(f.name for f in fields(Settings))
_changes: ContextVar[Mapping[str, Any]] = ContextVar("changes of settings", default=MappingProxyType({}))
_process: list[Settings] = []
_reading = Lock()
SETTINGS = _Current()


def _of_process() -> Settings:
    if not _process:
        with _reading:
            if not _process:
                _process.append(read_settings(os.environ, Path()))
    return _process[0]


@contextmanager
def changed_settings(**changes: Any) -> Iterator[None]:
    """Within it, settings have other values: in this thread or asyncio task, and in tasks that it starts.

    Raises:
        TypeError: there is no such setting.
    """
    if not changes.keys() <= _NAMES:
        Settings(**changes)  # which says what there is not
    with binding(_changes, {**_changes.get(), **changes}):
        yield
