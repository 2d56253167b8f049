"""Numbers of bf16 that are moved, natively: LLVM could not select the code of some of these."""

import ml_dtypes
import numpy as np
from every import every
from importing import check_native, node, rng
from native_checks import natively_together


@natively_together
@every("columns", [1, 3, 5, 9, 17])
@every(("outer", "inner"), [(2, 4), (4, 2), (3, 5), (8, 3)])
def test_rows_that_change_places(outer: int, inner: int, columns: int) -> None:
    """Each row is a vector and a rest, all unrolled: of rows of 5, LLVM made loads of bf16 after it had said that there is no such type."""
    x = numbers(outer, inner, columns)
    x[1, 1, 0] = np.nan
    check_native(node("Transpose", ["x"], perm=[1, 0, 2]), {"x": x}, expected=[x.transpose(1, 0, 2)])


def test_rows_that_are_chosen_and_joined() -> None:
    x, z, chosen = numbers(2, 4, 5), numbers(2, 4, 5, seed=1), rng(3).integers(0, 2, (4, 1)).astype(bool)
    check_native(node("Where", ["b", "x", "z"]), {"b": chosen, "x": x, "z": z}, expected=[np.where(chosen, x, z)])
    check_native(node("Concat", ["x", "z"], axis=2), {"x": x, "z": z}, expected=[np.concatenate([x, z], axis=2)])


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return rng(seed).normal(size=shape).astype(ml_dtypes.bfloat16)
