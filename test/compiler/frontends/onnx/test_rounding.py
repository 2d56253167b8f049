"""Operators on f16 and bf16 round once: where one is imported as several ops, none but the last has a narrow float that it rounded."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from covering import every_by_day
from every import every
from importing import check_native, context, model, node
from native_checks import natively_together
from onnx import ModelProto
from random_graphs.singles import Combination, Singles, case_of, combinations, drawn

from stepwell.dialects.core.mlir import defining_op, ir, ops_below
from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.traits import MovesData
from stepwell.frontends.onnx import import_model

NARROW = ("f16", "bf16")
EXACT = (
    "abs",
    "neg",
    "sign",
    "maximum",
    "minimum",
    "relu",
    "clamp",
    "select",
    "floor",
    "ceil",
    "round",
    "max_pool",
    "reduce_max",
    "reduce_min",
    "concat",
)
# Its quotient is of the type of the scale, by definition (docs/numerics.md).
ON_PURPOSE = ("QuantizeLinear",)
HALF = np.float16


def rounded_twice(proto: ModelProto) -> list[str]:
    """The pairs of ops of a model of one node of which the second computes with what the first rounded to a narrow float."""
    imported = import_model(proto, context())
    found = []
    for op in ops_below(imported.module.operation):
        name = mnemonic(op)
        if not name or moves(op) or name in ("cast", "concat", "select", *EXACT):
            continue
        for value in op.operands:
            made = source(value)
            if type_of(value).dtype in NARROW and made is not None and rounds(made):
                found.append(f"{mnemonic(made)} -> {name}")
    return found


def mnemonic(op: ir.Operation) -> str:
    return op.name.removeprefix("graph.") if isinstance(op.opview, GraphOp) else ""


def rounds(op: ir.Operation) -> bool:
    """Whether an op rounds its result: it computes, or casts a wider float."""
    name = mnemonic(op)
    if name == "cast":
        return type_of(op.operands[0]).dtype in ("f32", "f64")
    return name not in ("", "constant", "parameter", *EXACT)


def moves(op: ir.Operation) -> bool:
    return isinstance(op.opview, GraphOp) and bool(op.opview.has_trait(MovesData))


def source(value: ir.Value) -> ir.Operation | None:
    """The op that computes a value, which others may have moved."""
    while (op := defining_op(value)) is not None and moves(op):
        value = op.operands[0]
    return op


NEWEST = {(c.op, c.dtype): c for c in sorted(combinations()) if c.dtype in NARROW}
ALL = [c for c in combinations() if c.dtype in NARROW and c.op not in ON_PURPOSE]


@pytest.mark.filterwarnings("ignore::stepwell.ModelWarning")
@every_by_day("combination", ALL, lambda c: NEWEST[c.op, c.dtype] == c, ids=str)
def test_operators_round_once(combination: Combination) -> None:
    for seed in range(2):
        net = Singles(seed)
        net.opset = combination.opset
        if drawn(combination, seed, net) is None:
            assert rounded_twice(onnx.load_from_string(case_of(net, net.nodes[0], net.made[0]).model)) == []


def matrix(*shape: int) -> np.ndarray:
    return np.ones(shape, HALF)


MICROSOFT: list[tuple[str, list[np.ndarray], dict[str, Any]]] = [
    ("FusedMatMul", [matrix(3, 4), matrix(4, 5)], {"alpha": 0.5}),
    ("FusedGemm", [matrix(3, 4), matrix(4, 5), matrix(5)], {"alpha": 0.5, "activation": "HardSigmoid"}),
    ("FusedConv", [matrix(1, 2, 5, 5), matrix(3, 2, 3, 3), matrix(3), matrix(1, 3, 3, 3)], {"activation": "Sigmoid"}),
    ("Gelu", [matrix(3, 4)], {}), ("BiasGelu", [matrix(3, 4), matrix(4)], {}), ("FastGelu", [matrix(3, 4), matrix(4)], {}),
    ("QuickGelu", [matrix(3, 4)], {}), ("BiasSoftmax", [matrix(3, 4), matrix(1, 4)], {"is_inner_broadcast": 1}),
    ("SkipLayerNormalization", [matrix(1, 3, 4), matrix(1, 3, 4), matrix(4), matrix(4), matrix(4)], {}),
    ("SkipSimplifiedLayerNormalization", [matrix(1, 3, 4), matrix(1, 3, 4), matrix(4)], {}),
    ("SimplifiedLayerNormalization", [matrix(3, 4), matrix(4)], {}),
    ("RotaryEmbedding", [matrix(1, 2, 8), np.arange(2)[None], matrix(4, 4), matrix(4, 4)], {}),
]  # fmt: skip


@every(("op", "operands", "attributes"), MICROSOFT, ids=[case[0] for case in MICROSOFT])
def test_fused_operators_round_once(op: str, operands: Sequence[np.ndarray], attributes: dict[str, Any]) -> None:
    names = [f"x{i}" for i in range(len(operands))]
    one = node(op, names, domain="com.microsoft", **attributes)
    proto = model([one], dict(zip(names, operands, strict=True)), {"y": operands[0]})
    assert rounded_twice(proto) == []


def test_a_pair_is_seen() -> None:
    """Two nodes, of which each rounds."""
    nodes = [node("Exp", ["x"], ["e"]), node("Tanh", ["e"], ["y"])]
    for dtype in (HALF, ml_dtypes.bfloat16):
        assert rounded_twice(model(nodes, {"x": np.ones(3, dtype)}, {"y": np.ones(3, dtype)})) == ["exp -> tanh"]


def in_double(op: str, x: np.ndarray) -> np.ndarray:
    """What an operator along the last dimension gives, in f64."""
    wide, mean = x.astype(np.float64), x.astype(np.float64).mean(-1, keepdims=True)
    squares = (wide**2).sum(-1, keepdims=True)
    return {
        "ReduceMean": lambda: mean, "ReduceL2": lambda: np.sqrt(squares), "ReduceLogSum": lambda: np.log(wide.sum(-1, keepdims=True)),
        "LpNormalization": lambda: wide / np.sqrt(squares), "GlobalAveragePool": lambda: mean, "GlobalLpPool": lambda: np.sqrt(squares),
        "InstanceNormalization": lambda: (wide - mean) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5),
        "MeanVarianceNormalization": lambda: (wide - mean) / (wide.std(-1, keepdims=True) + 1e-9), "Mean": lambda: wide,
    }[op]()  # fmt: skip


NEAR_THE_END = {
    "ReduceMean": {"keepdims": 1}, "ReduceL2": {"keepdims": 1}, "ReduceLogSum": {"keepdims": 1}, "LpNormalization": {"axis": -1, "p": 2},
    "GlobalAveragePool": {}, "GlobalLpPool": {"p": 2}, "InstanceNormalization": {}, "MeanVarianceNormalization": {"axes": [2]}, "Mean": {},
}  # fmt: skip


@natively_together
@every("constant", [False, True])
@every("op", list(NEAR_THE_END))
def test_sums_do_not_overflow_where_results_do_not(op: str, constant: bool) -> None:
    """Numbers of one sign up to 40000, of which f16 has neither the sums nor the squares; computed by a run and by the compiler."""
    x = np.random.default_rng(len(op)).uniform(10, 40000, (1, 2, 200)).astype(HALF)
    if op in ("ReduceL2", "GlobalLpPool"):
        x = (x / HALF(16)).astype(HALF)
    along = ["x", "axis"]
    inputs = {"ReduceMean": along, "ReduceL2": along, "ReduceLogSum": along, "InstanceNormalization": ["x", "one", "zero"], "Mean": ["x"] * 3}
    weights = {"axis": np.array([-1]), "one": np.ones(2, HALF), "zero": np.zeros(2, HALF)}
    used = {name: array for name, array in weights.items() if name in inputs.get(op, ())}
    nodes = [node(op, inputs.get(op, ["x"]), **NEAR_THE_END[op])]
    given: dict[str, np.ndarray] = {"x": x}
    if constant:
        used, given, nodes = used | given, {"z": np.ones(1, HALF)}, [*nodes, node("Identity", ["z"], ["w"])]
    check_native(nodes, given, used, opset=18, terms=2, expected=[in_double(op, x).astype(HALF)], outputs=["y"])


@natively_together
@every("scale", [0.01, 1, 200, 5000, 20000])
def test_a_norm_of_several_nodes(scale: float) -> None:
    """The squares of x, their mean and its root are nodes, each of which rounds; between them f32 holds what f16 would not."""
    x = (np.random.default_rng(3).uniform(0.5, 3, (4, 200)) * scale).astype(HALF)
    nodes = [
        node("Mul", ["x", "x"], ["s"]), node("ReduceMean", ["s", "axis"], ["m"]), node("Add", ["m", "eps"], ["e"]), node("Sqrt", ["e"], ["r"]),
        node("Div", ["x", "r"], ["y"]),
    ]  # fmt: skip
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + float(HALF(1e-3)))
    check_native(nodes, {"x": x}, {"axis": np.array([-1]), "eps": np.array(1e-3, HALF)}, opset=18, terms=2, expected=[want.astype(HALF)])
