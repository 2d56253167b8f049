"""The neutral elements of combiners: folded into any value they change nothing, at the ends of the type's range too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from every import every

from stepwell.dialects.core.mlir import ir, make_context
from stepwell.passes.linalg_to_affine.values import neutral

SIGNED: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": np.add, "arith.muli": np.multiply, "arith.maxsi": np.maximum, "arith.minsi": np.minimum, "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
}  # fmt: skip
UNSIGNED = {"arith.maxui": np.maximum, "arith.minui": np.minimum}
FLOATS = {
    "arith.addf": np.add, "arith.mulf": np.multiply, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum, "arith.maxnumf": np.fmax,
}  # fmt: skip


def constant(combiner: str, dtype: str) -> Any:
    """The number that `neutral` makes of `combiner` for a type."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            attribute = neutral(combiner, ir.Type.parse(dtype)).owner.attributes["value"]
            return ir.FloatAttr(attribute).value if dtype.startswith("f") else ir.IntegerAttr(attribute).value


@every("width", [8, 16, 32, 64])
@every("combiner", [*SIGNED, *UNSIGNED])
def test_integers(combiner: str, width: int) -> None:
    signed = np.dtype(f"i{width // 8}")
    info = np.iinfo(signed)
    values = np.array([info.min, info.min + 1, -1, 0, 1, 5, info.max - 1, info.max], signed)
    element = np.array(constant(combiner, f"i{width}"), signed)
    if combiner in UNSIGNED:
        values, element = values.view(f"u{width // 8}"), element.view(f"u{width // 8}")
    assert np.array_equal({**SIGNED, **UNSIGNED}[combiner](values, element), values)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("combiner", FLOATS)
def test_floats(combiner: str, dtype: str) -> None:
    numpy_dtype = np.float32 if dtype == "f32" else np.float64
    info = np.finfo(numpy_dtype)
    values = np.array([-np.inf, info.min, -1.5, 0, info.tiny, info.max, np.inf, np.nan], numpy_dtype)
    if combiner == "arith.maxnumf":
        values = values[:-1]  # of NaN and a number it takes the number
    assert np.array_equal(FLOATS[combiner](values, numpy_dtype(constant(combiner, dtype))), values, equal_nan=True)
