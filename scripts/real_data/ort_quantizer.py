"""ONNX Runtime's static quantiser in each of its settings that may matter: the one to compare with."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import onnx
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from real_data.quantizer import Quantizer
from real_data.trial import Feed, Trial

__all__ = ["QUANTIZER"]

OPSET = 13  # from which on scales may be one for each filter: ONNX Runtime writes invalid files of older models
METHODS = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile, "entropy": CalibrationMethod.Entropy}


@dataclass(frozen=True)
class Setting:
    """How ranges are found, and whether each filter has its own scale."""

    method: CalibrationMethod
    per_channel: bool


SETTINGS = {
    f"{name}, per {'channel' if per_channel else 'tensor'}": Setting(method, per_channel)
    for name, method in METHODS.items()
    for per_channel in (True, False)
}


def _quantised(trial: Trial, setting: Setting) -> onnx.ModelProto:
    """The trial's network in Q/DQ format, calibrated on its samples: activations in uint8, weights in int8."""
    with tempfile.TemporaryDirectory(prefix="stepwell-real-data-") as scratch:
        newer, prepared, made = (Path(scratch) / f"{name}.onnx" for name in ("newer", "prepared", "made"))
        onnx.save(_of_opset(trial.model, OPSET), newer)
        with _silent():
            quant_pre_process(str(newer), str(prepared), skip_symbolic_shape=True)
            quantize_static(
                str(prepared), str(made), _Reader(trial.calibration), quant_format=QuantFormat.QDQ, per_channel=setting.per_channel,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=setting.method,
            )  # fmt: skip
        return onnx.load(made)


def _of_opset(model: onnx.ModelProto, least: int) -> onnx.ModelProto:
    found = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return model if found >= least else version_converter.convert_version(model, least)


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: Sequence[Feed]) -> None:
        self.left: Iterator[Feed] = iter(samples)

    def get_next(self) -> Feed | None:
        return next(self.left, None)


@contextmanager
def _silent() -> Iterator[None]:
    """It prints each tensor's range, and warns of every vector that it leaves as it is."""
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logging.getLogger().setLevel(level)


QUANTIZER = Quantizer(SETTINGS, _quantised)
