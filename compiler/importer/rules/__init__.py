"""The importer's rules by family; importing this registers all of them."""

from stepwell.importer.rules import (
    activations,
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
    recurrence,
    reductions,
    resampling,
    sampling,
    signals,
)

__all__ = [
    "activations",
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
    "recurrence",
    "reductions",
    "resampling",
    "sampling",
    "signals",
]
