"""One definition of an operator's arithmetic: all that is made of it computes the same, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad.errors import GraphadError
from graphad.execution.compiled import FIRST
from graphad.ops import REGISTRY, OpDef, formulas, operator
from graphad.ops.formulas import Constant, Input, formula, function_of, kernel_of, like, raised
from graphad.ops.inference import same_float
from graphad.ops.out_kernels import formula_of, writer, writes_into
from graphad.ops.traits import FUNCTION
from graphad.passes.fusion import FuseElementwise
from graphad.passes.memory import InPlace
from graphad.rewriting import prove, rewrite
from graphad.testing.samples import SAMPLES
from graphad.testing.samples.valid import computed
from graphad.types import TensorType
from tests.scratch import operators
from tests.shares import one_in

Array = NDArray[Any]
ELEMENTWISE = sorted(type for type, definition in REGISTRY.items() if definition.elementwise)
UNTRACEABLE = {"digamma", "isclose", "lgamma", "polygamma", "view_dtype"}  # they look at values, or at their bits
DTYPES = ("float16", "float32", "float64", "int32", "int64", "bool")
SPECIAL = {
    "f": (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 1e-6, -1e4, 6e4, np.inf, -np.inf, np.nan, 20.5, -89.0),
    "i": (0, 1, -1, 2, -7, 100, 2**31 - 1, -(2**31)),
    "b": (True, False),
}
LENGTH = 67  # more than a vector of the processor, and no multiple of one


def values(dtype: str, seed: int) -> Array:
    """Special values in some order, random ones after them."""
    kind = np.dtype(dtype).kind
    special, numbers = np.roll(np.array(SPECIAL[kind]), seed), np.random.default_rng(seed)
    drawn = numbers.normal(size=LENGTH) * 3.0 if kind == "f" else numbers.integers(-9, 9, LENGTH)
    return np.concatenate([special, drawn])[:LENGTH].astype(dtype)


def calls(definition: OpDef) -> Iterator[tuple[dict[str, list[Array]], dict[str, Any]]]:
    """Calls in each dtype that the operator takes, with the attributes of its samples."""
    for number, sample in enumerate(SAMPLES[definition.type]):
        attrs = {name: value for name, value in sample.attrs.items() if name != "axis"}
        slots = {slot: len(given) for slot, given in sample.slots().items() if not definition.inputs[slot].optional}
        for dtype in DTYPES:
            inputs = {
                slot: [values("bool" if slot == "Condition" else dtype, number + 5 * i) for i in range(count)]
                for slot, count in slots.items()
            }
            try:
                definition.infer_types({s: [TensorType(a.shape, a.dtype.name) for a in given] for s, given in inputs.items()}, attrs)
            except GraphadError:
                continue
            yield inputs, attrs


def same(a: Array, b: Array) -> bool:
    """Whether arrays have the same bits; all nans are alike."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a)[a == a], np.signbit(b)[b == b])


def written(definition: OpDef, arrays: Sequence[Array], attrs: Mapping[str, Any], like: Array, aliased: Sequence[int]) -> Array:
    """The result of the form with ``out=``, in an array of its own or in one of the inputs."""
    arrays = [array.copy() for array in arrays]
    write = writer(definition, attrs, [array.dtype for array in arrays], like.dtype, aliased)
    assert write is not None
    out = arrays[aliased[0]] if aliased else np.empty_like(like)
    with np.errstate(all="ignore"):
        write(arrays, out)
    return out


def in_a_block(definition: OpDef, slots: Mapping[str, Sequence[Array]], attrs: Mapping[str, Any], like: Array) -> Array:
    """The result of a compiled block that runs the operator alone."""
    program = ga.Program()
    block = program.global_block()
    names = {slot: [f"{slot}{i}" for i in range(len(given))] for slot, given in slots.items()}
    feeds = {name: array for slot, given in slots.items() for name, array in zip(names[slot], given, strict=True)}
    for name, array in feeds.items():
        block.create_var(name=name, shape=array.shape, dtype=array.dtype.name)
    block.create_var(name="result", shape=like.shape, dtype=like.dtype.name)
    block.append_op(definition.type, names, {next(iter(definition.outputs)): ["result"]}, dict(attrs))
    before = FIRST.set(1)
    try:
        (found,) = ga.Executor().run(program, feeds, ["result"], scope=ga.Scope())
    finally:
        FIRST.reset(before)
    return np.asarray(found)


@pytest.mark.parametrize("type", one_in(2, ELEMENTWISE))
def test_kernel_out_form_block_and_single_elements_agree_to_the_last_bit(type: str) -> None:
    definition, compared = REGISTRY[type], 0
    for slots, attrs in calls(definition):
        arrays = [array for given in slots.values() for array in given]
        outputs = computed(definition, slots, attrs)
        if outputs is None:  # some integers have no power
            continue
        ((whole,),) = outputs.values()
        context = (type, arrays[0].dtype, attrs)
        assert same(whole, in_a_block(definition, slots, attrs, whole)), context
        if formula_of(definition, [array.dtype for array in arrays], attrs) is None:
            continue
        compared += 1
        assert same(whole, written(definition, arrays, attrs, whole, [])), context
        for i in [i for i, array in enumerate(arrays) if array.dtype == whole.dtype]:
            assert same(whole, written(definition, arrays, attrs, whole, [i])), context
        for i in range(LENGTH if definition.uniform else 0):
            one = written(definition, [array[i : i + 1] for array in arrays], attrs, whole[i : i + 1], [])
            assert same(whole[i : i + 1], one), (*context, i)
    assert compared or type in UNTRACEABLE


def test_all_but_a_few_elementwise_operators_are_traced() -> None:
    """In the first call of theirs that is a call of floats, or of what they take."""
    found = {}
    for type in ELEMENTWISE:
        slots, attrs = next(iter(calls(REGISTRY[type])))
        found[type] = formula_of(REGISTRY[type], [array.dtype for given in slots.values() for array in given], attrs)
    assert {type for type, each in found.items() if each is None} == UNTRACEABLE


# -- formulas ------------------------------------------------------------------------------------

F64 = np.dtype("float64")


def test_factors_of_one_and_negation_cost_no_call_and_a_sum_with_zero_stays() -> None:
    scale = REGISTRY["scale"]
    named = {}
    for attrs in ({"scale": -1.0, "bias": 1.0}, {"scale": 1.0, "bias": 2.0}, {"scale": 3.0}, {"scale": -1.0}, {}):
        found = formula_of(scale, [F64], attrs)
        assert found is not None
        named[tuple(attrs.values())] = [call.function.__name__ for call in found.calls]
    assert named == {(-1.0, 1.0): ["subtract"], (1.0, 2.0): ["add"], (3.0,): ["multiply", "add"], (-1.0,): ["subtract"], (): ["add"]}


def test_attributes_that_are_equal_and_not_the_same_are_told_apart() -> None:
    found = [formula_of(REGISTRY["increment"], [F64], {"step": step}) for step in (0.0, -0.0)]
    signs = [bool(np.signbit(arg.value)) for each in found if each for arg in each.calls[0].args if isinstance(arg, Constant)]
    assert signs == [False, True]


def test_memory_is_used_again_where_what_is_in_it_is_not_read_later() -> None:
    found = formula(lambda X: np.exp(X + 1.0) * (X + 2.0), [F64], {})
    assert found is not None
    assert [call.out for call in found.calls] == [None, 0, None, 1]
    assert found.calls[0].args[0] == Input(0)


@pytest.mark.parametrize(
    "function",
    [
        lambda X: X if X.any() else -X,
        lambda X: X.sum(),
        lambda X: np.cumsum(X),
        lambda X: np.add.accumulate(X),
        lambda X: np.asarray(X) + 1.0,
        lambda X: X**2.0,
        lambda X: X if X > 0 else -X,
        lambda X: np.add(X, X, where=X > 0),
        lambda X: np.ones(3),
        lambda X: X + np.ones(3),
    ],
)
def test_what_looks_at_values_or_shapes_is_not_traced(function: Any) -> None:
    assert formula(function, [F64], {}) is None


def test_a_kernel_gives_arrays_where_numpy_gives_scalars() -> None:
    kernel = kernel_of(lambda X, *, by=1.0: X * like(by, X))
    assert type(kernel(np.array(2.0), by=3.0)) is np.ndarray
    assert type(function_of(kernel)(np.array(2.0), by=3.0)) is np.float64
    scalar: Any = np.float64(2.0)
    assert type(raised(scalar, 2.0)) is np.ndarray


# -- what it is for ------------------------------------------------------------------------------


def test_a_scaled_zero_has_the_same_sign_at_every_run() -> None:
    """A block becomes a function after some runs: -0 + 0 is 0 in both."""
    declared = " ".join(f"var {name}: float64[1]" for name in "xay")
    text = f"program {{ block 0 {{ {declared} scale(X=x) -> (Out=a) {{scale=-1.0}} reciprocal(X=a) -> (Out=y) }} }}"
    program, executor = ga.Program.parse(text), ga.Executor()
    runs = [executor.run(program, {"x": np.zeros(1)}, ["y"], scope=ga.Scope())[0].item() for _ in range(12)]
    assert runs == [np.inf] * 12


def test_an_operator_of_another_package_is_fused_written_in_place_compiled_and_proved() -> None:
    seen: list[type] = []

    def bent(X: Any, *, by: float = 2.0) -> Any:
        seen.append(type(X))
        return np.sqrt(X * X + like(by, X))

    declared = " ".join(f"var {name}: float64[40]" for name in "xabc")
    text = "bent(X=x) -> (Out=a) {by=0.5} bent(X=a) -> (Out=b) tanh(X=b) -> (Out=c)"
    x = values("float64", 3)[:40]
    with operators(), np.errstate(all="ignore"):
        row = operator("X -> Out", name="bent", infer=same_float, grad=None, **FUNCTION)(bent)
        program = ga.Program.parse(f"program {{ block 0 {{ {declared} {text} }} }}")
        expected = np.tanh(row(row(x, by=0.5)))
        assert writes_into(row, [F64], {})
        for change in (None, FuseElementwise(), InPlace()):
            graph = ga.lower(program, ["c"])
            if change is not None:
                assert change.run(graph)
            after = ga.schedule(graph)
            before = FIRST.set(1)
            executor = ga.Executor()
            executor.run(after, {"x": x}, ["c"], scope=ga.Scope())
            seen.clear()
            (found,) = executor.run(after, {"x": x}, ["c"], scope=ga.Scope())
            FIRST.reset(before)
            assert same(expected, found)
            assert not seen, "the function is not called any more: what it calls is"

        @rewrite
        def bent_negative(x: Any) -> Any:
            return row(ga.ops.scale(x, scale=-1.0)), row(x)

        assert set(prove(bent_negative, timeout=60).dtypes) == {"float32", "float64"}


def test_operators_of_one_form_are_looked_through_once() -> None:
    """A program may have thousands of ``scale`` with factors of their own: only the constants differ from one to the next."""
    definition = REGISTRY["scale"]
    formulas._formula.cache_clear()
    formulas._plan.cache_clear()
    found = [formula_of(definition, [F64], {"scale": 2.0 + i, "bias": 0.5}) for i in range(50)]
    assert formulas._plan.cache_info().misses == 1
    factors = [[arg.value.item() for call in each.calls for arg in call.args if isinstance(arg, Constant)] for each in found if each]
    assert factors == [[2.0 + i, 0.5] for i in range(50)]
    plain = formula_of(definition, [F64], {"scale": 1.0, "bias": 0.5})
    assert plain is not None
    assert [call.function for call in plain.calls] == [np.add], "a factor 1 is none: that is another form"
