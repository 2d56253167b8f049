"""Structured ops by their maps, for tests of schedules and of the model of their costs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from stepwell.dialects.core.mlir import ir, make_context, ops_below
from stepwell.passes.linalg.structured import Structured

FOLD = "%p = arith.mulf %x, %y : f32\n %s = arith.addf %acc, %p : f32\n linalg.yield %s : f32"
PRODUCT = ("(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)")


@contextmanager
def structured(maps: Sequence[str], kinds: str, shapes: Sequence[str], body: str = FOLD, elements: Sequence[str] = ()) -> Iterator[Structured]:
    """One linalg.generic; `kinds` has a `p` or an `r` for each loop, the last shape is the output's. Elements are f32 by default."""
    elements = elements or ["f32"] * len(shapes)
    types = [f"tensor<{shape}x{element}>" for shape, element in zip(shapes, elements, strict=True)]
    iterators = ", ".join(f'"{"parallel" if kind == "p" else "reduction"}"' for kind in kinds)
    names = [f"{name}: {element}" for name, element in zip(("%x", "%y"), elements[:-1], strict=False)]
    text = f"""func.func @f({", ".join(f"%a{i}: {t}" for i, t in enumerate(types))}) -> {types[-1]} {{
      %0 = linalg.generic {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps)}], iterator_types = [{iterators}]}}
        ins({", ".join(f"%a{i}" for i in range(len(types) - 1))} : {", ".join(types[:-1])}) outs(%a{len(types) - 1} : {types[-1]}) {{
      ^bb0({", ".join([*names, f"%acc: {elements[-1]}"])}):
        {body}
      }} -> {types[-1]}
      return %0 : {types[-1]}
    }}"""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        [op] = ops_below(module.operation, "linalg.generic")
        yield Structured(op)


def product(m: int, n: int, k: int) -> AbstractContextManager[Structured]:
    """A product of matrices."""
    return structured(PRODUCT, "ppr", [f"{m}x{k}", f"{k}x{n}", f"{m}x{n}"])


def half_weights(m: int, n: int, k: int) -> AbstractContextManager[Structured]:
    """The same, of f32 by f16."""
    widened = "%w = arith.extf %y : f16 to f32\n" + FOLD.replace("%x, %y", "%x, %w")
    return structured(PRODUCT, "ppr", [f"{m}x{k}", f"{k}x{n}", f"{m}x{n}"], widened, ["f32", "f16", "f32"])


def blocked(blocks: int, rows: int, columns: int, channels: int) -> AbstractContextManager[Structured]:
    """A 1x1 convolution of data in blocks of eight channels."""
    maps = ["(m, h, w, f, c, i) -> (c, h, w, i)", "(m, h, w, f, c, i) -> (m, c, i, f)", "(m, h, w, f, c, i) -> (m, h, w, f)"]
    shapes = [f"{channels}x{rows}x{columns}x8", f"{blocks}x{channels}x8x8", f"{blocks}x{rows}x{columns}x8"]
    return structured(maps, "pppprr", shapes)


def windows(taps: int, *, rows_inside: bool) -> AbstractContextManager[Structured]:
    """A plain convolution channel by channel."""
    loops = "(c, y, x, j, i)" if rows_inside else "(c, y, x, i, j)"
    maps = [f"{loops} -> (c, y + i, x + j)", f"{loops} -> (c, i, j)", f"{loops} -> (c, y, x)"]
    return structured(maps, "ppprr", [f"96x{56 + taps - 1}x{64 + taps - 1}", f"96x{taps}x{taps}", "96x56x64"])


def strided(stride: int, taps: int) -> AbstractContextManager[Structured]:
    """A convolution along one dimension, of data in blocks of 16 channels."""
    maps = [f"(m, x, f, c, k) -> (c, x * {stride} + k)", "(m, x, f, c, k) -> (m, c, k, f)", "(m, x, f, c, k) -> (m, x, f)"]
    return structured(maps, "ppprr", [f"3x{stride * 111 + taps}", f"4x3x{taps}x16", "4x112x16"])


def exponential(rows: int, columns: int, *, transposed: bool = False) -> AbstractContextManager[Structured]:
    """An exponential of each element."""
    maps = ["(i, j) -> (j, i)" if transposed else "(i, j) -> (i, j)", "(i, j) -> (i, j)"]
    shapes = [f"{columns}x{rows}" if transposed else f"{rows}x{columns}", f"{rows}x{columns}"]
    return structured(maps, "pp", shapes, "%s = math.exp %x : f32\n linalg.yield %s : f32")


def sums(rows: int, columns: int) -> AbstractContextManager[Structured]:
    """The sum of each row."""
    body = "%s = arith.addf %acc, %x : f32\n linalg.yield %s : f32"
    return structured(["(i, j) -> (i, j)", "(i, j) -> (i)"], "pr", [f"{rows}x{columns}", f"{rows}"], body)


def bytes_product(m: int, n: int, k: int, *, grouped: bool) -> AbstractContextManager[Structured]:
    """A product of bytes: of rows by rows; or `grouped`, of four neighbours of each column side by side."""
    body = """%a = arith.extui %x : i8 to i32
        %b = arith.extsi %y : i8 to i32
        %p = arith.muli %a, %b : i32
        %s = arith.addi %acc, %p : i32
        linalg.yield %s : i32"""
    if not grouped:
        maps = ["(i, j, k) -> (i, k)", "(i, j, k) -> (j, k)", "(i, j, k) -> (i, j)"]
        return structured(maps, "ppr", [f"{m}x{k}", f"{n}x{k}", f"{m}x{n}"], body, ["i8", "i8", "i32"])
    maps = ["(i, j, k, q) -> (i, k, q)", "(i, j, k, q) -> (k, j, q)", "(i, j, k, q) -> (i, j)"]
    return structured(maps, "pprr", [f"{m}x{k // 4}x4", f"{k // 4}x{n}x4", f"{m}x{n}"], body, ["i8", "i8", "i32"])


OPS: dict[str, Callable[[], AbstractContextManager[Structured]]] = {
    "product": lambda: product(60, 64, 30),
    "product with remainders": lambda: product(65, 100, 512),
    "large product": lambda: product(512, 512, 1024),
    "half weights": lambda: half_weights(64, 64, 512),
    "blocked": lambda: blocked(3, 56, 56, 12),
    "small blocked": lambda: blocked(5, 13, 11, 3),
    "windows kept": lambda: windows(7, rows_inside=True),
    "windows": lambda: windows(3, rows_inside=False),
    "crowded": lambda: strided(2, 7),
    "exponential": lambda: exponential(640, 100),
    "transposed exponential": lambda: exponential(300, 70, transposed=True),
    "sums": lambda: sums(200, 109),
    "rows of bytes": lambda: bytes_product(64, 50, 300, grouped=False),
    "groups of bytes": lambda: bytes_product(70, 96, 256, grouped=True),
}
"""Ops that reach every part of the model of costs."""
