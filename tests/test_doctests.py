"""The examples in docstrings do what they show; each module is imported once, under its own name."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.source_tree import modules

PROMPT = ">>> "
WITH_EXAMPLES = {name: path for name, path in modules().items() if PROMPT in path.read_text(encoding="utf-8")}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0, capsys.readouterr().out
    assert result.attempted == written(WITH_EXAMPLES[name]), "some examples stand where doctest does not find them"


def written(path: Path) -> int:
    return sum(line.lstrip().startswith(PROMPT) for line in path.read_text(encoding="utf-8").splitlines())
