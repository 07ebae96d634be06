"""Rules are tested when they are defined, on a fixed set of hard inputs, their gradients too; one that is wrong there is refused."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphad.errors import GraphadError, InvalidValue, NoGradient
from graphad.ops import OpDef
from graphad.ops.definition import GRAD
from graphad.rewriting.evaluation import Arrays, Evaluation, Slots
from graphad.rewriting.pattern import Call, Constant, Result, Scalar, Several, Term, calls_in, parts_of
from graphad.rewriting.rule_inputs import (
    DIFFERENTIABLE,
    DTYPES,
    SMOOTH,
    Drawn,
    Example,
    Inputs,
    Setting,
    contents_of,
    example_arrays,
    filled,
    shown,
)
from graphad.types import FLOATS, Array, Shape

if TYPE_CHECKING:
    from graphad.rewriting.rules import PatternRule

# -- rule gradients --------------------------------------------------------------------------------
# Gradients of the two sides of a rule: reverse mode over the operators of terms, by the operators' own gradient rules on arrays.

Place = tuple[object, str, int]  # an operator (None: the rule's tensors), a slot or "", which of the arrays there


class Gradients:
    """The gradients of some terms with respect to the tensors of the pattern.

    Args:
        terms: the terms to differentiate.
        values: the arrays of all terms.
        seeds: the cotangents of the terms.
    """

    def __init__(self, terms: Sequence[Term], values: Evaluation[Array], seeds: Sequence[Array]) -> None:
        self.values = values
        self.cotangents: dict[object, Array] = {}
        for term, seed in zip(terms, seeds, strict=True):
            if seed.dtype.kind == "f":
                self._add(self._place(term), seed)
        # Reverse accumulation: when the turn of an operator comes, all that reads its results has added its part.
        for call in dict.fromkeys(_in_order(terms)):
            self._differentiate(call)

    def of(self, leaf: Term) -> list[Array]:
        """The gradients of a tensor of the pattern, one for each array bound to it; zeros where nothing depends on it."""
        arrays = self.values.leaves(leaf) if isinstance(leaf, Several) else [self.values.leaf(leaf)]
        return [self.cotangents.get((leaf, i), np.zeros_like(array)) for i, array in enumerate(arrays)]

    def _place(self, term: Term) -> tuple[object, ...]:
        return (term.call, term.slot, term.index) if isinstance(term, Result) else (term, 0)

    def _add(self, place: object, cotangent: object) -> None:
        present = self.cotangents.get(place)
        self.cotangents[place] = np.asarray(cotangent) if present is None else present + cotangent

    def _differentiate(self, call: Call) -> None:
        outputs = self.values.done.get(call)
        if outputs is None or not any((call, slot, i) in self.cotangents for slot, arrays in outputs.items() for i in range(len(arrays))):
            return
        definition = call.definition
        if definition.grads is None:
            raise NoGradient(f"operator {definition.type!r} has no gradient rule")
        grad = definition.grad
        if grad is None:
            return
        # As backward passes do it, but on arrays: the operator's gradient kernel, and sums where a term is read more than once.
        places = {slot: [place for term in terms for place in self._places(term)] for slot, terms in call.inputs.items()}
        operands = {slot: [array for term in terms for array in self.values.operands(term, call)] for slot, terms in call.inputs.items()}
        inputs = {slot: [np.asarray(array) for array in arrays] for slot, arrays in operands.items()}
        slots = [slot + GRAD for slot in definition.grads if inputs.get(slot) and inputs[slot][0].dtype.kind == "f"]
        gradients: Slots[Array] = {
            **inputs,
            **outputs,
            **{slot + GRAD: self._cotangents(call, slot, arrays) for slot, arrays in outputs.items()},
        }
        attrs = {name: self.values.scalar(value) for name, value in call.attrs.items()}
        inputs_of_grad = {slot: gradients[slot] for slot in grad.inputs if gradients.get(slot)}
        for name, arrays in grad.run(inputs_of_grad, _with_defaults(call, attrs), slots).items():
            for place, array in zip(places[name.removesuffix(GRAD)], arrays, strict=True):
                if array is not None and place is not None:
                    self._add(place, array)

    def _places(self, term: Term) -> list[tuple[object, ...] | None]:
        """The keys under which the cotangents of an operator's inputs are added up; None where none is needed."""
        if isinstance(term, Several):
            return [(term, i) for i in range(len(self.values.leaves(term)))]
        return [None if isinstance(term, Constant) else self._place(term)]

    def _cotangents(self, call: Call, slot: str, arrays: Sequence[Array]) -> list[Array]:
        return [self.cotangents.get((call, slot, i), np.zeros_like(array)) for i, array in enumerate(arrays)]


def _with_defaults(call: Call, attrs: Mapping[str, object]) -> dict[str, object]:
    return {name: attrs.get(name, attr.default) for name, attr in call.definition.attrs.items()}


def _in_order(terms: Sequence[Term]) -> list[Call]:
    """The operators of terms, each before those that it reads from."""
    # ``calls_in`` goes from results to leaves with repetitions; an operator read by several comes after the last of them.
    calls = [call for term in terms for call in calls_in(term)]
    return list(reversed(list(dict.fromkeys(reversed(calls)))))


# -- rule check ------------------------------------------------------------------------------------
# Rules are tested when they are defined, on a fixed set of hard inputs; one that is wrong there is refused, with the input.
#
# The inputs depend on the structure of a rule alone, never on names: shapes without an axis, with extents 0, 1, alike and different,
# broadcast in several ways, by dtypes, by contents (zeros of both signs, ties, the points where operators bend, halves, numbers that
# overflow
# exp, denormal ones, nan and infinities), by values of the attributes. Both sides are computed by the operators' kernels, and their
# gradients by the operators' gradient rules. This is testing, not a proof: ``graphad.rewriting.prove`` tries to give one.

Kinks = Literal["all", "smooth"]

ROUNDING = 64.0  # by how many units in the last place, of the largest number around, a fast rule may differ
EXAMPLES = 4  # how often an example is drawn
MISSES = 4  # shapes that a rule applies to in other dtypes, after which it is not tried in one that it applied to on none of them
CUBES = 2  # of so many inputs that ``applicable`` draws one has the same extents all over
PREFERRED = 8  # of so many attempts every second one is in the dtype that is tried first
PLANTED = (*DIFFERENTIABLE, "extreme")  # contents of what ``applicable`` draws
APPLICABLE = ("float64", "float64", "float32", *DTYPES)  # dtypes that ``applicable`` draws from


@dataclass
class Evidence:
    """The inputs that a rule was tested on. Counts are of inputs that it applied to, for which both sides were compared.

    Attributes:
        shapes, dtypes, contents: how many inputs had them (the shape and dtype of the first tensor).
        attributes: for each attribute, how many inputs had a value.
        compared: how many inputs in all; elements: how many numbers.
        gradients: for how many inputs gradients were compared.
        unsuited: shapes and dtypes that the rule applied to with no attributes that were tried.
        failed: errors of operators before, by text: those inputs say nothing.
    """

    shapes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    contents: Counter[str] = field(default_factory=Counter)
    attributes: dict[str, Counter[str]] = field(default_factory=dict)
    compared: int = 0
    elements: int = 0
    gradients: int = 0
    unsuited: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def note(self, sample: Drawn, content: str, elements: int) -> None:
        """Count an input."""
        self.compared += 1
        self.elements += elements
        self.contents[content] += 1
        setting = sample.types
        assert setting is not None
        for first in itertools.islice(itertools.chain(setting.values.values(), *setting.lists.values()), 1):
            self.shapes[first.shape] += 1
            self.dtypes[first.dtype] += 1
        for name, text in setting.shown.items():
            self.attributes.setdefault(name, Counter())[text] += 1

    def __str__(self) -> str:
        lines = [f"{self.compared} inputs, {self.elements} elements, gradients on {self.gradients}"]
        tables: Mapping[str, Mapping[Any, int]] = {
            "shapes": self.shapes,
            "dtypes": self.dtypes,
            "contents": self.contents,
            **self.attributes,
        }
        for title, counts in tables.items():
            lines.append(f"{title}: {', '.join(f'{key} ({count})' for key, count in counts.items())}")
        for title, counts in (("not applicable to", self.unsuited), ("not computed", self.failed)):
            if counts:
                lines.append(f"{title}: {', '.join(f'{key} ({count})' for key, count in counts.items())}")
        return "\n".join(lines)


def check_rule(rule: PatternRule, exact: bool, example: Example | None = None, gradients: Kinks = "all") -> Evidence:
    """Compare a rule's sides on a fixed set of hard inputs.

    Args:
        rule: a pattern rule.
        exact: every bit has to agree, for nan and infinities too (zeros of both signs are equal, and so are all nans); else results may
            differ by rounding, and where something is not finite or out of range.
        example: gives shapes and attributes that the rule applies to, where those in the fixed set do not fit it.
        gradients: "all" compares gradients at kinks and ties too, "smooth" only away from them.

    Returns:
        What was tried.

    Raises:
        ValueError: the sides differ, with the inputs; or the rule applied to nothing that was tried.

    >>> from graphad import ops
    >>> from graphad.rewriting import rewrite
    >>> @rewrite(verify=False)
    ... def relu_twice(x):
    ...     return ops.relu(ops.relu(x)), ops.relu(x)
    >>> check_rule(relu_twice, exact=True).dtypes["float32"] > 50
    True
    """
    trial = _Trial(rule, exact, gradients)
    with np.errstate(all="ignore"):
        trial.on_hard_inputs()
        if example is not None:
            trial.on_examples(example)
    if not trial.evidence.compared:
        raise InvalidValue(
            f"rule {rule.name} applied to none of the inputs that rules are tried on, so nothing was tried: {rule.text}{_place(rule)}\n"
            "  give @rewrite(example=...), which draws inputs that it applies to"
        )
    _refuse_forgotten(rule)
    return trial.evidence


def applicable(rule: PatternRule, rng: np.random.Generator, example: Example | None = None, dtype: str = "") -> Drawn | None:
    """Random inputs that a rule applies to, with finite elements; None if none are found. Those of a dtype are tried first."""
    inputs = Inputs(rule, exact=False)
    profiles = inputs.profiles()
    with np.errstate(all="ignore"):
        for attempt in range(60):
            setting: Setting | None
            inputs.turn = int(rng.integers(10_000))
            if example is not None and attempt % 2:
                setting = inputs.of_example(example(rng))
            else:
                drawn_dtype = APPLICABLE[rng.integers(len(APPLICABLE))]
                shapes = max((profiles[i] for i in rng.integers(len(profiles), size=2)), key=lambda item: max(map(len, item), default=0))
                if rng.integers(CUBES) == 0:  # transposed or not, the shapes are the same, and so the rule applies where it should not
                    shapes = ((3,) * int(rng.choice((2, 3, 3, 4))),) * len(inputs.leaves)
                setting = _first(inputs, shapes, dtype if dtype and attempt < PREFERRED else drawn_dtype)
            if setting is None:
                continue
            # Floats have none that are extreme: those are ordinary then.
            sample = inputs.arrays(setting, PLANTED[rng.integers(len(PLANTED))], int(rng.integers(50)))
            if _computed(rule.before, sample) is not None:
                return sample
    return None


def disagreement(inputs: Inputs, sample: Drawn) -> str | None:
    """The message that refuses an exact rule for one input; None if the rule doesn't apply there, or both sides agree."""
    assert sample.types is not None
    sample.types.__dict__.pop("inferred", None)
    if not inputs.applies(sample.types):
        return None
    try:
        with np.errstate(all="ignore"):
            _Trial(inputs.rule, True, "all").on(sample, "example", "")
    except InvalidValue as error:
        return str(error)
    return None


def _first(inputs: Inputs, shapes: tuple[Shape, ...], dtype: str) -> Setting | None:
    return next((s for dtypes in inputs.dtypes_of(dtype) if (s := inputs.setting(shapes, dtypes)) is not None), None)


def _place(rule: PatternRule) -> str:
    return f"\n  defined at {rule.source}" if getattr(rule, "source", None) else ""


def _refuse_forgotten(rule: PatternRule) -> None:
    """Refuse a rule that reads an attribute of an operator, and has that operator after it with the attribute's default instead."""
    attrs_after = [call.attrs.values() for term in rule.after for call in calls_in(term)]
    # By identity: equal scalars of two attributes are two, and ``==`` of scalars builds a condition.
    ids = {id(part) for values in (*attrs_after, rule.conditions) for value in values for part in parts_of(value)}
    constants = {
        id(part) for call in (c for t in rule.after for c in calls_in(t)) for ts in call.inputs.values() for t in ts for part in _number(t)
    }
    after = {call.definition.type: call for term in rule.after for call in calls_in(term) if call not in _calls(rule.before)}
    for call in _calls(rule.before):
        for name, value in call.attrs.items():
            is_forgotten = isinstance(value, Scalar) and id(value) not in ids | constants
            if is_forgotten and call.definition.type in after and name not in after[call.definition.type].attrs:
                raise InvalidValue(
                    f"rule {rule.name} is wrong: {rule.text}{_place(rule)}\n"
                    f"  {name}={value!r} of {call.definition.type} before may be anything, "
                    f"but {call.definition.type} after has the default\n"
                    f"  pass {name}={value!r} on, or say in a condition which values it may have"
                )


def _number(term: object) -> list[object]:
    return list(parts_of(term.number)) if isinstance(term, Constant) else []


def _calls(terms: Sequence[Term]) -> list[Call]:
    return list(dict.fromkeys(call for term in terms for call in calls_in(term)))


class _Computed(Arrays):
    """Terms as arrays, where inference has taken the types already."""

    def apply(self, definition: OpDef, inputs: Slots[Array], attrs: Mapping[str, object]) -> Slots[Array]:
        return definition.run(inputs, attrs, tuple(definition.outputs))


def _computed(terms: Sequence[Term], sample: Drawn) -> _Computed | None:
    """The values of terms; None if an operator does not take what was drawn."""
    arrays = _Computed(sample)
    try:
        for term in terms:
            arrays.of(term)
    except Exception:
        return None
    return arrays


class _Trial:
    """The test of one rule on inputs."""

    def __init__(self, rule: PatternRule, exact: bool, gradients: Kinks) -> None:
        self.rule = rule
        self.exact = exact
        self.contents = DIFFERENTIABLE if gradients == "all" else SMOOTH
        self.inputs = Inputs(rule, exact)
        self.evidence = Evidence()
        self.case = 0
        self.rounds: Counter[str] = Counter()  # choices of types, by dtype
        self.turns: Counter[str] = Counter()  # inputs in float64, by content

    def on_hard_inputs(self) -> None:
        """Try it on every choice of shapes and dtypes that it applies to."""
        dtypes_by_kind: dict[str, list[tuple[str, ...]]] = {}
        misses: Counter[str] = Counter()
        profiles = self.inputs.profiles()
        for i, shapes in enumerate(profiles):
            unfit_dtypes, has_applied = list[str](), False
            for dtype in DTYPES:
                if dtype not in dtypes_by_kind and dtypes_by_kind and (i >= len(profiles) // 2 or misses[dtype] >= MISSES):
                    continue
                settings = self.settings(shapes, dtypes_by_kind.get(dtype) or list(self.inputs.dtypes_of(dtype)))
                if settings:
                    has_applied = True
                    dtypes_by_kind.setdefault(dtype, list(dict.fromkeys(d for d, _ in settings))[:2])
                    for _, setting in settings[:3]:
                        self.on_contents(setting)
                else:
                    self.evidence.unsuited[dtype] += 1
                    unfit_dtypes.append(dtype)
            # Shapes that the rule applies to in no dtype say nothing about dtypes.
            misses.update(unfit_dtypes if has_applied else ())
        if dtypes_by_kind:
            self.on_axes(next(iter(dtypes_by_kind.values()))[0])

    def on_axes(self, dtypes: tuple[str, ...]) -> None:
        """Try it with axes in all pairs, where extents are all alike."""
        for setting in self.inputs.axis_settings(dtypes):
            self.on(self.inputs.arrays(setting, "ordinary", self.case), "ordinary", dtypes[0])

    def settings(self, shapes: tuple[Any, ...], options: Sequence[tuple[str, ...]]) -> list[tuple[tuple[str, ...], Setting]]:
        """For some shapes the dtypes that the rule applies to with some attributes, twice if it has any."""
        rounds = range(2 if self.inputs.has_choices else 1)
        return [(d, s) for d in options for _ in rounds if (s := self.inputs.setting(shapes, d)) is not None]

    def on_contents(self, setting: Setting) -> None:
        """Try it on arrays of a choice of types; with attributes, on several choices of those, each with some kinds of content."""
        first = next(iter([*setting.values.values(), *(t for ts in setting.lists.values() for t in ts)]), None)
        main = next((t.dtype for t in setting.values.values() if t.dtype in FLOATS), first.dtype if first else "float64")
        kinds = contents_of(main, self.exact)
        # A third of the contents for each choice of types, other ones for the next: together all are tried, and rules with one tensor get
        # half. Counted for each dtype by itself, since dtypes come up in steps.
        stride = 2 if len(setting.values) + len(setting.lists) < 2 and not setting.attrs else 3
        for i in range(self.rounds[main] % stride, len(kinds), stride):
            self.on(self.inputs.arrays(setting, kinds[i], self.case + i), kinds[i], main)
        self.rounds[main] += 1
        self.case += 1

    def on_examples(self, example: Example) -> None:
        """Try it on what an example draws, and on other contents of the same types."""
        for seed in range(EXAMPLES):
            setting = self.inputs.of_example(example(np.random.default_rng(seed)))
            if setting is None:
                self.evidence.unsuited["example"] += 1
                continue
            sample = example_arrays(self.inputs, setting)
            self.on(sample, "example", "float64")
            for i, content in enumerate(contents_of("float64", self.exact)):
                self.on(_like_example(sample, self.inputs.arrays(setting, content, seed + i)), content, "float64")

    def on(self, sample: Drawn, content: str, main: str) -> None:
        """Compare values, and gradients where that is to be done, on one input."""
        rule = self.rule
        before = _Computed(sample)
        try:
            old = [np.asarray(before.of(term)) for term in rule.before]
        except Exception as error:
            self.evidence.failed[f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:100]] += 1
            return
        # Terms that both sides share are computed once.
        after = _Computed(sample)
        after.done.update(before.done)
        try:
            new = [np.asarray(after.of(term)) for term in rule.after]
        except GraphadError:
            return
        except Exception as error:
            raise InvalidValue(
                f"rule {rule.name} is wrong: what comes after fails, {error}\n  {rule.text}{_place(rule)}\n{sample}"
            ) from None
        if any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(old, new, strict=True)):
            return
        for a, b in zip(old, new, strict=True):
            if not (_same(a, b) if self.exact or a.dtype.kind != "f" else self.is_near(a, b, before, after, sample, content)):
                self.refuse(sample, a, b)
        self.evidence.note(sample, content, sum(a.size for a in old))
        if main == "float64" and (content in self.contents or content == "example"):
            # Every second time that a content comes up: counted by itself, since contents come up in steps.
            self.turns[content] += 1
            if self.turns[content] % 2:
                self.on_gradients(sample, before, after, old)

    def is_near(self, old: Array, new: Array, before: _Computed, after: _Computed, sample: Drawn, content: str) -> bool:
        """Whether two results differ by rounding alone, or where something is not finite or out of range."""
        ends = np.finfo(old.dtype)
        # A fast rule claims nothing where the pattern overflows, nor where the replacement does on its way, nor about denormal numbers.
        mask = np.isfinite(old)
        if content not in ("ordinary", "positive", "example"):
            mask &= ~_out_of_range(before, old.shape, float(ends.tiny), infinite=False)
            mask &= ~_out_of_range(after, old.shape, float(ends.tiny), infinite=True)
        if not mask.any():
            return True
        largest = max([_largest(a) for a in _arrays_of(sample)], default=0.0)
        numbers = [abs(v) for v in sample.attrs.values() if isinstance(v, int | float)]
        largest = max(
            [largest, *(largest * n for n in numbers), *(_largest(a) for s in before.done.values() for v in s.values() for a in v)]
        )
        # Relative to the largest number on the way, not to the result: cancellation makes the result small and keeps the error.
        bound = ROUNDING * (float(ends.eps) * max(largest, float(np.max(np.abs(old[mask])))) + float(ends.tiny))
        return bool(np.all(np.abs(new[mask].astype(float) - old[mask]) <= bound))

    def on_gradients(self, sample: Drawn, before: _Computed, after: _Computed, old: Sequence[Array]) -> None:
        """Compare the gradients of both sides, where those before are finite."""
        leaves = [leaf for leaf in self.inputs.leaves if not isinstance(leaf, Constant) and _is_float(leaf, sample)]
        seeds = [filled("ordinary", a.shape, a.dtype.name, (), 3 + i, False) if a.dtype.kind == "f" else a for i, a in enumerate(old)]
        floats = [array for array in old if array.dtype.kind == "f"]
        if not leaves or not floats or not (self.exact or all(np.isfinite(array).all() for array in floats)):
            return
        try:
            # A pattern that cannot be differentiated may be replaced by anything; the other way round the rule would break the backward.
            gradients_before = Gradients(self.rule.before, before, seeds)
        except NoGradient:
            return
        try:
            gradients_after = Gradients(self.rule.after, after, seeds)
        except NoGradient as error:
            raise InvalidValue(
                f"rule {self.rule.name} is wrong: {self.rule.text}{_place(self.rule)}\n"
                f"  the pattern can be differentiated, the replacement cannot: {error}"
            ) from None
        for leaf in leaves:
            for i, (a, b) in enumerate(zip(gradients_before.of(leaf), gradients_after.of(leaf), strict=True)):
                if not _near_gradient(a, b):
                    name = f"{leaf!r}[{i}]" if isinstance(leaf, Several) else repr(leaf)
                    self.refuse(sample, a, b, f"the gradient of {name}, where that of the result is {shown(seeds[0])},")
        self.evidence.gradients += 1

    def refuse(self, sample: Drawn, old: Array, new: Array, what: str = "") -> None:
        """Say where the rule is wrong."""
        hint = (
            "\n  @rewrite(fast=True) allows differences by rounding, and where something is not finite" if self.exact and not what else ""
        )
        if what:
            hint = (
                '\n  @rewrite(gradients="smooth") allows gradients that differ at kinks and ties' if self.contents is DIFFERENTIABLE else ""
            )
        before, after = (f"{what} before", f"{what} after") if what else ("before", "after")
        raise InvalidValue(
            f"rule {self.rule.name} is wrong: {self.rule.text}{_place(self.rule)}\n{sample}\n"
            f"  {before}: {shown(old)}\n  {after}:{' ' if what else '  '}{shown(new)}{hint}"
        )


def _same(old: Array, new: Array) -> bool:
    is_equal = old == new
    return bool(np.all(is_equal if old.dtype.kind != "f" else is_equal | ((old != old) & (new != new))))


def _arrays_of(sample: Drawn) -> list[Array]:
    return [*sample.values.values(), *(array for arrays in sample.lists.values() for array in arrays)]


def _largest(array: object) -> float:
    """The largest absolute value that is finite."""
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind != "f":
        return 0.0
    sizes = np.abs(np.ravel(array))
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0))


def _out_of_range(side: _Computed, shape: tuple[int, ...], tiny: float, infinite: bool) -> Array:
    """A mask of the results with something denormal, or infinite, on the way to them: by element if it has the result's shape, else
    everywhere."""
    out: Array = np.zeros(shape, bool)
    for array in (a for slots in side.done.values() for arrays in slots.values() for a in arrays):
        if isinstance(array, np.ndarray | np.generic) and array.dtype.kind == "f":
            size = np.abs(array)
            mask = ((size > 0) & (size < tiny)) | (np.isinf(array) if infinite else False)
            out = out | (mask if array.shape == shape else mask.any())
    return out


def _is_float(leaf: Term, sample: Drawn) -> bool:
    arrays = sample.lists[leaf] if isinstance(leaf, Several) else [sample.values[leaf]]
    return bool(arrays) and arrays[0].dtype.kind == "f"


def _near_gradient(old: Array, new: Array) -> bool:
    finite = np.isfinite(old)
    if not finite.any() or old.shape != new.shape:
        return old.shape == new.shape
    bound = 1e-8 * (1.0 + np.max(np.abs(old[finite])))
    return bool(np.all(np.abs(new[finite] - old[finite]) <= bound))


def _like_example(original: Drawn, other: Drawn) -> Drawn:
    """Arrays of another content; those of integers and truth values stay as the example has them."""
    other.values = {t: original.values[t] if original.values[t].dtype.kind in "iub" else a for t, a in other.values.items()}
    return other
