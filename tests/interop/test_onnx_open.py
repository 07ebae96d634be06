"""Models whose extents are open compute what they compute where the extents are known; so do their gradients."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphad.errors import InvalidValue
from graphad.interop import onnx
from graphad.interop.onnx.operands import UnsupportedModel
from tests.onnx_models import graph, model, node

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("float32")


def sized(*sizes: float) -> dict[str, Array]:
    return {"s": np.array(sizes, "float32")}


IMAGE = {"x": normal(1, 2, 4, 5)}
HEADS = {"q": normal(2, 2, 3, 4), "k": normal(2, 2, 5, 4), "v": normal(2, 2, 5, 6)}
JOINED = {"q": normal(2, 3, 8), "k": normal(2, 5, 4), "v": normal(2, 5, 4)}
NORM = {"s": normal(4), "b": normal(4)}
TABLES = {"c": normal(8, 2), "s": normal(8, 2), "p": np.array([[2, 0, 5]])}
PLACES = {"i": np.array([[0, 1], [2, 0], [0, 1]])}
RESIZED = [
    (mode, coordinates, rounding, scales)
    for mode in ("nearest", "linear", "cubic")
    for coordinates in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners")
    for rounding, scales in (("round_prefer_floor", (1.5, 0.6)), ("ceil", (2.0, 3.0)))
]
# What is read, by its name: nodes, inputs, weights, the operator set.
CASES: dict[str, tuple[list[Any], dict[str, Array], dict[str, Array], int]] = {
    **{
        f"Resize, {mode}, {coordinates}, {rounding}, {scales}": (
            [node("Resize", "x - s", "y", mode=mode, coordinate_transformation_mode=coordinates, nearest_mode=rounding)],
            IMAGE,
            sized(1, 1, *scales),
            19,
        )
        for mode, coordinates, rounding, scales in RESIZED
    },
    "Resize, to extents": ([node("Resize", "x - - s", "y", mode="linear")], IMAGE, {"s": np.array([1, 2, 7, 1])}, 13),
    "Resize, two axes": (
        [node("Resize", "x - - s", "y", mode="cubic", axes=[3, 2], cubic_coeff_a=-0.5, exclude_outside=1)],
        IMAGE,
        {"s": np.array([7, 6])},
        18,
    ),
    "Resize, one axis of three": ([node("Resize", "x - s", "y", mode="linear")], {"x": normal(2, 3, 4)}, sized(1, 1, 2.5), 18),
    "LRN": ([node("LRN", "x", "y", size=4, alpha=0.1, beta=0.7)], {"x": normal(2, 5, 3, 2)}, {}, 13),
    "groups": ([node("GroupNormalization", "x s b", "y", num_groups=4)], {"x": normal(2, 8, 3)}, NORM, 18),
    "positions": ([node("RotaryEmbedding", "x c s p", "y", interleaved=1)], {"x": normal(1, 2, 3, 4)}, TABLES, 23),
    "positions of a part": ([node("RotaryEmbedding", "x c s p", "y", rotary_embedding_dim=4)], {"x": normal(1, 2, 3, 6)}, TABLES, 23),
    "positions of joined heads": ([node("RotaryEmbedding", "x c s p", "y", num_heads=2)], {"x": normal(1, 3, 8)}, TABLES, 23),
    "attention": ([node("Attention", "q k v", "y", softcap=2.0)], HEADS, {}, 23),
    "attention of what is past": (
        [node("Attention", "q k v - pk pv", "y", is_causal=1)],
        {**HEADS, "pk": normal(2, 2, 2, 4), "pv": normal(2, 2, 2, 6)},
        {},
        23,
    ),
    "attention by groups": ([node("Attention", "q k v", "y", q_num_heads=2, kv_num_heads=1)], JOINED, {}, 23),
    "GatherND by rows": (
        [node("GatherND", "x i", "y", batch_dims=1)],
        {"x": normal(2, 3, 4)},
        {"i": np.array([[[1], [0]], [[-1], [2]]])},
        13,
    ),
    **{
        f"ScatterND, {how}": ([node("ScatterND", "x i u", "y", reduction=how)], {"x": normal(3, 3, 2), "u": normal(3, 2)}, PLACES, 18)
        for how in ("add", "mul", "max", "min")
    },
    "TensorScatter": (
        [node("TensorScatter", "x u i", "y", mode="circular")],
        {"x": normal(2, 4, 3), "u": normal(2, 2, 3)},
        {"i": np.array([1, 3])},
        24,
    ),
    "images one row wide, windows apart": (
        [node("Conv", "x w", "y", auto_pad="SAME_LOWER", dilations=[1, 2])],
        IMAGE,
        {"w": normal(3, 2, 3, 2)},
        11,
    ),
    "a transposed convolution": (
        [node("ConvTranspose", "x w b", "y", strides=[3, 2], output_padding=[1, 0], pads=[1, 0, 2, 1])],
        IMAGE,
        {"w": normal(2, 3, 3, 3), "b": normal(3)},
        11,
    ),
}


def read(nodes: list[Any], inputs: dict[str, Array], weights: dict[str, Array], opset: int, is_open: bool) -> onnx.OnnxModel:
    infos = {
        name: (array.dtype.name, [f"{name}{axis}" for axis in range(array.ndim)] if is_open else list(array.shape))
        for name, array in inputs.items()
    }
    return onnx.load(model(nodes, infos, ["y"], weights, opset=opset))


# Those that stand for the others where tests are to be quick.
QUICK = ("half_pixel_symmetric, ceil", "nearest, half_pixel, round", "cubic, asymmetric, round", "linear, align_corners, round")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name.count(",") > 3 and not any(part in name for part in QUICK) else [])
        for name in CASES
    ],
)
def test_open_extents_change_nothing(name: str) -> None:
    check_open(*CASES[name])


def check_open(nodes: list[Any], inputs: dict[str, Array], weights: dict[str, Array], opset: int) -> None:
    """The model, and its gradients, where extents are known and where they are open."""
    known, opened = (onnx.gradients(read(nodes, inputs, weights, opset, is_open)) for is_open in (False, True))
    assert len(known.gradient_names) == len(opened.gradient_names)
    for one, other in zip(opened.run(inputs), known.run(inputs), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space_of_open_images(mode: str) -> None:
    nodes = [node("DepthToSpace", "x", "h", blocksize=2, mode=mode), node("Tanh", "h", "t"), node("SpaceToDepth", "t", "y", blocksize=2)]
    x = normal(1, 8, 2, 3)
    wide = onnx.load(model(nodes, {"x": ("float32", ["n", 8, "h", "w"])}, ["y"]))
    np.testing.assert_allclose(wide.run({"x": x})[0], onnx.load(model(nodes, {"x": ("float32", [1, 8, 2, 3])}, ["y"])).run({"x": x})[0])


def of_extent(axis: int, *how: Any) -> list[Any]:
    """Nodes that compute ``n`` of an extent of x."""
    return [node("Shape", "x", "shape", start=axis, end=axis + 1), *how]


HALF = of_extent(1, node("Div", "shape two", "n"))
ODD = {"x": normal(3, 5)}
NUMBERS = {"two": np.array([2]), "zero": np.array([0]), "one": np.array([1])}
MARGINS = [*HALF, node("Concat", "zero n zero one", "p", axis=0)]
# What operators need of extents, or as inputs, when the model runs.
COMPUTED: dict[str, tuple[list[Any], dict[str, Array], dict[str, Array], int]] = {
    "TopK": ([*HALF, node("TopK", "x n", "v i"), node("Sin", "v", "y")], ODD, NUMBERS, 11),
    "TopK of the least": ([*HALF, node("TopK", "x n", "y i", axis=0, largest=0)], {"x": normal(5, 4)}, NUMBERS, 11),
    "OneHot": (
        [*of_extent(1), node("ArgMax", "x", "i", axis=1, keepdims=0), node("OneHot", "i shape v", "h"), node("Mul", "h x", "y")],
        ODD,
        {"v": np.array([0.5, 2.0], "float32")},
        13,
    ),
    "Trilu": ([*HALF, node("Trilu", "x n", "u"), node("Sin", "u", "y")], ODD, NUMBERS, 14),
    "Trilu, lower": ([*HALF, node("Neg", "n", "m"), node("Trilu", "x m", "y", upper=0)], {"x": normal(4, 2, 2)}, NUMBERS, 14),
    "EyeLike": ([node("EyeLike", "x", "e", k=1), node("Mul", "x e", "y")], ODD, {}, 9),
    "Split": (
        [*HALF, node("Sub", "shape n", "m"), node("Concat", "n m", "s", axis=0), node("Split", "x s", "y z", axis=1)],
        ODD,
        NUMBERS,
        13,
    ),
    "Split in parts": (
        [node("Split", "x", "a b c", axis=1, num_outputs=3), node("Concat", "c a b", "y", axis=0)],
        {"x": normal(2, 6)},
        {},
        18,
    ),
    **{
        f"Pad, {mode}": ([*MARGINS, node("Pad", "x p", "y", mode=mode)], ODD, NUMBERS, 19)
        for mode in ("constant", "reflect", "edge", "wrap")
    },
    "Pad that cuts": ([*MARGINS, node("Neg", "p", "q"), node("Pad", "x q", "y")], ODD, NUMBERS, 13),
    "Pad with a number": ([node("ReduceMax", "x", "v", keepdims=0), node("Pad", "x p v", "y")], ODD, {"p": np.array([1, 0, 0, 2])}, 13),
    "CenterCropPad": ([node("CenterCropPad", "x s", "y")], ODD, {"s": np.array([6, 2])}, 18),
    "Unique": (
        [node("ArgMax", "x", "i", axis=1, keepdims=0), node("Unique", "i", "u f j n", sorted=0), node("Gather", "x f", "y")],
        ODD,
        {},
        11,
    ),
    "Unique of slices": ([node("Floor", "x", "i"), node("Unique", "i", "u f", axis=1), node("Gather", "x f", "y", axis=1)], ODD, {}, 11),
    "Resize, to the shape of another": (
        [
            node("Shape", "x", "s", start=0, end=2),
            node("Shape", "z", "t", start=2),
            node("Concat", "s t", "e", axis=0),
            node("Resize", "x - - e", "y", mode="linear"),
        ],
        {**IMAGE, "z": normal(1, 2, 7, 3)},
        {},
        19,
    ),
    **{
        f"SAME_{side}, {extents}, {name}": (
            [node(*nodes, auto_pad=f"SAME_{side}", strides=[2, 3], **attrs)],
            {"x": normal(2, 2, *extents)},
            weights,
            19,
        )
        for side in ("UPPER", "LOWER")
        for extents in ((4, 5), (7, 9), (8, 6))
        for name, nodes, attrs, weights in (
            ("convolution", ("Conv", "x w", "y"), {}, {"w": normal(3, 2, 3, 2)}),
            ("convolution with dilations", ("Conv", "x w", "y"), {"dilations": [2, 1]}, {"w": normal(3, 2, 2, 4)}),
            ("maxima", ("MaxPool", "x", "y"), {"kernel_shape": [3, 2]}, {}),
            ("maxima, rounded up", ("MaxPool", "x", "y"), {"kernel_shape": [3, 1], "ceil_mode": 1}, {}),
            ("maxima and places", ("MaxPool", "x", "y i"), {"kernel_shape": [3, 2]}, {}),
            ("averages", ("AveragePool", "x", "y"), {"kernel_shape": [3, 4]}, {}),
            ("averages with the padding", ("AveragePool", "x", "y"), {"kernel_shape": [3, 4], "count_include_pad": 1}, {}),
            ("norms", ("LpPool", "x", "y"), {"kernel_shape": [3, 4]}, {}),
        )
    },
    **{
        f"a transposed convolution to {shape}, {auto}": (
            [node("ConvTranspose", "x w b", "y", strides=[2, 3], output_shape=list(shape), auto_pad=auto)],
            IMAGE,
            {"w": normal(2, 3, 3, 3), "b": normal(3)},
            11,
        )
        for auto in ("NOTSET", "SAME_UPPER", "SAME_LOWER")
        for shape in ((8, 14), (9, 19))
    },
    # These have no operators for open extents: they are read again for each shape.
    "Resize, antialias": ([node("Resize", "x - - s", "y", mode="linear", antialias=1)], IMAGE, {"s": np.array([1, 2, 3, 3])}, 18),
    "GridSample": ([node("GridSample", "x g", "y")], {**IMAGE, "g": RNG.uniform(-1, 1, (1, 3, 2, 2)).astype("float32")}, {}, 16),
    "DFT": ([node("DFT", "x", "y", axis=1)], {"x": normal(2, 6, 1)}, {}, 17),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_operators_need_of_open_extents_changes_nothing(name: str) -> None:
    check_open(*COMPUTED[name])


@pytest.mark.parametrize("side", ["UPPER", "LOWER"])
def test_same_of_open_extents_is_written_with_its_gradients(side: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    same: dict[str, Any] = {"auto_pad": f"SAME_{side}", "strides": [2, 2]}
    nodes = [
        node("Conv", "x w", "c", **same),
        node("AveragePool", "c", "a", kernel_shape=[3, 2], **same),
        node("AveragePool", "c", "b", kernel_shape=[3, 2], count_include_pad=1, **same),
        node("MaxPool", "c", "m", kernel_shape=[3, 2], **same),
        node("Concat", "a b m", "d", axis=1),
        node("Tanh", "d", "y"),
    ]
    loaded = onnx.load(model(nodes, {"x": ("float32", ["n", 2, "h", "w_"])}, ["y"], {"w": normal(2, 2, 3, 2)}))
    written = onnx.gradients(loaded)
    onnx.save(written, tmp_path / "model.onnx")
    again = onnx.load(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for extents in ((7, 6), (8, 9), (5, 5)):
        fed = {"x": normal(2, 2, *extents)}
        for one, other, third in zip(written.run(fed), session.run(None, fed), again.run(fed), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(third, one, rtol=1e-4, atol=1e-5)


ANTIALIASED = [node("Resize", "x - - s", "y", mode="linear", antialias=1)]


def test_what_needs_extents_says_so_and_is_read_for_each() -> None:
    data = model(ANTIALIASED, {"x": ("float32", [1, 2, "h", "w"])}, ["y"], {"s": np.array([1, 2, 3, 3])})
    found = onnx.load(data)
    assert repr(found) == "<OnnxModel x -> y: its operators depend on h, w>"
    with pytest.raises(UnsupportedModel, match=r"node 0, Resize: .*antialias(.|\n)*with h, w decides"):
        _ = found.program
    bound = onnx.load(data, bind={"h": 4, "w": 5})
    assert bound.program.global_block().var("x").shape == (1, 2, 4, 5)
    np.testing.assert_array_equal(found.run(IMAGE)[0], bound.run(IMAGE)[0])
    with pytest.raises(InvalidValue, match=r"feed 'x' has the shape \[1, 3, 4, 5\], the model declares \[1, 2, h, w\]"):
        found.run({"x": normal(1, 3, 4, 5)})
    with pytest.raises(InvalidValue, match="extent 'h' is a whole number from 0 on, not -1"):
        onnx.load(data, bind={"h": -1})
    with pytest.raises(InvalidValue, match=r"no input 'hh'; did you mean 'h'"):
        onnx.load(data, bind={"hh": 1})
    square = onnx.load(model(ANTIALIASED, {"x": ("float32", [1, 2, "h", "h"])}, ["y"], {"s": np.array([1, 2, 3, 3])}))
    with pytest.raises(InvalidValue, match="extent 'h' is 4 in feed 'x' and 5 in feed 'x'"):
        square.run(IMAGE)


def test_a_quotient_of_known_elements_is_exact() -> None:
    # Beside an extent that is not known, the end of a slice: 2**63 - 1 as a double would be 2**63, which is no int64.
    weights = {name: np.array([number]) for name, number in {"i": 0, "j": 1, "k": 2, "most": 2**63 - 1}.items()} | {
        "ones": np.array([1, -1])
    }
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape i j", "first"),
        node("Concat", "first most", "both", axis=0),
        node("Div", "both ones", "cut"),
        node("Slice", "cut j k", "least"),
        node("Neg", "least", "end"),
        node("Slice", "x i end", "y"),
    ]
    x = normal(3, 2)
    read = onnx.load(model(nodes, {"x": ("float32", ["n", 2])}, ["y"], weights))
    np.testing.assert_array_equal(read.run({"x": x})[0], x)


def test_gradients_of_what_is_read_for_each_shape() -> None:
    data = model([*ANTIALIASED[:1], node("Mul", "y y", "z")], {"x": ("float32", ["n", 2, "h", "w"])}, ["z"], {"s": np.array([1, 2, 3, 3])})
    opened, known = onnx.load(data), onnx.load(data, bind={"n": 1, "h": 4, "w": 5})
    once, wanted = (onnx.gradients(each, wrt=["x"], of=["z"]) for each in (opened, known))
    assert once.gradient_names == wanted.gradient_names == ["x@GRAD"]
    twice, more = (onnx.gradients(each, wrt=["x"], of=["x@GRAD"]) for each in (once, wanted))
    assert len(set(twice.fetch_names)) == 3
    for one, other in zip(twice.run(IMAGE), more.run(IMAGE), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InvalidValue, match="'s' is no input or parameter with floats"):
        onnx.gradients(opened, wrt=["s"])
    with pytest.raises(InvalidValue, match="'v' is no output"):
        onnx.gradients(opened, of=["v"])


def test_operators_that_do_not_exist_are_refused_although_extents_decide() -> None:
    nodes = [*ANTIALIASED[:1], node("Nothing", "y", "z", domain="nowhere")]
    with pytest.raises(UnsupportedModel, match="node 1, Nothing: operators of 'nowhere' are not known"):
        onnx.load(model(nodes, {"x": ("float32", [1, 2, "h", "w"])}, ["z"], {"s": np.array([1, 2, 3, 3])}))


@pytest.mark.parametrize("nodes", [[node("ReduceL2", "x", "y", axes=[1])], [node("LpNormalization", "x", "y", axis=1)]])
def test_a_row_of_zeros_has_gradients(nodes: list[Any]) -> None:
    """Of two orders: a root of a sum of squares would have none."""
    rows = normal(3, 4)
    rows[1] = 0.0
    once = onnx.gradients(onnx.load(model(nodes, {"x": ("float32", ["n", 4])}, ["y"], opset=13)))
    for array in onnx.gradients(once, of=["x@GRAD"]).run({"x": rows}):
        assert np.isfinite(array).all()


# -- loops of no iteration -----------------------------------------------------------------------

BODY = graph(
    [node("Mul", "a a", "b"), node("Identity", "going", "more")],
    {"i": ("int64", []), "going": ("bool", []), "a": ("float32", ["m", 3])},
    ["more", "b", "b"],
)


@pytest.mark.parametrize("trips", [0, 2])
def test_a_loop_stacks_what_its_iterations_give_none_included(trips: int) -> None:
    loop = model([node("Loop", "n - x", "last all", body=BODY)], {"n": ("int64", []), "x": ("float32", [2, 3])}, ["last", "all"])
    gradients = onnx.gradients(onnx.load(loop), ["x"], ["all"])
    x = normal(2, 3)
    last, rows, slope = gradients.run({"x": x, "n": np.asarray(trips)})
    powers = [x ** (2 ** (i + 1)) for i in range(trips)]
    np.testing.assert_allclose(last, powers[-1] if powers else x, rtol=1e-5)
    assert rows.shape == (trips, 2, 3)
    np.testing.assert_allclose(slope, sum((2 ** (i + 1) * x ** (2 ** (i + 1) - 1) for i in range(trips)), np.zeros_like(x)), rtol=1e-4)


def test_a_scan_over_nothing() -> None:
    body = graph([node("Add", "s r", "t"), node("Tanh", "t", "o")], {"s": ("float32", [3]), "r": ("float32", [3])}, ["t", "o"])
    scan = model(
        [node("Scan", "s x", "last all", body=body, num_scan_inputs=1)],
        {"s": ("float32", [3]), "x": ("float32", ["n", 3])},
        ["last", "all"],
    )
    start = normal(3)
    last, rows = onnx.load(scan).run({"s": start, "x": normal(0, 3)})
    np.testing.assert_array_equal(last, start)
    assert rows.shape == (0, 3)


def test_a_graph_for_each_tensor_of_a_sequence() -> None:
    body = graph([node("Mul", "e f", "r")], {"e": ("float32", ["n", 3]), "f": ("float32", [3])}, ["r"])
    nodes = [
        node("SequenceConstruct", "x z", "s"),
        node("SequenceMap", "s f", "m", body=body),
        node("ConcatFromSequence", "m", "y", axis=0),
    ]
    inputs = {"x": normal(2, 3), "z": normal(1, 3), "f": normal(3)}
    loaded = read(nodes, inputs, {}, 18, False)
    np.testing.assert_allclose(loaded.run(inputs)[0], np.concatenate([inputs["x"], inputs["z"]]) * inputs["f"], rtol=1e-6)


# -- classical learners --------------------------------------------------------------------------

ROWS = {"x": np.array([[0.0, 1.0, 2.0], [3.0, 0.0, -0.5], [0.05, -0.3, 0.0]], "float32")}
TREES = dict(
    nodes_treeids=[0] * 5,
    nodes_nodeids=[0, 1, 2, 3, 4],
    nodes_featureids=[0, 1, 0, 0, 0],
    nodes_values=[0.1, -0.2, 0.0, 0.0, 0.0],
    nodes_modes=["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF"],
    nodes_truenodeids=[1, 3, 0, 0, 0],
    nodes_falsenodeids=[2, 4, 0, 0, 0],
    target_treeids=[0] * 3,
    target_nodeids=[2, 3, 4],
    target_ids=[0] * 3,
    target_weights=[1.0, 2.0, 3.0],
    n_targets=1,
)
VECTORS: dict[str, Any] = dict(coefficients=[0.5, -0.7], support_vectors=[0.1, 0.2, 0.3, -0.4, 0.5, 0.6], n_supports=2, rho=[0.2])
KERNELS = {
    "LINEAR": lambda x, v: x @ v.T,
    "POLY": lambda x, v: (0.3 * x @ v.T + 0.1) ** 2,
    "SIGMOID": lambda x, v: np.tanh(0.3 * x @ v.T + 0.1),
    "RBF": lambda x, v: np.exp(-0.3 * ((x[:, None] - v) ** 2).sum(-1)),
}


def learned(type: str, **attrs: Any) -> Array:
    """The output of a learner for the rows."""
    return onnx.load(
        model([node(type, "x", "y", "ai.onnx.ml", **attrs)], {"x": ("float32", ["n", 3])}, ["y"], ai_onnx_ml=3)
    ).run(ROWS)[0]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors(kernel: str) -> None:
    similar = KERNELS[kernel](ROWS["x"], np.array(VECTORS["support_vectors"]).reshape(2, 3))
    found = learned("SVMRegressor", kernel_type=kernel, kernel_params=[0.3, 0.1, 2.0], **VECTORS)
    np.testing.assert_allclose(found, similar @ np.array([[0.5], [-0.7]]) + 0.2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_are_normalized_as_in_onnxruntime(norm: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    data = model([node("Normalizer", "x", "y", "ai.onnx.ml", norm=norm)], {"x": ("float32", ["n", 3])}, ["y"], ai_onnx_ml=1)
    x = np.array([[0, 0, 0], [1, -2, 0.5], [-1, -2, -3], [-1, 0, -2]], "float32")
    (wanted,) = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    y, slope = onnx.gradients(onnx.load(data)).run({"x": x})
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize(("type", "nothing"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_the_extremum_of_what_was_found_may_be_that_of_nothing(type: str, nothing: float) -> None:
    data = model(
        [node("Compress", "x c", "found"), node(type, "found", "y", keepdims=0)], {"x": ("float32", [3]), "c": ("bool", [3])}, ["y"]
    )
    found = onnx.gradients(onnx.load(data), wrt=["x"])
    x = np.array([1, 3, 2], "float32")
    assert found.run({"x": x, "c": x > 9})[0] == nothing
    y, slope = found.run({"x": x, "c": x > 1})
    assert (float(y), slope.tolist()) == ((3, [0, 1, 0]) if nothing < 0 else (2, [0, 0, 1]))


def test_trees_whose_nodes_compare_in_different_ways() -> None:
    np.testing.assert_array_equal(learned("TreeEnsembleRegressor", **TREES), [[2.0], [1.0], [3.0]])


def test_missing_numbers_and_categories() -> None:
    filled = learned("Imputer", imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=0.0)
    np.testing.assert_allclose(filled, [[7.0, 1.0, 2.0], [3.0, 8.0, -0.5], [0.05, -0.3, 9.0]], rtol=1e-6)
    hot = learned("OneHotEncoder", cats_int64s=[0, 3])
    assert hot.shape == (3, 3, 2)
    np.testing.assert_array_equal(hot[:, 0], [[1, 0], [0, 1], [1, 0]])


POOLINGS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "storage_order": 1},
    {"kernel_shape": [2, 3], "strides": [1, 2], "dilations": [2, 1]},
]


@pytest.mark.parametrize("attributes", POOLINGS)
def test_pooling_says_where_the_largest_are_in_images_of_any_size(attributes: dict[str, Any]) -> None:
    pool = node("MaxPool", "x", "y places", **attributes)
    open_data = model([pool], {"x": ("float32", ["n", 2, "h", "w"])}, ["y", "places"])
    read = onnx.load(open_data)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(open_data, providers=["CPUExecutionProvider"])
    gradients = onnx.gradients(read, wrt=["x"], of=["y"])
    for n, h, w in ((2, 6, 7), (1, 9, 5)):
        x = np.random.default_rng(h).normal(size=(n, 2, h, w)).astype("float32")
        (y, places), (wanted_y, wanted_places) = read.run({"x": x}), session.run(None, {"x": x})
        assert np.array_equal(y, wanted_y)
        assert np.array_equal(places, wanted_places)
        # Each result's gradient goes to the element that it is.
        wanted = np.zeros(x.size, "float32")
        if attributes.get("storage_order"):  # column by column
            planes, within = np.divmod(places, h * w)
            places = planes * h * w + within % h * w + within // h
        np.add.at(wanted, places.ravel(), 1.0)
        assert np.array_equal(gradients.run({"x": x})[-1], wanted.reshape(x.shape))


def test_the_written_gradient_of_a_pooling_is_read_again(tmp_path: Path) -> None:
    data = model([node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 2])], {"x": ("float32", ["n", 2, "h", "w"])}, ["y"])
    gradients = onnx.gradients(onnx.load(data), wrt=["x"])
    onnx.save(gradients, tmp_path / "gradients.onnx")
    x = np.random.default_rng(0).normal(size=(2, 2, 6, 5)).astype("float32")
    again = onnx.load(tmp_path / "gradients.onnx")
    for found, wanted in zip(again.run({"x": x}), gradients.run({"x": x}), strict=True):
        assert np.array_equal(found, wanted)
    assert len(again.program.blocks) == 1  # one program for all sizes


MEANS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 3], "dilations": [2, 1], "pads": [1, 0, 1, 2], "opset": 19},
    {"kernel_shape": [3, 2], "dilations": [1, 3], "pads": [1, 1, 2, 1], "strides": [2, 3], "count_include_pad": 1, "opset": 19},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "opset": 19},
    {
        "kernel_shape": [3, 2],
        "dilations": [2, 2],
        "pads": [1, 0, 1, 1],
        "strides": [3, 2],
        "ceil_mode": 1,
        "count_include_pad": 1,
        "opset": 19,
    },
]


@pytest.mark.parametrize("attributes", MEANS)
@pytest.mark.parametrize("type", ["AveragePool", "MaxPool"])
def test_pooling_with_dilations_and_windows_rounded_up_of_any_size(type: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    attributes = {key: value for key, value in attributes.items() if type == "AveragePool" or key != "count_include_pad"}
    opset = attributes.pop("opset")
    data = model([node(type, "x", "y", **attributes)], {"x": ("float32", ["n", 2, "h", "w"])}, ["y"], opset=opset)
    opened = onnx.gradients(onnx.load(data), wrt=["x"])
    onnx.save(opened, tmp_path / "gradients.onnx", opset=opset)
    onnxruntime = pytest.importorskip("onnxruntime")
    given, written = (
        onnxruntime.InferenceSession(each, providers=["CPUExecutionProvider"]) for each in (data, tmp_path / "gradients.onnx")
    )
    for n, h, w in ((2, 6, 7), (1, 9, 8), (1, 7, 11)):
        x = normal(n, 2, h, w)
        y, slope = opened.run({"x": x})
        np.testing.assert_allclose(y, given.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
        known = onnx.gradients(onnx.load(data, bind={"n": n, "h": h, "w": w}), wrt=["x"]).run({"x": x})[-1]
        for found in (slope, written.run(None, {"x": x})[-1]):
            np.testing.assert_allclose(found, known, rtol=1e-5, atol=1e-6)
    assert len(opened.program.blocks) == 1  # one program for all sizes


def whole(*numbers: int) -> Array:
    return np.array(numbers, "int64")


# How long a vector is decides the rank of what is made of it, or how many axes an index is of; weights may be inputs.
OPEN_VECTORS: dict[str, tuple[list[Any], dict[str, Array], int]] = {
    "Expand": ([node("Expand", "x s", "y")], {"x": normal(3, 1), "s": whole(3, 4)}, 13),
    "Reshape": ([node("Reshape", "x s", "y")], {"x": normal(3, 4), "s": whole(2, -1, 3)}, 13),
    "Tile": ([node("Tile", "x s", "y")], {"x": normal(3, 1), "s": whole(2, 3)}, 13),
    "Pad": ([node("Pad", "x s", "y")], {"x": normal(3, 1), "s": whole(2, 0, 0, 1)}, 13),
    "Slice": ([node("Slice", "x s e", "y")], {"x": normal(3, 4), "s": whole(1, 0), "e": whole(3, -1)}, 13),
    "Split": ([node("Split", "x s", "z y", axis=1)], {"x": normal(3, 4), "s": whole(1, 3)}, 13),
    "ConstantOfShape": ([node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")], {"x": normal(4), "s": whole(3, 1)}, 13),
    "GatherND": ([node("GatherND", "x i", "y", batch_dims=1)], {"x": normal(2, 2, 3), "i": np.array([[1], [-2]])}, 13),
    "ScatterND": (
        [node("ScatterND", "x i u", "y", reduction="min")],
        {"x": normal(4, 3), "i": np.array([[2], [0]]), "u": normal(2, 3)},
        18,
    ),
    "LSTM": (
        [node("LSTM", "x w r b", "y", hidden_size=3)],
        {"x": normal(2, 1, 4), "w": normal(1, 12, 4), "r": normal(1, 12, 3), "b": normal(1, 24)},
        14,
    ),
    "DeformConv": ([node("DeformConv", "x w o", "y")], {"x": normal(1, 1, 3, 3), "w": normal(1, 1, 2, 2), "o": normal(1, 8, 2, 2) / 9}, 19),
    "Attention": ([node("Attention", "q k v m", "y")], {**HEADS, "m": normal(2, 1, 3, 4)}, 24),
    "MaxUnpool": (
        [node("MaxPool", "x", "m i", kernel_shape=[2], strides=[2]), node("MaxUnpool", "m i", "y", kernel_shape=[2], strides=[2])],
        {"x": normal(1, 2, 6)},
        11,
    ),
    "CausalConvWithState": ([node("CausalConvWithState", "x w", "y")], {"x": normal(2, 3, 5), "w": normal(3, 1, 3)}, 27),
}


@pytest.mark.parametrize("name", OPEN_VECTORS)
def test_vectors_of_open_length_and_weights_of_open_extents_change_nothing(name: str) -> None:
    nodes, inputs, opset = OPEN_VECTORS[name]
    check_open(nodes, inputs, {}, opset)


@pytest.mark.parametrize("count", [1, 2])
def test_how_many_axes_are_cut_is_known_to_a_run_alone(count: int, tmp_path: Path) -> None:
    """Sums of bags of embeddings, as PyTorch's exporter writes them: where a bag begins is cut out of a vector by what a loop counts."""
    body = graph(
        [
            node("Reshape", "i flat", "j"),
            node("Add", "j one", "k"),
            node("Add", "k one", "l"),
            node("Slice", "o j k", "start"),
            node("Slice", "o k l", "end"),
            node("Slice", "x start end", "bag"),
            node("ReduceSum", "bag rank", "s", keepdims=0),
            node("Identity", "going", "more"),
        ],
        {"i": ("int64", []), "going": ("bool", [])},
        ["more", "s"],
    )
    nodes = [node("Shape", "o", "c"), node("Sub", "c one", "d"), node("Squeeze", "d first", "n"), node("Loop", "n -", "y", body=body)]
    weights = {"one": np.array([1]), "flat": np.array([-1]), "first": np.array([0]), "rank": np.arange(count)}
    found = onnx.load(model(nodes, {"x": ("float32", ["n", 3]), "o": ("int64", ["bags"])}, ["y"], weights))
    x, ends = normal(6, 3), np.array([0, 2, 2, 5])
    bags = [x[start:end] for start, end in itertools.pairwise(ends)]
    gradients = onnx.gradients(found, wrt=["x"], of=["y"])
    onnx.save(gradients, tmp_path / "bags.onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(tmp_path / "bags.onnx", providers=["CPUExecutionProvider"])
    for sums, slope in (gradients.run({"x": x, "o": ends}), session.run(None, {"x": x, "o": ends})):
        np.testing.assert_allclose(sums, [bag.sum(0) if count == 1 else bag.sum() for bag in bags], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(slope, np.where(np.arange(6)[:, None] < 5, 1.0, 0.0) * np.ones(3))


@pytest.mark.parametrize("type", ["ReduceMax", "ReduceMin", "ReduceLogSumExp"])
@pytest.mark.parametrize(("axes", "keep"), [([0], 0), ([0, 1], 0), ([0, 1], 1), ([1], 1)])
@pytest.mark.parametrize("chosen", [[True, False, True], [False] * 3])
def test_the_largest_of_what_a_run_finds(type: str, axes: list[int], keep: int, chosen: list[bool], tmp_path: Path) -> None:
    """It may find nothing: of no elements the largest is the least number."""
    nodes = [node("Compress", "x c", "f", axis=0), node(type, "f a", "y", keepdims=keep)]
    infos: dict[str, tuple[str, Any]] = {"x": ("float32", [3, 4]), "c": ("bool", [3])}
    found = onnx.load(model(nodes, infos, ["y"], {"a": np.array(axes)}))
    onnx.save(found, tmp_path / "m.onnx")
    feeds, function = {"x": normal(3, 4), "c": np.array(chosen)}, {"ReduceMax": np.max, "ReduceMin": np.min}.get(type)
    rows = feeds["x"][feeds["c"]]
    with np.errstate(divide="ignore"):
        neutral = np.inf if type == "ReduceMin" else -np.inf
        sums = np.log(np.exp(rows).sum(tuple(axes), keepdims=bool(keep)))
        wanted = sums if function is None else function(rows, axis=tuple(axes), keepdims=bool(keep), initial=neutral)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    for (result,) in (found.run(feeds), session.run(None, feeds)):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_largest_over_a_named_extent_that_is_0(dtype: str) -> None:
    found = onnx.load(model([node("ReduceMax", "x a", "y", keepdims=0)], {"x": (dtype, ["n", "m"])}, ["y"], {"a": np.array([1])}))
    least = -np.inf if dtype == "float32" else np.iinfo(dtype).min
    for _ in range(3):  # interpreted, then compiled
        assert found.run({"x": np.ones((2, 0), dtype)})[0].tolist() == [least, least]
        assert found.run({"x": np.array([[1, 3]], dtype)})[0].tolist() == [3]


def _rankless(data: bytes) -> bytes:
    """The model without shapes of its inputs."""
    made = onnx.model.parsed(data, "model")
    for each in made.graph.input:
        each.type.tensor_type.ClearField("shape")
    changed: bytes = made.SerializeToString()
    return changed


def test_inputs_without_a_shape_have_the_rank_of_what_is_fed() -> None:
    nodes = [node("Softmax", "x", "s", axis=-1), node("ReduceMean", "s", "m", axes=[-1]), node("MatMul", "s w", "h")]
    data = model([*nodes, node("Add", "h m", "y")], {"x": ("float32", ["n", "m", 3])}, ["y"], {"w": normal(3, 1)}, opset=13)
    known, rankless = onnx.load(data), onnx.load(_rankless(data))
    assert (rankless.feed_names, rankless.fetch_names, list(rankless.parameters)) == (["x"], ["y"], ["w"])
    slopes, known_slopes = (onnx.gradients(each, wrt=["x", "w"]) for each in (rankless, known))
    for shape in ((2, 4, 3), (1, 5, 3)):
        x = normal(*shape)
        for found, wanted in zip(slopes.run({"x": x}), known_slopes.run({"x": x}), strict=True):
            np.testing.assert_array_equal(found, wanted)
    (flat,) = rankless.run({"x": normal(4, 3)})  # a rank that the first file does not have
    assert flat.shape == (4, 1)
    with pytest.raises(UnsupportedModel, match=r"'x': declared without a shape(.|\n)*decided\(\{'x': array, ...\}\)"):
        rankless.program  # noqa: B018
    assert rankless.decided({"x": normal(4, 3)}).program.global_block().var("x").shape == (4, 3)


FILTERS: dict[str, list[dict[str, Any]]] = {
    "Conv": [
        {},
        {"pads": [1, 0, 2, 1]},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "SAME_UPPER", "dilations": [1, 2]},
    ],
    "ConvTranspose": [
        {},
        {"pads": [1, 0, 1, 1]},
        {"output_padding": [1, 0]},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER", "output_padding": [0, 1]},
        {"output_shape": [7, 6]},
    ],
}


@pytest.mark.parametrize(("type", "attributes"), [(type, each) for type, several in FILTERS.items() for each in several])
def test_convolutions_by_a_filter_of_open_extents_are_one_program_and_written(
    type: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    infos: dict[str, tuple[str, Any]] = {"x": ("float32", [1, 2, "h", 4]), "w": ("float32", [2, 2, "kh", "kw"])}
    data = model([node(type, "x w", "y", strides=[2, 2], **attributes)], infos, ["y"])
    opened, known = (onnx.gradients(onnx.load(data, bind=bind)) for bind in (None, {"h": 5, "kh": 3, "kw": 2}))
    onnx.save(opened, tmp_path / "opened.onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(tmp_path / "opened.onnx", providers=["CPUExecutionProvider"])
    feeds = {"x": normal(1, 2, 5, 4), "w": normal(2, 2, 3, 2)}
    expected = known.run(feeds)
    for results in (opened.run(feeds), session.run(None, feeds)):
        for found, wanted in zip(results, expected, strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_settings_that_follow_from_constants_are_known() -> None:
    # Constants of floats are parameters, which may be trained; what joins them here says by how much an image grows.
    constants = {"ones": np.ones(2, "float32"), "grows": np.array([2, 1.5], "float32")}
    nodes = [node("Constant", "", name, value=array) for name, array in constants.items()]
    nodes += [node("Concat", "ones grows", "s", axis=0), node("Resize", "x - s", "y", mode="linear")]
    read_ = onnx.load(model(nodes, {"x": ("float32", ["n", 2, "h", "w"])}, ["y"]))
    known = onnx.load(model([node("Resize", "x - s", "y", mode="linear")], {"x": ("float32", ["n", 2, 4, 5])}, ["y"], sized(1, 1, 2, 1.5)))
    assert read_.program.global_block().var("y").shape[:2] == read_.program.global_block().var("x").shape[:2]
    np.testing.assert_allclose(read_.run(IMAGE)[0], known.run(IMAGE)[0], rtol=1e-6)


def test_parameters_of_any_shapes_are_joined() -> None:
    weights = {"a": normal(2, 3), "b": normal(1, 3)}
    found = onnx.load(model([node("Concat", "a b", "w", axis=0), node("MatMul", "x w", "y")], {"x": ("float32", ["n", 3])}, ["y"], weights))
    x = normal(2, 3)
    np.testing.assert_allclose(found.run({"x": x})[0], x @ np.concatenate([weights["a"], weights["b"]]), rtol=1e-5)


def test_what_is_replaced_in_a_tensor_of_open_extents_leaves_nothing_behind() -> None:
    # Neither a number that is none, nor the digits that a sum of a large number and a small one loses.
    data = model([node("ScatterND", "x i u", "y")], {"x": ("float32", ["n", "m"])}, ["y"], {"i": np.array([[1], [-2]]), "u": normal(2, 3)})
    x = np.array([[1, 2, 3], [np.nan, np.inf, 1e8], [4, -np.inf, 1e30], [5, 6, 7]], "float32")
    opened, known = onnx.load(data), onnx.load(data, bind={"n": 4, "m": 3})
    np.testing.assert_array_equal(opened.run({"x": x})[0], known.run({"x": x})[0])
    assert np.isfinite(opened.run({"x": x})[0]).all()
