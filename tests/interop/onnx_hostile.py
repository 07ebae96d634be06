"""Changed and made-up ONNX files: each is read, or refused by one clear error, in little time and memory.

python -m tests.interop.onnx_hostile [MUTATIONS, 100000] [SEED, 0]
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from graphad.errors import GraphadError
from graphad.interop import onnx
from graphad.interop.onnx.schema import message
from tests.onnx_models import Infos, graph, model, node, sparse

SECONDS, BYTES = 5.0, 500 << 20  # the longest that a file may take, and the most memory of the process


def seeds() -> list[bytes]:
    """Small models: products, shapes, loops, branches, recurrences, convolutions, 8 bits, sequences, computed sizes, sparse ones, text."""
    w = np.array([[1.0, -0.5], [0.5, 2.0], [-1.0, 0.25]], "float32")
    x: dict[str, Any] = {"x": ("float32", ["n", 3])}
    body = graph(
        [node("Add", "a a", "b"), node("Identity", "going", "more")],
        {"i": ("int64", []), "going": ("bool", []), "a": ("float32", ["n", 3])},
        ["more", "b", "a"],
    )
    branches = {f"{name}_branch": graph([node(type, "x", "r")], {}, ["r"]) for name, type in (("then", "Exp"), ("else", "Neg"))}
    one = [node("Constant", "", "k", value=np.array(3)), node("Constant", "", "axes", value=np.array([1]))]
    collecting = graph(
        [node("Identity", "going", "more"), node("Tanh", "x", "t"), node("SequenceInsert", "a t", "b")],
        {"i": ("int64", []), "going": ("bool", []), "a": ("float32", [])},
        ["more", "b"],
    )
    half = [node("Shape", "x", "s", end=1), node("Div", "s k", "h")]
    rows = graph([node("Exp", "r", "e")], {"r": ("float32", [3])}, ["e"])
    kernel = np.ones((2, 3, 2), "float32")
    image: Infos = {"i": ("float32", ["n", 3, 8])}
    gates = {name: np.ones(shape, "float32") for name, shape in (("lw", (1, 8, 3)), ("lr", (1, 8, 2)))}
    last = node("ConcatFromSequence", "z", "y", axis=0)
    return [
        model([node("MatMul", "x w", "h"), node("Tanh", "h", "y")], x, ["y"], {"w": w}),
        model([*one, node("Loop", "k - x", "last all", body=body)], x, ["last", "all"]),
        model([node("If", "c", "y", **branches)], {"c": ("bool", []), **x}, ["y"]),
        model([*one, node("Shape", "x", "s"), node("Reshape", "x s", "r"), node("ReduceSum", "r axes", "y")], x, ["y"]),
        model([*one, node("Unsqueeze", "x axes", "u"), node("LSTM", "u lw lr", "y h c", hidden_size=2)], x, ["y"], gates),
        model([node("Conv", "i k", "c"), node("MaxPool", "c", "y", kernel_shape=[2])], image, ["y"], {"k": kernel}),
        model([node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z", "y")], x, ["y"]),
        model([node("Pad", "x p", "h"), node("Tile", "h t", "y")], x, ["y"], {"p": np.array([0, 1, 0, 1]), "t": np.array([2, 1])}),
        model([*one, node("SequenceEmpty", "", "q"), node("Loop", "n - q", "z", body=collecting), last], {"n": ("int64", []), **x}, ["y"]),
        model([node("SplitToSequence", "x", "q", axis=0), node("SequenceMap", "q", "z", body=rows), last], x, ["y"]),
        model([*one, *half, node("TopK", "x h", "v i", axis=0), node("Unique", "i", "u f"), node("Gather", "x f", "y")], x, ["y"]),
        model([node("MatMul", "x w", "y")], x, ["y"], [sparse(np.array([2, -1], "float32"), [[0, 1], [2, 1]], (3, 2), "w")]),
        model([node("LabelEncoder", "x", "y", "ai.onnx.ml", keys_floats=[1.0, 2.0], values_strings=["a", "b"])], x, ["y"], ai_onnx_ml=2),
    ]


def mutations(count: int, seed: int = 0) -> Iterator[bytes]:
    """Seeds with some bytes changed, dropped, doubled, or the end cut off; numbers in them made huge."""
    rng, known = random.Random(seed), seeds()
    for _ in range(count):
        data = bytearray(rng.choice(known))
        for _ in range(rng.randrange(1, 5)):
            at, how = rng.randrange(len(data)), rng.random()
            if how < 0.6:
                data[at] = rng.randrange(256)
            elif how < 0.7:
                data[at : at + 1] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
            elif how < 0.8:
                del data[at : at + rng.randrange(1, 9)]
            elif how < 0.9:
                other = rng.choice(known)
                data[at:at] = other[: rng.randrange(len(other))]
            else:
                del data[max(1, at) :]
            if not data:
                break
        yield bytes(data)


def made_up() -> dict[str, bytes]:
    """Files that ask for too much, go round in circles, or leave their folder."""

    def changed(data: bytes, change: Callable[[Any], object]) -> bytes:
        proto = message("ModelProto")()
        proto.ParseFromString(data)
        change(proto)
        made: bytes = proto.SerializeToString()
        return made

    x: dict[str, Any] = {"x": ("float32", [3])}
    plain, huge = model([node("Tanh", "x", "y")], x, ["y"]), np.array([1 << 40, 1 << 20])
    itself = {f"{name}_branch": graph([node("Identity", "y", "r")], {}, ["r"]) for name in ("then", "else")}
    deep = graph([node("Identity", "x", "r")], {}, ["r"])
    for _ in range(16):  # the runtime of the format refuses more
        deep = graph([node("If", "c", "r", then_branch=deep, else_branch=graph([node("Neg", "x", "r")], {}, ["r"]))], {}, ["r"])
    chain = [node("Concat", f"a{i} a{i}", f"a{i + 1}", axis=0) for i in range(60)]
    forever = graph(
        [node("Identity", "g", "h"), node("Tanh", "a", "b")], {"i": ("int64", []), "g": ("bool", []), "a": ("float32", [3])}, ["h", "b"]
    )

    def of(*nodes: Any, **constants: Any) -> bytes:
        """A model whose first nodes are constants."""
        return model([*(node("Constant", "", name, value=np.asarray(value)) for name, value in constants.items()), *nodes], x, ["y"])

    return {
        "empty": b"",
        "text": b"not a model",
        "truncated": plain[: len(plain) // 2],
        "no outputs": changed(plain, lambda p: p.graph.ClearField("output")),
        "cyclic": model([node("Tanh", "z", "y"), node("Exp", "y", "z")], x, ["y"]),
        "in itself": model([node("If", "c", "y", **itself)], {"c": ("bool", []), **x}, ["y"]),
        "deep": model([node("If", "c", "y", then_branch=deep, else_branch=deep)], {"c": ("bool", []), **x}, ["y"]),
        "huge constant": of(node("ConstantOfShape", "s", "c"), node("Tanh", "c", "y"), s=huge),
        "huge sparse": model([node("MatMul", "x w", "y")], x, ["y"], [sparse(np.ones(1, "float32"), [0], (3, 1 << 40), "w")]),
        "huge expand": of(node("Expand", "k s", "y"), k=[1.0], s=huge),
        "huge tile": of(node("Tile", "k s", "y"), k=[1, 2], s=[1 << 50]),
        "huge range": of(node("Range", "a b c", "y"), a=0, b=1 << 60, c=1),
        "huge pad": of(node("Pad", "k p", "y"), k=[1, 2], p=[1 << 50, 0]),
        "huge edge": of(node("Pad", "x p", "y", mode="edge"), p=[1 << 50, 0]),
        "huge one-hot": of(node("OneHot", "i d v", "y"), i=[0], d=1 << 50, v=[0, 1]),
        "huge window": of(node("HannWindow", "n", "y"), n=1 << 50),
        "huge transform": of(node("DFT", "k n", "y"), k=np.ones((1, 4, 1)), n=1 << 40),
        "huge product": of(
            node("Add", "a b", "c"), node("Add", "c d", "y"), a=np.ones((1, 9000)), b=np.ones((9000, 1)), d=np.ones((9000, 1, 1))
        ),
        "doubling": of(*chain, node("Identity", "a60", "y"), a0=np.ones(9, "int64")),
        "endless": of(node("Loop", "m - x", "y", body=forever), m=1 << 60),
    }


def refusal(data: bytes) -> str:
    """How a file is answered: "read", or the name of the error. Anything but an error of graphad's own comes out as it is."""
    try:
        onnx.load(data)
    except GraphadError as error:
        return type(error).__name__ if str(error) else "an error without a message"
    return "read"


def main(arguments: list[str]) -> int:
    count, seed = ([*map(int, arguments), *(100_000, 0)[len(arguments) :]])[:2]
    for name, data in made_up().items():
        start = time.perf_counter()
        print(f"{name:16}{refusal(data):20}{time.perf_counter() - start:8.3f} s", flush=True)
    answers, longest = Counter[str](), 0.0
    for i, data in enumerate(mutations(count, seed)):
        start = time.perf_counter()
        try:
            answers[refusal(data)] += 1
        except BaseException:
            print(f"mutation {i} of seed {seed}: {data!r}")
            raise
        longest = max(longest, time.perf_counter() - start)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{count} mutations: {dict(answers.most_common())}; the longest took {longest:.2f} s; {most >> 20} MB at most")
    return 0 if longest <= SECONDS and most <= BYTES else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
