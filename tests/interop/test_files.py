"""Programs in files and streams: the format found out, files written whole or not at all, errors that name the file."""

from __future__ import annotations

import io
import os
import random
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import graphad as ga
from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.interop import FORMATS, from_json, read_program, to_json, write_program
from graphad.interop.formats import recognized
from graphad.interop.paddle.program_desc import load_program
from tests.interop.stored import forward

SUFFIX = {"text": ".txt", "json": ".json", "protobuf": ".pdmodel"}
EVERY = pytest.mark.parametrize("format", list(FORMATS))


def some_program() -> ga.Program:
    return ga.Program.parse("program { block 0 { var x: float64[2] scale(X=x) -> (Out=x) {scale=2.5, bias=0.1} } }")


def bigger() -> ga.Program:
    program = some_program()
    program.global_block().append_op("tanh", {"X": "x"}, {"Out": "y"})
    return program


@EVERY
@pytest.mark.parametrize("named", [False, True])
def test_written_and_read(format: str, named: bool, tmp_path: Path) -> None:
    path = tmp_path / ("model" if named else f"model{SUFFIX[format]}")
    write_program(some_program(), path, format if named else None)
    assert str(read_program(path)) == str(some_program())
    assert str(read_program(str(path), format)) == str(some_program())
    assert path.read_bytes() == FORMATS[format].write(some_program())
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["m.TXT", "m.json", "m.pb", "m.pdmodel", "__model__"])
def test_names_say_the_format(name: str, tmp_path: Path) -> None:
    write_program(some_program(), tmp_path / name)
    assert str(read_program(tmp_path / name)) == str(some_program())


@pytest.mark.parametrize(
    ("data", "format"),
    [(b"\xef\xbb\xbf  \n program {", "text"), (b'\r\n {\n "blocks"', "json"), (b"{}", "json"), (b"\n{\x08\x00", "protobuf")],
)
def test_first_bytes_say_the_format(data: bytes, format: str) -> None:
    assert recognized(data) == format


@EVERY
def test_standard_streams(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = SimpleNamespace(buffer=io.BytesIO())
    monkeypatch.setattr("sys.stdout", out)
    write_program(some_program(), "-", format)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(out.buffer.getvalue())))
    assert str(read_program("-")) == str(some_program())


def test_standard_output_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    out = SimpleNamespace(buffer=io.BytesIO())
    monkeypatch.setattr("sys.stdout", out)
    write_program(some_program(), "-")
    assert out.buffer.getvalue().decode() == str(some_program())


# -- whole or not at all ---------------------------------------------------------------------------


@pytest.mark.parametrize("crash", ["os.replace", "os.fsync"])
def test_a_crash_leaves_the_old_file(crash: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.txt"
    write_program(some_program(), path)

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(crash, fail)
    with pytest.raises(OSError, match="the disk is full"):
        write_program(bigger(), path)
    assert path.read_text() == str(some_program())
    assert os.listdir(tmp_path) == ["model.txt"]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path, program = tmp_path / "model.pdmodel", some_program()
    write_program(program, path)
    before = path.read_bytes()
    program.global_block().ops[0].attrs["bias"] = [[1]]
    with pytest.raises(InvalidValue, match="no form in Paddle's format"):
        write_program(program, path)
    assert path.read_bytes() == before


def test_rights_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "model.txt", tmp_path / "link.txt"
    write_program(some_program(), path)
    fresh = tmp_path / "fresh"
    fresh.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(fresh.stat().st_mode)
    path.chmod(0o640)
    link.symlink_to(path)
    write_program(bigger(), link)
    assert link.is_symlink()
    assert path.read_text() == str(bigger())
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_is_no_plain_file_is_written_as_it_is() -> None:
    write_program(some_program(), os.devnull, "text")
    assert not os.path.isfile(os.devnull)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("m.txt", b"program {\n  block 0 {\n    tanh(X=x -> (Out=y)\n  }\n}\n", r"m\.txt: line 3, column 14: expected ','"),
        ("m.txt", b"program \xff", r"m\.txt: byte 8 is not UTF-8"),
        ("m.json", b'{"format": "graphad.program",\n "version": 1, }', r"m\.json: line 2, column 1[456]"),
        ("m.json", b"[" * 100000, r"m\.json: "),
        ("m.json", b"{}", r"m\.json: this JSON is not a program"),
        ("m.pdmodel", b"program {}", r"m\.pdmodel: 10 bytes are not a serialized ProgramDesc"),
        ("m", b"", r"m: it is empty"),
        ("m", b"PK\x03\x04", r"m: b'PK.*begins neither"),
    ],
)
def test_errors_name_file_and_place(name: str, data: bytes, match: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ParseError, match=match):
        read_program(path)


def test_errors_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"program {")))
    with pytest.raises(ParseError, match="standard input: line 1, column 10"):
        read_program("-")


def test_formats_that_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="format is one of text, json, protobuf, not 'onnx'"):
        write_program(some_program(), tmp_path / "m.txt", "onnx")
    with pytest.raises(InvalidValue, match=r"'.*model\.onnx' does not say in which format to write: give it one of \.txt"):
        write_program(some_program(), tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError):
        read_program(tmp_path / "none.txt")
    program: Any = None
    with pytest.raises(InvalidType, match="takes a Program"):
        write_program(program, tmp_path / "m.txt")


HEAD = '{"format": "graphad.program", "version": 1, "blocks": [{"parent": -1, '


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"format": "graphad.program", "version": 2}', "of version 2 of the format; version 1 is read here"),
        ('{"format": "graphad.program", "version": 1}', "blocks: a list is wanted, not None"),
        ('{"format": "graphad.program", "version": 1, "blocks": []}', "a program has at least one"),
        ('{"format": "graphad.program", "version": 1, "random_seed": true, "blocks": []}', "random_seed: a whole number"),
        (HEAD + '"vars": []}]}', r"blocks\[0\].vars: an object is wanted"),
        (HEAD + '"vars": {"x": {"shape": [0.5]}}}]}', r"blocks\[0\].vars\['x'\]: a shape is a list of ints"),
        (HEAD + '"vars": {"x": {"dtype": "float8"}}}]}', r"blocks\[0\].vars\['x'\]: .*float8"),
        (HEAD + '"vars": {"x": {}, "x": {}}}]}', "'x' is given twice"),
        (HEAD + '"vars": {"x": {"persistable": 1}}}]}', "persistable is true or false, not 1"),
        (HEAD + '"ops": [{"type": 3}]}]}', r"blocks\[0\].ops\[0\]: type is a string"),
        (HEAD + '"ops": [{"type": "z", "role": "cook"}]}]}', r"blocks\[0\].ops\[0\]: type is a string and role one of"),
        (HEAD + '"ops": [{"type": "z", "inputs": {"X": "x"}}]}]}', r"ops\[0\]: inputs slot 'X' holds a list of names, not 'x'"),
        (HEAD + '"ops": [{"type": "z", "speed": 1}]}]}', "an operator has no field 'speed'"),
        (HEAD + '"ops": [{"type": "z", "attrs": {"a": {"b": 1}}}]}]}', r"ops\[0\]: a value is no object but"),
        (HEAD + '"ops": [{"type": "z", "attrs": {"a": null}}]}]}', r"ops\[0\]: a value is no null"),
        (HEAD + '"ops": [{"type": "z", "attrs": {"a": {"block": 1}}}]}]}', r"ops\[0\]: .*no block 1"),
        (HEAD + '"ops": [{"type": "z", "attrs": {"a": {"block": 0}}}]}]}', "holds block 0, which it is in"),
        (HEAD + '"ops": [{"type": "z", "attrs": {"a": ' + "[" * 80 + "]" * 80 + "}}]}]}", "nested more than 64 deep"),
        (HEAD + '"ops": [{"type": "z", "attrs": {"a": ' + "9" * 5000 + "}}]}]}", "digits"),
        (HEAD + '"ops": [{"type": "z", "attrs": {"a": NaN}}]}]}', "NaN is no JSON"),
    ],
)
def test_json_that_makes_no_sense(text: str, match: str) -> None:
    with pytest.raises(ParseError, match=match):
        from_json(text)


def test_fuzzed_json() -> None:
    chance = random.Random(1)
    text = to_json(read_bytes_of("while_power_3"))
    marks = '{}[]:,"0-.e truefalsenull\\'
    read = 0
    for _ in range(2000):
        at = chance.randrange(len(text))
        changed = text[:at] + chance.choice(marks) + text[at + chance.randint(0, 3) :]
        try:
            program = from_json(changed)
        except ParseError:
            continue
        assert str(from_json(to_json(program))) == str(program)
        read += 1
    assert 0 < read < 2000


def read_bytes_of(name: str) -> ga.Program:
    return load_program(forward(name))
