"""Proofs of rules: for all elements of a dtype, or for all extents.

A proof is about values. It says that both sides agree as those of an exact rule have to (zeros of both signs are equal, and so are
all nans), and holds under the assumptions that it lists. Gradients are not proved but tested, when the rule is defined.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from graphad.errors import InvalidType
from graphad.rewriting import smt
from graphad.rewriting.moving import PIECES, RANKS, is_of_one, keeps_elements, why_not_moved
from graphad.rewriting.pattern import Attribute, Constant, Scalar, Several, Term, calls_in, leaves
from graphad.rewriting.rule_check import disagreement
from graphad.rewriting.rule_inputs import DTYPES, Drawn, Inputs, Setting
from graphad.rewriting.smt import Element, Unsupported, z3
from graphad.rewriting.smt_operators import Elements, starts_elementwise
from graphad.types import TensorType

if TYPE_CHECKING:
    from graphad.rewriting.rules import PatternRule

Status = Literal["proved", "refuted", "unknown", "unsupported"]
SETTINGS = 6  # how often attributes are sought that the rule applies with, for each dtype
LENGTHS = 2  # lists of tensors are taken to be at most so long
SHAPES = ((2, 3), ())


@dataclass(frozen=True)
class Proof:
    """The result of an attempt to prove a rule.

    Attributes:
        status: "proved" for the ``dtypes``; "refuted", with a ``counterexample`` that the kernels confirm; "unknown", where the time was
            over or what the solver found is not a counterexample; "unsupported", where operators have no meaning for the solver.
        dtypes: those it is proved for, of the first tensor; "all" if elements are only moved.
        open: for each other dtype that the rule applies to, why it is not proved.
        assumptions: what the proof rests on, beside IEEE 754 and the builders of ``graphad.rewriting.smt_operators``.
        seconds: how long it took.
        counterexample: as ``@rewrite`` shows one.
    """

    status: Status
    dtypes: tuple[str, ...] = ()
    open: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    seconds: float = 0.0
    counterexample: str | None = None

    def __str__(self) -> str:
        lines = [f"{self.status}{' for ' + ', '.join(self.dtypes) if self.dtypes else ''}, {self.seconds:.1f} s"]
        lines += [f"  assuming {assumption}" for assumption in self.assumptions]
        lines += [f"  not for {dtype}: {reason}" for dtype, reason in self.open.items()]
        return "\n".join([*lines, *([self.counterexample] if self.counterexample else [])])


def prove(rule: PatternRule, timeout: float = 20.0) -> Proof:
    """Try to prove that both sides of a rule compute the same, to the last bit; ``rule.proved`` says for which dtypes from then on.

    Args:
        rule: one made with ``@rewrite``.
        timeout: seconds for the solver, for each dtype.

    Raises:
        ValueError: z3 is not installed.
        TypeError: the rule has no two sides.

    >>> from graphad import ops
    >>> from graphad.rewriting import rewrite
    >>> @rewrite
    ... def relu_twice(x):
    ...     return ops.relu(ops.relu(x)), ops.relu(x)
    >>> prove(relu_twice).dtypes
    ('float64', 'float32', 'int64', 'int32', 'bool')
    """
    if not hasattr(rule, "before"):
        raise InvalidType(f"a rule made with @rewrite is proved: it has two sides, unlike {rule!r}")
    proof = _proof(rule, timeout)
    rule.proved = proof.dtypes
    return proof


def _proof(rule: PatternRule, timeout: float) -> Proof:
    start = perf_counter()
    assumptions = keeps_elements(rule)
    if assumptions is not None:
        return Proof("proved", ("all",), assumptions=assumptions, seconds=perf_counter() - start)
    if not starts_elementwise(rule):
        return _by_places(rule, timeout, start)
    return _Prover(rule, timeout).proof(start)


def _by_places(rule: PatternRule, timeout: float, start: float) -> Proof:
    """A proof that all elements come to the same places."""
    reason = why_not_moved(rule, timeout)
    if reason is None:
        has_lists = any(isinstance(leaf, Several) for term in rule.before for leaf in leaves(term))
        reduces = any(is_of_one(call.definition) for term in rule.before for call in calls_in(term))
        assumptions = (
            f"tensors have at most {RANKS[-1]} axes, and are split in at most {PIECES[-1]} parts",
            *(["lists have at most 2 tensors"] if has_lists else []),
            *(["a sum, a mean, a product or an extremum of one element is that element"] if reduces else []),
        )
        return Proof("proved", ("all",), assumptions=assumptions, seconds=perf_counter() - start)
    status: Status = "unsupported" if reason.startswith("unsupported") else "unknown"
    return Proof(status, open={"all": reason}, seconds=perf_counter() - start)


class _Prover:
    """Proofs by elements, dtype by dtype."""

    def __init__(self, rule: PatternRule, timeout: float) -> None:
        self.rule = rule
        self.timeout = timeout
        self.inputs = Inputs(rule, exact=True)
        self.assumed: set[str] = set()
        self.proved: list[str] = []
        self.open: dict[str, str] = {}
        self.counterexample: str | None = None
        self.is_supported = False
        self.deadline = 0.0

    def proof(self, start: float) -> Proof:
        """Try all dtypes."""
        for dtype in DTYPES:
            self.deadline = perf_counter() + self.timeout
            settings = list(self._settings(dtype))
            if settings:
                # A dtype is proved only if all settings of attributes are.
                reason = next((r for setting in settings if (r := self._why_not(setting)) is not None), None)
                if reason is None:
                    self.proved.append(dtype)
                else:
                    self.open[dtype] = reason
        if any(isinstance(leaf, Several) for leaf in self.inputs.leaves):
            self.assumed.add(f"lists have at most {LENGTHS} tensors")
        status: Status = (
            "refuted" if self.counterexample else "proved" if self.proved else "unknown" if self.is_supported else "unsupported"
        )
        assumptions = tuple(sorted(self.assumed)) if self.proved else ()
        return Proof(status, tuple(self.proved), self.open, assumptions, perf_counter() - start, self.counterexample)

    def _settings(self, dtype: str) -> Iterator[Setting]:
        """Types that the rule applies to, with all values of the attributes that are not numbers."""
        for shape, dtypes in product(SHAPES if self._has_pow() else SHAPES[:1], self.inputs.dtypes_of(dtype)):
            # Drawn attributes repeat: each combination is proved once.
            keys = set()
            for _ in range(SETTINGS if self.inputs.has_choices else 1):
                self.inputs.budget = 500
                setting = self.inputs.setting((shape,) * len(dtypes), dtypes)
                for variant in self._variants(setting) if setting is not None else ():
                    key = repr((variant.attrs if not self._numbers() else self._fixed(variant), variant.lists, variant.values))
                    if key not in keys:
                        keys.add(key)
                        yield variant
            # The first dtypes that it applies to: all alike if it takes them so, else with a condition or an index among them.
            if keys:
                return

    def _has_pow(self) -> bool:
        return any(call.definition.type == "pow" for term in self.rule.before for call in calls_in(term))

    def _kinds(self) -> dict[str, str]:
        """The attributes of the rule with the kinds of those of the operators."""
        kinds = {}
        for call in self.inputs.calls:
            for name, value in call.attrs.items():
                if isinstance(value, Attribute):
                    kinds[value.name] = call.definition.attrs[name].kind if name != "in_dtype" else "ignored"
        return kinds

    def _numbers(self) -> list[str]:
        return [name for name, kind in self._kinds().items() if kind == "float"]

    def _fixed(self, setting: Setting) -> dict[str, object]:
        constants = [leaf.number for leaf in self.inputs.leaves if isinstance(leaf, Constant)]
        numbers = {*self._numbers(), *(number.name for number in constants if isinstance(number, Attribute))}
        return {name: value for name, value in setting.attrs.items() if name not in numbers}

    def _variants(self, setting: Setting) -> Iterator[Setting]:
        """The setting with all truth values and dtypes as attributes, and all lengths of lists, as far as the rule applies."""
        kinds = self._kinds()
        options = {n: [False, True] if kind == "bool" else list(DTYPES) for n, kind in kinds.items() if kind in ("bool", "DType")}
        for values in product(*options.values()):
            for lengths in product(range(LENGTHS + 1), repeat=len(setting.lists)):
                lists = {term: [_type_in(setting, term)] * n for term, n in zip(setting.lists, lengths, strict=True)}
                attrs = {**setting.attrs, **dict(zip(options, values, strict=True))}
                variant = Setting(dict(setting.values), lists, attrs)
                if self.inputs.applies(variant):
                    yield variant

    def _why_not(self, setting: Setting) -> str | None:
        """Why the rule is not proved for some types; None if it is."""
        # First with unknown functions for sums and products, which is quick and enough for most rules; what holds for any function holds
        # for those of IEEE 754.
        reason = self._why_not_with(setting, exact=False)
        return self._why_not_with(setting, exact=True) if reason is not None else None

    def _why_not_with(self, setting: Setting, exact: bool) -> str | None:
        """The same, with sums and products as IEEE 754 has them, or as functions of which little is known."""
        try:
            with smt.functions(exact) as functions:
                numbers = {name: z3.Const(name, z3.Float64()) for name in self._numbers()}
                elements = Elements(setting, numbers)
                before = [elements.of(term) for term in self.rule.before]
                # Before, what operators need is given, since the pattern has run; after, it has to be shown.
                conditions = [*elements.conditions(self.rule.conditions), *elements.needs]
                elements.needs = []
                after = [elements.of(term) for term in self.rule.after]
        except Unsupported as error:
            return f"unsupported: {error}"
        self.is_supported = True
        # The rule holds if its opposite has no model: numbers that meet the conditions, and for which the sides differ or the second one
        # fails.
        agree = z3.And(*elements.needs, *(smt.equal(a, b) for a, b in zip(before, after, strict=True)))
        claim = z3.And(*conditions, *functions.facts, z3.Not(agree))
        self.assumed |= elements.assumed
        if z3.is_false(z3.simplify(claim)):
            return None
        seconds_left = self.deadline - perf_counter()
        if seconds_left <= 0:
            return "time is over"
        model, reason = _solved(claim, seconds_left if exact else min(seconds_left, self.timeout / 4))
        if model is not None and exact:
            # A model may rest on what was left open (exp, tie of zeros): only the kernels say whether it is a counterexample.
            sample = _drawn(model, setting, elements, numbers)
            self.counterexample = self.counterexample or disagreement(self.inputs, sample)
            reason = "refuted" if self.counterexample else "what the solver found is no counterexample"
        return reason


def _solved(claim: Element, seconds: float) -> tuple[Element, str | None]:
    """A model of a claim, and why there is none; None twice if there cannot be one."""
    # In a context of its own: the solver goes by the order in which terms were made, and elsewhere that is the history of the process.
    context = z3.Context()
    # The logic of floats and bit-vectors without quantifiers, which is decided by turning all of it into a formula of truth values.
    solver = z3.SolverFor("QF_FPBV", ctx=context)
    solver.set("timeout", int(seconds * 1000))
    solver.set("random_seed", 0)
    solver.add(claim.translate(context))
    answer = solver.check()
    if answer == z3.unsat:
        return None, None
    return (solver.model().translate(claim.ctx), "") if answer == z3.sat else (None, "time is over")


def _type_in(setting: Setting, term: Term) -> TensorType:
    """The type of the tensors in a list: that of those there, or of another tensor."""
    more_types = [*setting.values.values(), *(t for types in setting.lists.values() for t in types)]
    return next(iter([*setting.lists[term], *more_types]), TensorType((2, 3), "float64"))


def _drawn(model: Element, setting: Setting, elements: Elements, numbers: Mapping[str, Element]) -> Drawn:
    """Arrays filled with the solver's values."""
    sample = Drawn(types=setting)
    assignment = {name: _python(model.eval(symbol, model_completion=True)) for name, symbol in numbers.items()}
    setting.attrs = {**setting.attrs, **assignment}
    for term, type in setting.values.items():
        value = _python(model.eval(elements.elements[term], model_completion=True))
        sample.values[term] = np.full(type.shape, value, type.dtype)
        if isinstance(term, Constant) and isinstance(term.number, Scalar):
            setting.attrs[term.number.text] = value
    for term, types in setting.lists.items():
        values = [_python(model.eval(elements.elements[term, i], model_completion=True)) for i in range(len(types))]
        sample.lists[term] = [np.full(type.shape, value, type.dtype) for type, value in zip(types, values, strict=True)]
    sample.attrs = setting.attrs
    return sample


def _python(value: Element) -> float | bool:
    """A value of the solver as one of Python."""
    if z3.is_bool(value):
        return bool(z3.is_true(value))
    if z3.is_bv(value):
        return int(value.as_signed_long())
    if z3.is_true(z3.simplify(z3.fpIsNaN(value))):
        return float("nan")
    # By its bits: the decimal text of a float in the solver is not read back exactly.
    wide = z3.simplify(z3.fpToIEEEBV(z3.simplify(z3.fpFPToFP(z3.RNE(), value, z3.Float64()))))
    return float(struct.unpack("<d", wide.as_long().to_bytes(8, "little"))[0])
