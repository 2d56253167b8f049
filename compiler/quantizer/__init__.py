"""The quantiser: writes a network of floats as one of integers, in ONNX's Q/DQ format, with ranges of values that our own compiled model saw.

`quantize(model, data)` does it all; each step has a file: `prepare`, `equalize`, `plan` (where), `calibration` (runs), `ranges`, `insert` (writes),
`correct_bias`. `compare` tells what it costs, layer by layer (`quality`, `report`); `quantized_within` keeps to a budget of accuracy.
`quantize_weights(model)` leaves activations in floats, and stores weights in 4 or 8 bits.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.quantizer.network import Calibrated, Quantized, quantize
    from stepwell.quantizer.options import QuantizeOptions
    from stepwell.quantizer.quality import Quality, compare
    from stepwell.quantizer.report import save_html
    from stepwell.quantizer.samples import Samples
    from stepwell.quantizer.scores import accuracy, quantized_within
    from stepwell.quantizer.weights_only import quantize_weights

__all__ = [
    "Calibrated", "Quality", "QuantizeOptions", "Quantized", "Samples", "accuracy", "compare", "quantize", "quantize_weights",
    "quantized_within", "save_html",
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("Calibrated", "Quantized", "quantize"), "network"), "QuantizeOptions": "options",
    **dict.fromkeys(("Quality", "compare"), "quality"), "save_html": "report", "Samples": "samples",
    **dict.fromkeys(("accuracy", "quantized_within"), "scores"), "quantize_weights": "weights_only",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # The help of `stepwell quantize` imports the options of this package: what it does not use (onnx above all) is not loaded.
    if name not in _LAZY:
        raise AttributeError(f"module 'stepwell.quantizer' has no attribute '{name}'")
    return getattr(import_module(f"stepwell.quantizer.{_LAZY[name]}"), name)
