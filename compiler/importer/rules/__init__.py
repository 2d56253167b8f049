"""The importer's rules by family; importing this registers all of them."""

from stepwell.importer.rules import (
    activations,
    attention,
    constants,
    contractions,
    control,
    convolutions,
    elementwise,
    indexing,
    layout,
    normalizations,
    opset6,
    pooling,
    reductions,
    resampling,
    sampling,
    signals,
)

__all__ = [
    "activations",
    "attention",
    "constants",
    "contractions",
    "control",
    "convolutions",
    "elementwise",
    "indexing",
    "layout",
    "normalizations",
    "opset6",
    "pooling",
    "reductions",
    "resampling",
    "sampling",
    "signals",
]
