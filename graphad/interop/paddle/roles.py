"""Paddle's attributes for an operator's part in training: ``op_role`` and ``op_role_var``.

| bits of ``op_role`` | of | |
| --- | --- | --- |
| 0, 1, 2 | forward, backward, optimization | ``Operator.role`` |
| 16 | what a learning rate is computed by: of the optimization here | in the place of 2, for what learning rates alone are computed from |
| 256 | the loss: what writes it, and the 1 that its backward starts with | set where the backward starts |

``op_role_var`` is [parameter, gradient] of the operator that completes the gradient of a parameter, and of the one that updates it.
What a file says stays; what a program got since is filled in when it is written.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from graphad.ops import GRAD
from graphad.program import BACKWARD, FORWARD, OPTIMIZE, Block, Operator, Program

ROLE, ROLE_VAR = "op_role", "op_role_var"
BITS = {FORWARD: 0, BACKWARD: 1, OPTIMIZE: 2}
_RATE, _LOSS = 16, 256
_SLOT = "LearningRate"
_GRADIENT = re.compile(rf"(.+?){GRAD}(?:_\d+)?")  # of the first backward, and of later ones


class Note(NamedTuple):
    """Whether an operator makes the loss or a learning rate, and its pairs of parameters and gradients."""

    loss: bool = False
    rate: bool = False
    pairs: tuple[str, ...] = ()

    def bits(self, base: int) -> int:
        """The bits of ``op_role``, those that follow from the role alone given."""
        return (_RATE if self.rate else base) | (_LOSS if self.loss else 0)


def role_of(attrs: Mapping[str, object]) -> str:
    """The role that attributes say."""
    bits = attrs.get(ROLE, 0)
    bits = bits if isinstance(bits, int) else 0
    if bits & BITS[BACKWARD]:
        return BACKWARD
    return OPTIMIZE if bits & (BITS[OPTIMIZE] | _RATE) else FORWARD


def notes(program: Program) -> dict[Operator, Note]:
    """The notes that follow from the backward and the updates that a program did not have in its file."""
    block, notes_by_op = program.global_block(), dict[Operator, Note]()
    for op, note in (*_losses(block), *_rates(block), *_completed(program), *_updates(block)):
        note_of_op = notes_by_op.get(op, Note())
        notes_by_op[op] = Note(note_of_op.loss or note.loss, note_of_op.rate or note.rate, note_of_op.pairs + note.pairs)
    return notes_by_op


def _losses(block: Block) -> Iterator[tuple[Operator, Note]]:
    """The operators that start a backward with 1, and those that write what it is the backward of."""
    writers = {name: op for op in block.ops if op.role == FORWARD for name in op.output_names()}
    for op in block.ops:
        out = op.output("Out")
        starts = op.role == BACKWARD and op.attrs.get("value") == 1.0 and len(out) == 1 and out[0].endswith(GRAD)
        loss = writers.get(out[0].removesuffix(GRAD)) if starts and op.stored is None else None
        if loss is not None:
            yield op, Note(loss=True)
            yield loss, Note(loss=True)


def _rates(block: Block) -> Iterator[tuple[Operator, Note]]:
    """The operators of the optimization whose results lead to learning rates alone."""
    rate_names = {name for op in block.ops if op.role == OPTIMIZE and op.stored is None for name in op.input(_SLOT)}
    readers: dict[str, list[Operator]] = defaultdict(list)
    for op in block.ops if rate_names else ():
        for name in op.input_names():
            readers[name].append(op)
    rates: set[Operator] = set()
    # Backwards, so that the readers of what an operator writes are judged before it.
    for op in reversed(block.ops if rate_names else ()):
        outs = op.output_names()
        if op.role != OPTIMIZE or op.stored is not None or rate_names.isdisjoint(outs):
            continue
        if all(reader in rates or reader is op or name in reader.input(_SLOT) for name in outs for reader in readers[name]):
            rates.add(op)
            rate_names.update(op.input_names())
            yield op, Note(rate=True)


def _completed(program: Program) -> Iterator[tuple[Operator, Note]]:
    params = {param.name for param in program.all_parameters() if param.trainable}
    writes = ((name, op) for op in program.global_block().ops if op.role == BACKWARD for name in op.output_names())
    # The last write of a name is what the optimizer reads: the gradient is complete.
    last = {match[0]: (match[1], op) for name, op in writes if (match := _GRADIENT.fullmatch(name)) and match[1] in params}
    for gradient, (param, op) in last.items():
        if op.stored is None:
            yield op, Note(pairs=(param, gradient))


def _updates(block: Block) -> Iterator[tuple[Operator, Note]]:
    for op in block.ops:
        params, gradients = op.input("Param"), op.input("Grad")
        if op.role == OPTIMIZE and op.stored is None and len(params) == len(gradients) == 1:
            raw = params[0] + GRAD  # a clipped or decayed gradient has a name of its own here
            yield op, Note(pairs=(params[0], raw if block.has_var(raw) else gradients[0]))
