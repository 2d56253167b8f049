"""Compare a model's outputs with those of ONNX Runtime, of the ops' references, or of the references in f64."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from stepwell.dialects.core.types import dtype_info, from_numpy, is_float
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.names import printable
from stepwell.signature import is_string, type_name

Arrays = Mapping[str, np.ndarray]
Source = str | os.PathLike[str] | bytes | onnx.ModelProto

# The largest error, relative to the output's largest magnitude, that counts as equal: rounding errors accumulated over a network. Integers and
# booleans must be equal.
TOLERANCES = {"f64": 1e-10, "f32": 1e-4, "f16": 2e-2, "bf16": 1e-1}


def tolerance_of(dtype: str) -> float:
    """The largest such error of a float type; where it is not listed, one step between neighbours, as types so coarse round to one or the other."""
    return TOLERANCES.get(dtype, dtype_info(dtype).eps)


@dataclass(frozen=True)
class OutputCheck:
    """The difference of an output from the expected one."""

    name: str
    max_abs: float
    """Largest |got - expected|; infinite if one is NaN or infinite and the other is not equal to it. For strings, the number that differ."""
    max_rel: float
    """Largest |got - expected| / |expected|, over elements whose expected value is not 0."""
    scale_rel: float
    """Largest |got - expected| over the largest |expected|, which decides the verdict."""
    tolerance: float
    """The largest allowed `scale_rel`; 0 for integers and booleans."""
    problem: str | None = None
    """A problem with the output as a whole (missing, its shape, its dtype)."""
    ulps: float | None = None
    """Largest |got - expected| in units in the last place of the output's type at |expected|; None unless compared with f64."""

    @property
    def ok(self) -> bool:
        """The verdict."""
        return self.problem is None and self.scale_rel <= self.tolerance

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.name}: {self.problem}: WRONG"
        errors = f"max abs error {self.max_abs:.3g}, max rel error {self.max_rel:.3g}, relative to scale {self.scale_rel:.3g}"
        errors += "" if self.ulps is None else f", {self.ulps:.3g} ULP"
        return f"{self.name}: {errors} (tolerance {self.tolerance:.3g}): {'ok' if self.ok else 'WRONG'}"


def compare(outputs: Arrays, expected: Arrays, tolerance: float | None = None, *, f64: bool = False) -> list[OutputCheck]:
    """One record for each array in `expected`, in its order.

    `tolerance` replaces the one for the dtype of floating-point outputs. With `f64`, floats in `expected` are f64, whatever type the output has; the
    tolerance is that of the output's type.
    """
    return [_compare(name, outputs.get(name), array, tolerance, f64) for name, array in expected.items()]


def _compare(name: str, got: np.ndarray | None, expected: np.ndarray, tolerance: float | None, f64: bool) -> OutputCheck:
    expected = np.asarray(expected)
    dtype = got.dtype if f64 and got is not None and expected.dtype == np.float64 and is_float(from_numpy(got.dtype)) else expected.dtype
    inexact = not is_string(dtype) and is_float(from_numpy(dtype))
    allowed = (tolerance_of(from_numpy(dtype)) if tolerance is None else tolerance) if inexact else 0.0
    if got is None or got.shape != expected.shape or got.dtype != dtype:
        came = "nothing" if got is None else f"{type_name(got.dtype)}{list(got.shape)}"
        problem = f"expected {type_name(expected.dtype)}{list(expected.shape)}, got {came}"
        return OutputCheck(name, np.inf, np.inf, np.inf, allowed, problem)
    if is_string(dtype):
        different = int(np.count_nonzero(got != expected))
        return OutputCheck(name, different, different, different, allowed)
    if inexact:
        a, b = got.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
        with np.errstate(over="ignore"):
            rounded = expected.astype(dtype).astype(np.float64).ravel()  # infinite beyond the range of the output's type
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.isinf(a) & (a == rounded))
        with np.errstate(invalid="ignore"):  # inf - inf is either equal, or NaN and so infinitely wrong
            error = np.where(same, 0.0, _nan_as_infinity(np.abs(a - b)))
        size = np.abs(b)
    else:
        # In Python's integers if a difference could overflow: exact, and computed only for differing elements.
        wrong = np.flatnonzero(got.ravel() != expected.ravel())
        error = np.array([float(abs(int(got.flat[i]) - int(expected.flat[i]))) for i in wrong])
        size = np.abs(expected.ravel()[wrong].astype(np.float64))
    largest = float(error.max(initial=0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(error == 0, 0.0, error / size)[size > 0]
    finite = size[np.isfinite(size)] if inexact else np.abs(expected.astype(np.float64)).ravel()
    scale = float(finite.max(initial=0.0))
    scaled = 0.0 if largest == 0 else (largest / scale if scale > 0 else np.inf)
    ulps = float((error / ulp(b, dtype)).max(initial=0.0)) if f64 and inexact else None
    return OutputCheck(name, largest, float(_nan_as_infinity(relative).max(initial=0.0)), scaled, allowed, ulps=ulps)


def ulp(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The distance of neighbouring floats of `dtype` at the magnitudes of `values`, in f64; at 0, infinities and NaN that of the smallest floats."""
    info: Any = ml_dtypes.finfo(dtype)
    _, exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))
    return np.maximum(np.ldexp(float(info.eps), exponents - 1), float(info.smallest_subnormal))


def _nan_as_infinity(errors: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(errors), np.inf, errors)


def run_onnxruntime(model: Source, inputs: Arrays) -> dict[str, np.ndarray]:
    """ONNX Runtime's outputs by name. Raises InputError if it is not installed or cannot run the model."""
    try:
        import onnxruntime
    except ImportError:
        raise InputError("a check against onnxruntime needs the package onnxruntime: pip install onnxruntime") from None
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")  # otherwise sums of bytes saturate on AVX2
    try:
        session = onnxruntime.InferenceSession(model if isinstance(model, bytes) else os.fspath(model), options, providers=["CPUExecutionProvider"])
        used = {printable(node.name): node.name for node in session.get_inputs()}
        outputs: Sequence[np.ndarray] = session.run(None, {used[name]: array for name, array in inputs.items() if name in used})
    except Exception as error:  # its exceptions have no common base
        raise InputError(f"onnxruntime cannot run the model: {str(error).strip()}") from None
    return dict(zip((printable(node.name) for node in session.get_outputs()), outputs, strict=True))
