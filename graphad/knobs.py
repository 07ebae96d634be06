"""The few settings that hold for a whole process, from the environment or from the file ``graphad.toml`` in the current folder.

| environment            | graphad.toml       | default             |                                                                  |
|------------------------|--------------------|---------------------|------------------------------------------------------------------|
| GRAPHAD_VERIFY         | verify = true      | true                | verify the graph after every pass                                |
| GRAPHAD_CHECK_CLAIMS   | check_claims =     | false               | compute what passes claim to preserve again, and compare         |
| GRAPHAD_REPRODUCERS    | reproducers = "."  | graphad-reproducers | where a failing pass leaves its reproducer; empty: nowhere       |
| GRAPHAD_PLUGINS        | plugins = true     | true                | load passes and operators that other packages bring              |

The folder graphad-reproducers lies in the temporary folder. The environment wins. Truth is written 1, true, yes, on or 0, false, no, off.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from graphad.errors import InvalidValue

FILE = "graphad.toml"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass
class Knobs:
    """The settings; ``KNOBS`` holds those of this process."""

    verify: bool = True
    check_claims: bool = False
    reproducers: str = str(Path(tempfile.gettempdir()) / "graphad-reproducers")
    plugins: bool = True


def read_knobs(environment: Mapping[str, str], folder: Path) -> Knobs:
    """The settings that an environment and the file in a folder say.

    Raises:
        ValueError: a setting that does not exist, or a value that it cannot have; the message says where it stands.
    """
    knobs = Knobs()
    kinds = {f.name: type(getattr(knobs, f.name)) for f in fields(knobs)}
    for name, value in _from_file(folder / FILE).items():
        if name not in kinds:
            raise InvalidValue(f"{FILE}: there is no setting {name!r}; there are {', '.join(kinds)}")
        if type(value) is not kinds[name]:
            raise InvalidValue(f"{FILE}: {name} is {kinds[name].__name__}, not {value!r}")
        setattr(knobs, name, value)
    for name, kind in kinds.items():
        variable = f"GRAPHAD_{name.upper()}"
        if variable in environment:
            text = environment[variable]
            setattr(knobs, name, text if kind is str else _truth(variable, text))
    return knobs


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except ValueError as error:
        raise InvalidValue(f"{FILE}: {error}") from None


def _truth(variable: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise InvalidValue(f"{variable} is one of {', '.join(_TRUE + _FALSE)}, not {text!r}")
    return word in _TRUE


KNOBS = read_knobs(os.environ, Path())
