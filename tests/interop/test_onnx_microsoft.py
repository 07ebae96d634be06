"""Operators of com.microsoft give what onnxruntime gives, and have the gradients that central differences have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphad.interop import onnx
from graphad.interop.onnx.operands import UnsupportedModel
from tests.onnx_models import model, node

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("float32")


def bits(*shape: int, dtype: str = "uint8") -> Array:
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return RNG.integers(low, high, shape).astype(dtype)


def number(value: float, dtype: str = "float32") -> Array:
    return np.asarray(value, dtype)


IMAGE, ROWS, HEADS = normal(2, 3, 5, 6), normal(2, 4, 6), {"q": normal(2, 3, 8), "k": normal(2, 5, 8), "v": normal(2, 5, 8)}
FILTER = {"w": normal(4, 3, 3, 3), "b": normal(4)}
NORM = {"g": normal(6), "e": normal(6)}
JOINED = {"w": normal(6, 24) * 0.5, "b": normal(24)}
TABLES = {"words": normal(9, 6), "places": normal(4, 6), "parts": normal(2, 6)}
TURNS = RNG.uniform(0, 6, (8, 2))
IDS = {"i": np.array([[1, 2, 0, 5], [3, 8, 8, 1]], "int32"), "s": np.array([[0, 1, 1, 0], [0, 0, 1, 1]], "int32")}
MASK = {"m": np.array([[1, 1, 1, 0], [1, 1, 0, 0]], "int32")}
# Name: node, inputs, weights.
FLOATS: dict[str, tuple[Any, dict[str, Array], dict[str, Array]]] = {
    **{
        f"FusedConv, {activation}": (
            node("FusedConv", "x w b", "y", pads=[1, 1, 1, 1], activation=activation, **params),
            {"x": IMAGE},
            FILTER,
        )
        for activation, params in dict[str, dict[str, Any]](
            Relu={},
            LeakyRelu={"activation_params": [0.3]},
            Clip={"activation_params": [-0.5, 1.0]},
            HardSigmoid={"activation_params": [0.3, 0.4]},
            Tanh={},
        ).items()
    },
    "FusedConv, a sum": (
        node("FusedConv", "x w b z", "y", pads=[1, 1, 1, 1], activation="Relu"),
        {"x": IMAGE, "z": normal(2, 4, 5, 6)},
        FILTER,
    ),
    "FusedGemm": (
        node("FusedGemm", "x w b", "y", transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.2),
        {"x": normal(3, 6)},
        {"w": normal(4, 6), "b": normal(4)},
    ),
    "FusedMatMul": (node("FusedMatMul", "x z", "y", transA=1, alpha=0.5), {"x": ROWS, "z": normal(2, 4, 3)}, {}),
    "FusedMatMul, both": (node("FusedMatMul", "x z", "y", transA=1, transB=1), {"x": normal(2, 4, 6), "z": normal(2, 3, 4)}, {}),
    "Trilu": (node("Trilu", "x", "y", upper=0), {"x": ROWS}, {}),
    "TransposeMatMul": (node("TransposeMatMul", "x z", "y", transA=1), {"x": ROWS, "z": normal(2, 4, 3)}, {}),
    "Gelu": (node("Gelu", "x", "y"), {"x": ROWS}, {}),
    "BiasGelu": (node("BiasGelu", "x g", "y"), {"x": ROWS}, {"g": normal(6)}),
    "FastGelu": (node("FastGelu", "x g", "y"), {"x": ROWS}, {"g": normal(6)}),
    "FastGelu, no bias": (node("FastGelu", "x", "y"), {"x": ROWS}, {}),
    "QuickGelu": (node("QuickGelu", "x", "y", alpha=1.3), {"x": ROWS}, {}),
    "SkipLayerNormalization": (
        node("SkipLayerNormalization", "x z g e b", "y - - t", epsilon=1e-5),
        {"x": ROWS, "z": normal(2, 4, 6)},
        {**NORM, "b": normal(6)},
    ),
    "SkipSimplifiedLayerNormalization": (
        node("SkipSimplifiedLayerNormalization", "x z g", "y - - t", epsilon=1e-5),
        {"x": ROWS, "z": normal(2, 4, 6)},
        {"g": normal(6)},
    ),
    "EmbedLayerNormalization": (
        node("EmbedLayerNormalization", "i s words places parts g e m", "y n", epsilon=1e-5),
        {**IDS, **MASK},
        {**TABLES, **NORM},
    ),
    "Attention": (node("Attention", "x w b", "y", num_heads=2), {"x": ROWS}, JOINED | {"w": normal(6, 24), "b": normal(24)}),
    "Attention, a mask": (node("Attention", "x w b m", "y", num_heads=2), {"x": ROWS, **MASK}, JOINED),
    "Attention, lengths": (
        node("Attention", "x w b m", "y", num_heads=2, mask_filter_value=-5000.0),
        {"x": ROWS, "m": np.array([3, 2], "int32")},
        JOINED,
    ),
    "Attention, one way": (node("Attention", "x w b", "y", num_heads=2, unidirectional=1, scale=0.3), {"x": ROWS}, JOINED),
    "Attention, sizes": (
        node("Attention", "x w b", "y", num_heads=2, qkv_hidden_sizes=[8, 8, 6]),
        {"x": ROWS},
        {"w": normal(6, 22), "b": normal(22)},
    ),
    "MultiHeadAttention": (node("MultiHeadAttention", "q k v", "y", num_heads=2), HEADS, {}),
    "MultiHeadAttention, biases": (
        node("MultiHeadAttention", "q k v b - z", "y", num_heads=2),
        {**HEADS, "z": normal(1, 2, 3, 5)},
        {"b": normal(24)},
    ),
    "MultiHeadAttention, what is past": (
        node("MultiHeadAttention", "q k v - - - pk pv", "y nk nv", num_heads=2),
        {"q": normal(2, 3, 8), "k": normal(2, 3, 8), "v": normal(2, 3, 8), "pk": normal(2, 2, 4, 4), "pv": normal(2, 2, 4, 4)},
        {},
    ),
    "RotaryEmbedding": (
        node("RotaryEmbedding", "x p c s", "y"),
        {"x": normal(2, 2, 3, 4), "p": np.array([[0, 1, 2], [3, 4, 5]])},
        {"c": np.cos(TURNS).astype("float32"), "s": np.sin(TURNS).astype("float32")},
    ),
    "MatMulNBits": (
        node("MatMulNBits", "x w s", "y", K=40, N=3, bits=4, block_size=16),
        {"x": normal(2, 40)},
        {"w": bits(3, 3, 8), "s": normal(9)},
    ),
    "MatMulNBits, zero points": (
        node("MatMulNBits", "x w s z", "y", K=64, N=3, bits=4, block_size=16),
        {"x": normal(2, 5, 64)},
        {"w": bits(3, 4, 8), "s": normal(12), "z": bits(6)},
    ),
    "MatMulNBits, 8 bits": (
        node("MatMulNBits", "x w s", "y", K=64, N=3, bits=8, block_size=32),
        {"x": normal(2, 64)},
        {"w": bits(3, 2, 32), "s": normal(6)},
    ),
}
POINT, WIDE = number(120, "uint8"), number(0.02)
INTEGERS: dict[str, tuple[Any, dict[str, Array], dict[str, Array]]] = {
    "MatMulIntegerToFloat": (
        node("MatMulIntegerToFloat", "x w s t p q b", "y"),
        {"x": bits(3, 6)},
        {"w": bits(6, 4, dtype="int8"), "s": number(0.02), "t": normal(4), "p": POINT, "q": number(3, "int8"), "b": normal(4)},
    ),
    "DynamicQuantizeMatMul": (
        node("DynamicQuantizeMatMul", "x w t q b", "y"),
        {"x": normal(3, 6)},
        {"w": bits(6, 4), "t": number(0.05), "q": POINT, "b": normal(4)},
    ),
    **{
        type: (
            node(type, "x s p z t q u r", "y"),
            {"x": bits(2, 5), "z": bits(2, 5)},
            {"s": number(0.02), "p": POINT, "t": number(0.0317), "q": number(99, "uint8"), "u": number(0.0471), "r": number(130, "uint8")},
        )
        for type in ("QLinearAdd", "QLinearMul")
    },
    **{
        type: (
            node(type, "x s p u r", "y", **attrs),
            {"x": bits(2, 4, 3, 5)},
            {"s": number(0.03), "p": POINT, "u": number(1 / 256), "r": number(0, "uint8")},
        )
        for type, attrs in (
            ("QLinearSigmoid", {}),
            ("QLinearLeakyRelu", {"alpha": 0.1}),
            ("QLinearSoftmax", {"axis": -1, "opset": 13}),
            ("QLinearGlobalAveragePool", {}),
            ("QLinearAveragePool", {"kernel_shape": [2, 3], "pads": [0, 1, 1, 1]}),
        )
    },
    "QLinearGlobalAveragePool, channels last": (
        node("QLinearGlobalAveragePool", "x s p u r", "y", channels_last=1),
        {"x": bits(2, 4, 3, 5)},
        {"s": number(0.03), "p": POINT, "u": number(0.02), "r": number(100, "uint8")},
    ),
    "QLinearConcat": (
        node("QLinearConcat", "u r x s p z t q", "y", axis=1),
        {"x": bits(2, 3), "z": bits(2, 4)},
        {"s": number(0.02), "p": POINT, "t": number(0.0317), "q": number(99, "uint8"), "u": number(0.0471), "r": number(130, "uint8")},
    ),
    "QLinearWhere": (
        node("QLinearWhere", "c x s p z t q u r", "y"),
        {"c": RNG.integers(0, 2, (2, 3)).astype(bool), "x": bits(2, 3), "z": bits(2, 3)},
        {"s": number(0.02), "p": POINT, "t": number(0.0317), "q": number(99, "uint8"), "u": number(0.0471), "r": number(130, "uint8")},
    ),
    "QGemm": (
        node("QGemm", "x s p w t q b u r", "y", transB=1),
        {"x": bits(3, 6)},
        {
            "w": bits(4, 6, dtype="int8"), "s": number(0.02), "p": POINT, "t": np.array([0.02, 0.03, 0.01, 0.05], "float32"),
            "q": np.zeros(4, "int8"), "b": RNG.integers(-900, 900, 4).astype("int32"), "u": number(0.1), "r": number(100, "uint8"),
        },
    ),
    "QGemm, floats": (
        node("QGemm", "x s p w t q b", "y", transA=1),
        {"x": bits(6, 3)},
        {"w": bits(6, 4), "s": number(0.02), "p": POINT, "t": number(0.03), "q": POINT, "b": RNG.integers(-900, 900, 4).astype("int32")},
    ),
    "DequantizeLinear": (node("DequantizeLinear", "x s p", "y"), {"x": bits(3, 6)}, {"s": WIDE, "p": POINT}),
    "QuantizeLinear": (node("QuantizeLinear", "x s p", "y"), {"x": normal(3, 6)}, {"s": WIDE, "p": number(30000, "uint16")}),
}  # fmt: skip
WHOLE = 1  # QLinearSoftmax adds up in another way, and what falls between two integers is rounded to either


def file_of(case: tuple[Any, dict[str, Array], dict[str, Array]], is_open: bool = False) -> bytes:
    made, inputs, weights = case
    made.domain = "com.microsoft"
    infos = {
        name: (array.dtype.name, [f"{name}{axis}" for axis in range(array.ndim)] if is_open else list(array.shape))
        for name, array in inputs.items()
    }
    data: bytes = model([made], infos, [name for name in made.output if name], weights, opset=17, com_microsoft=1)
    return data


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_results_are_those_of_onnxruntime(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    case = {**FLOATS, **INTEGERS}[name]
    data = file_of(case)
    wanted = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, case[1])
    for found, expected in zip(onnx.load(data).run(case[1]), wanted, strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        apart = np.abs(found.astype("float64") - expected)
        assert apart.max() <= (WHOLE if expected.dtype.kind in "iu" else 1e-5 * max(1.0, np.abs(expected).max()))
        assert expected.dtype.kind == "f" or np.mean(apart > 0) <= 0.1


@pytest.mark.parametrize("name", FLOATS)
def test_gradients_agree_with_differences_and_are_written(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    case = FLOATS[name]
    loaded = onnx.load(file_of(case))
    gradients = onnx.gradients(loaded, of=[loaded.fetch_names[0]])
    found = dict(zip(gradients.fetch_names, gradients.run(case[1]), strict=True))
    values, step = {**case[1], **loaded.parameters}, 2e-3
    for source in [gradient.removesuffix("@GRAD") for gradient in gradients.gradient_names]:
        way = np.sign(found[f"{source}@GRAD"]).astype("float32")
        moved = [{**values, source: values[source] + sign * step * way} for sign in (1, -1)]
        high, low = (_run_with(loaded, each, list(case[1]))[0].astype("float64").sum() for each in moved)
        slope = float((found[f"{source}@GRAD"].astype("float64") * way).sum())
        assert (high - low) / (2 * step) == pytest.approx(slope, rel=0.02, abs=0.05), source
    onnx.save(gradients, tmp_path / "gradients.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "gradients.onnx", providers=["CPUExecutionProvider"])
    for array, gradient in zip(session.run(gradients.gradient_names, case[1]), gradients.gradient_names, strict=True):
        np.testing.assert_allclose(array, found[gradient], rtol=1e-4, atol=1e-4)


def _run_with(loaded: onnx.OnnxModel, values: dict[str, Array], feeds: list[str]) -> list[Array]:
    """The model with other weights."""
    parameters = {name: values[name] for name in loaded.parameters}
    changed = onnx.OnnxModel(loaded.program, loaded.feed_names, loaded.fetch_names, parameters)
    return changed.run({name: values[name] for name in feeds})


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_open_extents_change_nothing_and_it_is_written(name: str, tmp_path: Path) -> None:
    case = {**FLOATS, **INTEGERS}[name]
    known, opened = onnx.load(file_of(case)), onnx.load(file_of(case, is_open=True))
    wanted = known.run(case[1])
    onnx.save(known, tmp_path / "model.onnx")
    for found in (opened.run(case[1]), onnx.load(tmp_path / "model.onnx").run(case[1])):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_operators_on_numbers_of_8_bits_are_written_as_themselves(tmp_path: Path) -> None:
    onnx.save(onnx.load(file_of(INTEGERS["QLinearAdd"])), tmp_path / "model.onnx")
    import_onnx = pytest.importorskip("onnx")
    assert [each.op_type for each in import_onnx.load(tmp_path / "model.onnx").graph.node] == ["QLinearAdd"]


def test_what_is_not_read_is_named() -> None:
    with pytest.raises(UnsupportedModel, match=r"node 0, GroupQueryAttention: operators of 'com.microsoft' are not known"):
        onnx.load(file_of((node("GroupQueryAttention", "x", "y"), {"x": ROWS}, {})))
    with pytest.raises(UnsupportedModel, match="node 0, MatMulNBits: weights of 3 bits"):
        onnx.load(
            file_of(
                (
                    node("MatMulNBits", "x w s", "y", K=64, N=3, bits=3, block_size=32),
                    {"x": normal(2, 64)},
                    {"w": bits(3, 2, 12), "s": normal(6)},
                )
            )
        )
