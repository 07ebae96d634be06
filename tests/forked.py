"""Python programs in processes of their own that don't import graphad anew: one process imports it, and is forked for each program.

A forked process has a current folder, a path, arguments and a ``__main__`` of its own, and no module that its parent didn't import.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.source_tree import ROOT

SERVER = """
import importlib, json, os, runpy, sys, traceback, types

for name in sys.argv[1:]:
    importlib.import_module(name)

def main(words, said):
    for stream in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    try:
        if words[0] == "-c":
            sys.path[0], sys.argv = "", ["-c", *words[2:]]
            module = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(words[1], "<string>", "exec"), vars(module))
        elif words[0] == "-m":
            sys.path[0], sys.argv = os.getcwd(), words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.path[0], sys.argv = os.path.dirname(os.path.abspath(words[0])), words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

for line in sys.stdin:
    folder, words, said = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        status = main(words, said)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Done(NamedTuple):
    """The result of a process: its exit status, and its output on both streams."""

    returncode: int
    said: str


class Forks:
    """The process that is forked; it ends with the ``with`` block.

    Args:
        modules: what it imports.
        environment: variables that it has besides those of this process.
    """

    def __init__(self, *modules: str, **environment: str) -> None:
        self._command = [sys.executable, "-c", SERVER, *modules]
        self._environment = {**os.environ, "PYTHONPATH": os.fspath(ROOT), **environment}

    def __enter__(self) -> Forks:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=self._environment, text=True
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def run(self, *words: str | Path, cwd: Path, said: Path) -> Done:
        """Run ``python FILE``, ``python -c TEXT`` or ``python -m MODULE`` in a folder; ``said`` is the file that gets what it writes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        said.unlink(missing_ok=True)
        self._process.stdin.write(json.dumps([os.fspath(cwd), [*map(str, words)], os.fspath(said)]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return Done(status, said.read_text(encoding="utf-8") if said.exists() else "")
