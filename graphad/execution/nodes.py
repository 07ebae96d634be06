"""The nodes of a compiled program, a tree: calls (``tracing.Call``), assignments, loops, branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphad.execution.tracing import Call, Value

# Nodes are told apart by identity (eq=False): the plan and the source keep tables by node.
Body = list["Node"]


@dataclass(eq=False)
class Assign:
    """Values get the names of others, all at once."""

    targets: tuple[Value, ...]
    sources: tuple[Value, ...]


@dataclass(eq=False)
class Again:
    """An iteration of a loop as a function, which takes what is ``carried`` and ends with a ``Return``.

    It is run again from the starts that were kept of every ``every``th of ``count`` iterations.
    """

    carried: tuple[Value, ...]
    body: Body
    count: Value
    every: int


@dataclass(eq=False)
class While:
    """A loop while a value is true; with ``residuals`` instead one over them, the last first, which are dropped if it ``consumes`` them.

    With ``again`` it is over the residuals that this gives, from the starts that ``residuals`` are then.
    """

    test: Value | None
    body: Body
    residuals: Value | None = None
    unpacked: tuple[Value, ...] = ()
    consumes: bool = False
    again: Again | None = None

    @property
    def count(self) -> Value | None:
        # Only a loop that runs its iterations again has to know how many there were.
        return None if self.again is None else self.again.count


@dataclass(eq=False)
class Return:
    """The end of an iteration that is run again: what it carries on, and its residuals."""

    ends: tuple[Value, ...]
    residuals: tuple[Value, ...]

    @property
    def values(self) -> tuple[Value, ...]:
        return (*self.ends, *self.residuals)


@dataclass(eq=False)
class If:
    """A branch."""

    test: Value
    bodies: tuple[Body, Body]


@dataclass(eq=False)
class Sum:
    """A total over the iterations of a loop: ``total`` is set to the first term, and the others are added into it."""

    total: Value
    term: Value
    first: Value


@dataclass
class Compiled:
    """A compiled program: from feeds and variables of the scope to fetched values and new variables."""

    feeds: dict[str, Value]
    states: dict[str, Value]
    body: Body
    fetched: list[Value]
    kept: dict[str, Value]
    objects: dict[str, object]
    random: bool = False


@dataclass(eq=False)
class Append:
    """Pushes the values that an iteration keeps onto a stack.

    With a ``number``, that of the iteration, only every ``every``th one keeps it, or the first alone if that is 0.
    """

    stack: Value
    values: tuple[Value, ...]
    number: Value | None = None
    every: int = 0


@dataclass(eq=False)
class Keep:
    """Something keeps these values: their memory is not to be written to again."""

    values: tuple[Value, ...]


@dataclass(eq=False)
class Zeros:
    """A total: before anything is added, and, with ``first``, after a loop that may have added nothing."""

    total: Value
    first: Value | None = None


@dataclass(eq=False)
class Group:
    """Elementwise calls on large arrays of one shape, run tile by tile, so that a tile stays in the cache.

    ``inside`` are results that nothing else reads: they are as large as a tile. With a ``span`` it is a part of a group, from one
    element up to another. One that is ``native`` is compiled, as far as its calls can be.
    """

    calls: list[Call]
    reads: tuple[Value, ...]
    made: tuple[Value, ...]
    inside: tuple[Value, ...]
    span: tuple[int, int] | None = None
    native: bool = False


@dataclass(eq=False)
class Signal:
    """On one thread: what it has done so far may be read by the thread that waits for this."""


@dataclass(eq=False)
class Wait:
    """On another thread: nothing goes on before the signal."""

    signal: Signal


@dataclass(eq=False)
class Parallel:
    """Nodes on several threads, which end together.

    Attributes:
        lanes: what each thread does, in order, with its signals and waits.
        order: lane and index of each node, in an order in which one thread could do all.
        clocks: for each node of each lane, how many nodes of each lane have certainly ended when it begins.
    """

    lanes: tuple[Body, ...]
    order: list[tuple[int, int]]
    clocks: tuple[list[tuple[int, ...]], ...]


Node = Call | Assign | While | Return | If | Sum | Append | Keep | Zeros | Group | Signal | Wait | Parallel


def reads_of(node: Node) -> tuple[Value, ...]:
    """The values that a node reads, without those of nested nodes."""
    match node:
        case Call():
            return node.args
        case Assign():
            return node.sources
        case While():
            return _present(node.test, node.residuals, node.count)
        # What is in nested bodies is read by the nodes there.
        case If():
            return (node.test,)
        case Sum():
            return (node.total, node.term, node.first)
        case Append():
            return (*_present(node.stack, node.number), *node.values)
        case Keep() | Return():
            return node.values
        case Zeros():
            # After a loop it reads the total, to leave it as it is if any iteration has added something.
            return () if node.first is None else (node.total, node.first)
        case Group():
            return node.reads
    return ()


def _present(*values: Value | None) -> tuple[Value, ...]:
    return tuple(value for value in values if value is not None)


def writes_of(node: Node) -> tuple[Value, ...]:
    """The values that a node writes, without those of nested nodes."""
    match node:
        case Call():
            return node.results
        case Assign():
            return node.targets
        case While():
            # A loop of a gradient that runs its forward steps once more writes the values that these carry, besides what it takes off its
            # stacks.
            return node.unpacked if node.again is None else (*node.again.carried, *node.unpacked)
        # A Sum is not here: it changes the total that a Zeros has made, in the same memory.
        case Zeros():
            return (node.total,)
        case Group():
            return node.made
    return ()


def bodies_of(node: Node) -> tuple[Body, ...]:
    """The nested bodies of a node."""
    match node:
        # What is run again writes its block arguments each time.
        case While():
            return (node.body,) if node.again is None else (node.again.body, node.body)
        case If():
            return node.bodies
        case Parallel():
            return node.lanes
    return ()


def kept_by(node: Node) -> tuple[Value, ...]:
    """The values that live on after a node under another name: their memory must not be reused."""
    if isinstance(node, Assign):
        # An assignment gives a value a second name: the memory lives as long as either.
        return node.sources
    # What is pushed, kept or returned outlives the place where it was computed.
    return node.values if isinstance(node, Append | Keep | Return) else ()


def all_nodes(body: Body) -> Iterator[Node]:
    """Every node of a body, nested ones included, in order."""
    for node in body:
        yield node
        for inner in bodies_of(node):
            yield from all_nodes(inner)


def values_of(compiled: Compiled) -> set[Value]:
    """Every value of a program."""
    values = {*compiled.feeds.values(), *compiled.states.values(), *compiled.fetched, *compiled.kept.values()}
    for node in all_nodes(compiled.body):
        values.update(reads_of(node), writes_of(node))
        if isinstance(node, Group):
            # Which no node outside of the group reads or writes, yet they have names.
            values.update(node.inside)
    return values
