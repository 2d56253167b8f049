"""Rules for operators that select elements by value: Unique and NonMaxSuppression."""

from typing import cast as typed

import numpy as np

from stepwell.dialects.core.types import TensorType, type_of
from stepwell.dialects.graph import UniqueOp
from stepwell.dialects.support.errors import UnsupportedError
from stepwell.frontends.builder import Value, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule


@onnx_rule("Unique", since=11)
def unique(b: ImportBuilder, x: Value, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    if axis is None:
        x, axis = b.reshape(x, shape=(-1,)), 0
    axis = normalized_axis(axis, type_of(x).rank)
    if type_of(x).shape[axis] == 1:  # a single slice is distinct
        return x, *(b.literal(np.array([number])) for number in (0, 0, 1))
    types = typed(tuple[TensorType, ...], UniqueOp.infer(type_of(x), axis=axis, sorted=bool(sorted)))
    count = types[1].shape[0]
    if count is None and b.constant_value(x) is None:
        count = b.symbols.fresh(f"{b.node.output_names[0]}_{axis}")
        types = tuple(kind.with_shape([count if size is None else size for size in kind.shape]) for kind in types)
        return typed(tuple[Value, ...], b.unique(x, axis=axis, sorted=bool(sorted), result_types=list(types)))
    return typed(tuple[Value, ...], b.unique(x, axis=axis, sorted=bool(sorted)))


@onnx_rule("NonMaxSuppression", since=10)
def non_max_suppression(
    b: ImportBuilder,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    if center_point_box not in (0, 1):
        raise UnsupportedError(f"center_point_box={center_point_box} is not supported; supported: 0, 1")
    most = b.literal(np.array(0, np.int64)) if max_output_boxes_per_class is None else b.with_shape(max_output_boxes_per_class, ())
    overlap = b.scalar(0, like=boxes) if iou_threshold is None else b.with_shape(iou_threshold, ())
    least = b.scalar(-np.inf, like=boxes) if score_threshold is None else b.with_shape(score_threshold, ())
    return b.non_max_suppression(boxes, scores, most, overlap, least, centred=bool(center_point_box))
