"""Linear models and support vector machines against ONNX's evaluator, ONNX Runtime and numpy."""

from typing import Any

import numpy as np
import pytest
from every import every
from importing import floats
from native_checks import natively_together
from onnx import NodeProto, helper
from other_domains import ML, agree, check_native, model_of, of_reference, of_runtime

import stepwell
from stepwell.dialects.support.errors import ModelError, UnsupportedError

FEATURES, TRANSFORMS = 6, ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
X = floats(17, FEATURES)
SCORES = {"label": np.zeros(1, np.int64), "scores": np.zeros((1, 1), np.float32)}


def node(op: str, outputs: Any = ("y",), **attributes: Any) -> NodeProto:
    return helper.make_node(op, ["x"], list(outputs), name="machine", domain=ML, **attributes)


def numbers(count: int, seed: int) -> list[float]:
    return floats(count, seed=seed).tolist()


@natively_together
@every("kind", [np.float32, np.float64, np.int64, np.int32])
@every("targets", [1, 3])
def test_linear_regressor(kind: Any, targets: int) -> None:
    x = (X * 3).astype(kind)
    weights, intercepts = numbers(targets * FEATURES, 1), numbers(targets, 2)
    want = x.astype(np.float64) @ np.array(weights).reshape(targets, -1).T + intercepts
    made = node("LinearRegressor", coefficients=weights, intercepts=intercepts, targets=targets)
    check_native(made, {"x": x}, {"y": want.astype(np.float32)})
    without = node("LinearRegressor", coefficients=weights, targets=targets)
    check_native(without, {"x": x}, {"y": (want - intercepts).astype(np.float32)})


@natively_together
@every("transform", TRANSFORMS)
@every(("classes", "rows"), [(3, 3), (2, 2), (2, 1), (1, 1)])
def test_linear_classifier(classes: int, rows: int, transform: str) -> None:
    """Scores and labels; the coefficients of one class stand for two, or for one alone."""
    made = node(
        "LinearClassifier", ("label", "scores"), classlabels_ints=[4, -3, 9][:classes], coefficients=numbers(rows * FEATURES, 3),
        intercepts=numbers(rows, 4), post_transform=transform, multi_class=1,
    )  # fmt: skip
    want = of_reference(made, {"x": X}, SCORES)
    if classes > 1:  # ONNX Runtime has other labels and scores for a single class
        agree(want, of_runtime(made, {"x": X}, SCORES), ["label"])
    check_native(made, {"x": X}, want, terms=128)


def test_linear_classifier_without_intercepts() -> None:
    """ONNX's inference counts the classes by intercepts, and finds none."""
    given = {"classlabels_ints": [4, -3, 9], "coefficients": numbers(3 * FEATURES, 3)}
    want = of_reference(node("LinearClassifier", ("label", "scores"), intercepts=[0.0] * 3, **given), {"x": X}, SCORES)
    check_native(node("LinearClassifier", ("label", "scores"), **given), {"x": X}, want, terms=128)


KERNELS = {
    "LINEAR": lambda x, v, g, c, d: x @ v.T,
    "POLY": lambda x, v, g, c, d: (g * (x @ v.T) + c) ** d,
    "RBF": lambda x, v, g, c, d: np.exp(-g * ((x[:, np.newaxis] - v) ** 2).sum(axis=2)),
    "SIGMOID": lambda x, v, g, c, d: np.tanh(g * (x @ v.T) + c),
}


@natively_together
@every("kernel", KERNELS)
@every("one_class", [0, 1])
def test_svm_regressor(kernel: str, one_class: int) -> None:
    supports, parameters = 9, [0.15, 0.4, 3.0]
    weights, vectors = numbers(supports, 5), numbers(supports * FEATURES, 6)
    made = node(
        "SVMRegressor", coefficients=weights, kernel_params=parameters, kernel_type=kernel, n_supports=supports, one_class=one_class, rho=[0.3],
        support_vectors=vectors,
    )  # fmt: skip
    want = KERNELS[kernel](X.astype(np.float64), np.array(vectors).reshape(supports, -1), *parameters) @ np.array(weights) + 0.3
    want = (np.where(want > 0, 1, -1) if one_class else want).astype(np.float32).reshape(-1, 1)
    agree({"y": want}, of_runtime(made, {"x": X}, {"y": want}), terms=256)
    check_native(made, {"x": X}, {"y": want}, terms=256)


def test_svm_regressor_without_vectors() -> None:
    weights = numbers(FEATURES, 7)
    want = (X.astype(np.float64) @ np.array(weights) - 0.5).astype(np.float32).reshape(-1, 1)
    check_native(node("SVMRegressor", coefficients=weights, rho=[-0.5]), {"x": X}, {"y": want})


def svm(classes: int, kernel: str, **attributes: Any) -> NodeProto:
    sizes = [3, 5, 2, 4][:classes]
    count, pairs = sum(sizes), classes * (classes - 1) // 2
    return node(
        "SVMClassifier", ("label", "scores"), classlabels_ints=[5, 0, -4, 8][:classes], coefficients=numbers((classes - 1) * count, 8),
        kernel_params=[0.1, 0.2, 2.0], kernel_type=kernel, rho=numbers(pairs, 9), support_vectors=numbers(count * FEATURES, 10),
        vectors_per_class=sizes, **attributes,
    )  # fmt: skip


@natively_together
@every("kernel", KERNELS)
@every("classes", [2, 4])
def test_svm_classifier(kernel: str, classes: int) -> None:
    made = svm(classes, kernel)
    want = of_reference(made, {"x": X}, SCORES)
    agree(want, of_runtime(made, {"x": X}, SCORES), ["label"])
    check_native(made, {"x": X}, want, terms=512)


@natively_together
@every("transform", TRANSFORMS)
def test_transforms_of_svm_classifiers(transform: str) -> None:
    for classes in (2, 3):
        made = svm(classes, "RBF", post_transform=transform)
        check_native(made, {"x": X}, of_reference(made, {"x": X}, SCORES), terms=512)


@natively_together
@every("classes", [3, 4])
@every("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@every("sign", [1, -1])
def test_svm_classifiers_without_vectors(classes: int, transform: str, sign: int) -> None:
    """Beside ONNX Runtime: ONNX's evaluator takes the greatest score for that of the second of two classes."""
    weights = [sign * abs(w) if sign > 0 else w for w in numbers(classes * FEATURES, 12)]
    made = node(
        "SVMClassifier", ("label", "scores"), classlabels_ints=[5, 0, -4, 8][:classes], coefficients=weights, kernel_params=[0.0, 0.0, 3.0],
        kernel_type="LINEAR", post_transform=transform, rho=[0.3],
    )  # fmt: skip
    want = of_runtime(made, {"x": X}, SCORES)
    scores = X.astype(np.float64) @ np.array(weights).reshape(classes, -1).T
    np.testing.assert_array_equal(want["label"], np.array([5, 0, -4, 8])[scores.argmax(1)])
    check_native(made, {"x": X}, want)


def test_probabilities() -> None:
    """Of two classes: within the tolerance at which ONNX's evaluator ends its iteration."""
    made = svm(2, "RBF", prob_a=[-1.7], prob_b=[0.2])
    plain = of_reference(svm(2, "RBF"), {"x": X}, SCORES)
    first = 1 / (1 + np.exp(-1.7 * plain["scores"][:, 1].astype(np.float64) * -1 * -1 + 0.2))
    want = np.stack([first, 1 - first], axis=1).astype(np.float32)
    reference = of_reference(made, {"x": X}, SCORES)
    np.testing.assert_allclose(reference["scores"], want, atol=0.005 / 2)
    check_native(made, {"x": X}, {"label": reference["label"], "scores": want}, terms=512)


@natively_together
@every("classes", [3, 4])
@every("transform", ["NONE", "SOFTMAX"])
def test_coupled_probabilities(classes: int, transform: str) -> None:
    """Of more classes, beside ONNX Runtime, which iterates in f32. ONNX's evaluator is off by up to 0.15 from it and from scikit-learn."""
    pairs = classes * (classes - 1) // 2
    made = svm(classes, "RBF", post_transform=transform, prob_a=[-1.7 - 0.3 * i for i in range(pairs)], prob_b=numbers(pairs, 11))
    want = of_runtime(made, {"x": X}, SCORES)
    assert np.ptp(want["scores"], axis=0).max() > 0.05
    check_native(made, {"x": X}, want, terms=512)


@pytest.mark.parametrize(
    ("made", "kind", "message"),
    [
        (node("LinearRegressor", coefficients=[1.0] * 7), ModelError, "7 coefficients must be 6"),
        (node("LinearRegressor", coefficients=[1.0] * 6, intercepts=[1.0] * 2), ModelError, "2 intercepts for 1 outputs"),
        (node("LinearClassifier", ("y", "z"), coefficients=[1.0] * 6), ModelError, "either integers or strings"),
        (node("LinearClassifier", ("y", "z"), coefficients=[1.0] * 12, classlabels_ints=[1, 2, 3]), ModelError, "of 2 outputs for 3 classes"),
        (node("SVMRegressor", coefficients=[1.0] * 6, kernel_type="COSINE"), UnsupportedError, "kernel_type='COSINE'"),
        (node("SVMRegressor", coefficients=[1.0], n_supports=1, support_vectors=[1.0]), ModelError, "need 6 numbers, got 1"),
        (svm(3, "RBF", prob_a=[1.0] * 3, prob_b=[1.0] * 2), ModelError, "must both have an entry for each of 3 pairs"),
        (svm(2, "RBF", prob_a=[1.0]), ModelError, "must both have an entry"),
    ],
)
def test_what_is_wrong_is_said(made: NodeProto, kind: Any, message: str) -> None:
    outputs = {"y": SCORES["label"]} if len(made.output) > 1 else {"y": SCORES["scores"]}
    if made.output[0] == "label":
        outputs = {"label": SCORES["label"]}
    proto = model_of(made, {"x": X}, outputs)
    with pytest.raises(kind, match=message):
        stepwell.compile(proto)
