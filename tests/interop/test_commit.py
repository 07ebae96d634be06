"""A process that is killed while it saves leaves one of the two states: the old pair of files, or the new one."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ParseError
from graphad.interop import files as commit
from graphad.interop import load, read_program, save, write_program
from graphad.interop.files import LOG, read_together, write_together
from graphad.interop.paddle.models import load_inference_model

SUFFIXES = pytest.mark.parametrize("suffix", [".txt", ".json", ".pdmodel"])


def state(number: int) -> tuple[ga.Program, dict[str, Any]]:
    """A program and its values; both say the number, and the shape differs so that a mixed pair is noticed."""
    program = ga.Program()
    with ga.program_guard(program):
        w = program.global_block().create_parameter("w", [10 + number], "float64")
        ga.layers.scale(w, scale=float(number))
    return program, {"w": np.full(10 + number, float(number))}


def number_in(path: Path) -> int:
    """The number of the state that lies in a checkpoint; fails if the pair is mixed."""
    program, arrays = load(path)
    number = int(program.global_block().ops[0].attrs["scale"])
    assert arrays["w"].tolist() == [number] * (10 + number)
    return number


class Disk:
    """Counts the calls that change the disk, and lets the one at ``limit`` fail; with ``dead`` all later ones as well, as after a kill."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: int, *, dead: bool) -> None:
        self.calls, self.limit, self.dead = 0, limit, dead
        for name in ("replace", "fsync", "chmod", "unlink"):
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))
        monkeypatch.setattr(commit, "open", self.counted(open), raising=False)

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self.limit or (self.dead and self.calls > self.limit):
                raise OSError("the disk is full")
            return function(*args, **kwargs)

        return call


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@SUFFIXES
@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_a_save_that_fails_at_any_step_leaves_one_of_the_two_states(suffix: str, dead: bool, first: bool, tmp_path: Path) -> None:
    seen: set[int | None] = set()
    for limit in range(1, 100):
        path = tmp_path / str(limit) / f"m{suffix}"
        path.parent.mkdir()
        if not first:
            save(state(1)[0], path, state(1)[1])
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = Disk(monkeypatch, limit, dead=dead)
            try:
                save(state(2)[0], path, state(2)[1])
            except OSError:
                pass
            else:
                assert disk.calls < limit or not dead
        try:
            found = number_in(path)
        except FileNotFoundError:
            found = None
        seen.add(found)
        save(state(3)[0], path, state(3)[1])
        assert (number_in(path), len(files(path.parent))) == (3, 2)
        if disk.calls < limit:
            break
    assert seen == ({None, 2} if first else {1, 2})


def test_what_fails_before_the_commit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(state(1)[0], tmp_path / "m.txt", state(1)[1])
    Disk(monkeypatch, 3, dead=False)
    with pytest.raises(OSError, match="the disk is full"):
        save(state(2)[0], tmp_path / "m.txt", state(2)[1])
    assert (number_in(tmp_path / "m.txt"), files(tmp_path)) == (1, ["m.npz", "m.txt"])


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # where another test has imported JAX: the child calls nothing of it
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked and killed")
def test_saving_processes_that_are_killed(tmp_path: Path) -> None:
    path, chance, states = tmp_path / "m.txt", random.Random(0), [state(0), state(1)]
    save(states[0][0], path, states[0][1])
    for _ in range(40):
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            try:
                for i in range(1, 1_000_000):
                    save(states[i % 2][0], path, states[i % 2][1])
                    os.write(writable, b"saved")
            finally:
                os._exit(1)
        os.read(readable, 1)
        time.sleep(chance.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(readable)
        os.close(writable)
        assert number_in(path) in (0, 1)
    save(state(3)[0], path, state(3)[1])
    assert (number_in(path), files(tmp_path)) == (3, ["m.npz", "m.txt"])


def interrupted(folder: Path, names: tuple[str, ...], token: str = "0123456789ab") -> None:
    """A folder as a process leaves it that is killed after the commit and before the first rename."""
    for name in names:
        (folder / name).rename(folder / f".{name}.{token}.tmp")
    (folder / LOG).write_text(json.dumps({"token": token, "files": names}))


def test_files_of_an_unfinished_commit_are_read_by_everyone(tmp_path: Path) -> None:
    program, arrays = state(2)
    save(program, tmp_path / "m.pdmodel", arrays)
    interrupted(tmp_path, ("m.pdmodel", "m.pdiparams"))
    save(*(state(1)[0], tmp_path / "other.txt", state(1)[1]))  # finishes it
    assert files(tmp_path) == ["m.pdiparams", "m.pdmodel", "other.npz", "other.txt"]
    interrupted(tmp_path, ("m.pdmodel", "m.pdiparams"))
    assert number_in(tmp_path / "m.pdmodel") == 2
    assert str(read_program(tmp_path / "m.pdmodel")) == str(program)
    (tmp_path / "m.pdmodel").write_bytes(b"stale")
    (tmp_path / "m.pdiparams").write_bytes(b"stale")
    assert load_inference_model(tmp_path, "m.pdmodel").parameters["w"].tolist() == [2.0] * 12


def test_a_program_written_after_a_crash_is_the_one_read(tmp_path: Path) -> None:
    save(state(2)[0], tmp_path / "m.txt", state(2)[1])
    interrupted(tmp_path, ("m.npz", "m.txt"))
    later = state(2)[0]
    later.random_seed = 5
    write_program(later, tmp_path / "m.txt")
    assert load(tmp_path / "m.txt").program.random_seed == 5
    assert files(tmp_path) == ["m.npz", "m.txt"]


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "[]",
        "{}",
        "3",
        '{"token": "0123456789ab", "files": ["../m.txt"]}',
        '{"token": "0123456789ab", "files": ["a/../../m.txt"]}',
        '{"token": "/../../elsewhere/x", "files": []}',
        '{"token": "0123456789ab", "files": ["/m.txt"]}',
        "[" * 9999,
    ],
)
def test_a_damaged_log_is_refused(entry: str, tmp_path: Path) -> None:
    save(state(1)[0], tmp_path / "m.txt", state(1)[1])
    (tmp_path / LOG).write_text(entry)
    for call in (lambda: load(tmp_path / "m.txt"), lambda: save(state(2)[0], tmp_path / "m.txt", state(2)[1])):
        with pytest.raises(ParseError, match=r"\.graphad\.commit: this is no log .*remove it"):
            call()
    (tmp_path / LOG).unlink()
    assert number_in(tmp_path / "m.txt") == 1


def test_leftovers_of_earlier_versions_are_removed(tmp_path: Path) -> None:
    for name in (".m.txt.0123456789ab.tmp", ".m.npz.ba9876543210.tmp", ".n.npz.ba9876543210.tmp", ".m.txt.mine.tmp"):
        (tmp_path / name).write_bytes(b"half")
    save(state(1)[0], tmp_path / "m.txt", state(1)[1])
    assert files(tmp_path) == [".m.txt.mine.tmp", ".n.npz.ba9876543210.tmp", "m.npz", "m.txt"]


def test_names_with_folders_in_them(tmp_path: Path) -> None:
    contents = {"m.txt": b"text", "encoder/w": b"1", "encoder/layer/w": b"2"}
    write_together(tmp_path, contents)
    write_together(tmp_path, contents)
    assert read_together(tmp_path, list(contents)) == list(contents.values())
    assert [files(tmp_path), files(tmp_path / "encoder")] == [["encoder", "m.txt"], ["layer", "w"]]


def test_a_folder_is_looked_through_once_for_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, listed = list[object](), os.listdir

    def look(folder: str) -> list[str]:
        looks.append(folder)
        return listed(folder)

    monkeypatch.setattr("graphad.interop.files.os.listdir", look)
    write_together(tmp_path, {f"w{i}": b"" for i in range(20)})
    assert len(looks) == 1


def test_links_stay_links_and_names_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    name = "ü" * 125 + ".npz"
    for link in ("m.txt", name):
        (tmp_path / link).symlink_to(tmp_path / "store" / link)
    write_together(tmp_path, {"m.txt": b"text", name: b"values"})
    assert all((tmp_path / link).is_symlink() for link in ("m.txt", name))
    assert read_together(tmp_path / "store", [name, "m.txt"]) == [b"values", b"text"]
    assert (len(files(tmp_path)), len(files(tmp_path / "store"))) == (3, 2)


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    save(state(1)[0], tmp_path / "m.txt", state(1)[1])
    (tmp_path / "m.txt").unlink()
    (tmp_path / "m.txt").mkdir()
    before = (tmp_path / "m.npz").read_bytes()
    with pytest.raises(OSError, match=r"m\.txt' cannot be replaced: it is no plain file"):
        save(state(2)[0], tmp_path / "m.txt", state(2)[1])
    assert ((tmp_path / "m.npz").read_bytes(), files(tmp_path)) == (before, ["m.npz", "m.txt"])


def test_threads_that_save_and_load_at_once(tmp_path: Path) -> None:
    path, failures, done = tmp_path / "m.txt", list[BaseException](), threading.Event()
    save(state(0)[0], path, state(0)[1])
    pairs = [state(i) for i in range(2)]

    def write(i: int) -> None:
        try:
            for _ in range(15):
                save(pairs[i][0], path, pairs[i][1])
        except Exception as error:
            failures.append(error)

    def read() -> None:
        try:
            while not done.is_set():
                number_in(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    reader = threading.Thread(target=read)
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    assert (failures, files(tmp_path)) == ([], ["m.npz", "m.txt"])
