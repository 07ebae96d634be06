"""Bad input: refused where it is written, by name, and the program stays as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphad as ga


@dataclass(frozen=True)
class Bad:
    """Something one must not write, and the words its error must have.

    ``name`` is the variable it must name besides.
    """

    call: Callable[[Any], Any]
    error: type[Exception]
    words: tuple[str, ...]
    name: str = ""

    @property
    def lines(self) -> range:
        """Where it is written, in this file."""
        return range(self.call.__code__.co_firstlineno, self.call.__code__.co_firstlineno + 3)


def bad(error: type[Exception], *words: str, **more: str) -> Callable[[Callable[[Any], Any]], Bad]:
    return lambda call: Bad(call, error, words, **more)


def program() -> ga.Program:
    result = ga.Program()
    block = result.global_block()
    block.create_var("x", [-1, 3], "float32")
    block.create_var("k", [4], "float32")
    block.create_var("i", [4], "int64")
    block.create_parameter("w", [3, 2])
    return result


def foreign() -> ga.Variable:
    return ga.Program().global_block().create_var("k", [9], "float64")


def elsewhere() -> ga.Variable:
    return ga.Program().global_block().create_var("elsewhere", [9], "float64")


T, V = TypeError, ValueError
layers: Any = ga.layers
OUT = {"Out": "o"}

OPERATORS = [
    # the type
    bad(V, "operator 'tanhh' is not registered", "did you mean 'tanh'")(lambda b: b.append_op("tanhh", {"X": "x"}, OUT)),
    bad(T, "type", "3")(lambda b: b.append_op(3, {"X": "x"}, OUT)),
    bad(T, "type", "None")(lambda b: b.append_op(None, {"X": "x"}, OUT)),
    bad(T, "type", "tanh")(lambda b: b.append_op(["tanh"], {"X": "x"}, OUT)),
    bad(V, "role", "forward, backward, optimize", "'nope'")(lambda b: b.append_op("tanh", {"X": "x"}, OUT, role="nope")),
    # slots
    bad(V, "'tanh' has no input slot 'Y'", "its input slots are X")(lambda b: b.append_op("tanh", {"X": "x", "Y": "x"}, OUT)),
    bad(V, "'tanh' has no output slot 'Y'", "output slots are Out")(lambda b: b.append_op("tanh", {"X": "x"}, {"Out": "o", "Y": "p"})),
    bad(V, "'tanh'", "no input slot '1'")(lambda b: b.append_op("tanh", {1: "x"}, OUT)),
    bad(V, "'tanh': input slot 'X' is missing")(lambda b: b.append_op("tanh", {}, OUT)),
    bad(V, "'tanh': input slot 'X' is missing")(lambda b: b.append_op("tanh", None, OUT)),
    bad(V, "'sum': input slot 'X' is missing")(lambda b: b.append_op("sum", {"X": []}, OUT)),
    bad(V, "'tanh': output slot 'Out' is missing")(lambda b: b.append_op("tanh", {"X": "x"})),
    bad(T, "inputs of operator 'tanh' is a dict", "Variable x")(lambda b: b.append_op("tanh", b.var("x"), OUT)),
    bad(T, "outputs of operator 'tanh' is a dict", "'o'")(lambda b: b.append_op("tanh", {"X": "x"}, "o")),
    # names
    bad(V, "'tanh': input slot 'X' takes one name, got 2: x, k")(lambda b: b.append_op("tanh", {"X": ["x", "k"]}, OUT)),
    bad(V, "'tanh': output slot 'Out' takes one name, got 2: o, p")(lambda b: b.append_op("tanh", {"X": "x"}, {"Out": ["o", "p"]})),
    bad(V, "writes 2 values to slot 'Out', got 3 names: o, p, q")(
        lambda b: b.append_op("split", {"X": "k"}, {"Out": ["o", "p", "q"]}, {"num": 2, "axis": 0})
    ),
    bad(V, "'split'", "'o'", "twice")(lambda b: b.append_op("split", {"X": "k"}, {"Out": ["o", "o"]}, {"num": 2, "axis": 0})),
    bad(V, "'tanh' reads 'nope', which no block here declares")(lambda b: b.append_op("tanh", {"X": "nope"}, OUT)),
    bad(V, "Variable elsewhere: float64[9] is of another program")(lambda b: b.append_op("tanh", {"X": elsewhere()}, OUT)),
    bad(V, "Variable k: float64[9] is of another program", "float32[4]")(lambda b: b.append_op("tanh", {"X": foreign()}, OUT)),
    bad(T, "'tanh' slot 'X' takes variables or their names, not 3")(lambda b: b.append_op("tanh", {"X": 3}, OUT)),
    bad(T, "'tanh' slot 'X' takes variables", "array")(lambda b: b.append_op("tanh", {"X": np.ones(3)}, OUT)),
    bad(T, "'tanh' slot 'Out' takes variables", "5")(lambda b: b.append_op("tanh", {"X": "x"}, {"Out": 5})),
    bad(V, "name is not empty")(lambda b: b.append_op("tanh", {"X": "x"}, {"Out": ""})),
    bad(V, "name is not empty")(lambda b: b.append_op("split", {"X": "k"}, {"Out": ["o", ""]}, {"num": 2, "axis": 0})),
    # attributes
    bad(T, "attrs of operator 'scale' is a dict")(lambda b: b.append_op("scale", {"X": "x"}, OUT, [("scale", 1.0)])),
    bad(V, "'scale' has no attribute 'scal'", "scale, bias", "did you mean 'scale'")(
        lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scal": 1.0})
    ),
    bad(T, "'scale': an attribute's name is a string, not 3")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {3: 1.0})),
    bad(T, "'scale': attribute 'scale' is float, got str 'a'")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scale": "a"})),
    bad(T, "attribute 'scale' is float, got NoneType None")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scale": None})),
    bad(T, "attribute 'scale' is float, got bool True")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scale": True})),
    bad(T, "attribute 'axis' is int, got float nan")(lambda b: b.append_op("concat", {"X": "x"}, OUT, {"axis": float("nan")})),
    bad(T, "attribute 'axis' is int, got list [1]")(lambda b: b.append_op("concat", {"X": "x"}, OUT, {"axis": [1]})),
    bad(T, "attribute 'scale' is float, got list [1.0]")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scale": [1.0]})),
    bad(T, "attribute 'scale' is float, got ndarray")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scale": np.ones(2)})),
    bad(T, "attribute 'scale' is float, got complex 1j")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scale": 1j})),
    bad(T, "attribute 'bias_after_scale' is bool, got int 1")(lambda b: b.append_op("scale", {"X": "x"}, OUT, {"bias_after_scale": 1})),
    bad(T, "'cast'", "is not a dtype")(lambda b: b.append_op("cast", {"X": "x"}, OUT, {"out_dtype": np.ones(2)})),
    bad(T, "'cast'", "is not a dtype")(lambda b: b.append_op("cast", {"X": "x"}, OUT, {"out_dtype": [1]})),
    bad(V, "'scale': attribute 'scale' is float, which has no number as large as 1000")(
        lambda b: b.append_op("scale", {"X": "x"}, OUT, {"scale": 10**400})
    ),
    bad(V, "'concat': attribute 'axis' is int, of 64 bits at most, got -1000")(
        lambda b: b.append_op("concat", {"X": "x"}, OUT, {"axis": -(10**400)})
    ),
    bad(V, "attribute 'shape' is list[int], of 64 bits at most, got 9223372036854775808")(
        lambda b: b.append_op("reshape2", {"X": "x"}, OUT, {"shape": [2**63]})
    ),
    bad(V, "attribute 'values' is list[float], which has no number as large as 1000")(
        lambda b: b.append_op("assign_value", {}, OUT, {"shape": [1], "dtype": "float32", "values": [10**400]})
    ),
    bad(V, "attribute 'op_namescope' is an integer of 64 bits at most")(
        lambda b: b.append_op("tanh", {"X": "x"}, OUT, {"op_namescope": 10**400})
    ),
    bad(T, "attribute 'axis' is int, got float 1.0")(lambda b: b.append_op("concat", {"X": "x"}, OUT, {"axis": 1.0})),
    bad(T, "attribute 'shape' is list[int], got str 'a'")(lambda b: b.append_op("reshape2", {"X": "x"}, OUT, {"shape": [3, "a"]})),
    bad(T, "attribute 'shape' is list[int], got int 3")(lambda b: b.append_op("reshape2", {"X": "x"}, OUT, {"shape": 3})),
    bad(T, "'cast'", "'flot' is not a dtype", "float32")(lambda b: b.append_op("cast", {"X": "x"}, OUT, {"out_dtype": "flot"})),
    bad(V, "'reshape2': attribute 'shape' (list[int]) is missing")(lambda b: b.append_op("reshape2", {"X": "x"}, OUT)),
    # shapes and dtypes: both sides are shown
    bad(V, "'elementwise_add'", "X=x: float32[-1, 3]", "Y=k: float32[4]")(
        lambda b: b.append_op("elementwise_add", {"X": "x", "Y": "k"}, OUT)
    ),
    bad(V, "'matmul_v2'", "X=x: float32[-1, 3]", "Y=k: float32[4]")(lambda b: b.append_op("matmul_v2", {"X": "x", "Y": "k"}, OUT)),
    bad(V, "'elementwise_add'", "float32[4]", "int64[4]", "dtypes differ")(
        lambda b: b.append_op("elementwise_add", {"X": "k", "Y": "i"}, OUT)
    ),
    bad(V, "'tanh'", "X=i: int64[4]", "floating-point")(lambda b: b.append_op("tanh", {"X": "i"}, OUT)),
    bad(V, "'tanh' writes Out = 'k' as float32[-1, 3]", "declared as float32[4]")(lambda b: b.append_op("tanh", {"X": "x"}, {"Out": "k"})),
    bad(V, "'tanh' writes Out = 'i' as float32[4]", "declared as int64[4]")(lambda b: b.append_op("tanh", {"X": "k"}, {"Out": "i"})),
    bad(V, "'split' writes Out = 'i' as float32[2]", "declared as int64[4]")(
        lambda b: b.append_op("split", {"X": "k"}, {"Out": ["o", "i"]}, {"num": 2, "axis": 0})
    ),
    bad(V, "'concat'", "axis=7", "X=x: float32[-1, 3]")(lambda b: b.append_op("concat", {"X": ["x", "x"]}, OUT, {"axis": 7})),
]

ARITHMETIC = [
    bad(V, "'elementwise_add'", "X=x: float32[-1, 3]", "Y=k: float32[4]")(lambda b: b.var("x") + b.var("k")),
    bad(V, "'matmul_v2'", "X=x: float32[-1, 3]", "Y=k: float32[4]")(lambda b: b.var("x") @ b.var("k")),
    bad(V, "'less_than'", "float32[4]", "int64[4]")(lambda b: ga.layers.less_than(b.var("k"), b.var("i"))),
    bad(V, "Variable elsewhere: float64[9] is of another program")(lambda b: b.var("x") * elsewhere()),
    bad(T, "unexpected keyword argument 'axes'")(lambda b: layers.softmax(b.var("x"), axes=1)),
    bad(T, "'concat' slot 'X'", "not 3")(lambda b: layers.concat([b.var("x"), 3])),
    bad(T, "layers.tanh(x, name=None): name is a string, not Variable k")(lambda b: layers.tanh(b.var("x"), b.var("k"))),
    bad(V, "'split'", "X has the shape [4]", "num=3")(lambda b: layers.split(b.var("k"), num=3, axis=0)),
]

DECLARATIONS = [
    bad(V, "'x'", "shape [-1, 3]", "[-1, 4]")(lambda b: b.create_var("x", [-1, 4])),
    bad(V, "'x'", "shape [-1, 3]", "[2, 3]")(lambda b: b.create_var("x", [2, 3])),
    bad(V, "'x'", "dtype float32", "int64")(lambda b: b.create_var("x", dtype="int64")),
    bad(V, "'x'", "type LOD_TENSOR", "STEP_SCOPES")(lambda b: b.create_var("x", type="STEP_SCOPES")),
    bad(V, "'x'", "persistable False", "True")(lambda b: b.create_var("x", persistable=True)),
    bad(V, "'w'", "persistable True", "False")(lambda b: b.create_var("w", persistable=False)),
    bad(V, "'w'", "persistable True", "False")(lambda b: b.create_var("w", [3, 2], "float32", persistable=False)),
    bad(T, "name is a string, not 3")(lambda b: b.create_var(3)),
    bad(T, "name is a string, not ['n']")(lambda b: b.create_var(["n"])),
    bad(V, "name is not empty")(lambda b: b.create_var("")),
    bad(T, "a shape is a list of ints, not 'ab'", name="'n'")(lambda b: b.create_var("n", "ab")),
    bad(T, "a shape is a list of ints, not [1.5]", name="'n'")(lambda b: b.create_var("n", [1.5])),
    bad(T, "a shape is a list of ints, not [True]", name="'n'")(lambda b: b.create_var("n", [True])),
    bad(T, "a shape is a list of ints, not 3", name="'n'")(lambda b: b.create_var("n", 3)),
    bad(V, "extent -2", name="'n'")(lambda b: b.create_var("n", [2, -2])),
    bad(T, "'flt' is not a dtype", "float32", name="'n'")(lambda b: b.create_var("n", [2], "flt")),
    bad(V, "99 is not the number of a dtype", name="'n'")(lambda b: b.create_var("n", [2], 99)),
    bad(V, "'complex64' is not supported", name="'n'")(lambda b: b.create_var("n", [2], "complex64")),
    bad(V, "LOD_TENSOR, LOD_TENSOR_ARRAY, STEP_SCOPES", "'X'", name="'n'")(lambda b: b.create_var("n", type="X")),
]

PARAMETERS = [
    bad(V, "'w'", "shape [3, 2]", "[3, 4]")(lambda b: b.create_parameter("w", [3, 4])),
    bad(V, "'w'", "dtype float32", "float64")(lambda b: b.create_parameter("w", [3, 2], "float64")),
    bad(V, "'x'", "not as a parameter")(lambda b: b.create_parameter("x", [3])),
    bad(V, "[-1, 2]", "none is -1", name="'n'")(lambda b: b.create_parameter("n", [-1, 2])),
    bad(V, "'n' needs a shape")(lambda b: b.create_parameter("n", None)),
    bad(V, "needs a shape", name="'n'")(lambda b: b.create_parameter("n")),
    bad(V, "'n' needs a shape and a dtype")(lambda b: b.create_parameter("n", [2], None)),
    bad(T, "name is a string, not 3")(lambda b: b.create_parameter(3, [2])),
    bad(T, "name is a string, not ['n']")(lambda b: b.create_parameter(["n"], [2])),
    bad(T, "'n'", "learning_rate", "'a'")(lambda b: b.create_parameter("n", [2], learning_rate="a")),
    bad(T, "'n'", "trainable", "'no'")(lambda b: b.create_parameter("n", [2], trainable="no")),
]

CASES = pytest.mark.parametrize("case", [*OPERATORS, *ARITHMETIC, *DECLARATIONS, *PARAMETERS], ids=lambda case: case.words[0])


def state(written: ga.Program) -> tuple[str, list[int]]:
    """The state that a refusal must not change: the text, and the identities of variables and operators."""
    return str(written), [id(o) for b in written.blocks for o in (*b.vars.values(), *b.ops)]


def refusal(case: Bad, written: ga.Program) -> str:
    """The message that the case is refused with."""
    with ga.program_guard(written), pytest.raises(case.error, match=re.escape(case.words[0])) as caught:
        case.call(written.global_block())
    return str(caught.value) if isinstance(caught.value, ga.errors.GraphadError) else ""


@CASES
def test_bad_input_is_refused_and_leaves_nothing(case: Bad) -> None:
    written = program()
    before = state(written)
    message = refusal(case, written)
    assert not [word for word in case.words if word not in message], message
    assert state(written) == before


@CASES
def test_the_refusal_says_what_and_where(case: Bad) -> None:
    message = refusal(case, program())
    lines = {int(n) for n in re.findall(re.escape(__file__) + r":(\d+)", message)}
    assert case.name in message
    assert lines & set(case.lines), message


@pytest.mark.parametrize("act", ["rlu", "concat_grad"])
def test_a_refused_layer_leaves_nothing(act: str) -> None:
    written, startup = program(), ga.Program()
    before = state(written), state(startup)
    with ga.program_guard(written, startup), pytest.raises(ValueError, match=act):
        ga.layers.fc(written.global_block().var("x"), 2, act=act)
    assert (state(written), state(startup)) == before


def test_an_unknown_attribute_of_a_variadic_layer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"layers.split.*'axes'; did you mean 'axis'"):
        layers.split(program().global_block().var("k"), num=2, axes=0)


def test_what_was_refused_can_be_written_right() -> None:
    written = program()
    block = written.global_block()
    with pytest.raises(ValueError, match="has no attribute 'axes'"):
        block.append_op("softmax", {"X": "x"}, {"Out": "o"}, {"axes": 1})
    op = block.append_op("softmax", {"X": "x"}, {"Out": "o"}, {"axis": 1})
    assert block.ops == [op]
    assert block.var("o").shape == (-1, 3)


def test_an_insertion_is_checked_as_an_append_is() -> None:
    written = program()
    block = written.global_block()
    block.append_op("tanh", {"X": "x"}, {"Out": "y"})
    before = state(written)
    with pytest.raises(ValueError, match="'tanh' reads 'nope'"):
        block.insert_op(0, "tanh", {"X": "nope"}, {"Out": "z"})
    assert state(written) == before
    first = block.insert_op(0, "tanh", {"X": "x"}, {"Out": "z"})
    assert block.ops[0] is first


def test_a_message_of_any_size_is_shortened_in_the_middle() -> None:
    block = ga.Program().global_block()
    names = [f"value_{i}" for i in range(100_000)]
    for name in names:
        block.create_var(name, [1], "float32")
    block.create_var("odd", [2, 3], "float32")
    with pytest.raises(ValueError, match=r"characters left out\) \.\.\.") as caught:
        block.append_op("concat", {"X": [*names, "odd"]}, {"Out": "y"})
    message = str(caught.value)
    assert len(message) < 10_100
    assert message.startswith("operator 'concat': ")
    assert re.search(r"written at .*test_bad_input\.py:\d+$", message)
