"""The graph that graphad and its peers optimize, described without any of them: float tensors of shape [8], elementwise operators.

Of the operators about 20 % are dead, 15 % repeat an earlier one, 10 % are of constants alone, 15 % match one of the ten rules, and the
rest is needed. The rules are x + 0, 0 + x, x * 1, 1 * x, x - 0, x / 1, x ** 1, -(-x), ||x|| and relu(relu(x)); they hold for every float,
infinities and nan included (x + 0 but for the sign of a zero), so that every optimizer may use them. Values are read near where they are
made, which gives 24 chains that cross each other; a few are read by the sums at the end, the targets.

    workload(10)  ->  Node("input", ()), ..., Node("const", (), 1.0), Node("mul", (3, 4)), ...

No dependencies: every peer's script imports this from an environment of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

INPUTS, WIDTH, TARGETS, NEAR = 8, 24, 4, 64
SHAPE = (8,)
LIMIT = 100.0
LATE, AGAIN = 0.02, 0.1

RULES: dict[str, tuple[str, float | None]] = {
    "x + 0": ("add", 0.0),
    "0 + x": ("add", 0.0),
    "x * 1": ("mul", 1.0),
    "1 * x": ("mul", 1.0),
    "x - 0": ("sub", 0.0),
    "x / 1": ("div", 1.0),
    "x ** 1": ("pow", 1.0),
    "-(-x)": ("neg", None),
    "||x||": ("abs", None),
    "relu(relu(x))": ("relu", None),
}
"""Each rule's operator, and the constant that it takes beside x; none where the operator is applied twice."""

_NAMES = tuple(RULES)
_UNARY = ("tanh", "tanh", "relu", "abs", "neg", "exp")
_BINARY = ("add", "sub", "mul", "max")
_FOLDED = ("add", "sub", "mul")
_SHARES = {"dead": 0.20, "repeated": 0.15, "constant": 0.10, "rule": 0.15, "live": 0.40}

_BOUNDS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "div": lambda a, b: a,
    "pow": lambda a, b: a,
    "tanh": lambda a: 1.0,
    "relu": lambda a: a,
    "abs": lambda a: a,
    "neg": lambda a: a,
    "exp": lambda a: math.exp(min(a, LIMIT)),
}


class Node(NamedTuple):
    """A value: an input, a constant (``value`` in each element), or an operator of earlier values, given by their numbers."""

    kind: str
    args: tuple[int, ...]
    value: float = 0.0

    @property
    def is_operator(self) -> bool:
        return self.kind not in ("input", "const")


class Workload(NamedTuple):
    """Values in an order in which they can be computed, and the numbers of the requested ones."""

    nodes: tuple[Node, ...]
    targets: tuple[int, ...]

    @property
    def operators(self) -> int:
        """How many operators there are; constants and inputs are none."""
        return sum(node.is_operator for node in self.nodes)


class _Maker:
    """Draws operators until there are enough."""

    def __init__(self, operators: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.wanted = operators
        self.count = 0
        self.nodes: list[Node] = []
        self.bounds: list[float] = []
        self.live = [self.add("input") for _ in range(INPUTS)]
        self.open = list(self.live)  # needed, and not read yet
        self.late: list[int] = []
        self.dead = list(self.live)
        self.folded: list[int] = []
        self.repeats: dict[int, int] = {}

    def add(self, kind: str, *args: int, value: float = 0.0, bound: float = 1.0) -> int:
        node = Node(kind, args, value)
        self.nodes.append(node)
        self.bounds.append(bound if not args else _BOUNDS[kind](*(self.bounds[a] for a in args)))
        self.count += node.is_operator
        return len(self.nodes) - 1

    def bounded(self, kind: str, *args: int) -> int:
        """The operator, or tanh or max where its result could grow large."""
        large = _BOUNDS[kind](*(self.bounds[a] for a in args)) > LIMIT
        return self.add("tanh" if len(args) == 1 else "max", *args) if large else self.add(kind, *args)

    def const(self, value: float) -> int:
        return self.add("const", value=value, bound=max(abs(value), 1.0))

    def near(self, values: list[int]) -> int:
        """One of the last few; now and then an input, so that the values far down still depend on them."""
        if self.random.random() < AGAIN:
            return self.random.randrange(INPUTS)
        return values[-1 - self.random.randrange(min(len(values), NEAR))]

    def taken(self) -> int:
        """One that is needed and not read yet; while there are few, any that is needed."""
        if len(self.open) < WIDTH:
            return self.near(self.live)
        return self.open.pop(self.random.randrange(len(self.open)))

    def keep(self, value: int) -> None:
        """Have it read: by what comes next, or now and then only by the sums at the end, so that they depend on the whole graph."""
        self.live.append(value)
        (self.late if self.random.random() < LATE else self.open).append(value)

    # -- one of each share

    def make_live(self) -> None:
        x = self.taken()
        if self.folded:
            self.keep(self.bounded(self.random.choice(_FOLDED), x, self.folded.pop()))
        elif self.random.random() < 0.45:
            self.keep(self.bounded(self.random.choice(_UNARY), x))
        else:
            y = self.taken() if len(self.open) > WIDTH else self.near(self.live)
            self.keep(self.bounded(self.random.choice(_BINARY), x, y))

    def make_dead(self) -> None:
        read = self.near(self.dead if self.random.random() < 0.6 else self.live)
        kind = self.random.choice(_UNARY + _BINARY)
        self.dead.append(self.bounded(kind, *((read,) if kind in _UNARY else (read, self.near(self.live)))))

    def make_repeated(self) -> None:
        """An operator again, sometimes of repeated arguments."""
        first = self.near(self.live)
        node = self.nodes[first]
        if node.is_operator:
            again = self.add(node.kind, *(self.repeats.get(a, a) for a in node.args))
            self.repeats[first] = again
            self.keep(again)

    def make_constant(self) -> None:
        """One to three operators of constants; what they give is read by the next that is needed."""
        value = self.const(self.random.uniform(0.1, 2.0))
        for _ in range(self.random.randint(1, 3)):
            value = self.bounded_constant(value)
        self.folded.append(value)

    def bounded_constant(self, value: int) -> int:
        kind = self.random.choice(_FOLDED) if self.bounds[value] < 4.0 else "sub"
        return self.add(kind, value, self.const(self.random.uniform(0.1, 2.0)))

    def make_rule(self) -> None:
        name, x = self.random.choice(_NAMES), self.taken()
        kind, value = RULES[name]
        if value is None:
            self.keep(self.add(kind, self.add(kind, x)))
        else:
            args = (x, self.const(value))
            self.keep(self.add(kind, *(args if name.startswith("x") else reversed(args))))

    def made(self) -> Workload:
        kinds = list(_SHARES)
        # A constant's draw makes two operators, a rule's 1.3.
        weights = [share / {"constant": 2.0, "rule": 1.3}.get(kind, 1.0) for kind, share in _SHARES.items()]
        while self.count + len(self.open) + len(self.late) + len(self.folded) < self.wanted + TARGETS:
            getattr(self, f"make_{self.random.choices(kinds, weights)[0]}")()
        while self.folded:
            self.make_live()
        last = self.late + self.open
        targets = tuple(self.summed(last[i::TARGETS]) for i in range(TARGETS))
        return Workload(tuple(self.nodes), targets)

    def summed(self, values: list[int]) -> int:
        return reduce(lambda total, value: self.add("add", total, value), values)


def workload(operators: int, seed: int = 0) -> Workload:
    """About so many operators (constants not counted), always the same ones for the same seed."""
    return _Maker(operators, seed).made()
