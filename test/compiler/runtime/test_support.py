"""Our own conversions between floats and those of 16 bits round as numpy does, whatever the value."""

import ml_dtypes
import numpy as np
import pytest

from stepwell.backends.llvm_cpu.emit_object import object_of_text
from stepwell.dialects.support.buffers import address
from stepwell.dialects.target.host import host
from stepwell.runtime import support
from stepwell.runtime.loader import LoadedCode, load

TYPES = {"half": np.dtype(np.float16), "bfloat": np.dtype(ml_dtypes.bfloat16), "float": np.dtype(np.float32), "double": np.dtype(np.float64)}
SIGNATURES = {
    "__truncsfhf2": ("float", "half"), "__truncdfhf2": ("double", "half"), "__extendhfsf2": ("half", "float"), "__truncsfbf2": ("float", "bfloat"),
    "__truncdfbf2": ("double", "bfloat"),
}  # fmt: skip
RANDOM = np.random.default_rng(16)


def on_arrays(name: str) -> str:
    """LLVM IR of a function that applies a helper to the elements of an array."""
    source, result = SIGNATURES[name]
    return f"""
define void @all{name}(ptr %from, ptr %to, ptr %last) {{
entry:
  br label %next
next:
  %x = phi ptr [%from, %entry], [%x_after, %next]
  %y = phi ptr [%to, %entry], [%y_after, %next]
  %given = load {source}, ptr %x
  %made = call {result} @{name}({source} %given)
  store {result} %made, ptr %y
  %x_after = getelementptr {source}, ptr %x, i64 1
  %y_after = getelementptr {result}, ptr %y, i64 1
  %done = icmp eq ptr %x_after, %last
  br i1 %done, label %end, label %next
end:
  ret void
}}
"""


@pytest.fixture(scope="module")
def code() -> LoadedCode:
    assert support.HELPERS.keys() == SIGNATURES.keys()
    text = support.module(support.HELPERS) + "".join(map(on_arrays, SIGNATURES))
    return load({"helpers": object_of_text(text, host())}, [f"all{name}" for name in SIGNATURES])


def values(name: str) -> np.ndarray:
    """All values of the narrow type, those midway between two of them, and their neighbours; and random ones of any size."""
    source, result = SIGNATURES[name]
    if source == "half":
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    dtype = TYPES[source]
    with np.errstate(all="ignore"):
        narrow = np.arange(1 << 15, dtype=np.uint16).view(TYPES[result]).astype(dtype)
        ties = (narrow[:-1] + narrow[1:]) / dtype.type(2)
        positive = np.concatenate([narrow, ties, np.nextafter(ties, dtype.type(0)), np.nextafter(ties, dtype.type(np.inf))])
        random = np.ldexp(RANDOM.standard_normal(100_000), RANDOM.integers(-160, 140, 100_000)).astype(dtype)
        extremes = np.array([np.finfo(dtype).max, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal, np.inf, np.nan], dtype)
    return np.concatenate([positive, -positive, random, extremes, -extremes])


@pytest.mark.parametrize("name", SIGNATURES)
def test_conversions_round_like_numpy(name: str, code: LoadedCode) -> None:
    given, result = values(name), TYPES[SIGNATURES[name][1]]
    made = np.empty(given.size, result)
    code.function(f"all{name}", 3)(address(given), address(made), address(given) + given.nbytes)
    with np.errstate(all="ignore"):
        expected = _to_bfloat16(given) if result == TYPES["bfloat"] else given.astype(result)
    nan = np.isnan(given)
    assert np.isnan(made[nan]).all()
    assert made[~nan].tobytes() == expected[~nan].tobytes()
    assert np.array_equal(np.signbit(made), np.signbit(given))


def _to_bfloat16(given: np.ndarray) -> np.ndarray:
    """Rounded once: ml_dtypes rounds doubles to floats first."""
    if given.dtype == np.float32:
        return given.astype(ml_dtypes.bfloat16)
    near = given.astype(np.float32)
    bits = near.view(np.uint32)
    back = near.astype(np.float64)
    lost = (back != given) & (bits % 2 == 0) & ~np.isnan(given)
    return np.where(lost, np.where(np.abs(back) > np.abs(given), bits - 1, bits + 1), bits).view(np.float32).astype(ml_dtypes.bfloat16)
