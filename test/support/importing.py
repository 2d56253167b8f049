"""Small ONNX models for the importer's tests, imported and compared with ONNX Runtime or ONNX's own evaluator."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import native_checks
import numpy as np
import onnx
import onnxruntime
import pytest
from every import running
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, NotImplemented

from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.core.sizes import assumptions
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.frontends.base import ImportedModel, NeedsError
from stepwell.frontends.onnx import import_model, registry

Arrays = Mapping[str, np.ndarray]


@functools.cache
def context() -> ir.Context:
    """One context for all tests: loading the dialects takes longer than importing a small model."""
    return make_context()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def floats(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Random values, both signs, no symmetry."""
    return (rng(seed + sum(shape)).normal(0.3, 1.0, shape)).astype(dtype)


def ints(*values: int, dtype: Any = np.int64) -> np.ndarray:
    return np.array(values, dtype)


def value_info(name: str, array: np.ndarray, dims: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    """The declaration of a value of the array's type, with its shape or the dims given."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape if dims is None else dims)


def model(
    nodes: Sequence[NodeProto],
    inputs: Arrays,
    outputs: Arrays,
    weights: Arrays | None = None,
    *,
    opset: int = 21,
    ir_version: int = 10,
    domains: Mapping[str, int] | None = None,
    **fields: Any,
) -> ModelProto:
    """A model of these nodes; inputs and outputs as arrays of the types they have (outputs by rank alone). Domains are of version 1 unless given."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [value_info(name, array) for name, array in inputs.items()],
        [value_info(name, array, [f"{name}{i}" for i in range(array.ndim)]) for name, array in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    versions = {**(dict.fromkeys((n.domain for n in nodes if n.domain not in ("", "ai.onnx")), 1) if domains is None else domains), "": opset}
    imports = [helper.make_opsetid(d, v) for d, v in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **fields)


def expected_outputs(nodes: Sequence[NodeProto], inputs: Arrays, outputs: Sequence[str], weights: Arrays, opset: int) -> list[np.ndarray]:
    """What ONNX Runtime gives, or ONNX's own evaluator where that has no kernel."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [value_info(name, array) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    versions = {**dict.fromkeys((n.domain for n in nodes), 1), "": opset}
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in versions.items()], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(list(outputs), dict(inputs)))
    except (Fail, InvalidArgument, InvalidGraph, NotImplemented):
        return [np.asarray(a) for a in ReferenceEvaluator(proto).run(list(outputs), dict(inputs))]


def run(proto: ModelProto | bytes | str, inputs: Arrays, **options: Any) -> dict[str, np.ndarray]:
    """Import, verify and evaluate a model."""
    imported = import_model(proto, context(), **options)
    return run_imported(imported, inputs)


def run_imported(imported: ImportedModel, inputs: Arrays) -> dict[str, np.ndarray]:
    assert imported.module.operation.verify()
    taken = {name for name, _ in imported.inputs}
    return evaluate(imported.module, imported.weights, {name: array for name, array in inputs.items() if name in taken})


def assert_close(got: np.ndarray, want: np.ndarray, terms: int = 32) -> None:
    """Equal type and shape, and values within the rounding of that many additions of the type (exactly equal integers)."""
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    eps = float(ml_dtypes.finfo(want.dtype).eps)
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    finite = wide_want[np.isfinite(wide_want)]
    scale = float(np.abs(finite).max()) if finite.size else 1.0
    np.testing.assert_allclose(wide_got, wide_want, rtol=terms * eps, atol=eps * scale * np.sqrt(terms))


def check(
    nodes: NodeProto | Sequence[NodeProto],
    inputs: Arrays,
    weights: Arrays | None = None,
    *,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    terms: int = 32,
    expected: Sequence[np.ndarray] | None = None,
) -> ImportedModel:
    """Compare the imported model with what it should give (ONNX Runtime's results unless told); returns it."""
    nodes = [nodes] if isinstance(nodes, NodeProto) else list(nodes)
    wanted = list(expected) if expected is not None else expected_outputs(nodes, inputs, outputs, weights or {}, opset)
    proto = model(nodes, inputs, dict(zip(outputs, map(np.asarray, wanted), strict=True)), weights, opset=opset)
    imported, inputs = import_for(proto, inputs)
    got = run_imported(imported, inputs)
    for name, want in zip(outputs, wanted, strict=True):
        assert_close(got[name], want, terms)
    return imported


def import_for(proto: ModelProto, inputs: Arrays) -> tuple[ImportedModel, Arrays]:
    """The imported model and its inputs.

    Inputs are constants, as `stepwell.compile` has it, where their values are needed, or are no sizes as they are taken to be.
    """
    try:
        with assumptions() as assumed:
            imported = import_model(proto, context())
    except NeedsError as error:
        given = {name: inputs[name] for name in error.needs.values}
    else:
        named = [(name, sizes) for (name, _), sizes in zip(imported.inputs, imported.elements, strict=False)]
        pairs = [pair for name, sizes in named for pair in zip(sizes, np.ravel(inputs[name]), strict=False)]
        values = {str(size): int(number) for size, number in pairs if size is not None}
        of_elements = [assumption for assumption in assumed if assumption.symbols and assumption.symbols <= values.keys()]
        if min(values.values(), default=0) >= 0 and all(assumption.holds(values) for assumption in of_elements):
            return imported, inputs
        given = {name: inputs[name] for name, sizes in named if any(size is not None for size in sizes)}
    return import_model(proto, context(), constants=given), {name: array for name, array in inputs.items() if name not in given}


def node(op: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> NodeProto:
    """A node called after its operator."""
    return helper.make_node(op, list(inputs), list(outputs), name=attributes.pop("name", f"the_{op.lower()}"), **attributes)


def ops(imported: ImportedModel) -> list[str]:
    """The mnemonics of the ops of @main in order, the return left out."""
    body = imported.module.body.operations[0].regions[0].blocks[0]
    return [op.operation.name.removeprefix("graph.") for op in body.operations][:-1]


def without_rules(patch: pytest.MonkeyPatch, *operators: str) -> None:
    """Have these operators of ONNX be unsupported, so that tests of messages need none that is so for good."""
    for operator in operators:
        patch.delitem(registry._rules, ("", operator))


def check_native(
    nodes: NodeProto | Sequence[NodeProto],
    inputs: Arrays,
    weights: Arrays | None = None,
    *,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    terms: int = 32,
    expected: Sequence[np.ndarray] | None = None,
) -> None:
    """As `check`, with the model compiled; also with all inputs but the first as constants. Within `natively_together` it is at the test's end."""
    nodes = [nodes] if isinstance(nodes, NodeProto) else list(nodes)
    wanted = list(expected) if expected is not None else expected_outputs(nodes, inputs, outputs, weights or {}, opset)
    kept = dict(list(inputs.items())[:1])
    ways = [(inputs, dict(weights or {}))]
    if len(inputs) > 1:
        ways.append((kept, {**(weights or {}), **{name: array for name, array in inputs.items() if name not in kept}}))
    for given, constants in ways:
        results = dict(zip(outputs, map(np.asarray, wanted), strict=True))

        def judge(got: Arrays, results: Arrays = results) -> None:
            for name, want in results.items():
                assert_close(got[name], want, terms)

        native_checks.check(native_checks.Check("-".join(running), model(nodes, given, results, constants, opset=opset), given, judge))
