"""The quantiser: writes a network of floats as one of integers, in ONNX's Q/DQ format, with ranges of values that our own compiled model saw.

`quantize(model, data)` does it all; each step has a file: `prepare`, `plan` (where), `calibration` (runs), `ranges`, `insert` (writes).
`quantize_weights(model)` leaves activations in floats, and stores weights in 4 or 8 bits.
"""

from stepwell.quantizer.network import Quantized, quantize
from stepwell.quantizer.options import QuantizeOptions
from stepwell.quantizer.samples import Samples
from stepwell.quantizer.weights_only import quantize_weights

__all__ = ["QuantizeOptions", "Quantized", "Samples", "quantize", "quantize_weights"]
