"""Nodes of a file that is written, joined where ONNX has one node for what graphad says in several operators.

    Conv(x, w) -> c;  Unsqueeze(b) -> v;  Add(c, v) -> y          ⇒   Conv(x, w, b) -> y
    MatMul(x, w) -> p;  Add(p, b) -> y             of matrices    ⇒   Gemm(x, w, b) -> y
    Unsqueeze(x) -> u;  Conv(u, w) -> c;  Squeeze(c) -> y         ⇒   Conv(x, w') -> y              of one axis
    Less(i, 0), Add(i, n), Where -> j;  Gather(x, j) -> y         ⇒   Gather(x, i) -> y             where x has n slices
    Reshape(i) -> j;  Gather(x, j) -> g;  Reshape(g) -> y         ⇒   Gather(x, i) -> y             where j are all elements of i
    ConstantOfShape(s) -> z;  Add(x, z) -> y       of zeros       ⇒   Expand(x, s) -> y
    Slice(v, 0, 1) -> a;  Slice(v, 1, 2) -> b;  Concat(a, b) -> y ⇒   v                             where v has two elements
    Cast(s) -> c;  Cast(c) -> y     of extents, there and back    ⇒   s
    Tanh(x) -> t;  Identity(t) -> y                               ⇒   Tanh(x) -> y

A node takes the place of the last of those that it joins, so that all it reads is there; a bias that is there from the start goes to the
convolution, so that others may go on reading the extents of that. What is joined stays, for dead nodes to be left out after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping, Sequence

import numpy as np

from graphad.interop.onnx.emitting import Frame, Node, Nodes, is_same
from graphad.interop.onnx.terms import Term
from graphad.types import Array

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_JOINED = ("float32", "float64")  # sums of float16 are rounded once more where a node ends


def join(nodes: Nodes, outputs: list[Term], weights: MutableMapping[str, Array]) -> None:
    """Join nodes of all graphs of a file, in place.

    Args:
        nodes: of the outermost graph.
        outputs: its outputs.
        weights: values by their names that may be put into another shape where one node alone reads them.
    """
    joiner = _Joiner(nodes, outputs, weights)
    joiner.join(nodes.frames[0], outputs)
    joiner.rename()


class _Joiner:
    """Joins the nodes of a file.

    ``uses`` says how often a term is read, by nodes or as an output. It is counted once: a term that a joined node has stopped reading has
    one use too many from then on, which keeps nodes apart that could be joined, but joins none wrongly.
    """

    def __init__(self, nodes: Nodes, outputs: Sequence[Term], weights: MutableMapping[str, Array]) -> None:
        self.nodes, self.weights = nodes, weights
        self.uses = Counter(id(term) for term in outputs)
        self.extents = Counter[int]()  # how often extents of a term are read
        for frame in _frames(nodes.frames[0]):
            self.uses.update(id(term) for node in frame.nodes for term in node.inputs if term is not None)
            self.uses.update(id(term) for term in frame.outputs)
            self.extents.update(id(node.inputs[0]) for node in frame.nodes if node.type == "Shape")
        self.writers: dict[int, Node] = {}
        self.renamed: dict[int, Term] = {}
        self.flat: dict[int, Term] = {}  # vectors of indices -> those that they are all elements of

    def join(self, frame: Frame, outputs: Sequence[Term]) -> None:
        """Join the nodes of a graph and of those in it; what one graph computes is not moved into another."""
        writers, self.writers = self.writers, {id(term): node for node in frame.nodes for term in node.outputs}
        for node in frame.nodes:
            for inner in node.attrs.values():
                if isinstance(inner, Frame):
                    self.join(inner, inner.outputs)
            rule = _RULES.get(node.type)
            if rule is not None:
                rule(self, node)
        self._identities(frame, outputs)
        self.writers = writers

    def writer(self, term: Term | None, *types: str) -> Node | None:
        """The node of this graph that a term comes from, if it is of one of some types."""
        node = None if term is None else self.writers.get(id(term))
        return node if node is not None and node.type in types else None

    def only(self, term: Term | None, *types: str) -> Node | None:
        """The same, if nothing else reads the term."""
        return self.writer(term, *types) if self.uses[id(term)] == 1 else None

    def into(self, node: Node, type: str, inputs: list[Term | None], attrs: dict[str, object]) -> None:
        """Make a node another one, with the same outputs."""
        self.uses.update(id(term) for term in inputs if term is not None)
        node.type, node.inputs, node.attrs = type, inputs, attrs

    # -- identities ------------------------------------------------------------------------------

    def _identities(self, frame: Frame, outputs: Sequence[Term]) -> None:
        """Let the node before an identity make its result; an output is made by a node of its own graph."""
        results = {id(term) for term in outputs}
        own = {id(term) for node in frame.nodes for term in node.outputs}
        new_nodes: list[Node] = []
        for node in frame.nodes:
            if node.type != "Identity" or not self._merged(node, results, own):
                new_nodes.append(node)
        frame.nodes[:] = new_nodes

    def _merged(self, node: Node, results: set[int], own: set[int]) -> bool:
        (source,), (result,) = node.inputs, node.outputs
        assert source is not None
        source = self.renamed.get(id(source), source)
        # No output: its readers read the source instead.
        if id(result) not in results:
            self.renamed[id(result)] = source
            return True
        # An output keeps its term, which the source's node then writes, unless that is an output itself or comes from another graph.
        if id(source) not in own or id(source) in results:
            return False
        self.renamed[id(source)] = result
        results.add(id(source))
        return True

    def rename(self) -> None:
        """Put the terms that are left in the place of those that were merged with them."""

        def new(term: Term) -> Term:
            # Several identities may follow each other.
            while id(term) in self.renamed:
                term = self.renamed[id(term)]
            return term

        for frame in _frames(self.nodes.frames[0]):
            frame.outputs[:] = [new(term) for term in frame.outputs]
            for node in frame.nodes:
                node.inputs = [None if term is None else new(term) for term in node.inputs]
                node.outputs = [new(term) for term in node.outputs]

    # -- weights ---------------------------------------------------------------------------------

    def same(self, node: Node, source: Term) -> None:
        """Let a node be an identity, which is left out."""
        self.into(node, "Identity", [source], {})

    def without_axes(self, term: Term, axes: Sequence[int]) -> Term | None:
        """The operand of the Unsqueeze that added these axes; or a weight reshaped to drop them, if this is its only use; None
        otherwise."""
        writer = self.writer(term, "Unsqueeze")
        if writer is not None:
            return writer.inputs[0] if _numbers(writer.inputs[1]) == [*axes] else None
        if term.array is not None and all(term.shape[axis] == 1 for axis in axes):
            return self.nodes.constant(term.array.reshape([extent for i, extent in enumerate(term.shape) if i not in axes]))
        # The weight itself is changed, so nothing else may read it.
        array = self.weights.get(term.name) if self.uses[id(term)] == 1 else None
        if array is None or any(array.shape[axis] != 1 for axis in axes):
            return None
        self.weights[term.name] = array.reshape([extent for i, extent in enumerate(array.shape) if i not in axes])
        term.sizes = term.shape = self.weights[term.name].shape
        return term


def _frames(frame: Frame) -> Iterator[Frame]:
    """A graph and those in it."""
    yield frame
    for node in frame.nodes:
        for inner in node.attrs.values():
            if isinstance(inner, Frame):
                yield from _frames(inner)


def _numbers(term: Term | None) -> list[int] | None:
    """The elements of a constant."""
    return None if term is None or term.array is None else [int(number) for number in term.array.ravel()]


def _pairs(node: Node) -> Iterator[tuple[Term, Term]]:
    """The operands of a node with two, either way round."""
    first, second = node.inputs
    assert first is not None
    assert second is not None
    yield first, second
    yield second, first


# -- biases --------------------------------------------------------------------------------------


def _add(joiner: _Joiner, node: Node) -> None:
    kind = node.outputs[0].kind
    for x, y in _pairs(node):
        if _as_expand(joiner, node, x, y):
            return
        if kind in _JOINED and (_with_bias(joiner, node, x, y) or _as_gemm(joiner, node, x, y)):
            return


def _with_bias(joiner: _Joiner, node: Node, product: Term, bias: Term) -> bool:
    """Join the product of a convolution with a number for each channel."""
    convolution = joiner.writer(product, *_CONVOLUTIONS)
    # Reads of the product's extents do not count: they are those of the sum.
    if convolution is None or len(convolution.inputs) > 2 or joiner.uses[id(product)] - joiner.extents[id(product)] != 1:
        return False
    channels = product.shape[1]
    if bias.shape[-product.ndim + 1 :] != (channels, *[1] * (product.ndim - 2)) or channels == -1:
        return False
    lead = list(range(bias.ndim - product.ndim + 1))
    vector = joiner.without_axes(bias, [*lead, *range(len(lead) + 1, bias.ndim)]) if bias.ndim <= product.ndim else None
    # A bias that a node computes may be there only after the extents were read.
    if vector is None or (id(vector) in joiner.writers and joiner.extents[id(product)]):
        return False
    if id(vector) in joiner.writers:
        joiner.into(node, convolution.type, [*convolution.inputs, vector], dict(convolution.attrs))
    else:
        # The convolution writes the sum; a node without outputs is dead.
        convolution.inputs, convolution.outputs, node.outputs = [*convolution.inputs, vector], node.outputs, []
        joiner.renamed[id(product)] = convolution.outputs[0]
        joiner.writers[id(convolution.outputs[0])] = convolution
    return True


def _as_gemm(joiner: _Joiner, node: Node, product: Term, bias: Term) -> bool:
    """Join a product of matrices with what is added to it."""
    multiplication = joiner.only(product, "MatMul")
    if multiplication is None or any(term is None or term.ndim != 2 for term in multiplication.inputs) or bias.ndim not in (1, 2):
        return False
    # The bias broadcasts to the product; not the other way round.
    if not all(
        extent == 1 or is_same(size, other)
        for extent, size, other in zip(bias.shape[::-1], bias.sizes[::-1], product.sizes[::-1], strict=False)
    ):
        return False
    operands: list[Term | None] = []
    attrs: dict[str, object] = {}
    for name, term in zip(("transA", "transB"), multiplication.inputs, strict=True):
        turned = joiner.only(term, "Transpose")
        operands.append(term if turned is None else turned.inputs[0])
        attrs |= {} if turned is None else {name: 1}
    joiner.into(node, "Gemm", [*operands, bias], attrs)
    return True


def _as_expand(joiner: _Joiner, node: Node, x: Term, zeros: Term) -> bool:
    filled = joiner.writer(zeros, "ConstantOfShape")
    if filled is None or x.kind == "bool" or np.asarray(filled.attrs["value"]).any():
        return False
    joiner.into(node, "Expand", [x, *filled.inputs], {})
    return True


# -- axes ----------------------------------------------------------------------------------------


def _squeeze(joiner: _Joiner, node: Node) -> None:
    """A convolution of images of one row is one of signals; a number that was made a vector is itself again."""
    number = joiner.writer(node.inputs[0], "Reshape", "Unsqueeze")
    if number is not None and not node.outputs[0].shape and number.inputs[0] is not None and not number.inputs[0].shape:
        joiner.same(node, number.inputs[0])
        return
    gathered = joiner.only(node.inputs[0], "Gather")
    if gathered is not None:
        _drop_axis(joiner, node, gathered)
        return
    convolution = joiner.only(node.inputs[0], *_CONVOLUTIONS)
    if convolution is None or _numbers(node.inputs[1]) != [2]:
        return
    x, filter_, *bias = convolution.inputs
    rows, pads = joiner.writer(x, "Unsqueeze"), convolution.attrs.get("pads", [0] * 4)
    assert filter_ is not None
    if rows is None or _numbers(rows.inputs[1]) != [2] or filter_.ndim != 4 or filter_.shape[2] != 1:
        return
    if "auto_pad" in convolution.attrs or not isinstance(pads, list) or pads[::2] != [0, 0]:
        return
    weights = joiner.without_axes(filter_, [2])
    if weights is not None:
        # Lists say something of rows and columns in turn; pads all beginnings, then all ends.
        signal = {name: value[1::2] if isinstance(value, list) else value for name, value in convolution.attrs.items()}
        joiner.into(node, convolution.type, [rows.inputs[0], weights, *bias], signal)


# -- indices -------------------------------------------------------------------------------------


def _drop_axis(joiner: _Joiner, node: Node, gathered: Node) -> None:
    """One slice without its axis is what an index without axes gathers."""
    x, index = gathered.inputs
    axis = gathered.attrs["axis"]
    if index is not None and index.array is not None and index.shape == (1,) and _numbers(node.inputs[1]) == [axis]:
        joiner.into(node, "Gather", [x, joiner.nodes.constant(index.array.reshape(()))], dict(gathered.attrs))


def _gather(joiner: _Joiner, node: Node) -> None:
    """Gather counts negative indices from the end by itself."""
    x, index = node.inputs
    axis = node.attrs["axis"]
    assert x is not None
    assert index is not None
    assert isinstance(axis, int)
    row = joiner.writer(index, "Reshape")
    if row is not None and _numbers(row.inputs[1]) == [-1]:
        plain = _uncounted(joiner, row.inputs[0], x.shape[axis])
        if plain is not None:
            # Gathering by them is joined only with the reshape after it, by ``_reshape``.
            joiner.flat[id(index)] = plain
        return
    plain = _uncounted(joiner, index, x.shape[axis])
    if plain is not None:
        joiner.into(node, "Gather", [x, plain], dict(node.attrs))


def _uncounted(joiner: _Joiner, index: Term | None, extent: int) -> Term | None:
    """Indices as they were before those that are negative were counted from the end of an extent."""
    choice = joiner.writer(index, "Where")
    if choice is None:
        return None
    condition, more, plain = choice.inputs
    less, total = joiner.writer(condition, "Less"), joiner.writer(more, "Add")
    if less is None or total is None or plain is None or less.inputs[0] is not plain or _numbers(less.inputs[1]) != [0]:
        return None
    summands = [other for term, other in _pairs(total) if term is plain]
    is_counted = plain.kind in ("int32", "int64") and extent != -1 and summands and _numbers(summands[0]) == [extent]
    return plain if is_counted else None


def _reshape(joiner: _Joiner, node: Node) -> None:
    """Replace a gather by flattened indices, reshaped to the axes of these, by one gather by the indices."""
    gathered = joiner.only(node.inputs[0], "Gather")
    if gathered is None:
        return
    x, index = gathered.inputs
    axis, row = gathered.attrs["axis"], joiner.writer(index, "Reshape")
    assert x is not None
    assert isinstance(axis, int)
    if row is None or _numbers(row.inputs[1]) != [-1] or row.inputs[0] is None:
        return
    sizes = [*x.sizes[:axis], *row.inputs[0].sizes, *x.sizes[axis + 1 :]]
    own = node.outputs[0].sizes
    if len(own) == len(sizes) and sum(not is_same(a, b) for a, b in zip(sizes, own, strict=True)) <= 1:
        # All extents but one are the same, and so is the number of elements: then all are.
        plain = joiner.flat.get(id(index), row.inputs[0])
        joiner.into(node, "Gather", [x, plain], dict(gathered.attrs))


def _concat(joiner: _Joiner, node: Node) -> None:
    """All elements of a vector, one after the other, are the vector."""
    parts = [joiner.writer(term, "Slice") for term in node.inputs]
    whole = parts[0].inputs[0] if parts[0] is not None else None
    if whole is None or whole.shape != (len(parts),):
        return
    for i, part in enumerate(parts):
        if part is None or part.inputs[0] is not whole or [_numbers(bound) for bound in part.inputs[1:]] != [[i], [i + 1], [0]]:
            return
    joiner.same(node, whole)


def _cast(joiner: _Joiner, node: Node) -> None:
    """Extents are small numbers, which every integer holds."""
    narrow = joiner.writer(node.inputs[0], "Cast")
    source = narrow.inputs[0] if narrow is not None else None
    is_extent = joiner.writer(source, "Shape") is not None and narrow is not None and narrow.outputs[0].kind in ("int32", "int64")
    if source is not None and is_extent and source.kind == node.outputs[0].kind:
        joiner.same(node, source)


_RULES: dict[str, Callable[[_Joiner, Node], None]] = {
    "Add": _add,
    "Cast": _cast,
    "Concat": _concat,
    "Gather": _gather,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
}

__all__ = ["join"]
