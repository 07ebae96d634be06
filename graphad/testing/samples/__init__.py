"""Valid calls of every operator: what the tests of operators and the random programs of ``check_pass`` are made from.

Here belongs one file for each chapter of ``graphad.ops``; what several of them need is in ``shared``. Programs are drawn
from samples by ``graphad.testing.programs``.

The modules of this folder have those of graphad's own operators, in ``SAMPLES``. Another package's operator brings its own
(``operator(..., samples=...)``); for one without samples some are made from its signature.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Iterator
from functools import cache

from graphad.ops import OpDef, lookup
from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.valid import runs

SHAPES = ((2, 3), (3,), (2, 2), (1, 2, 4, 4), (1,))
_NUMBERS = {"int": 1, "float": 0.5, "bool": True, "str": "", "DType": "float64", "list[int]": [1], "list[float]": [0.5]}


def _library() -> dict[str, list[Sample]]:
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    library: dict[str, list[Sample]] = {}
    for samples in (getattr(module, "SAMPLES", {}) for module in modules):
        for op_type, sample_list in samples.items():
            library[op_type] = library.get(op_type, []) + sample_list
    return library


SAMPLES = _library()


def samples_of(op_type: str) -> tuple[Sample, ...]:
    """The valid calls that are known of an operator, the simpler ones first.

    Those that the operator brings itself, else those of this folder, else calls made from its signature that run. There is none
    for an operator with blocks or a gradient operator.

    Args:
        op_type: a registered operator.

    Raises:
        ValueError: there is no such operator.

    >>> [array.shape for array in samples_of("tanh")[0].inputs.values()]
    [(2, 3)]
    """
    return _samples(lookup(op_type))


@cache
def _samples(op: OpDef) -> tuple[Sample, ...]:
    declared_samples = tuple(op.samples() if callable(op.samples) else op.samples)
    return declared_samples or tuple(SAMPLES.get(op.type, ())) or tuple(sample for sample in _from_signature(op) if runs(op, sample))


def _from_signature(op: OpDef) -> Iterator[Sample]:
    """Numbers in each slot, with the optional ones and without, and attributes that have no default at some value."""
    attrs: dict[str, object] = {a.name: _NUMBERS[a.kind] for a in op.attrs.values() if not a.has_default and a.kind in _NUMBERS}
    for shape, with_optional, seed in itertools.product(SHAPES, (True, False), (0, 1)):
        slots = [slot for slot in op.inputs.values() if with_optional or not slot.optional]
        low = 0.25 * seed  # above zero where it is 1: a kernel may take a logarithm
        arrays = {slot.name: uniform(*shape, low=low - 0.25, high=low + 1.0, seed=i) for i, slot in enumerate(slots)}
        yield Sample({slot.name: [arrays[slot.name]] * 2 if slot.variadic else arrays[slot.name] for slot in slots}, attrs)
