"""The solver's model of operators agrees with their kernels: on numbers, the kernel's result is one that the solver allows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from graphad.ops import REGISTRY, lookup
from graphad.rewriting import smt
from graphad.rewriting.proving import _python
from graphad.rewriting.smt_operators import ASSUMED, NONNEGATIVE, NoMeaning, add, meaning_of, mul
from graphad.types import TensorType
from tests.shares import one_in

z3 = pytest.importorskip("z3", reason="z3-solver is not installed: pip install 'graphad[proof]'")

FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -1.5,
    0.1,
    3e4,
    1e-40,
    -1e300,
    1e308,
    5e-324,
    np.inf,
    -np.inf,
    np.nan,
    0.49999999999999994,
    7.0,
    89.0,
)
INTS = (0, 1, -1, 2, -7, 100, 2**31 - 1, -(2**31))
DTYPES = ("float64", "float32", "int64", "int32", "bool")
ATTRIBUTES: dict[str, tuple[dict[str, Any], ...]] = {
    "scale": (
        {},
        {"scale": 2.5, "bias": -0.7},
        {"scale": -1.0},
        {"scale": 2.0, "bias": 1.0},
        {"scale": 3.0, "bias": 1 / 3, "bias_after_scale": False},
    ),
    "increment": ({"step": 0.0}, {"step": 1 / 3}, {"step": -0.0}),
    "cast": tuple({"out_dtype": dtype} for dtype in DTYPES),
    "fill_any_like": ({"value": 1.0}, {"value": 0.0}, {"value": 1 / 3, "dtype": "float32"}, {"value": 1.0, "dtype": "bool"}),
    "clip": ({"min": -1.0, "max": 1.0}, {"min": 0.1, "max": 0.1}, {"min": 2.0, "max": -2.0}, {"min": np.nan, "max": 1.0}),
    "relu6": ({}, {"threshold": 0.1}, {"threshold": -1.0}),
    "pow": tuple({"factor": factor} for factor in (0.0, 1.0, 2.0, 3.0, 0.5)),
    "swish": ({}, {"beta": 2.5}, {"beta": -1.0}),
}


ELEMENTWISE = {type for type, definition in REGISTRY.items() if definition.elementwise}
# What they do with numpy's functions has no meaning for the solver.
WITHOUT_MEANING = {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "digamma"}
WITHOUT_MEANING |= {"isclose", "lgamma", "log10", "log2", "polygamma", "sinh", "tan", "view_dtype"}
WITHOUT_MEANING |= {f"bitwise_{name}" for name in ("and", "not", "or", "xor")}
WITHOUT_MEANING |= {f"elementwise_{name}" for name in ("floordiv", "fmax", "fmin", "heaviside", "mod")}

WITHOUT_MEANING_IN = {  # though the kernels take these dtypes
    "elementwise_div": {"int64", "int32", "bool"},
    "elementwise_pow": {"int64", "int32"},
    "trunc": {"int64", "int32", "bool"},
}


def values(dtype: str) -> list[Any]:
    numbers = FLOATS if dtype.startswith("float") else (0, 1) if dtype == "bool" else INTS
    with np.errstate(over="ignore"):
        return [np.dtype(dtype).type(number) for number in numbers]


def operands(op_type: str, dtype: str) -> list[tuple[Any, ...]]:
    """Values for the inputs: all pairs, for three operands a part of them."""
    every = values(dtype)
    if op_type == "where":
        return [(np.bool_(c), x, y) for c in (0, 1) for x, y in itertools.product(every[::3], repeat=2)]
    count = 2 if op_type == "sum" else len([slot for slot in lookup(op_type).inputs.values() if not slot.optional])
    every = every[::4] if count > 1 else every[::2] if op_type in ATTRIBUTES else every
    return list(itertools.product(every, repeat=count))


def computed(op_type: str, arguments: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The kernel's result for an array full of these numbers; None if it does not take them."""
    definition = lookup(op_type)
    arrays = [np.full((5,), argument) for argument in arguments]
    slots = {"X": arrays} if op_type == "sum" else {slot: [array] for slot, array in zip(definition.inputs, arrays, strict=False)}
    try:
        definition.infer_types({slot: [TensorType(a.shape, a.dtype.name) for a in items] for slot, items in slots.items()}, attrs)
        with np.errstate(all="ignore"):
            out = definition.run(slots, attrs, tuple(definition.outputs))
    except (ValueError, TypeError, OverflowError):
        return None
    (result,) = next(iter(out.values()))
    assert all(smt_equal(result[0], other) for other in result), "it is the same at every place of an array"
    return result[0]


def smt_equal(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


KNOWN = {"sum": "elementwise_add", "product": "elementwise_mul", "quotient": "elementwise_div"}


def pinned(functions: smt.Functions) -> list[tuple[Any, Any]]:
    """The results of functions of which little is known, each with what the kernel computes for the arguments."""
    pins: list[tuple[Any, Any]] = []
    for name, arguments, result in functions.applied:
        dtype = smt.dtype_of(arguments[0])
        known = [z3.simplify(z3.substitute(argument, *pins)) for argument in arguments]
        if KNOWN.get(name, name) in REGISTRY and all(map(z3.is_fp_value, known)):
            numbers = map(_python, known)
            kernel = lookup(KNOWN.get(name, name)).kernel
            with np.errstate(all="ignore"):
                value = kernel(*(np.full((5,), number, dtype) for number in numbers))[0]
            pins.append((result, smt.number(value.item(), dtype)))
    return pins


def is_allowed(element: Any, result: Any, functions: smt.Functions) -> bool:
    """Whether an element may be what the kernel computed."""
    expected = smt.number(result.item(), result.dtype.name)
    if element.sort() != expected.sort():
        return False
    claim = z3.simplify(z3.substitute(z3.And(smt.equal(element, expected), *functions.facts), *pinned(functions)))
    if z3.is_true(claim) or z3.is_false(claim):
        return bool(z3.is_true(claim))
    solver = z3.Solver()
    solver.add(claim)
    return bool(solver.check() == z3.sat)


SLOW_BIT_BY_BIT = {"selu"}  # z3 multiplies constants by exponentials of which it knows little: as long as all others together
MEANINGS = [
    pytest.param(op_type, exact, id=f"{op_type}-{how}", marks=[pytest.mark.long] if exact and op_type in SLOW_BIT_BY_BIT else [])
    for op_type in sorted(ELEMENTWISE - WITHOUT_MEANING)
    for exact, how in ((True, "bit by bit"), (False, "by what is known"))
]


@pytest.mark.parametrize(("op_type", "exact"), one_in(3, MEANINGS))
def test_a_builder_allows_what_the_kernel_computes(op_type: str, exact: bool) -> None:
    compared: dict[str, int] = {}
    for dtype in DTYPES:
        for attrs, arguments in itertools.product(ATTRIBUTES.get(op_type, ({},)), operands(op_type, dtype)):
            result = computed(op_type, arguments, attrs)
            if result is None:
                continue
            compared.setdefault(dtype, 0)
            with smt.functions(exact) as functions:
                try:
                    elements = [smt.number(a.item(), a.dtype.name) for a in arguments]
                    element = meaning_of(lookup(op_type), elements, attrs, True, set())
                except smt.Unsupported:
                    continue
                assert is_allowed(element, result, functions), (op_type, dtype, attrs, arguments, result)
            compared[dtype] += 1
    assert {dtype for dtype, count in compared.items() if not count} == WITHOUT_MEANING_IN.get(op_type, set())
    assert any(compared.values())


ORDINARY = np.concatenate([np.random.default_rng(5).normal(size=3000) * scale for scale in (1e-3, 1.0, 30.0, 1e4)])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_assumed_of_functions_holds_in_the_kernels(dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = np.concatenate([np.array(FLOATS, dtype), ORDINARY.astype(dtype)])
    exp, cos, power, softmax = (lookup(name).kernel for name in ("exp", "cos", "elementwise_pow", "softmax"))
    with np.errstate(all="ignore"):
        assert np.all((exp(x) >= 0) | np.isnan(x))
        assert np.all(np.isnan(exp(x)) == np.isnan(x))
        assert exp(-x[:1]) == exp(x[:1])
        assert np.array_equal(cos(-x), cos(x), equal_nan=True)
        assert np.array_equal(power(x, np.ones_like(x)), x, equal_nan=True)
        assert np.all((softmax(x.reshape(2, -1)) >= 0) | np.isnan(softmax(x.reshape(2, -1))))
    assert set(ASSUMED) == {np.exp, np.cos, np.power}
    assert set(NONNEGATIVE) == {"softmax"}


@pytest.mark.parametrize("name", ["exp", "tanh", "log", "cos", "sin", "erf", "log1p", "expm1", "sqrt"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_function_gives_one_result_for_one_argument_wherever_it_stands(name: str, dtype: str) -> None:
    kernel, x = lookup(name).kernel, ORDINARY.astype(dtype)[:4001]
    with np.errstate(all="ignore"):
        whole = kernel(x)
        for step in (1, 3, 7):
            parts = np.concatenate([kernel(x[i : i + step]) for i in range(0, 200, step)])
            assert np.array_equal(whole[: len(parts)], parts, equal_nan=True)
        assert np.array_equal(kernel(x[::2]), whole[::2], equal_nan=True)


@pytest.mark.parametrize("op_type", sorted(WITHOUT_MEANING))
def test_an_operator_without_meaning_says_so(op_type: str) -> None:
    definition = lookup(op_type)
    attrs = {"n": 1} if op_type == "polygamma" else {}
    dtype = "int64" if op_type.startswith("bitwise") else "float64"
    with smt.functions(True), pytest.raises(NoMeaning):
        meaning_of(definition, [smt.number(1, dtype) for slot in definition.inputs.values() if not slot.optional], attrs, True, set())


@pytest.mark.parametrize("function", [add, mul])
def test_terms_do_not_depend_on_what_the_process_made_before(function: Any) -> None:
    """The solver numbers its terms as they are made, and a proof that was found at once was not found after others."""
    facts = []
    for mark, order in zip("abcdef", itertools.permutations("xyz"), strict=True):
        made = {name: z3.Const(f"{name} of {mark}", z3.Float32()) for name in order}
        with smt.functions(exact=False) as functions:
            for a, b in itertools.product("xyz", repeat=2):
                function(function(made[a], made[b]), made[a])
            facts.append([fact.sexpr().replace(f" of {mark}", "") for fact in functions.facts])
    assert len(facts[0]) > 50
    assert all(found == facts[0] for found in facts)


@pytest.mark.parametrize("function", [add, mul])
def test_sums_and_products_of_equal_operands_are_equal_in_any_order(function: Any) -> None:
    x, y, v, w = z3.Consts("x y v w", z3.Float32())
    with smt.functions(exact=False) as functions:
        one, other = function(x, y), function(v, w)
        solver = z3.SolverFor("QF_FPBV")
        solver.add(*functions.facts, x == w, y == v)
    assert solver.check(z3.fpNEQ(one, other), z3.Not(z3.fpIsNaN(one))) == z3.unsat
    assert solver.check(one == z3.FPVal(3.0, z3.Float32())) == z3.sat
