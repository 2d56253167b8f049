"""The cases of ONNX's backend suite: models, inputs, expected outputs, tolerances; and which of them are about dense numeric tensors.

The light networks, which the suite calls "real", have their own test in test_networks.py.
"""

import fcntl
import functools
import hashlib
import os
import pickle
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, OptionalProto, SequenceProto, TensorProto, TypeProto, numpy_helper, shape_inference
from onnx.backend.test import loader

BUILD = Path(__file__).resolve().parents[3] / "build"
FOLDERS = ("simple", "pytorch-converted", "pytorch-operator")
DTYPES = frozenset(
    TensorProto.DataType.Value(name)
    for name in ["BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE"]
)
FOREIGN_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")
# The expected values are what one random generator gave.
RANDOM = re.compile(r"test_bernoulli|test_training_dropout(?!.*zero_ratio)")


Value: TypeAlias = "np.ndarray | list[np.ndarray] | None"
"""A tensor, a sequence, or an optional that holds nothing."""


@dataclass(frozen=True)
class Case:
    """One model with one set of inputs; `op` is the operator that it tests, or the folder of the suite for whole models."""

    name: str
    op: str
    model: bytes
    inputs: tuple[Value, ...]
    expected: tuple[Value, ...]
    rtol: float
    atol: float


@functools.cache
def cases() -> list[Case]:
    """All cases of numeric tensors, sequences and optionals, by name. Making them takes half a minute, so they stay in build/."""
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    stored = BUILD / f"onnx-suite-{onnx.__version__}-{code}.pickle"
    BUILD.mkdir(exist_ok=True)
    with open(stored.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one makes the file, and the others wait for it
        if not stored.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = sorted(_numeric(_operator_cases()), key=lambda case: case.name) + sorted(_numeric(_folder_cases()), key=lambda case: case.name)
            partial = stored.with_suffix(f".{os.getpid()}.tmp")
            partial.write_bytes(pickle.dumps(made))
            partial.replace(stored)
    found: list[Case] = pickle.loads(stored.read_bytes())
    return found


@functools.cache
def by_operator() -> dict[str, list[Case]]:
    """The cases of each operator or folder."""
    groups: dict[str, list[Case]] = {}
    for case in cases():
        groups.setdefault(case.op, []).append(case)
    return dict(sorted(groups.items()))


Raw = tuple[str, str, ModelProto, list[Any], list[Any], float, float]


def _operator_cases() -> Iterator[Raw]:
    tests: list[Any] = loader.load_model_tests(kind="node")
    # In `test_x_expanded` and `test_x_expanded_ver18` the operator of `test_x` is replaced by its definition.
    ops = {test.name: test.model.graph.node[0].op_type for test in tests}
    for test in tests:
        op = ops[re.sub(r"_expanded(_ver\d+)?$", "", test.name)]
        for number, (inputs, outputs) in enumerate(test.data_sets):
            yield f"{test.name}{f'#{number}' * (number > 0)}", op, test.model, list(inputs), list(outputs), test.rtol, test.atol


def _folder_cases() -> Iterator[Raw]:
    for kind in FOLDERS:
        tests: list[Any] = loader.load_model_tests(kind=kind)
        for test in tests:
            folder = Path(test.model_dir)
            model = onnx.load(folder / "model.onnx")
            initialized = {tensor.name for tensor in model.graph.initializer}
            sides = {"input": [value for value in model.graph.input if value.name not in initialized], "output": list(model.graph.output)}
            for number, data in enumerate(sorted(folder.glob("test_data_set_*"))):
                inputs, outputs = (
                    [_stored(data / f"{side}_{i}.pb", value.type) for i, value in enumerate(values)] for side, values in sides.items()
                )
                yield f"{test.name}{f'#{number}' * (number > 0)}", kind, model, inputs, outputs, test.rtol, test.atol


def _stored(path: Path, kind: TypeProto) -> Any:
    """The value of that type in a file of the suite."""
    readers: dict[str, tuple[Any, Any]] = {
        "tensor_type": (TensorProto, numpy_helper.to_array), "sequence_type": (SequenceProto, numpy_helper.to_list),
        "optional_type": (OptionalProto, numpy_helper.to_optional),
    }  # fmt: skip
    message, convert = readers[kind.WhichOneof("value")]
    return convert(message.FromString(path.read_bytes()))


def _numeric(raw: Iterator[Raw]) -> Iterator[Case]:
    for name, op, model, inputs, expected, rtol, atol in raw:
        if why_left_out(name, model) == "":
            yield Case(name, op, model.SerializeToString(), tuple(map(_value, inputs)), tuple(map(_value, expected)), rtol, atol)


def _value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_value(element) for element in value]
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return None if value is None else np.asarray(value)


def arrays_in(values: Iterable[Value]) -> list[np.ndarray]:
    """The tensors of which values consist."""
    return [array for value in values if value is not None for array in (value if isinstance(value, list) else [value])]


def why_left_out(name: str, model: ModelProto) -> str:
    """Why a case is not about dense numeric tensors, and sequences and optionals of such, whose values follow from the inputs; empty if it is."""
    every = list(graphs(model.graph))
    nodes = [node for graph in every for node in graph.node]
    foreign = {node.domain for node in nodes} & {*FOREIGN_DOMAINS}
    if foreign:
        return f"domain {min(foreign)}"
    if RANDOM.match(name):
        return "random values"
    if any(node.op_type == "ImageDecoder" for node in nodes):
        return "image files"
    dtypes = {attribute.t.data_type for node in nodes for attribute in node.attribute if attribute.type == AttributeProto.TENSOR}
    for graph in graphs(shape_inference.infer_shapes(model).graph):
        dtypes |= {tensor.data_type for tensor in graph.initializer}
        for value in [*graph.input, *graph.output, *graph.value_info]:
            kind = value.type
            while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
                kind = getattr(kind, kind.WhichOneof("value")).elem_type
            dtypes.add(kind.tensor_type.elem_type)
    dtypes -= DTYPES | {TensorProto.UNDEFINED}
    return f"element type {TensorProto.DataType.Name(min(dtypes)).lower()}" if dtypes else ""


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                yield from graphs(inner)
