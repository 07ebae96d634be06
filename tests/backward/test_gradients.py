"""``gradients``: any targets, any inputs, values against numpy; and values of a name that is written more than once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.testing import Case, check_case
from graphad.testing.cases import completed
from graphad.testing.trial import BACKWARD
from tests.backward.test_append_backward import Net, X, backward, evaluated, vector

Gradients = list[ga.Variable | None]
SQUARE = ("elementwise_mul", {"X": "x", "Y": "x"}, "y")


def var(program: ga.Program, name: str) -> ga.Variable:
    return program.global_block().var(name)


def check(program: ga.Program, targets: Any, inputs: list[str], expected: list[Any], starts: Any = None, **feed: Any) -> Gradients:
    """The gradients have the values expected, and the shapes and dtypes of the inputs."""
    found = ga.gradients([var(program, t) for t in targets], [var(program, i) for i in inputs], starts)
    for name, gradient, values in zip(inputs, found, expected, strict=True):
        assert gradient is not None
        assert gradient.tensor_type == var(program, name).tensor_type
        np.testing.assert_allclose(evaluated(program, [gradient], **feed)[0], values, rtol=1e-12)
    return found


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [["y", "z"], ["z", "y"]])
def test_a_target_that_is_an_ancestor_of_another_counts_too(targets: list[str]) -> None:
    program = vector(SQUARE, ("exp", {"X": "y"}, "z"))
    check(program, targets, ["x", "y"], [2 * X * (1 + np.exp(X * X)), 1 + np.exp(X * X)])


def test_a_target_named_twice_counts_twice() -> None:
    check(vector(SQUARE), ["y", "y"], ["x"], [4 * X])


@pytest.mark.parametrize("name", ["x", "y"])
def test_the_gradient_of_a_value_with_respect_to_itself_is_one(name: str) -> None:
    check(vector(SQUARE), [name], [name], [np.ones(3)])


def test_an_input_named_twice_has_its_gradient_twice() -> None:
    first, second = check(vector(SQUARE), ["y"], ["x", "x"], [2 * X, 2 * X])
    assert first is second


def test_an_input_that_does_not_reach_a_target_has_none() -> None:
    program = vector(SQUARE, ("tanh", {"X": "u"}, "v"), u=[2])
    y, x, u, v = (var(program, name) for name in "yxuv")
    assert ga.gradients(y, u) == [None]
    found = ga.gradients(y, [u, x, v])
    assert [g is None for g in found] == [True, False, True]


def test_data_and_stopped_values_can_be_requested() -> None:
    program = vector(SQUARE)
    var(program, "x").stop_gradient = True
    check(program, ["y"], ["x"], [2 * X])


def test_no_grad_set_cuts() -> None:
    program = vector(SQUARE, ("sum", {"X": ["x", "y"]}, "z"))
    x, y, z = (var(program, name) for name in "xyz")
    first, second = ga.gradients(z, [x, y], no_grad_set={y})
    assert second is None
    np.testing.assert_array_equal(evaluated(program, [first])[0], 1)


def test_unknown_extents_start_from_ones_of_the_value() -> None:
    program = ga.Program()
    x = program.global_block().create_var("x", [-1, 3], "float64")
    y = x * x
    (g,) = ga.gradients(y, x)
    assert g is not None
    assert g.shape == (-1, 3)
    for rows in (1, 4):
        x_value = np.ones((rows, 3))
        np.testing.assert_array_equal(ga.Executor().run(program, {"x": x_value}, [g], ga.Scope())[0], 2 * x_value)


def test_derivatives_of_derivatives() -> None:
    program = vector(SQUARE, ("elementwise_mul", {"X": "y", "Y": "y"}, "z"))
    names, expected, of = [], [4 * X**3, 12 * X**2, 24 * X, np.full(3, 24.0)], "z"
    for values in expected:
        (g,) = check(program, [of], ["x"], [values])
        assert g is not None
        of = g.name
        names.append(of)
    assert names == ["x@GRAD", "x@GRAD_0", "x@GRAD_1", "x@GRAD_2"]
    for name, values in zip(names, expected, strict=True):
        np.testing.assert_allclose(evaluated(program, [name])[0], values, rtol=1e-12)


# -- target_gradients ----------------------------------------------------------------------------

S = np.array([1.0, 2.0, 3.0])


def test_target_gradients_start_each_target() -> None:
    program = vector(SQUARE, ("exp", {"X": "x"}, "z"), s=[3])
    check(program, ["y", "z"], ["x"], [2 * X * S + np.exp(X)], [var(program, "s"), None], s=S)


def test_one_target_takes_one_target_gradient() -> None:
    program = vector(SQUARE, s=[3])
    (g,) = ga.gradients(var(program, "y"), var(program, "x"), var(program, "s"))
    np.testing.assert_allclose(evaluated(program, [g], s=S)[0], 2 * X * S)


def test_a_target_gradient_can_be_computed_from_the_target() -> None:
    program = vector(SQUARE, ("exp", {"X": "y"}, "s"))
    check(program, ["y"], ["x"], [2 * X * np.exp(X * X)], [var(program, "s")])


def test_a_target_gradient_may_be_called_what_it_is() -> None:
    program = vector(SQUARE, **{"y@GRAD": [3]})
    check(program, ["y"], ["x"], [2 * X * S], [var(program, "y@GRAD")], **{"y@GRAD": S})


@pytest.mark.parametrize(
    ("starts", "error", "message"),
    [
        ("s", TypeError, r"target_gradients are Variables or None, not 's'"),
        ([1], TypeError, r"target_gradients are Variables or None, not 1"),
        ([None, None], ValueError, r"2 target_gradients are given for 1 targets"),
        ([], ValueError, r"0 target_gradients are given for 1 targets"),
    ],
)
def test_wrong_target_gradients_are_refused(starts: Any, error: type[Exception], message: str) -> None:
    program = vector(SQUARE)
    before = str(program)
    with pytest.raises(error, match=message):
        ga.gradients(var(program, "y"), var(program, "x"), starts)
    assert str(program) == before


def test_a_backward_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is nothing to differentiate: find-op-path had no targets"):
        ga.Pipeline.parse("find-op-path, create-grad-ops").run(ga.lower(vector(SQUARE)))


@pytest.mark.parametrize("shape", [[4], [1, 3], []])
def test_a_target_gradient_of_another_shape_is_refused(shape: list[int]) -> None:
    program = vector(SQUARE, s=shape)
    before = str(program)
    with pytest.raises(ValueError, match=r"target 'y' has shape \[3\], its gradient 's' has \["):
        ga.gradients(var(program, "y"), var(program, "x"), var(program, "s"))
    assert str(program) == before


def test_a_target_gradient_of_another_dtype_is_refused() -> None:
    program = vector(SQUARE)
    start = program.global_block().create_var("i", [3], "int64")
    before = str(program)
    with pytest.raises(ValueError, match="target 'y' is float64, its gradient 'i' is int64"):
        ga.gradients(var(program, "y"), var(program, "x"), start)
    assert str(program) == before


# -- wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "inputs", "message"),
    [
        (lambda p: "y", lambda p: var(p, "x"), "targets are Variables, not 'y'"),
        (lambda p: [var(p, "y"), 3], lambda p: var(p, "x"), "targets are Variables, not 3"),
        (lambda p: var(p, "y"), lambda p: "x", "inputs are Variables, not 'x'"),
        (lambda p: var(p, "y"), lambda p: None, "inputs are Variables, not None"),
        (lambda p: var(p, "y"), lambda p: {var(p, "x")}, "inputs are Variables, not {"),
    ],
)
def test_targets_and_inputs_are_variables(targets: Any, inputs: Any, message: str) -> None:
    program = vector(SQUARE)
    before = str(program)
    with pytest.raises(TypeError, match=message):
        ga.gradients(targets(program), inputs(program))
    assert str(program) == before


def test_variables_of_two_programs_are_refused() -> None:
    program, other = vector(SQUARE), vector()
    with pytest.raises(ValueError, match="'y' and 'x' are variables of different programs"):
        ga.gradients(var(program, "y"), var(other, "x"))


def test_something_to_differentiate_is_wanted() -> None:
    program = vector(SQUARE)
    with pytest.raises(ValueError, match="gradients needs at least one target"):
        ga.gradients([], var(program, "x"))


def test_without_inputs_nothing_is_appended() -> None:
    program = vector(SQUARE)
    before = str(program)
    assert ga.gradients(var(program, "y"), []) == []
    assert str(program) == before


def test_an_integer_input_has_no_gradient() -> None:
    program = ga.Program()
    i = program.global_block().create_var("i", [3], "int64")
    with ga.program_guard(program):
        y = ga.layers.cast(i, out_dtype="float64") * 0.5
    assert ga.gradients(y, i) == [None]


# -- names written more than once ----------------------------------------------------------------


def times(a: str, b: str, out: str) -> tuple[str, dict[str, Any], str]:
    return "elementwise_mul", {"X": a, "Y": b}, out


def test_each_value_of_an_assigned_name_has_its_own_gradient() -> None:
    """q = (x²)², then y = exp(x): r = y q."""
    first = [SQUARE, times("y", "y", "q"), ("exp", {"X": "x"}, "e"), ("assign", {"X": "e"}, "y")]
    program = vector(*first, times("y", "q", "r"), ("reduce_sum", {"X": "r"}, "l"))
    check(program, ["l"], ["x"], [np.exp(X) * (X**4 + 4 * X**3)])
    np.testing.assert_allclose(evaluated(program, ["y", "q"]), [np.exp(X), X**4])


def test_an_assigned_name_whose_old_value_nothing_needs() -> None:
    program = vector(SQUARE, ("exp", {"X": "x"}, "e"), ("assign", {"X": "e"}, "y"), times("y", "y", "r"), ("reduce_sum", {"X": "r"}, "l"))
    check(program, ["l"], ["x"], [2 * np.exp(2 * X)])


def test_increment_leaves_the_counter_incremented_and_the_gradient_right() -> None:
    """y = x², q = y², y = y + 1: l = q y."""
    program = vector(SQUARE, times("y", "y", "q"), ("increment", {"X": "y"}, "y"), times("q", "y", "r"), ("reduce_sum", {"X": "r"}, "l"))
    check(program, ["l"], ["x"], [4 * X**3 * (X**2 + 1) + 2 * X**5])
    np.testing.assert_allclose(evaluated(program, ["y"])[0], X**2 + 1)


def test_a_fed_name_that_is_overwritten_stands_for_what_was_fed() -> None:
    """y = x², x = x + 1: l = x y."""
    program = vector(SQUARE, ("increment", {"X": "x"}, "x"), times("x", "y", "r"), ("reduce_sum", {"X": "r"}, "l"))
    (g,) = check(program, ["l"], ["x"], [2 * X * (X + 1) + X**2])
    assert g is not None
    assert g.name == "x@GRAD"
    np.testing.assert_allclose(evaluated(program, ["x"])[0], X + 1)
    check(program, [g.name], ["x"], [6 * X + 2])


def test_an_overwritten_name_stands_for_its_last_value() -> None:
    program = vector(SQUARE, ("increment", {"X": "y"}, "y"), times("y", "y", "r"), ("reduce_sum", {"X": "r"}, "l"))
    check(program, ["l"], ["y"], [2 * (X**2 + 1)])


def test_a_parameter_updated_in_place_has_the_gradient_of_its_first_value() -> None:
    program = ga.Program()
    block = program.global_block()
    w = block.create_parameter("w", [2], "float64")
    for op_type, inputs, out in [times("w", "w", "y"), ("increment", {"X": "w"}, "w"), times("w", "y", "r")]:
        block.append_op(op_type, inputs, {"Out": out})
    block.append_op("reduce_sum", {"X": "r"}, {"Out": "l"}, {"reduce_all": True})
    ((_, g),) = ga.append_backward(block.var("l"))
    scope, value = ga.Scope(), np.array([1.0, 2.0])
    scope.set(w.name, value)
    np.testing.assert_allclose(ga.Executor().run(program, fetch_list=[g], scope=scope)[0], 2 * value * (value + 1) + value**2)
    np.testing.assert_array_equal(scope.get("w"), value + 1)


def test_gradients_of_a_gradient_in_a_loss() -> None:
    """A gradient penalty: d/dw of |d loss/dw|², by central differences."""
    net = Net()
    (g,) = ga.gradients(net.loss, net.w)
    assert g is not None
    with ga.program_guard(net.program):
        penalty = ga.layers.reduce_sum(g * g, reduce_all=True)
    pairs = dict(ga.append_backward(penalty))
    assert [p.name for p in pairs] == ["w", "v"]
    assert len(set(backward(net.program))) == len(backward(net.program))
    np.testing.assert_allclose(net.values([pairs[net.w]])[0], differences(net, penalty), atol=1e-8)


def parsed(text: str) -> ga.Program:
    return completed(ga.Program.parse(text))


def test_an_output_that_does_not_depend_on_an_input_gives_it_no_gradient() -> None:
    """YNorm, an output of cos_sim, is the norm of Y and does not depend on X."""
    program = parsed(
        """program { block 0 { var x: float64[2, 3] var y: float64[2, 3]
        cos_sim(X=x, Y=y) -> (Out=o, XNorm=a, YNorm=b) mean(X=b) -> (Out=loss) } }"""
    )
    x, y = np.arange(1.0, 7.0).reshape(2, 3), np.ones((2, 3))
    (of_x, of_y) = ga.gradients(var(program, "loss"), [var(program, "x"), var(program, "y")])
    assert of_x is None
    assert of_y is not None
    (gradient,) = ga.Executor().run(program, {"x": x, "y": y}, [of_y])
    np.testing.assert_allclose(gradient, np.full((2, 3), 0.5 / np.sqrt(3.0)))
    with ga.program_guard(program):
        total = ga.layers.reduce_sum(ga.layers.square(of_y), reduce_all=True)
    assert ga.gradients(total, var(program, "x")) == [None]  # the grad operators are expanded


def test_a_parameter_on_which_the_output_used_does_not_depend_is_refused_with_the_reason() -> None:
    program = parsed(
        """program { block 0 { param x: float64[2, 3] param y: float64[2, 3]
        cos_sim(X=x, Y=y) -> (Out=o, XNorm=a, YNorm=b) mean(X=b) -> (Out=loss) } }"""
    )
    reason = "'x' has no gradient: the way to the loss is cut by operator 'cos_sim', whose YNorm does not depend on X"
    with pytest.raises(ga.errors.NoGradient, match=reason):
        ga.append_backward(var(program, "loss"), parameter_list=["x"])


def test_numbers_in_gradient_rules_keep_their_shape() -> None:
    """A constant without axes is written with ``shape=[]``: without a shape no reader would take it."""
    program = parsed(
        """program { block 0 { var x: float64[2, 3] var i: int64[2, 1]
        softmax_with_cross_entropy(Logits=x, Label=i) -> (Softmax=s, Loss=l) mean(X=l) -> (Out=loss) } }"""
    )
    (first,) = ga.gradients(var(program, "loss"), [var(program, "x")])
    assert first is not None
    with ga.program_guard(program):
        total = ga.layers.reduce_sum(ga.layers.square(first), reduce_all=True)
    ga.gradients(total, [var(program, "x")])
    constants = [op for op in program.global_block().ops if op.type == "fill_constant"]
    assert len(constants) > 2
    assert all("shape" in op.attrs for op in constants)


def differences(net: Net, target: ga.Variable, step: float = 1e-5) -> Any:
    scope, rng = ga.Scope(), np.random.default_rng(0)
    for p in net.program.all_parameters():
        scope.set(p.name, rng.normal(size=p.shape))
    feed, w = {"x": rng.normal(size=(4, 3))}, scope.get("w").copy()
    result = np.zeros_like(w)
    for index in np.ndindex(*w.shape):
        for sign in (1, -1):
            moved = w.copy()
            moved[index] += sign * step
            scope.set("w", moved)
            result[index] += sign * float(ga.Executor().run(net.program, feed, [target], scope)[0]) / (2 * step)
    return result


def test_an_output_that_a_program_leaves_out_is_computed_for_the_gradient() -> None:
    written = [_norm_gradients(outputs) for outputs in ("Out=t, Norm=n", "Out=t")]
    for one, other in zip(*written, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)


def _norm_gradients(outputs: str) -> list[np.ndarray]:
    """The first and second gradients of a function of ``norm``."""
    rows = f"norm(X=x) -> ({outputs}) {{axis=1, epsilon=0.5}} square(X=t) -> (Out=s) tanh(X=s) -> (Out=u) reduce_sum(X=u) -> (Out=loss)"
    program = completed(ga.Program.parse("program { block 0 { var x: float64[2, 3] " + rows + " } }"))
    x = program.global_block().var("x")
    first = ga.gradients(program.global_block().var("loss"), x)
    second = ga.gradients(first, x)
    return ga.Executor().run(program, {"x": np.arange(6.0).reshape(2, 3)}, [*first, *second])


def test_an_operator_that_reads_two_values_of_a_name_has_two_gradients() -> None:
    """``simplify`` lets it read what x was before; the gradients of the two are in two slots of one operator."""
    text = """program { block 0 {
        var x: float64[3] var w: float64[3] var old: float64[3] var y: float64[3] var loss: float64[]
        assign(X=x) -> (Out=old)
        exp(X=w) -> (Out=x)
        elementwise_sub(X=x, Y=old) -> (Out=y)
        reduce_sum(X=y) -> (Out=loss)
    } }"""
    case = Case(ga.Program.parse(text), "loss", {"x": X, "w": X})
    check_case(", ".join(["simplify", *BACKWARD]), case)
