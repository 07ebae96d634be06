"""Programs with their parameters: saved, loaded, run again; and models as Paddle stores them for inference."""

from __future__ import annotations

import io
import os
import pickle
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as numpy_format

import graphad as ga
from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.interop import load, read_program, save
from graphad.interop.paddle.models import load_inference_model
from graphad.interop.paddle.program_desc import dump_program, load_program, message
from graphad.interop.paddle.tensors import read_tensor, read_tensors, write_tensors
from graphad.types import DTYPES
from tests.interop.stored import add_op, add_slot, desc

SUFFIXES = pytest.mark.parametrize("suffix", [".txt", ".json", ".pdmodel"])
ODD = ("file", "a/b", "../up", "x.npy", "x", "allow_pickle", "é")


def trained() -> tuple[ga.Program, ga.Scope, ga.Variable]:
    """A small network after one step, the scope it ran in, and its loss."""
    main, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(main, startup):
        x = ga.layers.data("x", shape=[3], dtype="float64")
        loss = ga.layers.mean(ga.layers.fc(x, 2, act="tanh"))
        ga.optimizer.Momentum(learning_rate=0.1, momentum=0.9).minimize(loss)
    ga.Executor().run(startup, scope=scope)
    ga.Executor().run(main, feed={"x": np.ones((2, 3))}, scope=scope)
    return main, scope, loss


def holding(arrays: dict[str, Any]) -> ga.Program:
    """A program that keeps the arrays and does nothing."""
    program = ga.Program()
    for name, array in arrays.items():
        program.global_block().create_var(name, array.shape, array.dtype, persistable=True)
    return program


@SUFFIXES
def test_training_goes_on_where_it_stopped(suffix: str, tmp_path: Path) -> None:
    main, scope, loss = trained()
    save(main, tmp_path / f"model{suffix}", scope)
    program, arrays = load(tmp_path / f"model{suffix}")
    assert str(program) == str(main)
    again = ga.Scope()
    for name, array in arrays.items():
        again.set(name, array)
    for _ in range(3):
        runs = [(main, scope), (program, again)]
        one, other = (ga.Executor().run(p, feed={"x": np.ones((2, 3))}, fetch_list=[loss.name], scope=s)[0] for p, s in runs)
        assert one.tobytes() == other.tobytes()
    assert len(os.listdir(tmp_path)) == 2


@SUFFIXES
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_odd_names(suffix: str, dtype: str, tmp_path: Path) -> None:
    arrays = {name: np.arange(6).reshape(shape).astype(dtype) for name, shape in zip(ODD, [(6,), (2, 3), (1, 6)] * 3, strict=False)}
    arrays["empty"], arrays["scalar"] = np.zeros((0, 2), dtype), np.array(1, dtype)
    if suffix == ".pdmodel" and dtype in ("uint16", "uint32", "uint64"):
        with pytest.raises(InvalidValue, match=f"Paddle's files have no {dtype}; they have bool, "):
            save(holding(arrays), tmp_path / f"m{suffix}", arrays)
        assert os.listdir(tmp_path) == []
        return
    save(holding(arrays), tmp_path / f"m{suffix}", arrays)
    found = load(tmp_path / f"m{suffix}").arrays
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape, found[name].tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert found[name].flags.writeable


@SUFFIXES
@pytest.mark.parametrize("odd", ["a\0b", "a%00b\0", "\0", "/", "..", "w" * 60_000, "W\0", "a\\b", "\n", "\U0001f600" * 10_000])
def test_any_name_comes_back(suffix: str, odd: str, tmp_path: Path) -> None:
    arrays = {"w": np.zeros(2), "a%00b": np.ones(2), odd: np.full(2, 2.0)}
    save(holding(arrays), tmp_path / f"m{suffix}", arrays)
    program, found = load(tmp_path / f"m{suffix}")
    assert {name: array.tolist() for name, array in found.items()} == {name: array.tolist() for name, array in arrays.items()}
    assert str(program) == str(holding(arrays))


@SUFFIXES
@pytest.mark.parametrize("odd", ["a\ud800b", "\udc80"])
def test_names_that_are_no_unicode(suffix: str, odd: str, tmp_path: Path) -> None:
    arrays = {"w": np.zeros(2), odd: np.ones(2)}
    if suffix != ".pdmodel":
        save(holding(arrays), tmp_path / f"m{suffix}", arrays)
        assert load(tmp_path / f"m{suffix}").arrays[odd].tolist() == [1.0, 1.0]
        return
    with pytest.raises(InvalidValue, match=r"variable .*: .* has no form in UTF-8"):
        save(holding(arrays), tmp_path / f"m{suffix}", arrays)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["w" * 60_001, "\0" * 30_000])
def test_a_name_that_no_archive_holds_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"the name .* at most 60000"):
        save(holding({name: np.zeros(2)}), tmp_path / "m.txt", {name: np.zeros(2)})
    assert os.listdir(tmp_path) == []


@SUFFIXES
def test_the_same_bytes_each_time(suffix: str, tmp_path: Path) -> None:
    main, scope, _ = trained()
    for folder in "ab":
        (tmp_path / folder).mkdir()
        save(main, tmp_path / folder / f"m{suffix}", dict(scope.arrays))
    names = sorted(os.listdir(tmp_path / "a"))
    assert len(names) == 2
    assert [(tmp_path / "a" / n).read_bytes() for n in names] == [(tmp_path / "b" / n).read_bytes() for n in names]


def test_numpy_reads_the_values(tmp_path: Path) -> None:
    main, scope, _ = trained()
    save(main, tmp_path / "m.txt", scope)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as found:
        assert {name: found[name].tobytes() for name in found} == {n: scope.get(n).tobytes() for n in found}


@SUFFIXES
def test_values_that_do_not_fit_are_not_saved(suffix: str, tmp_path: Path) -> None:
    program, path = holding({"w": np.zeros((2, 3))}), tmp_path / f"m{suffix}"
    with pytest.raises(InvalidValue, match=r"w: float64\[2, 3\] has no value among those passed in"):
        save(program, path)
    with pytest.raises(InvalidValue, match=r"the value of 'w' is float64\[3, 2\], but it is declared .*float64\[2, 3\]"):
        save(program, path, {"w": np.zeros((3, 2))})
    with pytest.raises(InvalidValue, match=r"the value of 'w' is int64"):
        save(program, path, {"w": np.zeros((2, 3), "int64")})
    with pytest.raises(InvalidType, match="is no array of numbers but ndarray"):
        save(program, path, {"w": np.array([[None] * 3] * 2)})
    with pytest.raises(InvalidType, match="a dict from name to array, or a Scope, not 3"):
        save(program, path, 3)
    assert os.listdir(tmp_path) == []


def test_what_is_written_in_between_is_complete_or_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {"w": np.zeros(2)}
    save(holding(arrays), tmp_path / "m.txt", arrays)
    before = (tmp_path / "m.npz").read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="the disk is full"):
        save(holding(arrays), tmp_path / "m.txt", {"w": np.ones(2)})
    assert (tmp_path / "m.npz").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["m.npz", "m.txt"]


@pytest.mark.parametrize("name", ["m.onnx", "__model__"])
def test_names_that_do_not_say_where_the_values_go(name: str, tmp_path: Path) -> None:
    for call in (lambda: save(ga.Program(), tmp_path / name), lambda: load(tmp_path / name)):
        with pytest.raises(InvalidValue, match=r"ends in none of \.txt, \.json and \.pdmodel"):
            call()


# -- files that are not what they should be ----------------------------------------------------------


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


class Trap:
    """Unpickling it would be noticed."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not an archive of arrays"),
        (b"PK", "not an archive of arrays"),
        (pickle.dumps(Trap()), "not an archive of arrays"),
        (archive(w=npy(np.array([Trap()], object))), "not an archive of arrays: .*allow_pickle"),
        (archive(w=pickle.dumps(Trap())), "not an archive of arrays"),
        (archive(w=npy(np.zeros(2))[:-3]), "not an archive of arrays"),
        (archive(w=npy(np.zeros(3))), r"the value of 'w' is float64\[3\]"),
        (archive(w=npy(np.zeros(2, "complex128"))), "no array of numbers"),
        (archive(), r"lacks \['w'\], and has \[\] too many"),
        (archive(w=npy(np.zeros(2)), v=npy(np.zeros(2))), r"lacks \[\], and has \['v'\] too many"),
    ],
)
def test_archives_that_are_none(data: bytes, match: str, tmp_path: Path) -> None:
    arrays = {"w": np.zeros(2)}
    save(holding(arrays), tmp_path / "m.txt", arrays)
    (tmp_path / "m.npz").write_bytes(data)
    with pytest.raises(ParseError, match=f"m.npz: .*{match}"):
        load(tmp_path / "m.txt")


def bomb(header: dict[str, Any], size: int) -> bytes:
    """An archive that unpacks to a header and ``size`` zeros."""
    content = io.BytesIO()
    numpy_format.write_array_header_1_0(content, header)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("w.npy", content.getvalue() + bytes(size))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("shape", "size", "match"),
    [
        ((1 << 23,), 8 << 23, r"the value of 'w' is float64\[8388608\]"),
        ((2,), 8 << 23, "the value of 'w' takes 16 bytes"),
        ((1 << 40,), 16, "the value of 'w' takes 8796093022208 bytes"),
    ],
)
def test_what_does_not_fit_is_not_unpacked(shape: tuple[int, ...], size: int, match: str, tmp_path: Path) -> None:
    arrays = {"w": np.zeros(2)}
    save(holding(arrays), tmp_path / "m.txt", arrays)
    (tmp_path / "m.npz").write_bytes(bomb({"descr": "<f8", "fortran_order": False, "shape": shape}, size))
    tracemalloc.start()
    try:
        with pytest.raises(ParseError, match=match):
            load(tmp_path / "m.txt")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_every_beginning_of_stored_tensors() -> None:
    data = write_tensors({"a": np.zeros((2, 3)), "b": np.ones(2, "int8")})
    assert read_tensors(data, "ab")["b"].tolist() == [1, 1]
    for length in range(len(data)):
        with pytest.raises(ParseError, match=r"tensor '[ab]': .*byte \d+: .* are left|tensor '[ab]': .*TensorDesc"):
            read_tensors(data[:length], "ab")
    with pytest.raises(ParseError, match="1 bytes are left after the last of 2 tensors"):
        read_tensors(data + b"x", "ab")


def test_fuzzed_tensors() -> None:
    chance, data = random.Random(2), write_tensors({"a": np.zeros((2, 3), "float32")})
    read = 0
    for _ in range(3000):
        found = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            found[chance.randrange(40)] = chance.choice((0, 1, 5, 127, 255, chance.randrange(256)))
        try:
            array = read_tensor(bytes(found))
        except ParseError:
            continue
        assert array.nbytes <= len(data)
        read += 1
    assert 0 < read < 3000


def test_levels_of_detail_are_passed_over() -> None:
    plain = write_tensors({"a": np.arange(3.0)})
    levels = (1).to_bytes(8, "little") + (16).to_bytes(8, "little") + bytes(16)
    assert read_tensor(plain[:4] + levels + plain[12:]).tolist() == [0.0, 1.0, 2.0]


# -- models for inference ----------------------------------------------------------------------------


def model_bytes(names: tuple[str, ...] = ("w", "b")) -> bytes:
    """``y = x w + b`` with feed and fetch, as Paddle stores it."""
    made = desc()
    block = made.blocks[0]
    for name, kind in (("feed", 9), ("fetch", 10)):
        block.vars.add(name=name, persistable=True).type.type = kind
    shapes = [("x", (-1, 2)), (names[0], (2, 3)), (names[1], (3,)), ("h", (-1, 3)), ("y", (-1, 3))]
    for name, shape in shapes:
        var = block.vars.add(name=name, persistable=name in names)
        var.type.type = 7
        var.type.lod_tensor.tensor.data_type = 5
        var.type.lod_tensor.tensor.dims.extend(shape)
    for op_type, inputs, outputs, attrs in (
        ("feed", {"X": "feed"}, {"Out": "x"}, {"col": (0, "i", 0)}),
        ("matmul_v2", {"X": "x", "Y": names[0]}, {"Out": "h"}, {}),
        ("elementwise_add", {"X": "h", "Y": names[1]}, {"Out": "y"}, {}),
        ("fetch", {"X": "y"}, {"Out": "fetch"}, {"col": (0, "i", 0)}),
    ):
        op = add_op(made, op_type, 0, **attrs)
        for slot, name in inputs.items():
            add_slot(op.inputs, slot, name)
        for slot, name in outputs.items():
            add_slot(op.outputs, slot, name)
    return bytes(made.SerializeToString())


VALUES = {"w": np.arange(6, dtype="float32").reshape(2, 3), "b": np.ones(3, "float32")}


def stored_model(folder: Path, program: str, parameters: str | None) -> Path:
    folder.mkdir()
    (folder / program).write_bytes(model_bytes())
    if parameters is not None:
        (folder / parameters).write_bytes(write_tensors(VALUES))
        return folder
    for name, array in VALUES.items():
        (folder / name).write_bytes(write_tensors({name: array}))
    return folder


@pytest.mark.parametrize("program", ["__model__", "inference.pdmodel"])
@pytest.mark.parametrize("parameters", [None, "__params__", "params", "inference.pdiparams", "other.bin"])
def test_models_in_all_their_forms(program: str, parameters: str | None, tmp_path: Path) -> None:
    folder = stored_model(tmp_path / "model", program, parameters)
    named = parameters if parameters in ("other.bin", "inference.pdiparams") else None
    model = load_inference_model(folder, parameters_file=named)
    assert (model.feed_names, model.fetch_names, model.unknown_operators) == (["x"], ["y"], {})
    assert [op.type for op in model.program.global_block().ops] == ["matmul_v2", "elementwise_add"]
    assert not model.program.global_block().has_var("feed")
    scope = ga.Scope()
    for name, array in model.parameters.items():
        scope.set(name, array)
    x = np.array([[1.0, 2.0]], "float32")
    (y,) = ga.Executor().run(model.program, feed={"x": x}, fetch_list=model.fetch_names, scope=scope)
    np.testing.assert_array_equal(y, x @ VALUES["w"] + VALUES["b"])


def test_a_model_by_the_path_its_files_share(tmp_path: Path) -> None:
    folder = stored_model(tmp_path / "model", "net.pdmodel", "net.pdiparams")
    (folder / "other.pdmodel").write_bytes(b"")
    assert load_inference_model(folder / "net").feed_names == ["x"]
    assert load_inference_model(folder, "net.pdmodel").feed_names == ["x"]
    with pytest.raises(InvalidValue, match=r"has 2 programs \(net.pdmodel, other.pdmodel\); name one"):
        load_inference_model(folder)


def test_the_model_keeps_its_feeds_where_it_is_loaded_as_a_program(tmp_path: Path) -> None:
    folder = stored_model(tmp_path / "model", "net.pdmodel", "net.pdiparams")
    found = load(folder / "net.pdmodel")
    assert found.arrays.keys() == VALUES.keys()
    assert dump_program(found.program) == model_bytes() == dump_program(load_program(model_bytes()))
    save(found.program, tmp_path / "copy.pdmodel", found.arrays)
    for end in (".pdmodel", ".pdiparams"):
        assert (tmp_path / f"copy{end}").read_bytes() == (folder / f"net{end}").read_bytes()


def test_parameters_outside_of_the_folder_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("../w", str(tmp_path / "w")):
        (tmp_path / "w").write_bytes(write_tensors({"w": VALUES["w"]}))
        (folder / "b").write_bytes(write_tensors({"b": VALUES["b"]}))
        (folder / "__model__").write_bytes(model_bytes((name, "b")))
        with pytest.raises(ParseError, match="would be outside of the folder"):
            load_inference_model(folder)


def test_models_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_inference_model(tmp_path / "none")
    with pytest.raises(InvalidValue, match=r"has 0 programs \(__model__, \*\.pdmodel\)"):
        load_inference_model(tmp_path)
    folder = stored_model(tmp_path / "model", "net.pdmodel", "net.pdiparams")
    (folder / "net.pdiparams").write_bytes(write_tensors({"b": VALUES["w"], "w": VALUES["b"]}))
    with pytest.raises(ParseError, match=r"net\.pdiparams: the value of 'b' is float32\[2, 3\], but it is declared"):
        load_inference_model(folder)
    (folder / "net.pdmodel").write_bytes(b"\n")
    with pytest.raises(ParseError, match=r"net\.pdmodel: 1 bytes are not a serialized ProgramDesc"):
        load_inference_model(folder)


def test_a_tensor_of_a_dtype_that_is_not_known() -> None:
    tensor = message("VarType.TensorDesc")(data_type=22, dims=[1]).SerializeToString()
    with pytest.raises(ParseError, match=r"a tensor of dtype 22 and shape \[1\]"):
        read_tensor(bytes(16) + len(tensor).to_bytes(4, "little") + tensor + bytes(2))


def test_a_saved_program_is_a_program(tmp_path: Path) -> None:
    main, scope, _ = trained()
    save(main, tmp_path / "m.json", scope)
    assert str(read_program(tmp_path / "m.json")) == str(main)


def test_a_folder_that_does_not_exist_is_refused_with_the_path_passed_in(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        ga.save(ga.Program(), tmp_path / "nowhere" / "m.txt")
    assert error.value.filename == str(tmp_path / "nowhere" / "m.txt")
