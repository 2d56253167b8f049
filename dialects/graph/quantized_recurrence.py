"""LSTM layers with quantised weights, whose state is quantised again in each step: ONNX Runtime's DynamicQuantizeLSTM."""

from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.base import Operand, OptionalOperand, Pure, Result
from stepwell.dialects.graph.inference import expect_dtype, expect_rank
from stepwell.dialects.graph.quantization import QuantizeOp
from stepwell.dialects.graph.recurrence import Function, RecurrentOp, lstm_step, recurrence
from stepwell.dialects.support.errors import InferenceError

Array = np.ndarray


class QuantizedLstmOp(RecurrentOp, name="quantized_lstm", traits=[Pure]):
    """An `lstm` whose state is quantised and multiplied by its weights as integers.

    In each step, the state h of the whole batch (including sequences that have ended) is quantised to ui8 with one scale s and one zero point z, as
    in ONNX's DynamicQuantizeLinear: its range, extended to include 0, is mapped to that of ui8. With q for the quantised state, h r is (q weights - z
    * sums) * (s * scales), with the integers in i32 and the rest in f32. `weights` are integers without a zero point, and `sums` (directions, gates,
    hidden) are the sums of their columns, one for each unit of a gate. `scales` has the same shape. `weights` (directions, gates, panels, groups,
    width, depth) have the layout of `lstm`, but with each `depth` adjacent elements of a column side by side. The last group is padded with zeros.
    """

    gates = 4
    functions = 3

    projected: Operand
    weights: Operand
    scales: Operand
    sums: Operand
    lengths: OptionalOperand
    initial_h: OptionalOperand
    initial_c: OptionalOperand
    peepholes: OptionalOperand
    last_c: Result
    input_forget: ir.BoolAttr

    @classmethod
    def hidden_size(cls, projected: TensorType, weights: TensorType) -> Dim:
        expect_dtype("projected", projected, ("f32",))
        expect_dtype("weights", weights, ("i8", "i16"))
        expect_rank("weights", weights, 6)
        expect_rank("projected", projected, 3)
        columns, directions, groups, depth = projected.shape[2], weights.shape[0], weights.shape[3], weights.shape[5]
        if not isinstance(columns, int) or not isinstance(directions, int) or not directions:
            return None
        hidden = columns // (directions * cls.gates)
        if isinstance(groups, int) and isinstance(depth, int) and not hidden <= groups * depth < hidden + max(depth, 1):
            raise InferenceError(f"operand 'weights' ({weights}) must have groups for the {hidden} units of operand 'projected' ({projected})")
        return hidden

    @classmethod
    def matrices(cls, weights: Array, hidden: int) -> Array:
        directions, gates, panels, groups, width, depth = weights.shape
        # (directions, gates, panels, groups, width, depth) -> (directions, gates, groups * depth, panels * width)
        rows = weights.transpose(0, 1, 3, 5, 2, 4).reshape(directions, gates, groups * depth, panels * width)
        return rows[..., :hidden, :hidden].astype(np.int64)

    @staticmethod
    def reference(
        projected: Array,
        weights: Array,
        scales: Array,
        sums: Array,
        lengths: Array | None,
        initial_h: Array | None,
        initial_c: Array | None,
        peepholes: Array | None,
        *,
        input_forget: bool,
        **attributes: Any,
    ) -> tuple[Array, ...]:
        def step(x: Array, r: Array, states: list[Array], functions: list[Function], direction: int) -> list[Array]:
            numbers, scale, zero = dynamically_quantized(states[0])
            products = np.stack([numbers.astype(np.int64) @ r[gate] for gate in range(4)], axis=1)
            whole = (products - zero.astype(np.int64) * sums[direction]).astype(np.int32)  # wraps on overflow
            totals = x + whole.astype(np.float32) * (scale * scales[direction])
            holes = None if peepholes is None else peepholes[direction]
            return lstm_step([totals[:, gate] for gate in range(4)], states[1], holes, functions, input_forget, attributes["clip"])

        return recurrence(QuantizedLstmOp, projected, weights, lengths, [initial_h, initial_c], step, **attributes)


def dynamically_quantized(x: Array) -> tuple[Array, Array, Array]:
    """Quantise floats in f32 to ui8, with their scale and zero point: ONNX's DynamicQuantizeLinear. The scale is 1 if all are 0."""
    low, high = x.min(initial=0), x.max(initial=0)
    scale = np.asarray(1 if low == high else (high - low) / np.float32(255), np.float32)
    zero = QuantizeOp.reference(np.asarray(-low), scale, np.zeros((), np.uint8))
    return QuantizeOp.reference(x, scale, zero), scale, zero
