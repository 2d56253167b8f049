"""Division and modulo of integers, natively, against exact arithmetic: every pair of bytes, products and their neighbours, the ends of the types."""

from functools import cache

import numpy as np
import pytest
from importing import model, node, rng

import stepwell

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@cache
def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors, none of which is 0 or overflows."""
    info, random = np.iinfo(dtype), rng(len(dtype))
    if info.bits == 8:
        every = np.arange(info.min, info.max + 1)
        x, y = (side.ravel() for side in np.meshgrid(every, every))
    else:
        magnitudes = 2.0 ** random.uniform(0, info.bits - 1, 20_000)
        divisors = np.maximum(1, magnitudes).astype(dtype).astype(object)
        quotients = (int(info.max) // divisors * random.random(20_000)).astype(object)
        products = np.array([int(q) * int(d) for q, d in zip(quotients, divisors, strict=True)], object)
        x = np.concatenate([products + near for near in (-1, 0, 1)] + [np.array([info.max, info.min, info.max - 1, info.max] * 2, object)])
        y = np.concatenate([divisors] * 3 + [np.array([1, 1, 2, 3, info.max, info.max, info.max - 1, info.max // 2], object)])
        if info.min < 0:
            x, y = np.concatenate([x, -x, x, -x]), np.concatenate([y, y, -y, -y])
    kept = (y != 0) & (x >= info.min) & (x <= info.max) & ~((x == info.min) & (y == -1))
    return x[kept].astype(dtype), y[kept].astype(dtype)


def exact(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotients that are truncated, and what is left: by numbers of Python."""
    found = [(abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    rest = [a - q * b for a, q, b in zip(x.tolist(), found, y.tolist(), strict=True)]
    return np.array(found, x.dtype), np.array(rest, x.dtype)


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@pytest.mark.parametrize("dtype", TYPES)
def test_quotients_and_remainders(dtype: str, target: str) -> None:
    x, y = pairs(dtype)
    quotient, rest = exact(x, y)
    nodes = [node("Div", ["x", "y"], ["q"]), node("Mod", ["x", "y"], ["r"], fmod=1), node("Mod", ["x", "y"], ["m"])]
    compiled = stepwell.compile(model(nodes, {"x": x, "y": y}, {"q": x, "r": x, "m": x}), target=target)
    got = compiled.run({"x": x, "y": y})
    np.testing.assert_array_equal(got["q"], quotient)
    np.testing.assert_array_equal(got["r"], rest)
    np.testing.assert_array_equal(got["m"], np.mod(x, y))


@pytest.mark.parametrize("dtype", TYPES)
def test_by_one_number(dtype: str) -> None:
    """Of the caller, and known at compile time."""
    x = pairs(dtype)[0][:1000]
    y = np.array(7, dtype)
    nodes = [node("Div", ["x", "y"], ["q"]), node("Mod", ["x", "k"], ["r"], fmod=1)]
    compiled = stepwell.compile(model(nodes, {"x": x, "y": y}, {"q": x, "r": x}, {"k": y}))
    got, want = compiled.run({"x": x, "y": y}), exact(x, np.full_like(x, 7))
    np.testing.assert_array_equal(got["q"], want[0])
    np.testing.assert_array_equal(got["r"], want[1])


@pytest.mark.parametrize("dtype", TYPES)
def test_what_cannot_be_divided(dtype: str) -> None:
    """By zero it is 0, as we say; the least number by -1 is itself again, as where integers wrap."""
    info = np.iinfo(dtype)
    x = np.array([info.max, info.min, 5, 0] * 9, dtype)
    nodes = [node("Div", ["x", "y"], ["q"])]
    for divisor in (0, -1) if info.min < 0 else (0,):
        y = np.full_like(x, divisor)
        got = stepwell.compile(model(nodes, {"x": x, "y": y}, {"q": x})).run({"x": x, "y": y})["q"]
        np.testing.assert_array_equal(got, 0 if divisor == 0 else np.array([-info.max, info.min, -5, 0] * 9, dtype))
