"""The quantiser: converts a float network to an integer one in ONNX's Q/DQ format, with value ranges measured by our own compiled model.

`quantize(model, data)` does everything; each step has a file: `prepare`, `equalize`, `plan` (where to quantise), `calibration` (runs), `ranges`,
`insert` (writes), `correct_bias`. `compare` reports the loss, layer by layer (`quality`, `report`); `quantized_within` keeps to a budget of accuracy.
`quantize_weights(model)` leaves activations in floats, and stores weights in 4 or 8 bits.
"""

from typing import TYPE_CHECKING

from stepwell.dialects.support.exports import names_on_use

if TYPE_CHECKING:
    from stepwell.quantizer.insert import Quantized as Quantized
    from stepwell.quantizer.network import Calibrated as Calibrated, quantize as quantize
    from stepwell.quantizer.options import QuantizeOptions as QuantizeOptions
    from stepwell.quantizer.quality import Quality as Quality, compare as compare
    from stepwell.quantizer.report import save_html as save_html
    from stepwell.quantizer.samples import Samples as Samples
    from stepwell.quantizer.scores import accuracy as accuracy, quantized_within as quantized_within
    from stepwell.quantizer.weights_only import quantize_weights as quantize_weights
else:
    # The help of `stepwell quantize` imports the options of this package: what it does not use (onnx above all) is not loaded.
    __getattr__, __dir__, __all__ = names_on_use(__name__)
