"""Stepwell's own quantiser in its settings."""

from dataclasses import replace

import numpy as np
import onnx

from real_data.quantizer import Quantizer
from real_data.trial import Trial
from stepwell.quantizer import QuantizeOptions, quantize
from stepwell.quantizer.options import PRODUCTS

__all__ = ["QUANTIZER"]

METHODS = ("minmax", "percentile", "entropy", "mse")
_BY_METHOD = {method: QuantizeOptions(method=method) for method in METHODS}
SETTINGS = {
    **{f"{method}, per channel": options for method, options in _BY_METHOD.items()},
    **{f"{method}, per tensor": replace(options, per_channel=False) for method, options in _BY_METHOD.items()},
    **{f"{method}, per channel, products only": replace(options, op_types=frozenset(PRODUCTS)) for method, options in _BY_METHOD.items()},
    **{f"{method}, per channel, equalised": replace(options, equalize=True) for method, options in _BY_METHOD.items()},
    **{f"{method}, per channel, biases corrected": replace(options, correct_bias=True) for method, options in _BY_METHOD.items()},
}


def _quantised(trial: Trial, options: QuantizeOptions) -> onnx.ModelProto:
    data = {name: np.concatenate([sample[name] for sample in trial.calibration]) for name in trial.calibration[0]}
    return quantize(trial.model, data, options, threads=1).model


QUANTIZER = Quantizer(SETTINGS, _quantised)
