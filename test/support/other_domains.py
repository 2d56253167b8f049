"""Models with operators of domains other than ONNX's own, compiled and compared."""

from collections.abc import Mapping, Sequence
from typing import Any

import native_checks
import numpy as np
import onnxruntime
from every import running
from importing import Arrays, assert_close, model
from onnx import ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
VERSIONS = {ML: 3, MICROSOFT: 1}


def model_of(node: NodeProto, inputs: Arrays, expected: Arrays, weights: Arrays | None = None, version: int | None = None) -> ModelProto:
    """A model of one node; its outputs are declared with the types and ranks of the expected ones."""
    return model([node], inputs, expected, weights, domains={node.domain: version or VERSIONS[node.domain]})


def check_native(
    node: NodeProto, inputs: Arrays, expected: Arrays, weights: Arrays | None = None, *, version: int | None = None, terms: int = 32, **options: Any
) -> None:
    """Compile a model of one node to native code, run it, and compare each output with what is expected, type and shape too.

    Within `natively_together` it is at the test's end.
    """

    def judge(results: Arrays) -> None:
        for (name, want), got in zip(expected.items(), results.values(), strict=True):
            try:
                assert_close(np.asarray(got), want, terms)
            except AssertionError as error:
                raise AssertionError(f"output '{name}': {error}") from None

    made = model_of(node, inputs, expected, weights, version)
    native_checks.check(native_checks.Check("-".join(running), made, inputs, judge, (("threads", 1), *options.items())))


def of_runtime(node: NodeProto, inputs: Arrays, expected: Arrays, weights: Arrays | None = None, version: int | None = None) -> dict[str, np.ndarray]:
    """What ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    made = model_of(node, inputs, expected, weights, version).SerializeToString()
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    return dict(zip(expected, session.run(list(expected), dict(inputs)), strict=True))


def of_reference(node: NodeProto, inputs: Arrays, expected: Arrays, version: int | None = None) -> dict[str, np.ndarray]:
    """What ONNX's own evaluator computes."""
    results = ReferenceEvaluator(model_of(node, inputs, expected, None, version)).run(list(expected), dict(inputs))
    return {name: np.asarray(value) for name, value in zip(expected, results, strict=True)}


def agree(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], names: Sequence[str] | None = None, terms: int = 32) -> None:
    """Two sets of results are close."""
    for name in names or first:
        assert_close(np.asarray(second[name]), np.asarray(first[name]), terms)
