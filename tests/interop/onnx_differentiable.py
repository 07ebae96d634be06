"""The inputs that ONNX's schemas mark differentiable: derivatives of the first and second order, against central differences in float64.

    python -m tests.interop.onnx_differentiable [OPERATOR ...]

Each operator is taken from the node tests of the ``onnx`` package, moved a little away from where it may have kinks. Inputs that are not
differentiable are fixed at load.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import graphad as ga
from graphad.errors import GraphadError
from graphad.interop import onnx
from graphad.types import Array

STEPS = (1e-4, 1e-5, 1e-6)
NEAR = 1e-5  # of the derivative, or of 1
_FLOATS = (np.float32, np.float64)
_DIFFERENTIABLE = defs.OpSchema.DifferentiationCategory.Differentiable


def marked() -> dict[str, list[str]]:
    """The differentiable inputs of the newest version of each operator of the default domain, by operator."""
    newest: dict[str, Any] = {}
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain and not schema.deprecated and schema.since_version >= getattr(newest.get(schema.name), "since_version", 0):
            newest[schema.name] = schema
    found = {
        name: [item.name for item in schema.inputs if item.differentiation_category == _DIFFERENTIABLE] for name, schema in newest.items()
    }
    return {name: names for name, names in sorted(found.items()) if names}


@cache
def _cases() -> dict[str, list[Any]]:
    """The node tests of one node, by its operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases("")
    by_type: dict[str, list[Any]] = {}
    for case in found:
        if case.model and len(case.model.graph.node) == 1 and case.model.graph.node[0].domain in ("", "ai.onnx"):
            by_type.setdefault(case.model.graph.node[0].op_type, []).append(case)
    return by_type


# What no node test has: attributes, and the shapes of the inputs, or the inputs that are no numbers to draw.
_BOXES = np.array([[1, 0.0, 0.0, 3.0, 2.0], [0, 1.0, 1.0, 4.0, 3.0]], "float32")
_MORE: dict[str, tuple[dict[str, Any], list[tuple[int, ...] | Array]]] = {
    "Cast": ({"to": TensorProto.FLOAT}, [(2, 3)]),
    "CastLike": ({}, [(2, 3), (2, 3)]),
    "Conv": ({"pads": [1, 1, 1, 1]}, [(2, 3, 4, 5), (4, 3, 3, 3), (4,)]),
    "ConvTranspose": ({"strides": [2, 2]}, [(2, 3, 4, 5), (3, 4, 3, 3), (4,)]),
    "GlobalLpPool": ({"p": 3}, [(2, 3, 4, 5)]),
    "MaxRoiPool": ({"pooled_shape": [2, 2]}, [(2, 2, 4, 5), _BOXES]),
    "Trilu": ({"upper": 0}, [(2, 3, 4)]),
}


def _own(type: str) -> Iterator[tuple[Any, list[Array]]]:
    """A model of one node and its inputs, as those of node tests."""
    if type not in _MORE:
        return
    attrs, shapes = _MORE[type]
    names = [f"x{i}" for i in range(len(shapes))]
    rng = np.random.default_rng(2)
    inputs = [rng.normal(size=item).astype("float32") if isinstance(item, tuple) else item for item in shapes]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, item.shape) for name, item in zip(names, inputs, strict=True)]
    graph = helper.make_graph([helper.make_node(type, names, ["y"], **attrs)], "g", infos, [helper.make_empty_tensor_value_info("y")])
    yield helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), inputs


@dataclass
class Example:
    """A node test as a function of its differentiable inputs.

    ``names`` are theirs in the graph, by those in the schema.
    """

    model: onnx.OnnxModel
    names: dict[str, list[str]]
    feeds: dict[str, Array]

    def outputs(self, program: ga.Program, feeds: Mapping[str, Array], fetch: Sequence[str]) -> list[Array]:
        scope = ga.Scope()
        for name, array in self.model.parameters.items():
            scope.set(name, array.astype("float64") if array.dtype == np.float32 else array)
        return ga.Executor(mode="interpreted").run(program, dict(feeds), list(fetch), scope)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def examples(type: str) -> Iterator[Example]:
    """The node tests of an operator that have float32 inputs and can be read; their inputs are moved, then as they are."""
    wanted = marked()[type]
    tests = [(case.model, case.data_sets[0][0]) for case in _cases().get(type, []) if case.model and case.data_sets]
    for made, values in [*tests, *_own(type)]:
        graph = made.graph
        arrays = {info.name: _array(value) for info, value in zip(graph.input, values, strict=False)}
        if not all(np.isfinite(array).all() for array in arrays.values() if getattr(array, "dtype", None) in _FLOATS):
            continue
        schema = defs.get_schema(type, max(item.version for item in made.opset_import if not item.domain), "")
        formal = [schema.inputs[min(i, len(schema.inputs) - 1)].name for i in range(len(graph.node[0].input))]
        names: dict[str, list[str]] = {}
        for own, name in zip(formal, graph.node[0].input, strict=True):
            if own in wanted and name in arrays and getattr(arrays[name], "dtype", None) in _FLOATS:
                names.setdefault(own, []).append(name)
        free = {name for several in names.values() for name in several}
        try:
            model = onnx.load(made.SerializeToString(), bind={name: array for name, array in arrays.items() if name not in free})
            _ = model.program
        except (GraphadError, AttributeError, TypeError):
            continue
        rng = np.random.default_rng(0)
        feeds = {name: arrays[name].astype("float64") for name in model.feed_names}
        for moved in (0.02, 0.0):
            yield Example(model, names, {name: array + moved * rng.normal(size=array.shape) for name, array in feeds.items()})


def _in_double(program: ga.Program) -> ga.Program:
    return ga.Program.parse(str(program).replace("float32", "float64").replace("fp32_values", "fp64_values"))


def _slope(block: Any, gradient: Any, way: str) -> Any:
    return ga.layers.reduce_sum(gradient * block.var(way))


def errors(example: Example, names: Sequence[str]) -> tuple[float, float]:
    """How far the first and the second derivative along a direction of some inputs are from central differences, of them or of 1."""
    rng, program = np.random.default_rng(1), _in_double(example.model.program)
    block, feeds = program.global_block(), dict(example.feeds)
    fetched = [name for name in example.model.fetch_names if block.var(name).dtype == "float64"]
    values = example.outputs(program, feeds, fetched)
    ways = {name: rng.normal(size=feeds[name].shape) for name in names}
    with ga.program_guard(program, ga.Program()):
        terms = []
        for name, array in zip(fetched, values, strict=True):
            weight = block.create_var(name=f"{name}@WEIGHT", shape=array.shape, dtype="float64")
            feeds[weight.name] = rng.normal(size=array.shape)
            terms.append(ga.layers.reduce_sum(block.var(name) * weight))
        loss = ga.layers.sums(terms)
        sources = [block.var(name) for name in names]
        for name, source in zip(names, sources, strict=True):
            source.stop_gradient = False
            block.create_var(name=f"{name}@WAY", shape=ways[name].shape, dtype="float64")
            feeds[f"{name}@WAY"] = ways[name]
        slope = curvature = ga.layers.fill_constant([], "float64", 0.0)
        found = [(name, each) for name, each in zip(names, ga.gradients([loss], sources), strict=True) if each is not None]
        if found:
            slope = ga.layers.sums([_slope(block, each, f"{name}@WAY") for name, each in found])
            again = [(name, each) for name, each in zip(names, ga.gradients([slope], sources), strict=True) if each is not None]
            if again:
                curvature = ga.layers.sums([_slope(block, each, f"{name}@WAY") for name, each in again])
    first, second = (float(array) for array in example.outputs(program, feeds, [slope.name, curvature.name]))

    def at(variable: Any, step: float) -> float:
        moved = {name: feeds[name] + step * way for name, way in ways.items()}
        return float(example.outputs(program, {**feeds, **moved}, [variable.name])[0])

    return _apart(first, loss, at), _apart(second, slope, at)


def _apart(derivative: float, variable: Any, at: Any) -> float:
    found = [(at(variable, step) - at(variable, -step)) / (2 * step) for step in STEPS]
    least = min(abs(each - derivative) for each in found) / max(1.0, abs(derivative))
    return least if np.isfinite(derivative) else float("inf")


def check(type: str) -> dict[str, str]:
    """The fault of each differentiable input of an operator; empty where both derivatives are right in one of its node tests."""
    left = dict.fromkeys(marked()[type], "no node test is read")
    for example in examples(type):
        for formal in [name for name in example.names if left.get(name)]:
            try:
                first, second = errors(example, example.names[formal])
            except (GraphadError, ValueError) as error:
                left[formal] = f"{error.__class__.__name__}: {str(error).splitlines()[0][:120]}"
                continue
            left[formal] = "" if max(first, second) <= NEAR else f"first order {first:.1e}, second order {second:.1e}"
        if not any(left.values()):
            break
    return left


def main(types: Sequence[str]) -> int:
    right = count = 0
    for type in types or marked():
        for name, wrong in check(type).items():
            count, right = count + 1, right + (not wrong)
            if wrong or types:
                print(f"{type:28}{name:14}{wrong or 'right'}", flush=True)
    print(f"{right} of {count} differentiable inputs have right derivatives of the first and the second order")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
