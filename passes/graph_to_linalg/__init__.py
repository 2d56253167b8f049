"""Lowering from graph to linalg: lowerings by op family, and the packing of weights into one arena."""

from stepwell.passes.graph_to_linalg import (
    attention,
    blocked,
    check_lowerable,
    contraction,
    convert_graph_to_linalg,
    data_sizes,
    dynamic_shape,
    elementwise,
    few_bits,
    indexing,
    linear_algebra,
    normalization,
    ordering,
    pack_weights,
    pooling,
    quantized_recurrence,
    random_bits,
    recurrence,
    reduction,
    resize,
    sampling,
    shape,
    text,
    top_k,
    trees,
    winograd,
)
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering

__all__ = [
    "LinalgBuilder", "Operands", "attention", "blocked", "check_lowerable", "contraction", "convert_graph_to_linalg", "data_sizes",
    "dynamic_shape", "elementwise", "few_bits", "indexing", "linear_algebra", "lowering", "normalization", "ordering", "pack_weights",
    "pooling", "quantized_recurrence", "random_bits", "recurrence", "reduction", "resize", "sampling", "shape", "text", "top_k", "trees", "winograd",
]  # fmt: skip
