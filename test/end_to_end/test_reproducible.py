"""Reproducible results: the same bits on every machine, for any number of threads and any plan."""

from pathlib import Path

import bundle_models
import crossing
import native_ops
import numpy as np
import onnx
import pytest
from bundle_models import HEAD, Case
from guarded import NAMED
from node_bundles import why_no_modules
from op_cases import with_cases
from reproducible_models import GOLDEN, WASM, digest, golden, model_of, op_differences, outputs_of, reproducible

import stepwell
from stepwell.dialects.sched.plan_file import Plan
from stepwell.passes.schedule.assign_schedules import schedules_of

RANDOM = np.random.default_rng(50)
LEVELS = [name for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4") if name in NAMED]
NATIVE = [LEVELS[0], LEVELS[-1]] if LEVELS else ["host"]
"""By day the narrowest and the widest vectors."""
OPS = [name for name in with_cases() if name not in native_ops.NOT_NATIVE]
PARTS = 4
ROWS = HEAD + """rows (float[n, k] x, float[5, 40] z) => (float[n] sums, float[n] most, float[n, k] shares, float[5] means) {
  sums = ReduceSum<keepdims = 0>(x, one)
  most = ReduceMax<keepdims = 0>(x, one)
  shares = Softmax<axis = 1>(x)
  means = ReduceMean<keepdims = 0>(z, one)
}"""
BYTES = HEAD + """bytes (uint8[1, 32, 5, 5] x) => (float[1, 40, 1, 1] y) {
  sums = ConvInteger<pads = [1, 1, 1, 1]>(x, w)
  floats = Cast<to = 1>(sums)
  scaled = Mul(floats, scale)
  y = GlobalAveragePool(scaled)
}"""
PRODUCTS = HEAD + "products (float[m, 2] x, float[2, n] y) => (float[m, n] z) { z = MatMul(x, y) }"


def rows_case() -> Case:
    """Sums along dimensions of free and of known sizes, in vectors and what they leave over."""
    feeds = [{"x": bundle_models.floats(n, k), "z": bundle_models.floats(5, 40)} for n, k in ((3, 1), (9, 37), (9, 500))]
    feeds[1]["x"][0, 3:5], feeds[2]["x"][0, 1] = (-0.0, 0.0), np.nan
    return reproducible(Case("rows", bundle_models.with_weights(ROWS, one=np.array([1])), feeds))


def numbers(count: int, dtype: type[np.floating]) -> np.ndarray:
    """Floats whose products and sums are hard to round: of few bits and of many, large, small and subnormal ones, and special values."""
    info, bits = np.finfo(dtype), np.dtype(f"u{np.dtype(dtype).itemsize}")
    most, least = 1 << (info.nmant // 2 + 2), int(info.minexp)
    few = RANDOM.integers(-most, most, count) * 2.0 ** RANDOM.integers(-30, 30, count)
    many = RANDOM.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype)
    tiny = RANDOM.integers(-(1 << 20), 1 << 20, count) * 2.0 ** RANDOM.integers(least - info.nmant, least // 2, count)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, info.smallest_subnormal, -info.tiny, info.max])
    return np.concatenate([few, many, tiny, special]).astype(dtype)


@pytest.mark.skipif(len(LEVELS) < 2, reason="compares code without fused multiply-adds with such an instruction")
@pytest.mark.parametrize("kind", ["float", "double"])
def test_fused_multiply_adds_are_those_of_the_instruction(kind: str, tmp_path: Path) -> None:
    dtype = np.float32 if kind == "float" else np.float64
    a, b, c = (numbers(count, dtype) for count in (200, 100, 100))
    x, y = np.stack([np.ones_like(a), a], axis=1), np.stack([c, b])  # 1 * c, then a * b is added to it
    case = reproducible(Case("products", onnx.parser.parse_model(PRODUCTS.replace("float", kind)), [{"x": x, "y": y}]))
    [real] = outputs_of(case, LEVELS[-1], tmp_path)
    for target in (LEVELS[0], *([WASM] if why_no_modules() is None else [])):
        assert digest(outputs_of(case, target, tmp_path)) == digest([real]), target
    with np.errstate(all="ignore"):
        assert (real != (a[:, None] * b + c))[np.isfinite(real)].any(), "no product needs the digits that rounding it loses"


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))])
def test_ops_give_the_same_bits_on_all_levels(part: int) -> None:
    names = OPS[part::PARTS]
    every = (single for name in names for single in native_ops.instances(name, NATIVE[:1], first=1))
    assert not [text for batch in native_ops.batches(every, 48) for text in op_differences(batch, NATIVE, (1, 2))]


def test_sums_of_all_sizes_give_the_same_bits_on_all_levels_and_with_all_threads() -> None:
    case = rows_case()
    assert len({digest(outputs_of(case, target, Path(), threads)) for target in NATIVE for threads in (1, 3)}) == 1


def test_floats_behind_integers_are_summed_alike_with_and_without_dot_products() -> None:
    """Where a machine has none, integers would have another layout."""
    weights = {"w": RANDOM.integers(-99, 99, (40, 32, 3, 3)).astype(np.int8), "scale": np.array(0.3, np.float32)}
    feed = {"x": RANDOM.integers(0, 255, (1, 32, 5, 5)).astype(np.uint8)}
    case = reproducible(Case("bytes", bundle_models.with_weights(BYTES, **weights), [feed]))
    assert len({digest(outputs_of(case, target, Path())) for target in NATIVE}) == 1


@pytest.mark.parametrize("name", GOLDEN)
def test_networks_give_the_bits_that_are_written_down(name: str) -> None:
    assert digest(outputs_of(reproducible(model_of(name)), "host", Path(), threads=2)) == golden()[name]


@pytest.mark.nightly
@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("name", GOLDEN)
def test_networks_give_these_bits_on_all_levels(name: str, target: str) -> None:
    assert {digest(outputs_of(reproducible(model_of(name)), target, Path(), threads)) for threads in (1, 3)} == {golden()[name]}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("encoder", "aarch64-neon"),
        *(pytest.param(n, t, marks=pytest.mark.nightly) for t in (*crossing.OTHERS, WASM) for n in GOLDEN if (n, t) != ("encoder", "aarch64-neon")),
    ],
)
def test_networks_give_these_bits_on_other_machines(name: str, target: str, tmp_path: Path) -> None:
    if target in crossing.OTHERS:
        crossing.needed(target)
    assert digest(outputs_of(reproducible(model_of(name)), target, tmp_path, threads=2)) == golden()[name]


def test_a_plan_changes_no_bit_or_is_refused() -> None:
    case = rows_case()
    shapes, feed = {"x": case.feeds[2]["x"].shape}, case.feeds[2]
    options = {"target": NATIVE[-1], "reproducible": True, "shapes": shapes}

    def bits(**choices: dict[str, str]) -> str:
        made = stepwell.compile(case.model, cache=False, plan=Plan({}, "mine", choices=choices), **options)  # type: ignore[arg-type]
        return digest(made.run(feed).values())

    assert bits(schedule={"ReduceMean_3:reduction": "unroll.0=5"}) == bits()
    with pytest.raises(stepwell.ScheduleError, match=r"schedule/ReduceSum_0:reduction: 'width=8' may change the order of sums"):
        bits(schedule={"ReduceSum_0:reduction": "width=8"})
    with pytest.raises(stepwell.ScheduleError, match=r"expected one of fused .*, got 'apart'; any other may change the order of sums"):
        bits(fusion={"ReduceMean_3": "apart"})
    lowered = stepwell.lower(case.model, "scheduled", **options)  # type: ignore[arg-type]
    with lowered.module.context:
        plan = schedules_of(lowered.module.operation, lowered.target)
    assert stepwell.compile(case.model, cache=False, plan=plan, **options)  # type: ignore[arg-type]
    knobs = [op.knobs for kernel in plan.kernels.values() for op in kernel.ops.values() if op.kind == "reduction"]
    for own in knobs:
        own["width"] = 4
    with pytest.raises(stepwell.ScheduleError, match=r"reduction of ReduceSum_0: the schedule .* may change the order of sums"):
        stepwell.compile(case.model, cache=False, plan=plan, **options)  # type: ignore[arg-type]


def test_what_no_machine_may_decide_is_refused() -> None:
    doubles = onnx.parser.parse_model(HEAD + "doubles (double[4] x) => (double[4] y) { y = Exp(x) }")
    with pytest.raises(stepwell.UnsupportedError, match=r"reproducible results cannot use libm.*'math.exp' of f64"):
        stepwell.compile(doubles, reproducible=True, cache=False)
    with pytest.raises(stepwell.InputError, match="libm: expected False for reproducible results"):
        stepwell.CompileOptions(reproducible=True, libm=True)
    with pytest.raises(stepwell.InputError, match="precision: expected 'f32' for reproducible results"):
        stepwell.CompileOptions(reproducible=True, precision="bf16")
    plain = stepwell.lower(rows_case().model, "linalg", target="x86-64-v3", shapes={"x": (2, 3)})
    with pytest.raises(stepwell.IRError, match="expected IR that was lowered for reproducible results"):
        stepwell.read_ir(str(plain.module), "linalg", plain.weights, reproducible=True)
