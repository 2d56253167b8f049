"""Wrong arguments of the quantiser's public functions: each is one InputError that names it, before anything is done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import DIGITS

from stepwell import InputError
from stepwell.quantizer import Calibrated, QuantizeOptions, Samples, accuracy, compare, quantize, quantize_weights, quantized_within, save_html

DATA = {"image": np.zeros((4, 1, 8, 8), np.float32)}
MODEL = onnx.load(DIGITS)
NUMBERS: list[Any] = [0, -1, 1.0, True, "2", None]
NO_TEXT: list[Any] = [3, b"x", ["x"], "a\0b"]
NO_FUNCTION: list[Any] = [3, "print", None]
NO_FLAG: list[Any] = [1, 0, "no", None]
NO_MODEL: list[Any] = [None, 3, DIGITS, [MODEL], "x.onnx"]
NO_SOURCE: list[Any] = [None, 3, "", "a\0b", [MODEL], {}]
NO_DATA: list[Any] = [None, 3, ["x"], {3: DATA["image"]}, {"image": 3}, {"image": "x"}]


class NoCalls(Samples):
    """Samples that are not to be read."""

    def __init__(self) -> None:
        super().__init__([], [])


def ours(value: list[Any], *, none: bool) -> list[Any]:
    return [entry for entry in value if none or entry is not None]


SAMPLES = NoCalls()
CALIBRATION = {
    "model": NO_SOURCE, "data": NO_DATA, "options": ours([3, {}, "mse"], none=False), "batch": ours(NUMBERS, none=False),
    "limit": ours(NUMBERS, none=False), "histograms": [3, "", b"a\0b"], "cache": NO_FLAG, "threads": [0, -1, "2", 1.5], "on_batch": [3, "print"],
}  # fmt: skip
CASES: list[tuple[Callable[..., Any], dict[str, Any], dict[str, list[Any]]]] = [
    (quantize, {"model": MODEL, "data": DATA}, CALIBRATION),
    (Calibrated, {"model": MODEL, "data": DATA}, {**CALIBRATION, "labels": NO_TEXT, "on_step": NO_FUNCTION}),
    (Samples.from_data, {"data": DATA, "model": MODEL}, {
        "data": NO_DATA, "batch": CALIBRATION["batch"], "limit": CALIBRATION["limit"], "model": NO_MODEL, "labels": NO_TEXT,
    }),
    (accuracy, {"model": MODEL, "samples": SAMPLES}, {"model": NO_MODEL, "samples": [None, DATA, [DATA]], "axis": ["1", 1.0, True], "threads": [0]}),
    (compare, {"floats": MODEL, "quantised": MODEL, "samples": SAMPLES}, {
        "floats": NO_MODEL, "quantised": NO_MODEL, "samples": [None, 3, DATA, "x"], "blamed": [-1, 1.0, "1"], "on_step": NO_FUNCTION,
        "cache": NO_FLAG,
    }),
    (quantized_within, {"source": object.__new__(Calibrated), "budget": 1.0}, {
        "source": [None, MODEL, DIGITS], "budget": [None, "1", True, float("nan"), -1.0], "on_step": NO_FUNCTION, "threads": [0],
    }),
    (quantize_weights, {"model": MODEL}, {
        "model": NO_SOURCE, "bits": [3, 4.0, "4", None, True], "block": [0, 31, 32.0, "32", None], "zero_points": NO_FLAG, "form": [3, None, "x"],
        "keep_float": [3, None, "x", [3]],
    }),
    (save_html, {"path": "x.html", "quality": None, "title": "t"}, {"quality": [None, 3], "path": [3, ""]}),
    (QuantizeOptions, {}, {
        "method": [3, None, "x", []], "percentile": [50, 101, "99", None, True, float("nan")], "per_channel": [1, None],
        "keep_float": [3, None, "x", [3]],
        "op_types": [3, None, "Conv", ["x"], [3]], "correct_bias": [0, "no"],
    }),
]  # fmt: skip


@pytest.mark.parametrize(("function", "given", "wrong"), CASES, ids=lambda value: getattr(value, "__qualname__", None))
def test_wrong_arguments_are_told_by_name(function: Callable[..., Any], given: dict[str, Any], wrong: dict[str, list[Any]]) -> None:
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(InputError) as refused:
                function(**{**given, name: value})
            assert str(refused.value).startswith(f"SW003 {name}: expected "), (name, value, str(refused.value))


def test_a_path_may_be_of_any_kind(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **DATA)
    assert len(Samples.from_data(tmp_path / "data.npz", MODEL, limit=np.int64(2).item())) == 2
