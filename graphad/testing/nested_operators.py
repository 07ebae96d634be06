"""What random nested programs are written with: a ``Writer`` that knows which names have values where, and smooth operators.

Every value lies in [-1, 1], so that loops cannot make anything large: what adds is scaled down or followed by tanh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.ops import lookup
from graphad.program import Block, Operator, Program, Variable
from graphad.testing.choices import Choices
from graphad.testing.operators import Array, uniform_array
from graphad.types import TENSOR

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = ((3,), (1,), (2, 3), (3, 3))
LETTERS = "tuvw"  # what fresh names begin with, by depth; blocks beside each other use the same ones
THRESHOLDS = (0.1371, -0.3719, 0.4523)  # far from the values that programs like to have


_MOST_INFERRED = 1024


def _inferred(op_type: str) -> dict[tuple[Any, ...], tuple[Shape | None, str | None]]:
    """What an operator writes, by types of inputs and attributes with which it was checked once: it is not checked again."""
    known: dict[tuple[Any, ...], tuple[Shape | None, str | None]] = lookup(op_type).memory.setdefault(_inferred, {})
    if len(known) > _MOST_INFERRED:
        known.clear()
    return known


@dataclass
class Scope:
    """A block being written, and what has a value there: tensors and arrays with (element) shapes, counters, booleans."""

    block: Block
    tensors: dict[str, Shape] = field(default_factory=dict)
    arrays: dict[str, Shape] = field(default_factory=dict)
    counters: list[str] = field(default_factory=list)
    booleans: list[str] = field(default_factory=list)
    index: str | None = None
    fresh: int = 0


class Writer:
    """A program being drawn: its blocks from the outermost to the current one, feeds and parameters."""

    def __init__(self, choices: Choices, stops: bool, nested: int) -> None:
        self.choices = choices
        self.stops = stops
        self.left = nested
        self.program = Program()
        self.scopes = [Scope(self.program.global_block())]
        self.feeds: dict[str, Array] = {}
        self.params: dict[str, Array] = {}
        self.fixed: set[str] = set()
        self.count = 0

    # -- drawing ---------------------------------------------------------------------------------

    def one_of(self, *choices: Any) -> Any:
        return self.choices.one_of(choices)

    def rarely(self, one_in: int = 4) -> bool:
        return bool(self.choices.integer(1, one_in) == one_in)

    def recent(self, names: Sequence[str]) -> str:
        """One of the names, the last one first."""
        return str(self.choices.one_of(names[::-1]))

    def array(self, shape: Shape, largest: float) -> Array:
        return uniform_array(self.choices.integer(0, 99), largest, shape).copy()

    # -- scopes ----------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def tensors(self) -> dict[str, Shape]:
        """The names of floating-point tensors that have a value here, parameters first, then as they were written."""
        found = {name: shape for scope in self.scopes for name, shape in scope.tensors.items()}
        return {name: found[name] for name in sorted(found, key=lambda name: name not in self.params)}

    def arrays(self) -> dict[str, Shape]:
        return {name: shape for scope in self.scopes for name, shape in scope.arrays.items()}

    def counters(self) -> list[str]:
        return [name for scope in self.scopes for name in scope.counters]

    def booleans(self) -> list[str]:
        return [name for scope in self.scopes for name in scope.booleans]

    def outer(self, name: str) -> bool:
        """Whether a block around the current one declares the name."""
        return not self.scope.block.has_var(name)

    @contextmanager
    def inside(self, index: str | None = None) -> Iterator[Block]:
        """Write a new block inside the current one; ``index`` counts its iterations from 0."""
        block = self.program.create_block()
        self.scopes.append(Scope(block, index=index))
        yield block
        inner = self.scopes.pop().tensors
        self.program.rollback()
        for name, shape in inner.items():
            if not block.has_var(name) and name in self.tensors():
                self.wrote(name, shape)

    # -- names -----------------------------------------------------------------------------------

    def unique(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count - 1}"

    def fresh(self, shape: Shape) -> str:
        """A name for a new tensor of the current block."""
        self.scope.fresh += 1
        name = f"{LETTERS[len(self.scopes) - 1]}{self.scope.fresh - 1}"
        if self.stops and self.rarely(12):
            self.scope.block.create_var(name=name, shape=shape, dtype="float64", stop_gradient=True)
        return name

    def promise(self, shape: Shape) -> str:
        """A tensor of the current block that blocks inside will write."""
        name = self.unique("o")
        self.scope.block.create_var(name=name, shape=shape, dtype="float64")
        return name

    def target(self) -> tuple[str, Shape]:
        """What to write: in a block mostly a variable of a block around it, in block 0 mostly a new one."""
        free = {name: shape for name, shape in self.tensors().items() if name not in self.fixed}
        outside = [name for name in free if self.outer(name)]
        choice = self.choices.integer(0, 3)
        if outside and choice < 2:
            name = self.recent(outside)
            return name, free[name]
        if free and choice == (2 if outside else 3):
            name = self.recent(list(free))
            return name, free[name]
        shape = self.one_of(*dict.fromkeys([*list(self.tensors().values())[::-1], *SHAPES]))
        return self.fresh(shape), shape

    # -- inputs ----------------------------------------------------------------------------------

    def data(self) -> None:
        name, shape = self.unique("x"), self.one_of(*SHAPES)
        self.program.global_block().create_var(name=name, shape=shape, dtype="float64")
        self.feeds[name] = self.array(shape, 1.0)
        self.scopes[0].tensors[name] = shape

    def fed(self, stem: str, value: Any, dtype: str) -> str:
        name, array = self.unique(stem), np.asarray(value, dtype)
        self.program.global_block().create_var(name=name, shape=[-1] if dtype == "float64" else [1], dtype=dtype, stop_gradient=True)
        self.feeds[name] = array
        return name

    def parameter(self, shape: Shape, largest: float = 1.0) -> str:
        name = self.unique("p")
        self.program.global_block().create_parameter(name=name, shape=shape, dtype="float64", trainable=not self.rarely(8))
        self.params[name] = self.array(shape, largest)
        self.fixed.add(name)
        self.scopes[0].tensors[name] = shape
        return name

    def weight(self) -> str:
        """A matrix that does not make anything larger."""
        known = [name for name in self.params if np.abs(self.params[name]).sum(-1).max() <= 1 and self.params[name].shape == (3, 3)]
        return self.recent(known) if known and not self.rarely() else self.parameter((3, 3), 0.33)

    def operand(self, *shapes: Shape) -> str:
        """A tensor of one of the shapes, a new parameter if there is none."""
        names = [name for name, shape in self.tensors().items() if shape in shapes]
        return self.recent(names) if names else self.parameter(shapes[0])

    # -- operators -------------------------------------------------------------------------------

    def append(self, op_type: str, inputs: dict[str, Any], out: str, **attrs: Any) -> str:
        """Append an operator that writes a name; return it."""
        block = self.scope.block
        names = {slot: list(value) if isinstance(value, list) else [value] for slot, value in inputs.items()}
        types = tuple((slot, *(block.var_recursive(name).tensor_type for name in listed)) for slot, listed in names.items())
        inferred, key = _inferred(op_type), (types, repr(attrs))
        written = block.var_recursive(out) if block.has_var_recursive(out) else None
        known = inferred.get(key)
        if known is None or (written is not None and written.declared != known):
            block.append_op(type=op_type, inputs=names, outputs={"Out": out}, attrs=attrs)
            declared = block.var_recursive(out)
            if declared.type == TENSOR and written is None and None not in declared.declared:
                inferred[key] = declared.declared
            return out
        if written is None:
            block.vars[out] = Variable.trusted(block, out, *known)
        block.ops.append(Operator(block, op_type, names, {"Out": [out]}, dict(attrs)))
        return out

    def constant(self, value: float, dtype: str = "int64", name: str | None = None) -> str:
        return self.append("fill_constant", {}, name or self.unique("k"), shape=[1], value=float(value), dtype=dtype)

    def compare(self, op_type: str, x: str, y: str, name: str | None = None) -> str:
        return self.append(op_type, {"X": x, "Y": y}, name or self.unique("b"))

    def wrote(self, name: str, shape: Shape) -> None:
        """A tensor has a value from here on, the last one written."""
        self.scope.tensors.pop(name, None)
        self.scope.tensors[name] = shape


# -- operators that write a given tensor ---------------------------------------------------------

Recipe = Callable[[Writer, str, Shape], None]


def smaller(shape: Shape) -> list[Shape]:
    """What broadcasts to a shape."""
    return list(dict.fromkeys([shape, *([(3,)] if shape[-1] == 3 else []), (1,)]))


def unary(op_type: str, **attrs: float) -> Recipe:
    def recipe(w: Writer, out: str, shape: Shape) -> None:
        w.append(op_type, {"X": w.operand(shape)}, out, **attrs)

    return recipe


def binary(op_type: str) -> Recipe:
    """An elementwise operator; a sum or difference is brought back to [-1, 1] in place."""

    def recipe(w: Writer, out: str, shape: Shape) -> None:
        x, y = w.operand(shape), w.operand(*smaller(shape))
        w.append(op_type, {"X": x, "Y": y}, out)
        if op_type != "elementwise_mul":
            settled(w, out)

    return recipe


def settled(w: Writer, out: str) -> None:
    if w.one_of(True, False):
        w.append("tanh", {"X": out}, out)
    else:
        w.append("scale", {"X": out}, out, scale=0.5)


def total(w: Writer, out: str, shape: Shape) -> None:
    w.append("sum", {"X": [w.operand(shape) for _ in range(w.choices.integer(1, 3))]}, out)
    w.append("tanh", {"X": out}, out)


def product(w: Writer, out: str, shape: Shape) -> None:
    if shape[-1] == 3:
        w.append("matmul_v2", {"X": w.operand(shape), "Y": w.weight()}, out)
    else:
        binary("elementwise_mul")(w, out, shape)


def reduced(w: Writer, out: str, shape: Shape) -> None:
    if len(shape) == 2:
        w.append("sin", {"X": w.operand(shape)}, out)
    elif shape == (3,):
        w.append("reduce_mean", {"X": w.operand((2, 3), (3, 3))}, out, dim=[0])
    else:
        w.append("reduce_mean", {"X": w.operand((3,))}, out, dim=[0], keep_dim=True)


def expanded(w: Writer, out: str, shape: Shape) -> None:
    w.append("expand_v2", {"X": w.operand(*smaller(shape)[::-1])}, out, shape=list(shape))


def filled(w: Writer, out: str, shape: Shape) -> None:
    w.append("fill_constant", {}, out, shape=list(shape), value=w.one_of(0.5, 0.0, -1.0), dtype="float64")


def counted(w: Writer, out: str, shape: Shape) -> None:
    """The value of a counter, as a factor."""
    if not w.counters():
        filled(w, out, shape)
        return
    number = w.append("cast", {"X": w.recent(w.counters())}, w.unique("n"), out_dtype="float64")
    w.append("scale", {"X": number}, number, scale=0.25)
    w.append("elementwise_mul", {"X": w.operand(shape), "Y": number}, out)


RECIPES: tuple[Recipe, ...] = (
    *(unary(t) for t in ("tanh", "sin", "sigmoid", "square", "assign")),
    unary("scale", scale=-0.5, bias=0.5),
    *(binary(t) for t in ("elementwise_mul", "elementwise_add", "elementwise_sub")),
    *(total, product, product, reduced, expanded, filled, counted),
)


def write_tensor(w: Writer, name: str, shape: Shape) -> None:
    """Append operators that write a tensor of a shape."""
    w.one_of(*RECIPES)(w, name, shape)
    w.wrote(name, shape)
