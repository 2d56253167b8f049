"""Stepwell's own quantiser in its settings."""

from dataclasses import dataclass, replace

import numpy as np
import onnx

from real_data.quantizer import Quantizer
from real_data.trial import Trial
from stepwell.quantizer import Calibrated, QuantizeOptions, quantized_within
from stepwell.quantizer.options import PRODUCTS

__all__ = ["QUANTIZER"]

METHODS = ("minmax", "percentile", "entropy", "mse")
BUDGET = 1.0  # points of agreement with the floats, on the samples that calibrate


@dataclass(frozen=True)
class _Setting:
    options: QuantizeOptions
    budget: float | None = None
    """Layers stay in floats until no more agreement is lost; None keeps all in integers."""


_BY_METHOD = {method: QuantizeOptions(method=method) for method in METHODS}
SETTINGS = {
    **{f"{method}, per channel": _Setting(options) for method, options in _BY_METHOD.items()},
    **{f"{method}, per tensor": _Setting(replace(options, per_channel=False)) for method, options in _BY_METHOD.items()},
    **{f"{method}, per channel, products only": _Setting(replace(options, op_types=frozenset(PRODUCTS))) for method, options in _BY_METHOD.items()},
    **{f"{method}, per channel, equalised": _Setting(replace(options, equalize=True)) for method, options in _BY_METHOD.items()},
    **{f"{method}, per channel, biases corrected": _Setting(replace(options, correct_bias=True)) for method, options in _BY_METHOD.items()},
    **{f"{method}, per channel, within a budget": _Setting(options, BUDGET) for method, options in _BY_METHOD.items()},
}


def _quantised(trial: Trial, setting: _Setting) -> onnx.ModelProto:
    data = {name: np.concatenate([sample[name] for sample in trial.calibration]) for name in trial.calibration[0]}
    source = Calibrated(trial.model, data, setting.options, threads=1)
    network = source.quantized() if setting.budget is None else quantized_within(source, setting.budget, threads=1).network
    return network.model


QUANTIZER = Quantizer(SETTINGS, _quantised)
