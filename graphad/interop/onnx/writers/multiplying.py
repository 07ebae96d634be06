"""Products of matrices and vectors, diagonals, sums over labeled axes."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from graphad.interop.onnx.emitting import Dim, Nodes, broadcast, is_same
from graphad.interop.onnx.terms import Size, Term, on
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, writes
from graphad.ops.inference import normal_axis

# -- products ------------------------------------------------------------------------------------


@writes("mul")
def _mul(call: Call) -> Result:
    x, y, nodes = call["X"], call["Y"], call.nodes
    m, n = call.attr("x_num_col_dims"), call.attr("y_num_col_dims")
    if x.ndim - m == n == 1 and y.ndim == 2:
        return nodes.matmul(x, y)
    rows, inner, columns = nodes.dims(x)[:m], nodes.product(nodes.dims(y)[:n]), nodes.dims(y)[n:]
    product = nodes.matmul(_as_matrix(nodes, x, m, inner, True), _as_matrix(nodes, y, n, inner, False))
    return nodes.reshape(product, [*rows, *columns])


def _as_matrix(nodes: Nodes, x: Term, axis: int, inner: Dim, left: bool) -> Term:
    if x.ndim == 2 and axis == 1:
        return x
    dims = nodes.dims(x)
    return nodes.reshape(x, [nodes.product(dims[:axis]), inner] if left else [inner, nodes.product(dims[axis:])])


@writes("matmul_v2")
def _matmul(call: Call) -> Result:
    return _product(call.nodes, call["X"], call["Y"], call.attr("trans_x"), call.attr("trans_y"))


def _product(nodes: Nodes, x: Term, y: Term, trans_x: bool, trans_y: bool) -> Term:
    """A vector beside a transposed matrix is made a matrix: onnxruntime 1.32 fuses the transposition wrongly."""
    turned_x, turned_y = trans_x and x.ndim > 1, trans_y and y.ndim > 1
    if turned_x and y.ndim == 1:
        product = _product(nodes, x, nodes.unsqueeze(y, [1]), True, False)
        return nodes.squeeze(product, [product.ndim - 1])
    if turned_y and x.ndim == 1:
        product = _product(nodes, nodes.unsqueeze(x, [0]), y, False, True)
        return nodes.squeeze(product, [product.ndim - 2])
    return nodes.matmul(nodes.swapped(x) if turned_x else x, nodes.swapped(y) if turned_y else y)


@writes("matmul")
def _old_matmul(call: Call) -> Result:
    nodes = call.nodes
    product = _product(nodes, call["X"], call["Y"], call.attr("transpose_X"), call.attr("transpose_Y"))
    result = product if call.attr("alpha") == 1.0 else product * float(call.attr("alpha"))
    return result if result.ndim else nodes.reshape(result, [1])


@writes("bmm")
def _bmm(call: Call) -> Result:
    return call.nodes.matmul(call["X"], call["Y"])


@writes("mv")
def _mv(call: Call) -> Result:
    return call.nodes.matmul(call["X"], call["Vec"])


@writes("dot")
def _dot(call: Call) -> Result:
    product = call["X"] * call["Y"]
    return call.nodes.reduce("Sum", product, [product.ndim - 1])


@writes("addmm")
def _addmm(call: Call) -> Result:
    """Scaled where a factor is not one."""
    product = call.nodes.matmul(call["X"], call["Y"])
    summand, alpha, beta = call["Input"], float(call.attr("Alpha")), float(call.attr("Beta"))
    return (summand if beta == 1.0 else summand * beta) + (product if alpha == 1.0 else product * alpha)


@writes("einsum")
def _einsum(call: Call) -> Result:
    operands, out, equation = call.all("Operands"), call.output("Out"), str(call.attr("equation")).replace(" ", "")
    if "..." in equation:
        equation = _without_ellipsis(equation, operands)
    return call.nodes.one("Einsum", operands, operands[0].kind, out.shape, equation=equation)


def _without_ellipsis(equation: str, operands: Sequence[Term]) -> str:
    """With a label for each axis that an ellipsis stands for: ONNX's have to stand for the same axes in all operands."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    counts = [operand.ndim - len(term.replace("...", "")) if "..." in term else 0 for term, operand in zip(terms, operands, strict=True)]
    labels = [label for label in ascii_letters if label not in equation][: max(counts)]
    sizes: dict[str, Size] = {}
    for i, (term, operand, count) in enumerate(zip(terms, operands, counts, strict=True)):
        # Aligned from the end, as broadcasting is.
        own = labels[len(labels) - count :]
        start = term.index("...") if "..." in term else 0
        for label, size in zip(own, operand.sizes[start:], strict=False):
            if not is_same(sizes.setdefault(label, size), size):
                raise CannotWrite("an ellipsis that stands for axes of other extents in each operand")
        terms[i] = term.replace("...", "".join(own))
    if not arrow:
        # Without an arrow the result has the labels that occur once, in alphabetical order.
        singles = sorted(label for label in set(left) if label.isalpha() and left.count(label) == 1)
        right = "..." + "".join(singles)
    return f"{','.join(terms)}->{right.replace('...', ''.join(labels))}"


@writes("kron")
def _kron(call: Call) -> Result:
    x, y, nodes = call["X"], call["Y"], call.nodes
    rank = max(x.ndim, y.ndim)
    x, y = (nodes.unsqueeze(operand, list(range(rank - operand.ndim))) for operand in (x, y))
    wide = nodes.unsqueeze(x, list(range(1, 2 * rank, 2))) * nodes.unsqueeze(y, list(range(0, 2 * rank, 2)))
    pairs = zip(nodes.dims(x), nodes.dims(y), strict=True)
    return nodes.reshape(wide, [nodes.product([a, b]) for a, b in pairs])


@writes("determinant")
def _determinant(call: Call) -> Result:
    return call.nodes.one("Det", [call["Input"]], call["Input"].kind, call.output("Out").shape)


@writes("matrix_power")
def _power(call: Call) -> Result:
    """A power of matrices by repeated squaring; for a negative exponent that of the inverse."""
    x, n, nodes = call["X"], call.attr("n"), call.nodes
    if n < 0:
        x, n = inverted(nodes, x), -n
    result: Term | None = None
    # Square and multiply: x holds x^(2^i), and is a factor where bit i of n is set. It is not squared after the last bit.
    while n:
        if n % 2:
            result = x if result is None else nodes.matmul(result, x)
        n //= 2
        x = nodes.matmul(x, x) if n else x
    if result is not None:
        return result
    return nodes.expand(_identity(nodes, nodes.extent(x, -1), x.kind), nodes.dims(x))


def _identity(nodes: Nodes, extent: Dim, dtype: str) -> Term:
    row = nodes.range(extent)
    return nodes.cast(on.equal(nodes.unsqueeze(row, [1]), row), dtype)


# -- equations -----------------------------------------------------------------------------------


def solved(nodes: Nodes, a: Term, b: Term) -> Term:
    """``a @ x = b`` by Gauss and Jordan's elimination, with the largest element of each column as its pivot; row by row in a loop."""
    extent = nodes.extent(a, -1)
    row = nodes.range(extent)

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        left, right = carried
        at_step = on.equal(row, step)  # [n]
        column = _column(nodes, left, step)  # [..., n]
        # Rows above have been pivots: -1 is less than any absolute value, so none of them is chosen again.
        candidates = nodes.where(on.less(row, step), nodes.like(-1.0, column), on.abs(column))
        pivot = on.equal(nodes.arg("ArgMax", candidates, -1), row)  # [..., n]
        left, right = (_exchanged(nodes, matrix, at_step, pivot) for matrix in (left, right))
        factors = _column(nodes, left, step)
        mask = nodes.unsqueeze(nodes.cast(at_step, left.kind), [1])
        # Rows are read and replaced by masks: ONNX has no assignment, and a mask serves every matrix of a batch at once.
        divisor = nodes.unsqueeze(
            nodes.reduce("Sum", factors * nodes.cast(at_step, left.kind), [factors.ndim - 1], keep=True), [factors.ndim]
        )
        multipliers = nodes.unsqueeze(factors, [factors.ndim]) * (1.0 - mask)
        out = []
        for matrix in (left, right):
            pivot_row = nodes.reduce("Sum", matrix * mask, [matrix.ndim - 2], keep=True) / divisor
            out.append(matrix * (1.0 - mask) - multipliers * pivot_row + mask * pivot_row)
        return None, out, []

    return nodes.loop(extent, None, [a, b], body)[1]


def _column(nodes: Nodes, x: Term, step: Term) -> Term:
    return nodes.gather(x, step, x.ndim - 1)


def _exchanged(nodes: Nodes, x: Term, here: Term, pivot: Term) -> Term:
    """Two rows exchanged, each of them said by a mask."""
    a, b = (nodes.cast(mask, x.kind) for mask in (here, pivot))
    a, b = nodes.unsqueeze(a, [a.ndim]), nodes.unsqueeze(b, [b.ndim])
    first, second = (nodes.reduce("Sum", x * mask, [x.ndim - 2], keep=True) for mask in (a, b))
    return x + (second - first) * a + (first - second) * b


def inverted(nodes: Nodes, x: Term) -> Term:
    """The inverse of each matrix."""
    identity = _identity(nodes, nodes.extent(x, -1), x.kind)
    return solved(nodes, x, nodes.expand(identity, nodes.dims(x)))


@writes("inverse")
def _inverse(call: Call) -> Result:
    return inverted(call.nodes, call["Input"])


@writes("solve")
def _solve(call: Call) -> Result:
    """A vector is one column."""
    x, y, nodes = call["X"], call["Y"], call.nodes
    if y.ndim == 1:
        solution = _broadcast_solved(nodes, x, nodes.unsqueeze(y, [1]))
        return nodes.squeeze(solution, [solution.ndim - 1])
    return _broadcast_solved(nodes, x, y)


@writes("triangular_solve")
def _triangular(call: Call) -> Result:
    """Only one triangle of the matrix counts."""
    x, y, nodes = call["X"], call["Y"], call.nodes
    x = nodes.one("Trilu", [x], x.kind, x.sizes, upper=int(call.attr("upper")))
    if call.attr("unitriangular"):
        identity = _identity(nodes, nodes.extent(x, -1), x.kind)
        x = x * (1.0 - identity) + identity
    return _broadcast_solved(nodes, nodes.swapped(x) if call.attr("transpose") else x, y)


def _broadcast_solved(nodes: Nodes, x: Term, y: Term) -> Term:
    """The axes before the last two of both are those of their broadcast."""
    lead = broadcast(x.sizes[:-2], y.sizes[:-2])
    if any(not isinstance(size, int) for size in lead):
        return solved(nodes, x, y)
    dims = [int(size) for size in lead if isinstance(size, int)]
    wide = [nodes.expand(matrix, [*dims, *nodes.dims(matrix)[-2:]]) for matrix in (x, y)]
    return solved(nodes, *wide)


@writes("cholesky_solve")
def _cholesky_solve(call: Call) -> Result:
    x, y, nodes = call["X"], call["Y"], call.nodes
    y = nodes.one("Trilu", [y], y.kind, y.sizes, upper=int(call.attr("upper")))
    whole = nodes.matmul(nodes.swapped(y), y) if call.attr("upper") else nodes.matmul(y, nodes.swapped(y))
    return _broadcast_solved(nodes, whole, x)


@writes("cholesky")
def _cholesky(call: Call) -> Result:
    """Column by column: what is left of the matrix loses the product of each column with itself."""
    x, nodes = call["X"], call.nodes
    x = (x + nodes.swapped(x)) * 0.5
    extent = nodes.extent(x, -1)
    row = nodes.range(extent)

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        (rest,) = carried
        column = _column(nodes, rest, step)
        below = nodes.cast(on.greater_equal(row, step), x.kind)
        corner = nodes.unsqueeze(nodes.gather(column, step, column.ndim - 1), [column.ndim - 1])
        # The outer-product form (G. Golub, C. Van Loan, Matrix Computations, 4.2.5): what remains to factor is the Schur complement.
        new_column = column * below / on.sqrt(corner)
        product = nodes.unsqueeze(new_column, [new_column.ndim]) * nodes.unsqueeze(new_column, [new_column.ndim - 1])
        return None, [rest - product], [new_column]

    columns = nodes.loop(extent, None, [x], body)[1]  # [n, ..., n]
    out = nodes.moved(columns, 0, -1)
    return nodes.swapped(out) if call.attr("upper") else out


# -- diagonals -----------------------------------------------------------------------------------


def _last_two(nodes: Nodes, x: Term, a: int, b: int) -> Term:
    a, b = normal_axis(a, x.ndim), normal_axis(b, x.ndim)
    return nodes.transpose(x, [*(i for i in range(x.ndim) if i not in (a, b)), a, b])


def taken_diagonal(nodes: Nodes, x: Term, offset: int, a: int, b: int) -> Term:
    """The diagonals of the matrices that two axes make, as the last axis: every (columns + 1)-th element of the part that has them."""
    x = _last_two(nodes, x, a, b)
    rows, columns = nodes.extent(x, -2), nodes.extent(x, -1)
    index = nodes.range(_diagonal_length(nodes, rows, columns, offset))
    width = columns if isinstance(columns, int) else nodes.as_scalar(columns)
    # Element i is in row i, or further down by a negative offset, and in column i, or further right by a positive one.
    places = (index + max(-offset, 0)) * width + (index + max(offset, 0))
    flat = nodes.reshape(x, [*nodes.dims(x)[:-2], nodes.product([rows, columns])])
    return nodes.gather(flat, places, flat.ndim - 1)


def _diagonal_length(nodes: Nodes, rows: Dim, columns: Dim, offset: int) -> Dim:
    if isinstance(rows, int) and isinstance(columns, int):
        return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    # An offset leaves out columns to the left, or rows above.
    a: Dim = rows if offset >= 0 else rows + offset
    b: Dim = columns - offset if offset >= 0 else columns
    return on.maximum(on.minimum(a, b), 0)


def put_diagonal(nodes: Nodes, x: Term, dims: list[Dim], offset: int, a: int, b: int, filler: float = 0.0) -> Term:
    """A value in a shape, with x on a diagonal."""
    rank = len(dims)
    a, b = a % rank, b % rank
    rows, columns = nodes.range(dims[a]), nodes.range(dims[b])
    is_diagonal = on.equal(nodes.unsqueeze(rows, [1]) + offset, columns)
    shift = max(offset, 0)
    # Every column looks up an element; what is off the diagonal is replaced afterwards.
    at = on.minimum(on.maximum(columns - shift, 0), _less_one(nodes, nodes.extent(x, -1)))
    wide = nodes.gather(x, at, x.ndim - 1)
    result = nodes.where(is_diagonal, nodes.unsqueeze(wide, [wide.ndim - 1]), nodes.like(filler, x))
    order = [i for i in range(rank) if i not in (a, b)] + [a, b]
    return nodes.transpose(result, [order.index(i) for i in range(rank)])


def _less_one(nodes: Nodes, extent: Dim) -> object:
    return max(extent - 1, 0) if isinstance(extent, int) else on.maximum(nodes.as_scalar(extent) - 1, 0)


@writes("diagonal")
def _diagonal(call: Call) -> Result:
    return taken_diagonal(call.nodes, call["Input"], call.attr("offset"), call.attr("axis1"), call.attr("axis2"))


@writes("undiagonal")
def _undiagonal(call: Call) -> Result:
    dims = call.nodes.dims(call["Like"])
    return put_diagonal(call.nodes, call["X"], dims, call.attr("offset"), call.attr("axis1"), call.attr("axis2"))


def _embedded(call: Call, x: Term, a: int, b: int, filler: float = 0.0) -> Term:
    nodes, offset = call.nodes, int(call.attr("offset")) if "offset" in call.definition.attrs else 0
    extent: Dim = nodes.extent(x, -1) + abs(offset)
    rank = x.ndim + 1
    if x.shape[-1] == 0:
        # ONNX pads no axis without elements: a filler in its place gives the same matrix.
        x = nodes.full([*nodes.dims(x)[:-1], 1], filler, x.kind)
    dims = nodes.dims(x)[:-1]
    for axis in sorted((a % rank, b % rank)):
        dims.insert(axis, extent)
    return put_diagonal(nodes, x, dims, offset, a, b, filler)


@writes("diag_embed")
def _embed(call: Call) -> Result:
    return _embedded(call, call["Input"], call.attr("dim1"), call.attr("dim2"))


@writes("diag_v2")
def _diag_v2(call: Call) -> Result:
    x = call["X"]
    if x.ndim == 2:
        return taken_diagonal(call.nodes, x, call.attr("offset"), 0, 1)
    return _embedded(call, x, 0, 1, float(call.attr("padding_value")))


@writes("diag")
def _diag(call: Call) -> Result:
    return _embedded(call, call["Diagonal"], 0, 1)


@writes("trace")
def _trace(call: Call) -> Result:
    diagonal = taken_diagonal(call.nodes, call["Input"], call.attr("offset"), call.attr("axis1"), call.attr("axis2"))
    return call.nodes.reduce("Sum", diagonal, [diagonal.ndim - 1])
