#!/usr/bin/env python3
"""Measure the errors of the vector math functions against f64: for every f32, or for one in N.

    scripts/check_vector_math.py [--stride N] [--docs] [FUNCTION …]

The table of docs/vector-math.md lists the bounds that the code declares; `--docs` writes it. For powers, which have 2^64 pairs of operands, random
pairs are drawn. The status is 1 if an error exceeds its bound, or if a lane of a vector differs from a scalar.
"""

import argparse
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepwell.backends.llvm_cpu.objects import split_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.target.description import Target
from stepwell.passes.affine_to_llvm.vector_math.expansions import EXPANSIONS, Expansion
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner
from stepwell.pipelines.pipeline import Pipeline
from stepwell.runtime.loader import LoadedCode, load

CHUNK = 1 << 16  # elements per call of the compiled code
ALL = 1 << 32
PAGE = Path(__file__).resolve().parent.parent / "docs" / "vector-math.md"
BEGIN, END = "<!-- table: scripts/check_vector_math.py --docs -->\n", "<!-- end of the table -->\n"
Array = np.ndarray[Any, np.dtype[Any]]


def _erf(x: Array) -> Array:
    return np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


REFERENCES: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "powf": np.power,
}  # fmt: skip


def short(op: str) -> str:
    """The name of an op without its dialect."""
    return op.removeprefix("math.")


def function_text(name: str, op: str, width: int, operands: int, element: str = "f32") -> str:
    """A function that applies `op` to memrefs of CHUNK elements, `width` at a time; to scalars if the width is 1."""
    lanes = element if width == 1 else f"vector<{width}x{element}>"
    memref = f"memref<{CHUNK}x{element}>"
    load, store = ("affine.load", "affine.store") if width == 1 else ("affine.vector_load", "affine.vector_store")
    suffix = memref if width == 1 else f"{memref}, {lanes}"
    loads = "\n".join(f"    %v{i} = {load} %x{i}[%i] : {suffix}" for i in range(operands))
    arguments = ", ".join([*(f"%x{i}: {memref}" for i in range(operands)), f"%y: {memref}"])
    return f"""func.func @{name}({arguments}) {{
  affine.for %i = 0 to {CHUNK} step {width} {{
{loads}
    %r = {op} {", ".join(f"%v{i}" for i in range(operands))} : {lanes}
    {store} %r, %y[%i] : {suffix}
  }}
  return
}}
"""


def lower(functions: str, disable: Sequence[str] = (), target: Target | None = None) -> ir.Module:
    """Lower functions at level affine to the llvm dialect, for a target or for any machine."""
    with make_context(), ir.Location.file("vector-math.mlir", 1, 1):
        module = ir.Module.parse(f"func.func @main() {{\n  return\n}}\n{functions}")
        PassRunner(PassState(target=target)).run(module, Pipeline.default().without(disable).stage("llvm").text)
        return module


def operand_count(expansion: Expansion) -> int:
    """The number of operands of the expanded op."""
    return len(inspect.signature(expansion.function).parameters)


class Compiled:
    """Ops of the math dialect as functions on arrays of f32 of any length."""

    def __init__(self, expansions: Iterable[Expansion], widths: Sequence[int], *, disable: Sequence[str] = (), target: Target | None = None) -> None:
        self._operands = {short(e.op): operand_count(e) for e in expansions}
        names = [(f"{name}_{width}", name, width) for name in self._operands for width in widths]
        text = "".join(function_text(symbol, f"math.{name}", width, self._operands[name]) for symbol, name, width in names)
        self.code: LoadedCode = load(compile_units(split_module(lower(text, disable, target))), [symbol for symbol, _, _ in names])

    def __call__(self, name: str, width: int, *operands: Array) -> Array:
        """Compute `name` on f32 operands of equal length, `width` lanes at a time."""
        count = self._operands[name]
        function = self.code.function(f"{name}_{width}", count + 1)
        size = operands[0].size
        out = np.empty(size, np.float32)
        buffers = [np.zeros(CHUNK, np.float32) for _ in range(count + 1)]
        for begin in range(0, size, CHUNK):
            here = slice(begin, min(begin + CHUNK, size))
            length = here.stop - begin
            for buffer, operand in zip(buffers, operands, strict=False):
                buffer[:length] = operand[here]
            function(*(buffer.ctypes.data for buffer in buffers))
            out[here] = buffers[-1][:length]
        return out


def exact(name: str, *operands: Array) -> Array:
    """The function in f64."""
    with np.errstate(all="ignore"):
        return np.asarray(REFERENCES[name](*(operand.astype(np.float64) for operand in operands)))


def ulps(got: Array, wanted: Array) -> Array:
    """Errors in units in the last place of the exact results `wanted` (f64); infinite for a wrong NaN or a wrong sign of 0.

    Infinity counts as the successor of the largest number, because overflow rounds to it.
    """
    bound = 2.0**128
    with np.errstate(invalid="ignore", over="ignore"):
        right = np.clip(wanted, -bound, bound)
        error = np.abs(np.clip(got.astype(np.float64), -bound, bound) - right)
    # The last place of an f32 with this exponent, as the bits of an f64; subnormal numbers share that of the smallest normal ones.
    exponent = np.clip((right.view(np.int64) >> 52) & 0x7FF, 1023 - 126, 1023 + 127)
    error *= ((2 * 1023 + 23 - exponent) << 52).view(np.float64)
    wrong = np.isnan(got) != np.isnan(wanted)
    wrong |= (wanted == 0) & (np.signbit(got) != np.signbit(wanted))
    return np.where(wrong, np.inf, np.where(np.isnan(wanted), 0.0, error))


def around(value: float, count: int = 256) -> Array:
    """The f32 numbers closest to `value`, `count` on each side, with both signs."""
    middle = int(np.array(abs(value), np.float32).view(np.uint32))
    near = np.arange(max(middle - count, 0), min(middle + count, 0x7FFFFFFF)).astype(np.uint32).view(np.float32)
    return np.concatenate([near, -near])


# Points at which the functions, or our algorithms for them, change their behaviour.
THRESHOLDS = (
    0.0, 2.0**-149, 2.0**-126, 2.0**-25, 2.0**-24, 2.0**-13, 2.0**-12, 0.25, 0.5, 0.625, 1.0, 2.0, 4.0, 3.9192059, 9.01, 9.1, 17.33, 18.0,
    88.72284, 87.33655, 89.0, 89.41599, 89.6, 103.2789, 103.97208, 104.0, 126.0, 127.0, 128.0, 129.0, 149.0, 150.0, 151.0, 0.70710678, 1.41421356,
    2.0**15, 2.0**28, 2.0**127, np.inf, *(2.0 ** (24 * j) for j in range(1, 6)),
    *(np.log(2) * (k + 0.5) for k in range(-3, 4)), *(np.pi / 4 * k for k in range(1, 20)),
    16367173 * 2.0**72,  # the f32 from 2^24 on that is closest to a multiple of pi / 2
)  # fmt: skip


def sample(stride: int) -> Iterator[Array]:
    """f32 numbers to measure at, in chunks: those around thresholds, and one in `stride` of all.

    Consecutive numbers are spread over the whole range, so that a vector holds large and small ones. (The bits are multiples of an odd number modulo
    2^32 near its golden section: each occurs once, and any stretch of them is spread evenly. D. E. Knuth, TAOCP 6.4.)
    """
    yield np.concatenate([around(value) for value in THRESHOLDS])
    for start in range(0, ALL // stride, CHUNK * 4):
        yield (np.arange(start, min(start + CHUNK * 4, ALL // stride), dtype=np.uint64) * 0x9E3779B1).astype(np.uint32).view(np.float32)


SPECIALS = np.array(
    [
        0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 2.0**-149, 2.0**-126, 2.0**24, 2.0**24 - 1, 2.0**23 + 1, 2.0**127, 3.4028235e38,
        1 - 2.0**-24, 1 + 2.0**-23, np.inf, np.nan,
    ],
    np.float32,
)  # fmt: skip


def pairs(count: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Operands of powers: all pairs of special values, random bits, and pairs whose power lies within the range of f32."""
    values = np.concatenate([SPECIALS, -SPECIALS])
    grid = np.meshgrid(values, values)
    yield grid[0].ravel(), grid[1].ravel()
    rng = np.random.default_rng(seed)
    for _ in range(0, count, CHUNK):
        with np.errstate(all="ignore"):
            yield tuple(rng.integers(0, ALL, CHUNK, dtype=np.uint32).view(np.float32) for _ in range(2))  # type: ignore[misc]
            x = np.exp2(rng.uniform(-149, 128, CHUNK)).astype(np.float32)
            near = np.exp2(rng.normal(0, 1, CHUNK) * np.exp2(rng.uniform(-20, 0, CHUNK))).astype(np.float32)
            base = np.where(rng.random(CHUNK) < 0.5, x, near)
            exponent = (rng.uniform(-151, 129, CHUNK) / np.log2(base.astype(np.float64))).astype(np.float32)
            whole = np.rint(rng.uniform(-40, 40, CHUNK)).astype(np.float32)
            yield base, exponent
            yield -base, whole


@dataclass
class Worst:
    """The largest error found, and its operands."""

    ulps: float = 0.0
    at: tuple[float, ...] = ()
    got: float = 0.0
    count: int = 0
    differing: int = 0
    """The number of results whose bits differ between widths."""

    def add(self, operands: Sequence[Array], got: Array, others: Sequence[Array], wanted: Array) -> None:
        error = ulps(got, wanted)
        worst = int(np.argmax(error))
        self.count += error.size
        if error[worst] > self.ulps:
            self.ulps, self.at, self.got = float(error[worst]), tuple(float(o[worst]) for o in operands), float(got[worst])
        for other in others:
            same = (got.view(np.uint32) == other.view(np.uint32)) | (np.isnan(got) & np.isnan(other))
            self.differing += int(np.count_nonzero(~same))


def measure(compiled: Compiled, name: str, points: Iterable[Sequence[Array]], widths: Sequence[int]) -> Worst:
    """The largest error of a function at `points`; the first of `widths` is measured, and the others must give the same bits."""
    worst = Worst()
    for operands in points:
        results = [compiled(name, width, *operands) for width in widths]
        worst.add(operands, results[0], results[1:], exact(name, *operands))
    return worst


def points(name: str, stride: int) -> Iterator[Sequence[Array]]:
    """The points at which a function is measured."""
    if name == "powf":
        return iter(pairs(ALL // stride // 3))
    return ((x,) for x in sample(stride))


def table() -> str:
    """The functions with their methods and bounds, as in the docs page."""
    lines = ["| op | largest error (ulp) | how |", "| --- | --- | --- |"]
    for e in EXPANSIONS.values():
        how = " ".join((inspect.getdoc(e.function) or "").split()).replace("|", "\\|")
        lines.append(f"| `{e.op}` | {e.ulps:g} | {how} |")
    return "".join(f"{line}\n" for line in lines)


def page_with_table(page: str) -> str:
    """The page with its table updated."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def main() -> int:
    """Measure the functions given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=f"of {', '.join(map(short, EXPANSIONS))} (default: all)")
    parser.add_argument("--stride", type=int, default=1, metavar="N", help="take one f32 in N (default: 1, all of them: minutes for each function)")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/vector-math.md instead")
    options = parser.parse_args()
    if options.docs:
        PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    chosen = [e for e in EXPANSIONS.values() if not options.functions or short(e.op) in options.functions]
    compiled = Compiled(chosen, (16, 1))
    bad = 0
    for e in chosen:
        name = short(e.op)
        worst = measure(compiled, name, points(name, options.stride), (16, 1))
        failed = worst.ulps > e.ulps or worst.differing > 0
        bad += failed
        where = ", ".join(f"{value!r}" for value in worst.at)
        lanes = f", {worst.differing} lanes differ" if worst.differing else ""
        print(f"{name:6} {worst.ulps:8.4f} ulp of at most {e.ulps:g} at ({where}) of {worst.count}{lanes}{' WRONG' * failed}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
