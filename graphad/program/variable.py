"""Variables and parameters of a program: names with a type, not values; their weight decay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeGuard

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.ops import GRAD, REGISTRY, OpDef, Symbol
from graphad.ops.definition import did_you_mean
from graphad.ops.tensor_literals import as_tensor, is_literal, unlisted
from graphad.ops.tensor_methods import INSTEAD
from graphad.program.clipping import Clip, ErrorClipByValue
from graphad.program.layer_methods import LayerMethods, is_layer
from graphad.program.source import at_users_line, located, user_line
from graphad.types import FLOATS, INTS, KINDS, TENSOR, Shape, Tensor, TensorType, checked_shape, dtype_name

if TYPE_CHECKING:
    from graphad.program.block import Block
    from graphad.program.operator import Operator
    from graphad.program.program import Program


# -- guards ----------------------------------------------------------------------------------------
# The programs that the innermost ``program_guard`` has made current in this thread or asyncio task; None outside of every guard.

MAIN: ContextVar[Program | None] = ContextVar("main program", default=None)
STARTUP: ContextVar[Program | None] = ContextVar("startup program", default=None)


# -- regularizer -----------------------------------------------------------------------------------
# Weight decay, as parameters and optimizers name it.


@dataclass(frozen=True)
class L1Decay:
    """Adds ``coefficient * sign(w)`` to the gradient."""

    coefficient: float = 0.0
    kind: ClassVar[str] = "l1"


@dataclass(frozen=True)
class L2Decay:
    """Adds ``coefficient * w`` to the gradient."""

    coefficient: float = 0.0
    kind: ClassVar[str] = "l2"


_WIDTHS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
Regularizer = L1Decay | L2Decay
_REGULARIZERS = (L1Decay, L2Decay, type(None))


# -- variable --------------------------------------------------------------------------------------
# Variables and parameters of a program: names with a type, not values.


class Variable(LayerMethods, Symbol):
    """A name in a block. ``shape`` has -1 where an extent is unknown, or its name (``Extent``); it is None before anything says it.

    Arithmetic (``+ - * / // % @ **``), comparisons, ``& | ^ ~``, subscripts and methods append operators to the program's current
    block; numbers, arrays and lists of numbers become constants. ``/`` of integers is of float32; integers and booleans beside numbers
    of a wider kind are cast to it. A subscript of one integer, ``[1]``, counts as a number, as in Fluid's loops. Two variables are the same
    one if ``a is b``. ``error_clip`` bounds the gradient of the variable (``graphad.clip.ErrorClipByValue``); None leaves it.

    >>> import numpy as np
    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2, 3], append_batch_size=False)
    ...     y = x[:, ::-1].T @ np.array([1.0, 10.0])
    >>> ga.Executor().run(program, {"x": [[1, 2, 3], [4, 5, 6]]}, [y])
    [array([63., 52., 41.], dtype=float32)]
    """

    __slots__ = ("_dtype", "_error_clip", "_shape", "block", "name", "persistable", "stop_gradient", "stored", "type")

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Iterable[int | str] | None = None,
        dtype: object = None,
        persistable: bool = False,
        stop_gradient: bool = False,
        type: str = TENSOR,
    ) -> None:
        if not isinstance(name, str):
            raise InvalidType(f"a variable's name is a string, not {name!r}")
        if not name:
            raise InvalidValue("a variable's name is not empty")
        if type not in KINDS:
            raise InvalidValue(f"variable {name!r}: type is one of {', '.join(KINDS)}, not {type!r}")
        self.block = block
        self.name = name
        self._shape = None if shape is None else checked_shape(shape)
        self._dtype = None if dtype is None else dtype_name(dtype)
        self._error_clip: ErrorClipByValue | None = None
        self.persistable = persistable
        self.stop_gradient = stop_gradient
        self.type = type
        self.stored: bytes | None = None

    @property
    def shape(self) -> Shape:
        """The extents, -1 where unknown; ShapeError while nothing has said the rank."""
        if self._shape is None:
            raise ShapeError(f"the shape of variable {self.name!r} is not known: declare it or let an operator write it")
        return self._shape

    @property
    def dtype(self) -> str:
        """The dtype's name; float32 where nothing has said another."""
        return self._dtype or "float32"

    @property
    def error_clip(self) -> ErrorClipByValue | None:
        """How ``append_backward`` and ``minimize`` bound the gradient of the variable; TypeError for what is no ErrorClipByValue."""
        return self._error_clip

    @error_clip.setter
    def error_clip(self, clip: ErrorClipByValue | None) -> None:
        if clip is not None and not isinstance(clip, ErrorClipByValue):
            self._refuse("variable", f"error_clip is an ErrorClipByValue (graphad.clip) or None, not {clip!r}")
        self._error_clip = clip

    def _refuse(self, what: str, problem: str) -> NoReturn:
        raise InvalidType(located(f"{what} {self.name!r}: {problem}", user_line()))

    @property
    def lod_level(self) -> int:
        """0: there are no levels of detail; sequences are padded."""
        return 0

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """``repr(variable)``, as Fluid calls it; both flags are without effect."""
        return repr(self)

    @property
    def tensor_type(self) -> TensorType | None:
        """Shape and dtype, None while the shape is unknown."""
        return None if self._shape is None else TensorType(self._shape, self._dtype or "float32")

    @property
    def declared(self) -> tuple[Shape | None, str | None]:
        """The shape and dtype as far as anything has said them."""
        return self._shape, self._dtype

    def declare(self, shape: Shape | None, dtype: str | None) -> None:
        """Set the shape and dtype; used by inference."""
        # An operator that is refused later must leave declarations as they were: a journal of what they were before.
        undo = self.block.program.declarations
        if undo is not None:
            undo.append((self, self._shape, self._dtype))
        self._shape, self._dtype = shape, dtype

    @property
    def op(self) -> Operator | None:
        """The last operator of the block that writes this variable, None if none does."""
        return next((op for op in reversed(self.block.ops) if self.name in op.output_names()), None)

    def emit(self, op: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        program = self.block.program
        current = MAIN.get() or program
        if current is not program and current.identity.family is not program.identity.family:
            # Operators go to the current program, which may be a clone of the variable's.
            raise InvalidValue(located(f"operator {op.type!r}: {foreign(current, self)}", user_line()))
        return current.blocks[current._current].emit(op, inputs, attrs)

    def refuse(self, message: str) -> NoReturn:
        raise InvalidType(located(message, user_line()))

    def how_to_fetch(self) -> str:
        return f"executor.run(program, feed, fetch_list=[{self.name!r}]) returns its value as an array"

    # Only for names that are nowhere else: the message says what does it here.
    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            hint = "" if name.startswith("_") else _instead_of(name)
            raise AttributeError(f"{_kind(self)!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def __getitem__(self, key: object) -> Self:
        with at_users_line():
            parts = key if isinstance(key, tuple) else (key,)
            if any(_is_counter(part) for part in parts):
                # Fluid's counters have the shape [1]; ``x[i]`` means an element.
                parts = tuple(part.squeeze(0) if _is_counter(part) else part for part in parts)
                key = parts if isinstance(key, tuple) else parts[0]
            return super().__getitem__(key)

    def _beside(self, value: object) -> Self:
        """Booleans beside numbers are cast to what these are, and integers beside numbers with a fraction to float32, as in numpy."""
        if self.dtype in FLOATS:
            return self
        array = np.asarray(value)
        kind = array.dtype.kind
        # A whole number does not change the type of integers, even as a float: x * 2.0 stays int64.
        if kind == "f" and (self.dtype == "bool" or not np.all(np.isfinite(array) & (np.trunc(array) == array))):
            return self.astype("float32")
        return self.astype("int64") if self.dtype == "bool" and kind in "iu" else self

    def _operands(self, x: Any, y: Any) -> tuple[Tensor, Tensor]:
        """Numbers and arrays as constants; integers and booleans beside a wider kind are cast to it; of two widths of floats neither is."""
        operand = y if x is self else x
        if not isinstance(operand, Variable):
            operand = unlisted(operand, self)
            like = self._beside(operand) if is_literal(operand) else self
            constant = as_tensor(operand, like)
            return (like, constant) if x is self else (constant, like)
        # Two floats of different widths are not cast: the operator refuses them, as in Paddle.
        if x._dtype == y._dtype or x.dtype == y.dtype or _width(x) == _width(y):
            return x, y
        wider = max(x, y, key=_width)
        return x if x is wider else x.astype(wider.dtype), y if y is wider else y.astype(wider.dtype)

    def __truediv__(self, other: object) -> Self:
        return super(Variable, self._divisible(other)).__truediv__(other)

    def __rtruediv__(self, other: object) -> Self:
        return super(Variable, self._divisible(other)).__rtruediv__(other)

    def _divisible(self, other: object) -> Self:
        """Integers as float32, unless they meet a tensor of floats."""
        return self if isinstance(other, Variable) and other.dtype in FLOATS else self._floating()

    @classmethod
    def trusted(
        cls,
        block: Block,
        name: str,
        shape: Shape | None,
        dtype: str | None,
        stop_gradient: bool = False,
        type: str = TENSOR,
        error_clip: ErrorClipByValue | None = None,
    ) -> Self:
        """A plain variable from parts that are known to be right, so that nothing is checked."""
        var = cls.__new__(cls)
        # One by one: four and more at once are put into a tuple and taken out again, and variables are made by the million.
        var.block = block
        var.name = name
        var._shape = shape
        var._dtype = dtype
        var.persistable = False
        var.stop_gradient = stop_gradient
        var.type = type
        var.stored = None
        var._error_clip = error_clip
        return var

    def detach(self) -> Self:
        """The same elements, with no gradient through them."""
        same: Self = self.copy()
        same.stop_gradient = True
        return same

    @property
    def grad_name(self) -> str:
        """The name of its gradient, ``x@GRAD``, as Fluid has it."""
        return f"{self.name}{GRAD}"

    def copy_to(self, block: Block) -> Self:
        """The same variable in another block (of another program)."""
        copy = self.__class__.__new__(self.__class__)
        copy.block = block
        copy.name = self.name
        copy._shape = self._shape
        copy._dtype = self._dtype
        copy.persistable = self.persistable
        copy.stop_gradient = self.stop_gradient
        copy.type = self.type
        copy.stored = self.stored
        copy._error_clip = self._error_clip
        return copy

    def copier(self) -> Callable[[Block, str], Variable]:
        """Return a function that declares a copy of this variable in any block under any name; the variable is read once for all copies."""
        kind, make = self.__class__, self.__class__.__new__
        shape, dtype, persistable, stop_gradient = self._shape, self._dtype, self.persistable, self.stop_gradient
        variable_type, stored, error_clip = self.type, self.stored, self._error_clip

        def copy_to(block: Block, name: str) -> Variable:
            copy = make(kind)
            copy.block = block
            copy.name = name
            copy._shape = shape
            copy._dtype = dtype
            copy.persistable = persistable
            copy.stop_gradient = stop_gradient
            copy.type = variable_type
            copy.stored = stored
            copy._error_clip = error_clip
            return copy

        return copy_to

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Copying the block copies its variables, this one among them; else it is a variable without a block.
        block = deepcopy(self.block, memo)
        return memo[id(self)] if id(self) in memo else self.copy_to(block)

    def __repr__(self) -> str:
        return f"{_kind(self)} {self.name}: {self._dtype or 'float32'}[{_extents(self._shape)}]"


class Parameter(Variable):
    """A persistable variable of block 0 that training updates if it is ``trainable``.

    ``learning_rate`` is a factor on the optimizer's; ``regularizer`` replaces the optimizer's (None: use that one);
    ``need_clip`` False leaves its gradient out of clipping; ``gradient_clip`` is how it is clipped where the optimizer has no
    ``grad_clip`` (``graphad.clip.set_gradient_clip`` sets it). ``do_model_average`` False leaves it out of a ``ModelAverage``; files of
    programs do not have that.
    """

    __slots__ = ("_gradient_clip", "do_model_average", "learning_rate", "need_clip", "regularizer", "trainable")

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Iterable[int | str],
        dtype: object,
        trainable: bool = True,
        learning_rate: float = 1.0,
        regularizer: Regularizer | None = None,
        need_clip: bool = True,
        gradient_clip: Clip | None = None,
    ) -> None:
        if shape is None or dtype is None:
            raise InvalidValue(f"parameter {name!r} needs a shape and a dtype")
        super().__init__(block, name, shape, dtype, persistable=True, stop_gradient=not trainable)
        # A parameter is initialized before any data says an extent.
        if -1 in self.shape:
            raise InvalidValue(f"parameter {name!r} has shape {list(self.shape)}; the extents of a parameter are known, none is -1")
        if not isinstance(trainable, bool) or not isinstance(need_clip, bool):
            raise InvalidType(f"parameter {name!r}: trainable and need_clip are booleans, not {trainable!r} and {need_clip!r}")
        if isinstance(learning_rate, str) or not isinstance(regularizer, _REGULARIZERS):
            raise InvalidType(
                f"parameter {name!r}: learning_rate is a number and regularizer a decay, not {learning_rate!r} and {regularizer!r}"
            )
        self.trainable = trainable
        self.learning_rate = float(learning_rate)
        self.regularizer = regularizer
        self.need_clip = need_clip
        self.do_model_average = True
        self.gradient_clip = gradient_clip

    @property
    def optimize_attr(self) -> dict[str, float]:
        """The factor on the optimizer's learning rate, as Fluid has it: ``{"learning_rate": 1.0}``."""
        return {"learning_rate": self.learning_rate}

    @property
    def gradient_clip(self) -> Clip | None:
        """How its gradient is clipped before it is applied, where the optimizer has no ``grad_clip``."""
        return self._gradient_clip

    @gradient_clip.setter
    def gradient_clip(self, clip: Clip | None) -> None:
        if clip is not None and not isinstance(clip, Clip):
            self._refuse("parameter", f"gradient_clip is a ClipByValue, ClipByNorm or ClipByGlobalNorm, not {clip!r}")
        self._gradient_clip = clip

    def copy_to(self, block: Block) -> Self:
        copy = super().copy_to(block)
        copy.trainable = self.trainable
        copy.learning_rate = self.learning_rate
        copy.regularizer = self.regularizer
        copy.need_clip = self.need_clip
        copy._gradient_clip = self._gradient_clip
        copy.do_model_average = self.do_model_average
        return copy

    def copier(self) -> Callable[[Block, str], Variable]:
        copy_variable: Any = super().copier()
        trainable, learning_rate, regularizer = self.trainable, self.learning_rate, self.regularizer
        need_clip, gradient_clip, do_model_average = self.need_clip, self._gradient_clip, self.do_model_average

        def copy_to(block: Block, name: str) -> Variable:
            copy: Parameter = copy_variable(block, name)
            copy.trainable = trainable
            copy.learning_rate = learning_rate
            copy.regularizer = regularizer
            copy.need_clip = need_clip
            copy._gradient_clip = gradient_clip
            copy.do_model_average = do_model_average
            return copy

        return copy_to


def _instead_of(name: str) -> str:
    """The hint for an attribute that variables do not have: its replacement, or similar names; "" if there is none."""
    if name in INSTEAD:
        return f": {INSTEAD[name]}"
    if name in REGISTRY or is_layer(name):
        return f": layers.{name}(x)"
    return did_you_mean(name, [*(attribute for attribute in dir(Variable) if not attribute.startswith("_")), *INSTEAD])


def _is_counter(part: object) -> TypeGuard[Variable]:
    """Whether a part of a subscript is one integer in a vector, as Fluid's loops count: it indexes as a number does, as in Fluid."""
    # A vector of one integer, which is what Fluid's fill_constant([1], "int64", i) makes.
    return isinstance(part, Variable) and part.declared[0] == (1,) and part.dtype in INTS and part.dtype != "bool"


def _kind(var: Variable) -> str:
    """The class of a variable, Parameter or Variable, even if a subclass that watches it has taken its place."""
    return "Parameter" if isinstance(var, Parameter) else "Variable"


def _width(var: Variable) -> int:
    """How much a dtype holds: booleans less than integers, and these less than floats."""
    # All widths of floats are alike: they are never cast to each other.
    return _WIDTHS.index(var.dtype) if var.dtype in _WIDTHS else len(_WIDTHS)


def stands_for(block: Block, var: Variable) -> bool:
    """Whether a variable can be named in a block: it is of the same program, or of a copy of it that declares it the same way."""
    var_program, program = var.block.program, block.program
    if var_program is program:
        return True
    # Clones are of one family: a variable of a program names the same one in its clone.
    if var_program.identity.family is not program.identity.family:
        return False
    # In a copy the name may have been declared otherwise since.
    return not block.has_var_recursive(var.name) or block.var_recursive(var.name).declared == var.declared


def name_in(what: str, block: Block, var: Variable) -> str:
    """The name of a variable that stands for one of a block's; ValueError if it is of another program, which the message names."""
    if stands_for(block, var):
        return var.name
    hint = f"; here the name is {block.var_recursive(var.name)!r}" if block.has_var_recursive(var.name) else ""
    raise InvalidValue(f"{what}: {foreign(block.program, var)}{hint}")


def foreign(program: Program, var: Variable) -> str:
    """The complaint about a variable that is used in a program which is not its own."""
    return f"{var!r} is of another program: it belongs to {var.block.program.identity}, not to {program.identity}"


def _extents(shape: Shape | None) -> str:
    return "?" if shape is None else ", ".join(map(str, shape))
