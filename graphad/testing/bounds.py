"""Programs that end: a copy whose loops together stop with an error after a number of iterations."""

from __future__ import annotations

from graphad.program import Program

ITERATIONS = 2000
_COUNT, _FLAG = "@ITERATIONS@", "@ITERATIONS@CODE"


def bounded(program: Program, iterations: int = ITERATIONS) -> Program:
    """The program, or if it has loops a copy that fails after so many iterations of all of them together.

    An iteration counts itself, and makes a one-hot code of the count, which is an error once that is too large.
    """
    bodies = [op.attrs["sub_block"] for block in program.blocks for op in block.ops if op.type == "while"]
    if not bodies:
        return program
    twin = program.clone()
    root = twin.global_block()
    for body in bodies:
        block = twin.block(body.idx)
        root.create_var(_COUNT, [1], "int64", stop_gradient=True)
        block.insert_op(0, "increment", {"X": _COUNT}, {"Out": _COUNT}, {"step": 1.0})
        block.insert_op(1, "one_hot_v2", {"X": _COUNT}, {"Out": f"{_FLAG}{block.idx}"}, {"depth": iterations, "dtype": "bool"})
    root.insert_op(0, "fill_constant", {}, {"Out": _COUNT}, {"shape": [1], "value": 0.0, "dtype": "int64"})
    return twin
