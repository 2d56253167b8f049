"""Rules for linear models and support vector machines: matrix products with coefficients that are attributes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.scores import arg_max, feature_count, matrix_rows
from stepwell.frontends.blocks.slicing import with_new_axes
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.frames import Unavailable
from stepwell.frontends.onnx.registry import Group, onnx_rule
from stepwell.frontends.onnx.rules.reductions import reduce_sum
from stepwell.frontends.onnx.rules.scores import ML, Labels, Transform, labels_of, transformed

LEAST_PROBABILITY = 1e-7  # of an estimate, as in LIBSVM


def in_floats(b: ImportBuilder, x: Value) -> Value:
    """Samples as rows of floats: f64 stays, everything else becomes f32."""
    return b.convert(matrix_rows(b, x), "f64" if type_of(x).dtype == "f64" else "f32")


def constant(b: ImportBuilder, array: np.ndarray, like: Value) -> Value:
    """Numbers of the model in the element type of `like`."""
    return b.literal(array.astype(to_numpy(type_of(like).dtype)))


def linear(b: ImportBuilder, x: Value, coefficients: Sequence[float], intercepts: Sequence[float], outputs: int | None) -> Value:
    """`x w + intercepts` with the coefficients of one output after the other; with `outputs` None, their number follows from the coefficients."""
    features, count = feature_count(x), len(coefficients)
    wanted = count // max(features, 1) if outputs is None else outputs
    if not wanted or count != wanted * features:
        raise ModelError(f"its {count} coefficients must be {features}, one for each feature, for each of its {wanted} outputs")
    out = b.matmul(x, constant(b, np.array(coefficients).reshape(wanted, features).T, x))
    if not intercepts:
        return out
    if len(intercepts) not in (1, wanted):
        raise ModelError(f"it has {len(intercepts)} intercepts for {wanted} outputs")
    return b.add(out, constant(b, np.array(intercepts), out))


@onnx_rule("LinearRegressor", since=1, domain=ML)
def linear_regressor(
    b: ImportBuilder,
    x: Value,
    *,
    coefficients: Sequence[float] = (),
    intercepts: Sequence[float] = (),
    post_transform: Transform = "NONE",
    targets: int = 1,
) -> Value:
    return b.convert(transformed(b, linear(b, in_floats(b, x), coefficients, intercepts, targets), post_transform), "f32")


@onnx_rule("LinearClassifier", since=1, domain=ML, ignored={"multi_class": 0})  # how the model was trained
def linear_classifier(
    b: ImportBuilder,
    x: Value,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    post_transform: Transform = "NONE",
) -> tuple[Value | Unavailable, Value]:
    """Scores of the classes and the class with the largest one; one row of coefficients for two classes gives `[-s, s]`."""
    labels = labels_of(classlabels_ints, classlabels_strings)
    scores = linear(b, in_floats(b, x), coefficients, intercepts, None)
    outputs = type_of(scores).shape[1]
    if outputs == 1 and labels.count == 2:
        scores = b.concat([b.neg(scores), scores], axis=1)
    elif outputs != labels.count:
        raise ModelError(f"it has coefficients of {outputs} outputs for {labels.count} classes")
    scores = transformed(b, scores, post_transform)
    if labels.count > 1:
        return labels.pick(b, arg_max(b, scores)), b.convert(scores, "f32")
    least = b.scalar(0.0 if post_transform == "NONE" else 0.5, like=scores)
    chosen = b.reshape(b.greater_equal(scores, least), shape=(-1,))
    label = b.select(chosen, b.literal(np.array(labels.numbers[0])), b.literal(np.array(0))) if labels.numbers else labels.pick(b, chosen)
    return label, b.convert(scores, "f32")


@dataclass(frozen=True)
class Kernel(Group):
    """The function that compares a sample with a support vector, and the support vectors."""

    kernel_params: Sequence[float] = ()
    kernel_type: Literal["LINEAR", "POLY", "RBF", "SIGMOID"] = "LINEAR"
    support_vectors: Sequence[float] = ()

    def __post_init__(self) -> None:
        if len(self.kernel_params) not in (0, 3):
            raise ModelError(f"kernel_params must be gamma, coef0 and degree, got {len(self.kernel_params)} numbers")

    def values(self, b: ImportBuilder, x: Value, count: int) -> Value:
        """The kernel of each sample (samples, features) with each of `count` vectors: (samples, vectors)."""
        features, (gamma, offset, degree) = feature_count(x), self.kernel_params or (0.0, 0.0, 0.0)
        if len(self.support_vectors) != count * features:
            needed = f"its {count} support vectors of {features} features need {count * features} numbers"
            raise ModelError(f"{needed}, got {len(self.support_vectors)}")
        vectors = np.array(self.support_vectors, np.float64).reshape(count, features)
        if self.kernel_type == "RBF":  # from differences, since expanded squares would cancel
            differences = b.sub(with_new_axes(b, x, [1]), constant(b, vectors[np.newaxis], x))
            square = reduce_sum(b, b.mul(differences, differences), (2,), False)
            return b.exp(b.mul(square, b.scalar(-gamma, like=x)))
        product = b.matmul(x, constant(b, vectors.T, x))
        if self.kernel_type == "LINEAR":
            return product
        inner = b.add(b.mul(product, b.scalar(gamma, like=x)), b.scalar(offset, like=x))
        return b.tanh(inner) if self.kernel_type == "SIGMOID" else b.pow(inner, b.scalar(int(degree), like=x))


@onnx_rule("SVMRegressor", since=1, domain=ML)
def svm_regressor(
    b: ImportBuilder,
    x: Value,
    *,
    coefficients: Sequence[float] = (),
    kernel: Kernel,
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: Transform = "NONE",
    rho: Sequence[float] = (),
) -> Value:
    rows = in_floats(b, x)
    kernels = kernel.values(b, rows, n_supports) if n_supports > 0 else rows  # rows are for coefficients of a linear model
    out = linear(b, kernels, coefficients, [rho[0]] if rho else [], 1)
    if one_class:
        out = b.select(b.greater(out, b.scalar(0, like=out)), b.scalar(1, like=out), b.scalar(-1, like=out))
    return b.convert(transformed(b, out, post_transform), "f32")


@onnx_rule("SVMClassifier", since=1, domain=ML)
def svm_classifier(
    b: ImportBuilder,
    x: Value,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Sequence[float] = (),
    kernel: Kernel,
    post_transform: Transform = "NONE",
    prob_a: Sequence[float] = (),
    prob_b: Sequence[float] = (),
    rho: Sequence[float] = (),
    vectors_per_class: Sequence[int] = (),
) -> tuple[Value | Unavailable, Value]:
    """One decision for each pair of classes, whose votes give the label, as in LIBSVM (Chang and Lin, 2011); else one linear score per class."""
    labels = labels_of(classlabels_ints, classlabels_strings)
    rows = in_floats(b, x)
    if not sum(vectors_per_class):
        return linear_machine(b, rows, labels, coefficients, rho, post_transform)
    if len(vectors_per_class) != labels.count or labels.count < 2:
        raise ModelError(f"it has {labels.count} classes, and vectors_per_class {len(vectors_per_class)} entries; they must be as many, two or more")
    kernels = kernel.values(b, rows, sum(vectors_per_class))
    pairs = [(i, j) for i in range(labels.count) for j in range(i + 1, labels.count)]
    if len(rho) != len(pairs):
        raise ModelError(f"it needs one rho for each of {len(pairs)} pairs of classes, got {len(rho)}")
    weights = pair_weights(coefficients, vectors_per_class, pairs)
    if labels.count == 2 and min(coefficients) >= 0:
        raise UnsupportedError("coefficients of two classes none of which is negative are not supported; supported: any that a machine learns")
    decisions = b.add(b.matmul(kernels, constant(b, weights, kernels)), constant(b, np.array(rho), kernels))
    votes = votes_of(b, decisions, pairs, labels.count)
    if bool(prob_a) != bool(prob_b) or len(prob_a) not in (0, len(pairs)) or len(prob_b) != len(prob_a):
        raise ModelError(f"prob_a and prob_b must both have an entry for each of {len(pairs)} pairs of classes, got {len(prob_a)} and {len(prob_b)}")
    scores = decisions
    if prob_a:
        scores = probabilities(b, decisions, prob_a, prob_b, labels.count)
    elif labels.count == 2 and post_transform != "PROBIT":  # a score for each class; that of the first one is negated, as in other runtimes
        scores = b.concat([b.neg(decisions), decisions], axis=1)
    return labels.pick(b, arg_max(b, votes)), b.convert(transformed(b, scores, post_transform), "f32")


def linear_machine(
    b: ImportBuilder, rows: Value, labels: Labels, coefficients: Sequence[float], rho: Sequence[float], transform: Transform
) -> tuple[Value | Unavailable, Value]:
    """The model without support vectors: a row of coefficients for each class."""
    if labels.count < 2 or (labels.count == 2 and min(coefficients, default=0) >= 0):  # other runtimes label these differently
        raise UnsupportedError(
            f"a linear machine of {labels.count} classes{' without negative coefficients' * (labels.count == 2)} is not supported; supported: "
            "three or more classes, or two with a negative coefficient (LinearClassifier serves any number)"
        )
    scores = linear(b, rows, coefficients, [rho[0]] if rho else [], labels.count)
    label = labels.pick(b, arg_max(b, scores))
    return label, b.convert(transformed(b, scores, transform), "f32")


def pair_weights(coefficients: Sequence[float], sizes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """The coefficient of each support vector in the decision of each pair of classes, (vectors, pairs)."""
    count, starts = sum(sizes), np.cumsum([0, *sizes])
    if len(coefficients) != (len(sizes) - 1) * count:
        raise ModelError(f"its {count} support vectors of {len(sizes)} classes need {(len(sizes) - 1) * count} coefficients, got {len(coefficients)}")
    table, out = np.array(coefficients).reshape(-1, count), np.zeros((count, len(pairs)))
    for p, (i, j) in enumerate(pairs):
        out[starts[i] : starts[i + 1], p] = table[j - 1, starts[i] : starts[i + 1]]
        out[starts[j] : starts[j + 1], p] = table[i, starts[j] : starts[j + 1]]
    return out


def probabilities(b: ImportBuilder, decisions: Value, slopes: Sequence[float], offsets: Sequence[float], classes: int) -> Value:
    """The probabilities of the classes: Platt's estimates (1999) for each pair, coupled if there are several pairs."""
    exponent = b.add(b.mul(decisions, constant(b, np.array(slopes), decisions)), constant(b, np.array(offsets), decisions))
    first = b.clamp(b.sigmoid(b.neg(exponent)), min=LEAST_PROBABILITY, max=1 - LEAST_PROBABILITY)
    both = b.concat([first, b.sub(b.scalar(1, like=first), first)], axis=1)
    if classes == 2:
        return both
    places, pairs = np.zeros((classes, classes), np.int64), len(slopes)
    places[np.triu_indices(classes, 1)] = np.arange(pairs)
    places += (places + pairs).T * np.tri(classes, k=-1, dtype=np.int64)
    return b.pairwise_coupling(b.gather(both, b.literal(places), axis=1))


def votes_of(b: ImportBuilder, decisions: Value, pairs: Sequence[tuple[int, int]], classes: int) -> Value:
    """The number of pairs that each class wins: the first of a pair if its decision is positive."""
    wins, losses = np.zeros((len(pairs), classes)), np.zeros((len(pairs), classes))
    for p, (i, j) in enumerate(pairs):
        wins[p, i] = losses[p, j] = 1
    first = b.convert(b.greater(decisions, b.scalar(0, like=decisions)), type_of(decisions).dtype)
    second = b.sub(b.scalar(1, like=first), first)
    return b.add(b.matmul(first, constant(b, wins, first)), b.matmul(second, constant(b, losses, second)))
