"""Folding of scales and shifts into weights, pooling corrections, and the numbers that algebra must respect."""

import gc
import itertools
import weakref

import ml_dtypes
import numpy as np
import pytest
from every import every

import stepwell.passes.graph  # noqa: F401  (registers the passes)
from stepwell.dialects.core.mlir import func, ir, make_context, ops_below
from stepwell.dialects.core.types import TensorType, from_numpy
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.known import KnownValues
from stepwell.dialects.interpreter.evaluate import evaluate
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner

CONTEXT = make_context()
EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def build(argument: TensorType, make) -> tuple[ir.Module, WeightTable]:
    """A module whose @main gives what `make(builder, argument)` makes."""
    weights = WeightTable()
    with CONTEXT, ir.Location.name("test"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get([argument.to_mlir()], []))
            block = main.add_entry_block()
        with ir.InsertionPoint(block):
            result = make(GraphBuilder(weights), block.arguments[0])
            func.ReturnOp([result])
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([argument.to_mlir()], [result.type]))
    return module, weights


def through(module: ir.Module, weights: WeightTable, pipeline: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The result before and after a pipeline, and the ops that are left, without constants."""
    before = evaluate(module, weights, {"input0": x})["output0"]
    PassRunner(PassState(weights=weights)).run(module, pipeline)
    after = evaluate(module, weights, {"input0": x})["output0"]
    left = [o.name.removeprefix("graph.") for o in ops_below(module.operation) if o.name.startswith("graph.")]
    return before, after, [name for name in left if name not in ("constant", "parameter")]


def random(*shape: int, seed: int, dtype: str = "f64") -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape).astype(TYPES[dtype])


TYPES = {dtype: np.dtype(name) for dtype, name in (("f64", "float64"), ("f32", "float32"), ("f16", "float16"))}


@pytest.mark.parametrize("group", [1, 2, 3, 6])
@pytest.mark.parametrize("op", ["conv", "conv_transpose"])
def test_scales_around_grouped_convolutions(group: int, op: str):
    """(conv(x * k1) + b) * k2, both scales by channel: one convolution and one addition are left."""
    channels, filters = 6, 12
    window = {"strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2), "group": group}

    def make(b, x):
        x = b.mul(x, b.weight("k1", random(1, channels, 1, 1, seed=1)))
        if op == "conv":
            y = b.conv(x, b.weight("w", random(filters, channels // group, 3, 2, seed=2)), **window)
        else:
            y = b.conv_transpose(x, b.weight("w", random(channels, filters // group, 3, 2, seed=2)), output_padding=(0, 0), **window)
        y = b.add(y, b.weight("b", random(filters, 1, 1, seed=3)))
        return b.div(y, b.weight("k2", random(1, filters, 1, 1, seed=4)))

    module, weights = build(TensorType("f64", (2, channels, 7, 6)), make)
    before, after, left = through(module, weights, "fold-batch-norm", random(2, channels, 7, 6, seed=5))
    assert left == [op, "add"]
    np.testing.assert_allclose(after, before, rtol=100 * EPSILON["f64"])


@pytest.mark.parametrize("group", [1, 2, 4])
def test_a_shift_passes_an_unpadded_convolution(group: int):
    def make(b, x):
        x = b.add(x, b.weight("b", random(4, 1, 1, seed=1)))
        return b.conv(x, b.weight("w", random(8, 4 // group, 3, 2, seed=2)), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=group)

    module, weights = build(TensorType("f64", (1, 4, 5, 5)), make)
    before, after, left = through(module, weights, "fold-batch-norm", random(1, 4, 5, 5, seed=3))
    assert left == ["conv", "add"]
    np.testing.assert_allclose(after, before, rtol=100 * EPSILON["f64"])


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_batch_norm_is_rounded_once(dtype: str):
    """conv + batch_norm becomes conv + add, and differs by a few roundings of its terms only."""
    channels, filters, taps = 5, 7, 5 * 9

    def make(b, x):
        y = b.conv(x, b.weight("w", random(filters, channels, 3, 3, seed=1, dtype=dtype)), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), group=1)
        statistics = [b.weight(f"s{i}", random(filters, seed=10 + i, dtype=dtype)) for i in range(4)]
        return b.batch_norm(y, *statistics, epsilon=1e-3)

    module, weights = build(TensorType(dtype, (1, channels, 4, 4)), make)
    x = random(1, channels, 4, 4, seed=2, dtype=dtype)
    before, after, left = through(module, weights, "fold-batch-norm", x)
    assert left == ["conv", "add"]
    assert after.dtype == TYPES[dtype]
    # The largest term is scale / sqrt(variance) * 2 * 2 < 12; each is rounded once, and so is the mean's part in the shift.
    np.testing.assert_allclose(after.astype(np.float64), before.astype(np.float64), rtol=0, atol=12 * taps * EPSILON[dtype])


def test_weights_that_would_overflow_stay():
    def make(b, x):
        y = b.matmul(x, b.weight("w", np.full((2, 2), 60000.0, np.float16)))
        return b.mul(y, b.constant(value=np.array(4.0, np.float16)))

    module, weights = build(TensorType("f16", (2, 2)), make)
    _, _, left = through(module, weights, "fold-batch-norm", np.zeros((2, 2), np.float16))
    assert left == ["matmul", "mul"]


POOLS = [
    (kernel, stride, pads, ceil, include)
    for kernel, stride, pads in itertools.product((1, 2, 3), (1, 2, 3), ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1)))
    if max(pads) < kernel
    for ceil, include in itertools.product((False, True), repeat=2)
]


@every(("kernel", "stride", "pads", "ceil", "include"), POOLS)
def test_means_over_padded_windows(kernel: int, stride: int, pads: tuple[int, int], ceil: bool, include: bool):
    def make(b, x):
        return b.avg_pool(
            x, kernel=(kernel, 2), strides=(stride, 2), pads=(pads[0], 1, pads[1], 0), dilations=(1, 1), ceil_mode=ceil, count_include_pad=include
        )

    module, weights = build(TensorType("f64", (1, 2, 7, 6)), make)
    before, after, _ = through(module, weights, "make-padding-explicit", random(1, 2, 7, 6, seed=kernel))
    np.testing.assert_allclose(after, before, rtol=32 * EPSILON["f64"])
    for op in ops_below(module.operation, "graph.avg_pool"):
        assert not any(op.opview.attribute_values()["pads"])
        assert not op.opview.attribute_values()["ceil_mode"]


SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 3.0e38, -1.0e-45, 6.0, 5.9999995], np.float32)


def f32(value) -> np.ndarray:
    return np.asarray(value, np.float32)


EXACT = {
    "neutral": lambda b, x: b.div(b.mul(b.add(x, b.constant(value=f32(0))), b.constant(value=f32(1))), b.constant(value=f32(1))),
    "times zero": lambda b, x: b.mul(x, b.constant(value=f32(0))),
    "relu6": lambda b, x: b.minimum(b.relu(x), b.constant(value=f32(6))),
    "bounds": lambda b, x: b.clamp(b.clamp(x, min=-1.0, max=4.0), min=2.0, max=3.0),
    "crossed bounds": lambda b, x: b.relu(b.clamp(x, min=5.0, max=-4.0)),
    "square": lambda b, x: b.pow(x, b.constant(value=f32(2))),
    "inverse": lambda b, x: b.pow(x, b.constant(value=f32(-1))),
    "power of two": lambda b, x: b.div(x, b.constant(value=f32(8))),
    "not a power of two": lambda b, x: b.div(x, b.constant(value=f32(3))),
    "one over": lambda b, x: b.div(b.constant(value=f32(1)), x),
    "subtraction": lambda b, x: b.sub(x, b.constant(value=f32(2.5))),
    "negations": lambda b, x: b.abs(b.neg(b.sub(b.constant(value=f32(0)), x))),
    "relu of abs": lambda b, x: b.relu(b.abs(x)),
    "constant first": lambda b, x: b.maximum(b.constant(value=f32([0.5])), x),
    "casts": lambda b, x: b.cast(b.cast(x, to="f64", saturate=False), to="f32", saturate=False),
}


@every("name", EXACT)
def test_algebra_is_exact_for_special_numbers(name: str):
    """Equal to the last bit but for the signs of zeros, infinities and NaN included."""
    module, weights = build(TensorType(from_numpy(SPECIALS.dtype), SPECIALS.shape), EXACT[name])
    before, after, _ = through(module, weights, "remove-identities,simplify-algebra,remove-identities", SPECIALS)
    np.testing.assert_array_equal(after, before)


def test_integers_wrap_the_same():
    limits = np.array([-128, -127, -1, 0, 1, 127], np.int8)

    def make(b, x):
        y = b.sub(x, b.constant(value=np.array(-128, np.int8)))
        y = b.add(y, b.constant(value=np.array(100, np.int8)))
        return b.mul(b.mul(y, b.constant(value=np.array(50, np.int8))), b.constant(value=np.array(3, np.int8)))

    module, weights = build(TensorType("i8", limits.shape), make)
    before, after, left = through(module, weights, "simplify-algebra", limits)
    assert left == ["add", "mul"]
    np.testing.assert_array_equal(after, before)


def test_folding_names_new_weights_after_old_ones():
    def make(b, x):
        return b.matmul(x, b.transpose(b.weight("layer1.weight", random(100, 3, seed=1)), perm=(1, 0)))

    module, weights = build(TensorType("f64", (2, 3)), make)
    before, after, left = through(module, weights, "fold-constants", random(2, 3, seed=2))
    assert left == ["matmul"]
    assert [o.attributes["id"].value for o in ops_below(module.operation, "graph.parameter")] == ["layer1.weight.folded"]
    np.testing.assert_array_equal(after, before)


def test_what_was_evaluated_is_let_go() -> None:
    module, weights = build(TensorType("f32", (2,)), lambda b, x: b.neg(b.constant(value=np.arange(5.0, dtype=np.float32))))
    known = KnownValues(weights)
    (result,) = list(module.body.operations[0].entry_block.operations)[-1].operands
    array = known.value(result)
    assert array is not None
    np.testing.assert_array_equal(array, -np.arange(5.0))
    held = weakref.ref(array)
    del array
    assert held() is not None
    known.release()
    gc.collect()
    assert held() is None


def test_what_has_no_elements_is_known_whatever_computes_it() -> None:
    module, weights = build(TensorType("i64", (3, 0)), lambda b, x: b.neg(x))
    block = module.body.operations[0].entry_block
    for value in (block.arguments[0], list(block.operations)[-1].operands[0]):
        array = KnownValues(weights).value(value)
        assert array is not None
        assert (array.shape, array.dtype) == ((3, 0), np.int64)


SMALL = {"f16": (-11, 14), "f32": (-67, 120), "bf16": (-67, 120), "f64": (-515, 1000)}  # exponents of factors and of data
"""The product of two such factors is a subnormal number; times the data it is about 1."""
ALL_TYPES = {**TYPES, "bf16": np.dtype(ml_dtypes.bfloat16)}


def small(dtype: str, *shape: int, seed: int, data: bool = False) -> np.ndarray:
    numbers = np.random.default_rng(seed).uniform(1, 2, shape) * 2.0 ** SMALL[dtype][data]
    return numbers.astype(ALL_TYPES[dtype])


SCALED = {
    "products": lambda b, x, k: b.mul(b.mul(x, b.constant(value=k(6, 1, 1))), b.constant(value=k(6, 1, 1))),
    "sums": lambda b, x, k: b.mul(b.add(b.mul(x, b.constant(value=k(6, 1, 1))), b.constant(value=k(6, 1, 1))), b.constant(value=k(6, 1, 1))),
    "after a convolution": lambda b, x, k: b.mul(convolved(b, x, k(6, 2, 1, 1)), b.constant(value=k(6, 1, 1))),
    "behind its bias": lambda b, x, k: b.mul(b.add(convolved(b, x, k(6, 2, 1, 1)), b.constant(value=k(6, 1, 1))), b.constant(value=k(6, 1, 1))),
    "before a convolution": lambda b, x, k: convolved(b, b.mul(x, b.constant(value=k(6, 1, 1))), k(6, 2, 1, 1)),
    "before one, in one channel": lambda b, x, k: convolved(
        b, b.mul(x, b.constant(value=np.concatenate([k(1, 1, 1), np.ones_like(k(5, 1, 1))]))), k(6, 2, 1, 1)
    ),
    "batch_norm": lambda b, x, k: b.batch_norm(
        x, b.constant(value=k(6)), b.constant(value=k(6)), b.constant(value=k(6)), b.constant(value=1 / k(6)), epsilon=0.0
    ),
}


def convolved(b: GraphBuilder, x: ir.Value, w: np.ndarray) -> ir.Value:
    return b.conv(x, b.constant(value=w), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=3)


@every("special", [np.inf, 0.0, np.nan])
@every("how", list(SCALED))
def test_factors_that_are_no_finite_numbers(how: str, special: float) -> None:
    """One number of a constant is infinite, 0 or NaN, and of another infinite: where there was an infinity, or NaN, there is the same one."""
    x = np.random.default_rng(1).uniform(-2, 2, (1, 6, 3, 3)).astype(np.float32)
    for places in itertools.combinations_with_replacement(range(4), 2):  # as many constants as any of these has
        made: list[np.ndarray] = []

        def factors(*shape: int, places: tuple[int, ...] = places, made: list[np.ndarray] = made) -> np.ndarray:
            made.append(np.random.default_rng(len(made)).uniform(0.5, 2, shape).astype(np.float32) * np.float32(-1) ** (len(made) % 2))
            for place, number in zip(reversed(places), (np.inf, special), strict=True):
                if len(made) == place + 1:
                    made[-1].flat[0] = number
            return made[-1]

        with np.errstate(all="ignore"):
            module, weights = build(TensorType("f32", x.shape), lambda b, v: SCALED[how](b, v, factors))
            before, after, _ = through(module, weights, "fold-batch-norm,simplify-algebra", x)
        rest = np.where(np.isfinite(before), 0, before)
        np.testing.assert_array_equal(np.where(np.isfinite(after), 0, after), rest, err_msg=f"constants {places}")


@every("dtype", list(SMALL))
@every("how", list(SCALED))
def test_no_digits_are_lost_to_subnormal_numbers(how: str, dtype: str) -> None:
    """Merged factors that the type has only as subnormal numbers: what they scale is as right as before, however large it is."""
    x, seeds = small(dtype, 1, 6, 3, 3, seed=1, data=True), itertools.count(2)
    module, weights = build(TensorType(dtype, x.shape), lambda b, v: SCALED[how](b, v, lambda *shape: small(dtype, *shape, seed=next(seeds))))
    with np.errstate(all="ignore"):
        before, after, _ = through(module, weights, "fold-batch-norm,simplify-algebra", x)
    wide = before.astype(np.float64)
    assert np.isfinite(wide).all()
    assert (np.abs(after.astype(np.float64) - wide) <= 8 * EPSILON[dtype] * np.abs(wide)).all()
