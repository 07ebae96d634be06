"""Strings and maps of a model that is written: at its ends nodes of ai.onnx.ml make numbers of strings, and the other way.

    feed x: strings    ⇒    LabelEncoder(x) -> x's numbers        fetch y: numbers of strings    ⇒    LabelEncoder(numbers) -> y

A string that the model does not name has the number -1: it equals none that is named, and no number of another one is needed.
"""

from __future__ import annotations

from graphad.interop.onnx.emitting import Nodes
from graphad.interop.onnx.strings import Ends
from graphad.interop.onnx.terms import Term
from graphad.interop.onnx.writers import CannotWrite
from graphad.ir import Graph, Op, Value

_ML = "ai.onnx.ml"
_COMPARING = ("equal", "not_equal")
_MEASURING = ("shape", "size")


def numbers_of(nodes: Nodes, ends: Ends, strings: Term) -> Term:
    """The numbers of an input that holds strings."""
    strings.holds = "strings"
    words = ends.text.named() or [""]
    attrs = {"keys_strings": words, "values_int64s": list(range(len(words))), "default_int64": -1}
    return nodes.of_domain(_ML, 2, "LabelEncoder", [strings], [("int64", strings.sizes)], attrs)[0]


def fetched(nodes: Nodes, ends: Ends, name: str, term: Term) -> Term:
    """An output as the file has it: strings of numbers, maps of rows, anything else as it is."""
    if name in ends.outputs:
        words = ends.text.named() or [""]
        attrs: dict[str, object] = {"keys_int64s": list(range(len(words))), "values_strings": words}
        (found,) = nodes.of_domain(_ML, 2, "LabelEncoder", [term], [("int64", term.sizes)], attrs)
        found.holds = "strings"
        return found
    if name in ends.maps:
        keys = list(ends.maps[name])
        has_words = isinstance(keys[0], str)
        attrs = {"classlabels_strings" if has_words else "classlabels_int64s": keys}
        (found,) = nodes.of_domain(_ML, 1, "ZipMap", [nodes.cast(term, "float32")], [("float32", ())], attrs)
        found.holds = "maps of strings" if has_words else "maps of numbers"
        return found
    return term


def check_strings(graph: Graph, ends: Ends) -> None:
    """CannotWrite where strings that are fed would have to be told apart: they are given back, or compared with one another."""
    fed = {value for value in graph.inputs if value.name in ends.inputs}
    _follow(graph, fed)
    for value in graph.targets:
        if value in fed and value.name in ends.outputs:
            raise CannotWrite(f"the output {value.name!r} has strings that are fed, which are numbers inside of the model")


def _follow(graph: Graph, fed: set[Value]) -> None:
    """Add to ``fed`` what has numbers of strings that are fed."""
    for op in graph.ordered_ops():
        reads = [value for value in op.reads() if value in fed]
        if op.graphs and reads:
            raise CannotWrite(f"strings that are fed are read in a {op.type}")
        if reads and not _is_answer(op, fed):
            fed.update(op.writes())


def _is_answer(op: Op, fed: set[Value]) -> bool:
    """Whether an operator says something of strings: whether they are some that the model names, or how many they are."""
    if op.type not in _COMPARING:
        return op.type in _MEASURING
    if all(value in fed for value in op.reads()):
        raise CannotWrite("strings that are fed are compared with one another")
    return True
