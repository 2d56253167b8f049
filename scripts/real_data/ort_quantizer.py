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
    """How ranges are found, whether each filter has its own scale, and what is quantised."""

    method: CalibrationMethod
    per_channel: bool
    op_types: tuple[str, ...] | None
    """The operators that are quantised; None for all that it can."""


SETTINGS = {
    f"{name}, per {'channel' if per_channel else 'tensor'}{only}": Setting(method, per_channel, op_types)
    for only, op_types in (("", None), (", products only", ("Conv", "MatMul", "Gemm")))
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
            onnx.save(_with_flat_biases(onnx.load(prepared)), prepared)
            quantize_static(
                str(prepared), str(made), _Reader(trial.calibration), quant_format=QuantFormat.QDQ, per_channel=setting.per_channel,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=setting.method,
                op_types_to_quantize=setting.op_types,
            )  # fmt: skip
        return onnx.load(made)


def _of_opset(model: onnx.ModelProto, least: int) -> onnx.ModelProto:
    found = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return model if found >= least else version_converter.convert_version(model, least)


def _with_flat_biases(model: onnx.ModelProto) -> onnx.ModelProto:
    """The biases [1, n] of Gemm, which its preprocessing makes of additions, as [n]: its quantiser fails with the others. Changes the model."""
    biases = {node.input[2] for node in model.graph.node if node.op_type == "Gemm" and len(node.input) > 2}
    for tensor in model.graph.initializer:
        if tensor.name in biases and len(tensor.dims) == 2 and tensor.dims[0] == 1:
            del tensor.dims[0]
    return model


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: Sequence[Feed]) -> None:
        self.left: Iterator[Feed] = iter(samples)

    def get_next(self) -> Feed | None:
        return next(self.left, None)


@contextmanager
def _silent() -> Iterator[None]:
    """Silences the quantiser, which prints each tensor's range, and warns of every vector that it leaves unchanged."""
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logging.getLogger().setLevel(level)


QUANTIZER = Quantizer(SETTINGS, _quantised)
