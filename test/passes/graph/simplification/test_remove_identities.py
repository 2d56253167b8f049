"""Which pairs of casts go away: those through a type that holds every value, and no others."""

from itertools import product

import ml_dtypes
import numpy as np
from every import every

import stepwell.passes.graph  # noqa: F401  (registers the passes)
from stepwell.dialects.core.mlir import ir, make_context, ops_below
from stepwell.dialects.core.types import FLOATS, SIGNED
from stepwell.dialects.core.weights import WeightTable
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner

KINDS = {
    "i1": np.bool_, **{f"{sign}i{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def numbers(name: str) -> list[float | int]:
    """Of a type: its ends, and what lies beside the powers of two. Each is a number that Python has exactly."""
    kind = KINDS[name]
    if name == "i1":
        return [0, 1]
    if name in FLOATS:
        info = ml_dtypes.finfo(kind)
        ends = [float(info.max), float(info.smallest_subnormal), float(info.smallest_normal)]
        return [*ends, 1 + float(info.eps), -1 - 2 * float(info.eps), float("inf"), -0.0, 0.5]
    first, last = np.iinfo(kind).min, np.iinfo(kind).max
    near = {sign * 2**power + step for power in range(64) for step in (-1, 0, 1) for sign in (-1, 1)}
    return sorted(n for n in {*near, first, last} if first <= n <= last)


def holds(wide: str, number: float | int) -> bool:
    """Whether a type has a number: it is the same, as Python compares it, once it has been rounded to the type."""
    if wide in FLOATS:
        with np.errstate(over="ignore"):
            rounded = float(np.float64(number).astype(KINDS[wide]))
        return rounded == number
    first, last = (0, 1) if wide == "i1" else (np.iinfo(KINDS[wide]).min, np.iinfo(KINDS[wide]).max)
    return not isinstance(number, float) and first <= number <= last


def dropped(narrow: str, wide: str) -> bool:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(f"""func.func @main(%x: tensor<4x{narrow}>) -> tensor<4x{narrow}> {{
          %0 = "graph.cast"(%x) {{to = {wide}, saturate = false}} : (tensor<4x{narrow}>) -> tensor<4x{wide}>
          %1 = "graph.cast"(%0) {{to = {narrow}, saturate = false}} : (tensor<4x{wide}>) -> tensor<4x{narrow}>
          return %1 : tensor<4x{narrow}>
        }}""")
        PassRunner(PassState(weights=WeightTable())).run(module, "remove-identities")
        return not ops_below(module.operation, "graph.cast")


@every(("narrow", "wide"), [(narrow, wide) for narrow, wide in product(KINDS, KINDS) if narrow != wide])
def test_pairs_of_casts_go_where_the_type_between_holds_every_value(narrow: str, wide: str) -> None:
    assert dropped(narrow, wide) == all(holds(wide, number) for number in numbers(narrow))


def test_all_types_are_asked() -> None:
    assert {*FLOATS, *SIGNED} <= KINDS.keys()
