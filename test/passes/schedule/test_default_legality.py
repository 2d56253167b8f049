"""Default schedules are legal, for windows, strides, dilations and sizes that no network has, on every kind of target."""

from typing import Any

import numpy as np
import onnx
import pytest
from covering import by_day
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.core.mlir import ops_below
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.nest import Nest

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
BYTES = (TensorProto.INT8, TensorProto.UINT8)
TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4-vnni", "aarch64-neon")


class Drawn:
    """A model of nodes that have nothing to do with each other; sizes, windows and types are drawn."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []

    def one(self, *values: Any) -> Any:
        return values[self.random.integers(len(values))]

    def several(self, count: int, *values: int) -> list[int]:
        return [int(self.one(*values)) for _ in range(count)]

    def operand(self, kind: int, shape: list[int], constant: bool = False) -> str:
        name = f"v{len(self.inputs) + len(self.weights)}"
        if constant:
            self.weights.append(numpy_helper.from_array(np.ones(shape, helper.tensor_dtype_to_np_dtype(kind)), name))
        else:
            self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def node(self, op: str, inputs: list[str], **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, [f"y{len(self.nodes)}"], **attributes))

    def pooling(self) -> None:
        op, rank = self.one("MaxPool", "AveragePool", "LpPool"), self.one(1, 2, 2, 3)
        kernel, dilations = self.several(rank, 1, 2, 3, 5), self.several(rank, 1, 1, 2, 3)
        drawn = self.several(rank, 7, 64, 112) if rank < 3 else self.several(rank, 5, 12)
        sizes = [max(size, (k - 1) * d + 1) for size, k, d in zip(drawn, kernel, dilations, strict=True)]
        shape = [self.one(1, 3), self.one(1, 7, 64), *sizes]
        around = [self.one(0, *([1] if k > 1 else [])) for k in kernel]
        self.node(
            op, [self.operand(self.one(*FLOATS, *(BYTES if op == "MaxPool" else ())), shape)], kernel_shape=kernel, dilations=dilations,
            strides=self.several(rank, 1, 2, 5, 7), pads=around + around,
        )  # fmt: skip

    def convolution(self) -> None:
        rank, group = self.one(1, 2), self.one(1, 1, 5)
        channels, filters = group * self.one(1, 3, 16), group * self.one(1, 8, 21)
        kernel, dilations = self.several(rank, 1, 2, 3, 5), self.several(rank, 1, 2, 3)
        sizes = [max(size, (k - 1) * d + 1) for size, k, d in zip(self.several(rank, 9, 33, 56), kernel, dilations, strict=True)]
        kind = self.one(*FLOATS)
        operands = [self.operand(kind, [self.one(1, 3), channels, *sizes]), self.operand(kind, [filters, channels // group, *kernel], constant=True)]
        self.node("Conv", operands, group=group, dilations=dilations, strides=self.several(rank, 1, 2, 5))

    def reduction(self) -> None:
        op = self.one("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "Softmax", "CumSum", "ArgMax")
        shape = self.several(self.one(1, 2, 3), 1, 2, 3, 17, 100, 2000)
        x = self.operand(self.one(*FLOATS), shape)
        if op in ("Softmax", "ArgMax"):
            self.node(op, [x], axis=int(self.random.integers(len(shape))))
        else:
            axis = np.array(self.random.integers(len(shape)), np.int64)
            self.weights.append(numpy_helper.from_array(axis if op == "CumSum" else axis.reshape(1), f"axis{len(self.weights)}"))
            self.node(op, [x, self.weights[-1].name])

    def product(self) -> None:
        kind, (rows, depth, columns) = self.one(*FLOATS, TensorProto.INT64), self.several(3, 1, 2, 5, 8, 33, 300)
        self.node("MatMul", [self.operand(kind, [rows, depth]), self.operand(kind, [depth, columns], constant=self.one(True, False))])

    def model(self, count: int) -> onnx.ModelProto:
        for _ in range(count):
            self.one(self.pooling, self.pooling, self.convolution, self.reduction, self.product)()
        outputs = [helper.make_empty_tensor_value_info(node.output[0]) for node in self.nodes]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize(("target", "seed"), by_day([(t, s) for s in range(8) for t in TARGETS], lambda case: TARGETS.index(case[0]) == case[1]))
@pytest.mark.filterwarnings("ignore:.*without a type")
def test_default_schedules_are_legal(target: str, seed: int) -> None:
    lowered = stepwell.lower(Drawn(seed).model(40), "scheduled", target=target)
    wrong, seen = [], 0
    with lowered.module.context:
        for op in ops_below(lowered.module.operation):
            if op.name.startswith("linalg.") and ScheduleInfo.nest.name in op.attributes:
                seen += 1
                try:
                    Nest.from_op(Structured(op), resolve(target))
                except ScheduleError as error:
                    wrong.append(str(error))
    assert wrong == []
    assert seen > 40
