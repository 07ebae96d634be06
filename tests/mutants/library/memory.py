"""Mistakes in the passes about memory, fusion, precision and optimization."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Check, Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import BACKWARD, Witness

RECOMPUTE = "graphad.passes.memory.recompute"
KEPT = "graphad.passes.memory.recompute"
PARTS = "graphad.passes.memory.gradient_accumulation"
BATCH = "graphad.passes.analyses.batch_dependence"
IN_PLACE = "graphad.passes.memory.in_place"
FUSE = "graphad.passes.fusion.fuse_elementwise"
NORM = "graphad.passes.fusion.fold_batch_norm"
MIXED = "graphad.passes.precision"
OPTIMIZE = "graphad.passes.optimization"

_DEEP = """
x: float64[64, 8] stop_gradient
w: float64[8, 8]
mul(X=x, Y=w) -> (Out=a)
{middle}
mul(X=t, Y=w) -> (Out=q)
gelu(X=q) -> (Out=r)
sin(X=r) -> (Out=s)
tanh(X=s) -> (Out=u)
mul(X=u, Y=w) -> (Out=p)
mean(X=p) -> (Out=loss)
"""


def _recompute(name: str, where: str, old: str, new: str, middle: str, **options: Any) -> Mutant:
    witness = Witness(_DEEP.format(middle=middle), "recompute", BACKWARD, targets=("loss",), fetch=("w@GRAD",), **options)
    return Mutant(f"recompute-{name}", "memory", Patch(where, old, new), witness)


_RECOMPUTE = (
    _recompute(
        "loses-attributes",
        f"{RECOMPUTE}:_Copies._repeat",
        "inputs, outputs, op.attrs, before=before",
        "inputs, outputs, {}, before=before",
        "gelu(X=a) -> (Out=b) {approximate=true}\nsin(X=b) -> (Out=t)",
    ),
    _recompute(
        "reads-the-latest-version",
        f"{RECOMPUTE}:_Copies._repeat",
        "self.copies.get(v, v) for v in values",
        "self.copies.get(v, graph.versions(v.name)[-1]) for v in values",
        "scale(X=a) -> (Out=b)\ngelu(X=b) -> (Out=b)\nsin(X=b) -> (Out=t)",
    ),
    _recompute(
        "draws-again",
        f"{KEPT}:can_repeat",
        "op.graphs or definition.random or definition.side_effect",
        "op.graphs or definition.side_effect",
        "dropout(X=a) -> (Out=b, Mask=m)\nsin(X=b) -> (Out=t)",
    ),
    _recompute(
        "keeps-the-shape-of-what-is-read",
        "graphad.passes.analyses.shapes_read:shapes_read",
        "return {s for s in op.inputs if all(",
        "return {s for s in op.inputs if any(",
        "gelu(X=a) -> (Out=b)\nsin(X=b) -> (Out=t)",
    ),
    _recompute(
        "reads-what-it-is-to-replace",
        f"{RECOMPUTE}:_Copies._again",
        "return self.copies[value]",
        "return self.copies[next(iter(self.copies))]",
        "gelu(X=a) -> (Out=b)\nsin(X=b) -> (Out=t)",
    ),
)

_BATCH = """
x: float64[4, 3] stop_gradient
param w: float64[3, 3]
{body}
"""


def _parts(name: str, where: str, old: str, new: str, body: str, what: str = "gradient-accumulation", **options: Any) -> Mutant:
    witness = Witness(_BATCH.format(body=body), what, BACKWARD, targets=("loss",), fetch=("w@GRAD",), tolerance=1e-6, **options)
    return Mutant(f"gradient-accumulation-{name}", "memory", Patch(where, old, new), witness)


_PARTS = (
    _parts(
        "divides-sums",
        f"{PARTS}:make_loop",
        "if kinds[value] == MEAN else {}",
        "if kinds[value] else {}",
        "mul(X=x, Y=w) -> (Out=h)\nreduce_sum(X=h) -> (Out=loss)",
    ),
    _parts(
        "never-divides",
        f"{PARTS}:make_loop",
        '{"scale": 1.0 / count} if kinds',
        '{"scale": 1.0} if kinds',
        "mul(X=x, Y=w) -> (Out=h)\nmean(X=h) -> (Out=loss)",
    ),
    _parts(
        "adds-a-bias-for-each-part",
        f"{BATCH}:_scaled",
        "return MIXED if kind == TOTAL and biased else kind",
        "return kind",
        "mul(X=x, Y=w) -> (Out=h)\nreduce_sum(X=h) -> (Out=s)\nscale(X=s) -> (Out=loss) {bias=1.0}",
        refused=True,
    ),
    _parts(
        "normalizes-over-the-batch",
        f"{BATCH}:_is_inside",
        "rank > 1 and axes % rank != 0",
        "rank > 1 and axes != 0",
        "mul(X=x, Y=w) -> (Out=h)\nsoftmax(X=h) -> (Out=p) {axis=-2}\nsquare(X=p) -> (Out=q)\nmean(X=q) -> (Out=loss)",
        refused=True,
    ),
    _parts(
        "adds-the-parts-without-a-start",
        f"{PARTS}:make_loop",
        '{"X": [total, value]}, total)',
        '{"X": [value]}, total)',
        "mul(X=x, Y=w) -> (Out=h)\nmean(X=h) -> (Out=loss)",
    ),
    _parts(
        "takes-any-product-for-linear",
        f"{BATCH}:_product",
        "operand_kinds == {MEAN, WHOLE} or",
        "MEAN in operand_kinds or",
        "mul(X=x, Y=w) -> (Out=h)\nmean(X=h) -> (Out=m)\nelementwise_mul(X=m, Y=m) -> (Out=s)\nassign(X=s) -> (Out=loss)",
        refused=True,
    ),
)


def _in_place(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return Mutant(f"in-place-{name}", "memory", Patch(where, old, new), Witness(text, "in-place", marks=True, **options))


_MARKS = (
    _in_place(
        "overwrites-what-is-viewed",
        f"{IN_PLACE}:_is_free",
        "if not makes_own(value.writers[0]):",
        "if False:",
        """
        x: float64[2, 3]
        scale(X=x) -> (Out=a) {scale=2.0}
        reshape(X=a) -> (Out=b) {shape=[2, 3]}
        exp(X=b) -> (Out=c)
        tanh(X=a) -> (Out=d)
        """,
    ),
    _in_place(
        "overwrites-under-a-view",
        f"{IN_PLACE}:_is_free",
        "(reader.order < op.order and makes_own(reader))",
        "reader.order < op.order",
        """
        x: float64[2, 3]
        scale(X=x) -> (Out=a) {scale=2.0}
        reshape(X=a) -> (Out=b) {shape=[2, 3]}
        exp(X=a) -> (Out=c)
        tanh(X=b) -> (Out=d)
        """,
    ),
    _in_place(
        "overwrites-what-is-read-later",
        f"{IN_PLACE}:_is_free",
        "reader is op or (reader.order < op.order and makes_own(reader))",
        "reader is op or makes_own(reader)",
        """
        x: float64[2]
        scale(X=x) -> (Out=a) {scale=2.0}
        exp(X=a) -> (Out=c)
        tanh(X=a) -> (Out=d)
        """,
    ),
)


def _fuse(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return Mutant(f"fuse-elementwise-{name}", "fusion", Patch(where, old, new), Witness(text, "fuse-elementwise", **options))


_FUSION = (
    _fuse(
        "loses-attributes",
        f"{FUSE}:_Fusion.copy",
        "inputs, outputs, dict(op.attrs), role",
        "inputs, outputs, {}, role",
        """
        x: float64[3]
        scale(X=x) -> (Out=a) {scale=2.0}
        tanh(X=a) -> (Out=b)
        """,
    ),
    _fuse(
        "hides-what-is-requested",
        f"{FUSE}:_Fusion.is_needed",
        "not readers or self.graph.is_observed(value) or",
        "not readers or",
        """
        x: float64[3]
        tanh(X=x) -> (Out=a)
        exp(X=a) -> (Out=b)
        """,
        targets=("a", "b"),
    ),
    _fuse(
        "fuses-around-a-stranger",
        f"{FUSE}:_step",
        "return before is None or before != after",
        "return before is not None and after is not None and before != after",
        """
        x: float64[3, 3]
        tanh(X=x) -> (Out=a)
        transpose2(X=a) -> (Out=b) {axis=[1, 0]}
        elementwise_add(X=a, Y=b) -> (Out=c)
        """,
    ),
)

_NORMALIZED = """
x: float64[3, 4]
param w: float64[4, 2]
param s: float64[2]
param b: float64[2]
param c: float64[2]
m: float64[2] persistable
v: float64[2] persistable
{product}
batch_norm(X=h, Scale=s, Bias=b, Mean=m, Variance=v) -> (Y=y, MeanOut=m, VarianceOut=v, SavedMean=sm, SavedVariance=sv) {{{attrs}}}
"""


def _norm(name: str, where: str, old: str, new: str, product: str = "mul(X=x, Y=w) -> (Out=h)", attrs: str = "is_test=true") -> Mutant:
    text = _NORMALIZED.format(product=product, attrs=attrs)
    witness = Witness(text, "fold-batch-norm", targets=("y", "sv"), tolerance=1e-6)
    return Mutant(f"fold-batch-norm-{name}", "fusion", Patch(f"{NORM}:{where}", old, new), witness)


_BIASED = "mul(X=x, Y=w) -> (Out=g)\nelementwise_add(X=g, Y=c) -> (Out=h)"
_NORMS = (
    _norm("forgets-epsilon", "_fold", "variance + match.norm.epsilon", "variance + 1e-5", attrs="is_test=true, epsilon=0.5"),
    _norm("folds-in-training", "_matched", "if not norm.fixed or", "if", attrs="is_test=false"),
    _norm(
        "leaves-the-bias-as-it-is",
        "_fold",
        "shape=[-1])) * factor + shift",
        "shape=[-1])) + shift",
        _BIASED,
    ),
    _norm(
        "scales-rows-for-columns",
        "_weight",
        "(slot, axes[0])",
        "(slot, 1)",
        "param u: float64[2, 4]\nmatmul_v2(X=x, Y=u) -> (Out=h) {trans_y=true}",
    ),
    _norm(
        "returns-the-variance",
        "_fold",
        '_replace_statistic(op, "SavedVariance", inverse.value)',
        '_replace_statistic(op, "SavedVariance", op.input("Variance"))',
    ),
    _norm("subtracts-an-unscaled-mean", "_fold", "bias - mean * factor", "bias - mean"),
)

_CASTS = (
    Mutant(
        "mixed-precision-narrows-exp",
        "precision",
        Patch("graphad.ops.elementwise:exp.narrow", value='"follows"'),
        Witness(
            """
            x: float32[2, 2]
            w: float32[2, 2]
            mul(X=x, Y=w) -> (Out=h)
            exp(X=h) -> (Out=y)
            """,
            "mixed-precision",
            feeds={"x": [[12.0, 0.0], [0.0, 1.0]], "w": [[1.0, 0.0], [0.0, 1.0]]},
            tolerance=2e-2,
        ),
    ),
    Mutant(
        "mixed-precision-scales-twice",
        "precision",
        Patch(
            f"{MIXED}.mixed_precision:scale_loss",
            "_unscale(graph, value, 1.0 / factor, keeping)",
            "_unscale(graph, value, factor, keeping)",
        ),
        Witness(
            """
            x: float32[2, 2]
            w: float32[2, 2]
            mul(X=x, Y=w) -> (Out=h)
            mean(X=h) -> (Out=loss)
            """,
            "mixed-precision{loss_scale=8.0}",
            BACKWARD,
            tolerance=2e-2,
        ),
    ),
    Mutant(
        "mixed-precision-leaves-scaled-what-is-requested",
        "precision",
        Patch(f"{MIXED}.mixed_precision:_leaving", "graph.is_observed(value) or len(keeping)", "len(keeping)"),
        Witness(
            """
            x: float32[2, 2]
            w: float32[2, 2]
            mul(X=x, Y=w) -> (Out=h)
            mean(X=h) -> (Out=loss)
            """,
            "mixed-precision{loss_scale=8.0}",
            BACKWARD,
            tolerance=2e-2,
        ),
    ),
    Mutant(
        "mixed-precision-forgets-stop-gradient",
        "precision",
        Patch(f"{MIXED}.mixed_precision:_Narrowing._widened", "if not any(value.gradient_marks):", "if True:"),
        Witness(
            """
            x: float32[2, 2]
            w: float32[2, 2]
            h: float32[2, 2] stop_gradient
            mul(X=x, Y=w) -> (Out=h)
            mul(X=h, Y=w) -> (Out=y)
            mean(X=y) -> (Out=loss)
            """,
            "mixed-precision",
            sources=("x",),
            tolerance=2e-2,
            free=True,
        ),
    ),
)

_STEP = """
x: float64[2, 2]
param w: float64[2, 2]
param v: float64[2]
mul(X=x, Y=w) -> (Out=h)
elementwise_mul(X=h, Y=v) -> (Out=y)
reduce_sum(X=y) -> (Out=loss)
"""


def _update(name: str, where: str, old: str, new: str, options: str) -> Mutant:
    witness = Witness(_STEP, f"update-all{{{options}}}", BACKWARD, free=True, feeds={"w": [[-0.5, 0.2], [0.3, 0.4]]})
    check = Check(f"update-all{{{options}}}", BACKWARD, f"update-by-hand{{{options}}}")
    return Mutant(f"optimize-{name}", "optimization", Patch(f"{OPTIMIZE}.{where}", old, new), witness, check)


_UPDATES = (
    _update("clips-by-the-square", "clip_gradients:ClipGradients._factor", 'lookup("sqrt")(squares)', "squares", "clip=global-norm"),
    _update(
        "clips-each-alone", "clip_gradients:ClipGradients.apply", 'self.kind == "global-norm" and symbols', "False", "clip=global-norm"
    ),
    _update(
        "clips-one-side",
        "clip_gradients:ClipGradients._clipped",
        "-self.bound if self.low is None",
        "0.0 if self.low is None",
        "clip=value",
    ),
    _update(
        "decays-weights-as-signs",
        "decay_weights:DecayWeights.apply",
        'weight if self.kind == "l2" else',
        "None if self.kind else",
        "decay=l2",
    ),
    _update("ignores-the-factor", "optimize_parameters:OptimizeParameters._rate", "if factor == 1.0:", "if factor:", "factor=0.5"),
    _update(
        "updates-with-the-raw-gradient",
        "optimize_parameters:OptimizeParameters.apply",
        "factor, updates.gradient[name])",
        'factor, graph.value(f"{name}@GRAD"))',
        "decay=l1",
    ),
)

MUTANTS = (*_RECOMPUTE, *_PARTS, *_MARKS, *_FUSION, *_NORMS, *_CASTS, *_UPDATES)
