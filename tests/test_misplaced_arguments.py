"""Nothing that is given in another's place is taken for what belongs there: every parameter of the layers that documented calls use gets
values of a wrong kind, and the call is refused by an error of graphad's.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import graphad as ga
from graphad import layers as L
from graphad.errors import GraphadError
from tests.documented_call import Call
from tests.documented_fluid import FLUID
from tests.documented_fluid_more import FLUID_MORE
from tests.documented_fluid_rest import FLUID_REST
from tests.documented_spellings import SPELLINGS

pytestmark = pytest.mark.long
CALLS = [*FLUID, *FLUID_MORE, *FLUID_REST, *SPELLINGS]
EMPTY: object = inspect.Parameter.empty
REAL = {name: getattr(L, name) for name in dir(L) if callable(getattr(L, name))}

# What looks wrong and is right: Paddle 2's axis where Fluid has a hint, names of statistics, numbers that numpy takes too.
MEANT = {
    ("softmax", "use_cudnn"): "a flag is the hint",
    ("cumsum", "exclusive"): "None is Fluid's default",
    ("cumsum", "reverse"): "None is Fluid's default",
    ("batch_norm", "moving_mean_name"): "a name",
    ("batch_norm", "moving_variance_name"): "a name",
    ("inplace_abn", "moving_mean_name"): "a name",
    ("inplace_abn", "moving_variance_name"): "a name",
    ("assign", "input"): "a number is a tensor",
    ("fill_constant", "value"): "a number is cast to the dtype that is named",
    **{(name, end): "as numpy's arange" for name in ("range", "arange", "linspace") for end in ("start", "end", "stop", "step")},
    **{(name, "min_sizes"): "one number is a list of it" for name in ("prior_box",)},
    ("prior_box", "aspect_ratios"): "one number is a list of it",
    ("anchor_generator", "anchor_sizes"): "one number is a list of it",
    ("anchor_generator", "aspect_ratios"): "one number is a list of it",
    ("density_prior_box", "densities"): "one number is a list of it",
    ("density_prior_box", "fixed_sizes"): "one number is a list of it",
    ("density_prior_box", "fixed_ratios"): "one number is a list of it",
    ("dist", "p"): "any power",
    ("mish", "threshold"): "any number",
    ("transpose", "data_format"): "read by nothing",
    ("affine_channel", "data_layout"): "read as a word",
    ("im2sequence", "out_stride"): "read only with image_size",
}


def wrong_values(name: str, parameter: inspect.Parameter, given: object) -> list[object]:
    """Values that cannot be meant for a parameter, by what it has been given or has by default."""
    value = given if given is not EMPTY else parameter.default
    if isinstance(value, ga.Variable) or (isinstance(value, list | tuple) and value and isinstance(value[0], ga.Variable)):
        return ["relu"]
    if name == "name":
        return [3.5, True, [1, 2]]
    if name == "act":
        return [3.5, True, "no_such_act"]
    if name.endswith("_attr"):
        return [3.5, [1, 2], "relu"]
    if isinstance(value, bool):
        return ["relu", 3.5, [1, 2], None, 3]
    if isinstance(value, int):
        return ["relu", True, 3.5]
    if isinstance(value, float):
        return ["relu", True, [1, 2]]
    if isinstance(value, str):
        return ["no_such_word", 3.5, True]
    if isinstance(value, list | tuple):
        return ["relu", True, 3.5]
    return ["no such", object()] if value is None else ["relu"]


class Accepted(BaseException):
    """A layer has taken what it should have refused."""


def with_layers(call: Call, replaced: dict[str, Callable[..., Any]]) -> None:
    """A documented call with some layers replaced."""
    with pytest.MonkeyPatch.context() as patch, ga.program_guard(ga.Program(), ga.Program()):
        for name, function in replaced.items():
            patch.setattr(L, name, function)
        arrays = enumerate(call.arrays)
        call.call(*[REAL["data"](f"x{i}", list(a.shape), append_batch_size=False, dtype=str(a.dtype)) for i, a in arrays])


def calls_of(call: Call) -> dict[str, inspect.BoundArguments]:
    """The layers that a documented call calls, with what it gives them."""
    found: dict[str, inspect.BoundArguments] = {}

    def recorder(name: str) -> Callable[..., Any]:
        def recorded(*args: Any, **options: Any) -> Any:
            with contextlib.suppress(TypeError):  # another spelling than the signature's
                found.setdefault(name, inspect.signature(REAL[name]).bind(*args, **options))
            return REAL[name](*args, **options)

        return recorded

    with_layers(
        call, {name: recorder(name) for name in REAL if name not in ("ParamAttr", "LayerHelper") and inspect.isfunction(REAL[name])}
    )
    return found


def mistakes() -> Iterator[tuple[str, str, object]]:
    """Layer, parameter and value of every wrong call that was not refused by an error of graphad's."""
    tried: set[tuple[str, str]] = set()
    for call in CALLS:
        for name, bound in calls_of(call).items():
            for word, parameter in bound.signature.parameters.items():
                if (name, word) in tried or parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                    continue
                tried.add((name, word))
                for value in wrong_values(word, parameter, bound.arguments.get(word, EMPTY)):
                    if (name, word) not in MEANT and not is_refused(call, name, word, value):
                        yield name, word, value
    assert len(tried) > 700, "the sweep has lost what it sweeps"


def is_refused(call: Call, name: str, word: str, value: object) -> bool:
    def wrong(*args: Any, **options: Any) -> Any:
        bound = inspect.signature(REAL[name]).bind(*args, **options)
        bound.arguments[word] = value
        raise Accepted(REAL[name](**bound.arguments))

    try:
        with_layers(call, {name: wrong})
    except GraphadError:
        return True
    except (Accepted, TypeError, ValueError, AttributeError):
        return False
    return True  # the layer was not reached: another one before it was


def test_no_misplaced_argument_is_taken_for_another() -> None:
    assert [*mistakes()] == []
