"""Few rows times weights of 4 bits in slices of a byte: as close as floats, exact where they can be, on every machine with dot products of bytes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from covering import each
from every import every
from native_checks import Arrays, check_model, natively_together
from onnx import TensorProto, helper, numpy_helper
from quantized_networks import PRETENDED, pretending

import stepwell
from stepwell.dialects.target.description import Target

RNG = np.random.default_rng(43)
BLOCK = 32


def model(numbers: np.ndarray, scale: np.ndarray, zeros: np.ndarray, shape: tuple[Any, ...]) -> onnx.ModelProto:
    """x (…, K) times `(numbers - zeros) * scale` (K, N), dequantised in blocks."""
    block = len(numbers) // len(scale)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=block), helper.make_node("MatMul", ["x", "d"], ["y"])]
    sides = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(a, n) for n, a in {"w": numbers, "s": scale, "z": zeros}.items()]
    return helper.make_model(helper.make_graph(nodes, "g", *sides, weights), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def weights(depth: int, columns: int, block: int, each: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    numbers = RNG.integers(0, 16, (depth, columns)).astype(np.uint8)
    numbers.flat[::17], numbers.flat[1::17] = 0, 15
    scale = RNG.uniform(0.001, 0.02, (depth // block, columns)).astype(np.float32)
    return numbers, scale, (RNG.integers(0, 16, scale.shape) if each else np.full(scale.shape, 8)).astype(np.uint8)


def bound(x: np.ndarray, numbers: np.ndarray, scale: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """What a product may be off: what sums of f32 may, and for each number half of 2**-21 of the largest one in its block of a row."""
    block = len(numbers) // len(scale)
    largest = np.abs(x).reshape(*x.shape[:-1], -1, block).max(-1).astype(np.float64)
    terms = (numbers.astype(np.float64) + np.repeat(zeros, block, 0)) * np.repeat(scale, block, 0)
    units = np.repeat(largest, block, -1) * 2.0**-22
    return np.asarray(4 * (x.shape[-1] + 8) * np.finfo(np.float32).eps * (np.abs(x) @ terms) + units @ terms)


def exact(x: np.ndarray, numbers: np.ndarray, scale: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    block = len(numbers) // len(scale)
    return np.asarray(x.astype(np.float64) @ ((numbers.astype(np.float64) - np.repeat(zeros, block, 0)) * np.repeat(scale, block, 0)))


def spread(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of many sizes, of which each block has a largest one just below a power of two, where a slice would overflow first."""
    x = RNG.normal(size=shape) * 10.0 ** RNG.integers(-6, 2, shape)
    powers = 2.0 ** RNG.integers(3, 9, x[..., ::16].shape)
    x[..., ::16] = np.nextafter(powers.astype(np.float32), np.float32(0)) * RNG.choice([-1, 1], powers.shape)
    return x.astype(np.float32)


@pytest.fixture
def targets() -> Iterator[dict[str, Target]]:
    with pretending() as found:
        yield found


Targets = dict[str, Target]


@natively_together
@each({
    "pretended": PRETENDED,
    ("rows", "depth", "columns", "block", "zeros"): [
        ((1,), 96, 70, 32, "one"), ((3,), 64, 33, 16, "each"), ((2, 4), 256, 16, 128, "each"), ((8,), 19 * 16, 130, 16, "one"),
        ((2,), 96, 40, 32, "each"), ((8,), 64, 33, 16, "one"),
    ],
})
def test_slices_are_as_close_as_floats(
    pretended: str, rows: tuple[int, ...], depth: int, columns: int, block: int, zeros: str, targets: Targets
) -> None:
    stored, x = weights(depth, columns, block, zeros == "each"), spread((*rows, depth))
    made = model(*stored, x.shape)
    text = stepwell.lower(made, "scheduled", target=targets[pretended]).text()
    assert f'intrinsic = "{PRETENDED[pretended][0]}"' in text

    def judge(got: Arrays) -> None:
        assert (np.abs(got["y"] - exact(x, *stored)) <= bound(x, *stored)).all()

    check_model(made, {"x": x}, judge, threads=[2], target=targets[pretended], cache=False)


@natively_together
@every("pretended", PRETENDED)
def test_integers_of_few_bits_are_multiplied_exactly(pretended: str, targets: Targets) -> None:
    """Whatever their size, as units are powers of two: results are those of exact arithmetic to the bit."""
    numbers, _, zeros = weights(128, 48, BLOCK, each=True)
    scale = (2.0 ** RNG.integers(-3, 3, (4, 48))).astype(np.float32)
    for power in (-60, 0, 60):
        x = (RNG.integers(-500, 501, (3, 128)) * 2.0**power).astype(np.float32)
        made = model(numbers, scale, zeros, x.shape)

        def judge(got: Arrays, x: np.ndarray = x) -> None:
            np.testing.assert_array_equal(got["y"].astype(np.float64), exact(x, numbers, scale, zeros))

        check_model(made, {"x": x}, judge, threads=[1], target=targets[pretended], cache=False)


def sliced(made: onnx.ModelProto, **options: Any) -> bool:
    return "x4xui8>" in stepwell.lower(made, "graph-opt", **options).text()


@natively_together
def test_blocks_of_any_size_and_of_nothing(targets: Targets) -> None:
    """Zeros, subnormal numbers, the largest ones: each block has a unit of its own."""
    stored = weights(6 * BLOCK, 40, BLOCK, each=True)
    x = RNG.uniform(-1, 1, (2, 6, BLOCK)) * np.array([0, 1e-40, 1e-30, 1, 1e25, 1e35])[:, np.newaxis]
    x = x.astype(np.float32).reshape(2, -1)
    target = targets["vnni in 512 bits"]
    for low in (0, 2, 3, 4):  # of sizes so far apart a sum shows the largest alone
        part = x.copy().reshape(2, 6, BLOCK)
        part[:, low + 2 :] = 0
        part = part.reshape(2, -1)
        made = model(*stored, part.shape)
        assert sliced(made, target=target)

        def judge(got: Arrays, part: np.ndarray = part) -> None:
            assert (np.abs(got["y"] - exact(part, *stored)) <= bound(part, *stored) + 2.0**-126).all()

        check_model(made, {"x": part}, judge, threads=[1], target=target, cache=False)


@natively_together
@every("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_makes_nan_of_its_row(bad: float, targets: Targets) -> None:
    stored, x = weights(128, 40, BLOCK, each=False), spread((3, 128))
    x[1, 37] = bad
    made = model(*stored, x.shape)

    def judge(got: Arrays) -> None:
        assert np.isnan(got["y"][1]).all()
        others = x[[0, 2]]
        assert (np.abs(got["y"][[0, 2]] - exact(others, *stored)) <= bound(others, *stored)).all()

    check_model(made, {"x": x}, judge, threads=[1], target=targets["vnni in 512 bits"], cache=False)


def test_when_rows_are_sliced() -> None:
    """Few rows, known, of small blocks; where the target multiplies bytes, and rounding more than floats do is allowed."""
    with pretending() as targets:
        target = targets["vnni in 512 bits"]
        small, large = (weights(512, 32, block, each=False) for block in (128, 256))
        assert sliced(model(*small, (8, 512)), target=target)
        assert not sliced(model(*small, (9, 512)), target=target)
        assert not sliced(model(*small, ("n", 512)), target=target, specialise="never")
        assert not sliced(model(*large, (8, 512)), target=target)
        assert not sliced(model(*small, (8, 512)), target=target, strict=True)
        assert not sliced(model(*small, (8, 512)), target=target, disable=["slice-floats"])
    for without in ("x86-64-v3", "x86-64-v4"):
        assert not sliced(model(*small, (8, 512)), target=without)
    assert sliced(model(*small, (8, 512)), target="aarch64-dotprod")
