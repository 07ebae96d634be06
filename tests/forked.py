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
import json, os, runpy, sys, traceback, types
import graphad.passes, graphad.testing.check

def main(words, said):
    for stream in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    try:
        if words[0] == "-c":
            sys.path[0] = ""
            module = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(words[1], "<string>", "exec"), vars(module))
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
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
    """What a program came to: its exit status, and what it wrote to both streams."""

    returncode: int
    said: str


class Forks:
    """The process that is forked; it ends with the ``with`` block."""

    def __enter__(self) -> Forks:
        command = [sys.executable, "-c", SERVER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def run(self, *words: str | Path, cwd: Path, said: Path) -> Done:
        """Run ``python FILE`` or ``python -c TEXT`` in a folder; ``said`` is the file that gets what it writes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        said.unlink(missing_ok=True)
        self._process.stdin.write(json.dumps([os.fspath(cwd), [*map(str, words)], os.fspath(said)]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return Done(status, said.read_text(encoding="utf-8") if said.exists() else "")
