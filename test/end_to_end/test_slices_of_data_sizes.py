"""Slices whose bounds or whose operand's size only a run tells: bounds are cut to the size, other sizes stay what they are."""

import itertools
import random

import numpy as np
import pytest
from covering import by_day
from onnx import ModelProto, parser

import stepwell
from stepwell.dialects.graph.indexing import slice_bounds

HEADER = '<ir_version: 9, opset_import: ["" : 18]> '
FAR = (1 << 63) - 1
BOUNDS = (-FAR, -9, -2, -1, 0, 1, 3, 9, FAR)
STEPS = (1, 2, -1, -3)


def vector(name: str, *numbers: int) -> str:
    return f"{name} = Constant<value = int64[{len(numbers)}] {{{', '.join(map(str, numbers))}}}>() "


def sliced(x: np.ndarray, start: int, end: int, step: int) -> np.ndarray:
    """What ONNX says of a slice of the rows."""
    return x[list(range(*slice_bounds(start, end, step, len(x)), step))]


def outputs(count: int, kind: str) -> str:
    return ", ".join(f"{kind.replace('k', f'k{i}')} y{i}" for i in range(count))


def parsed(text: str) -> ModelProto:
    return parser.parse_model(HEADER + text)


CARRIED = (
    "none = Slice(x, zero, zero, zero) t = Loop(n, , none) <body = l (int64 i, bool go, float[p, 2] had) => (bool on, float[q, 2] has) "
    "{ on = Identity(go) row = Gather(x, i) more = Unsqueeze(row, zero) has = Concat<axis = 0>(had, more) }> "
)
SOURCES = {
    "compressed": ("float[6, 2] x, bool[6] keep", "t = Compress<axis = 0>(x, keep) "),
    "element": ("float[6, 2] x, int64[1] n", "t = Slice(x, zero, n, zero) "),
    "carried": ("float[6, 2] x, int64 n", CARRIED),
}
ALL = list(itertools.product(BOUNDS, BOUNDS, STEPS))
TRIPLES = [(-9, -FAR, -1), *random.Random(0).sample(ALL, len(ALL))]  # ONNX: backwards from before the first begins at the first
BY_DAY = 12
PARTS = [TRIPLES[:BY_DAY], *(TRIPLES[i : i + 26] for i in range(BY_DAY, len(TRIPLES), 26))]


def given(source: str, x: np.ndarray, rows: int) -> dict[str, np.ndarray]:
    said = {"compressed": np.arange(6) < rows, "element": np.array([rows]), "carried": np.array(rows)}[source]
    return {"x": x, "keep" if source == "compressed" else "n": said}


@pytest.mark.parametrize("part", by_day(range(len(PARTS)), [0]))
@pytest.mark.parametrize("source", SOURCES)
def test_constant_bounds_are_cut_to_a_size_that_data_decide(source: str, part: int) -> None:
    triples = PARTS[part]
    inputs, made = SOURCES[source]
    text = vector("zero", 0)
    for i, (start, end, step) in enumerate(triples):
        text += vector(f"a{i}", start) + vector(f"b{i}", end) + vector(f"c{i}", step)
    text += made + "".join(f"y{i} = Slice(t, a{i}, b{i}, zero, c{i}) " for i in range(len(triples)))
    compiled = stepwell.compile(parsed(f"g ({inputs}) => ({outputs(len(triples), 'float[k, 2]')}) {{ {text} }}"), specialise="never", threads=1)
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    for rows in (6, 0, 1, 2, 3):
        got = compiled.run(given(source, x, rows))
        for i, triple in enumerate(triples):
            np.testing.assert_array_equal(got[f"y{i}"], sliced(x[:rows], *triple), err_msg=f"{triple} of {rows}")


LOOP = (
    "none = ConstantOfShape(shape) {name} = Loop(n, , none) <body = l (int64 i, bool go, float[{had}] had) => (bool on, float[{has}] has) "
    "{{ on = Identity(go) at = Unsqueeze(i, zero) {body} has = Concat<axis = {axis}>(had, part) }}> "
)


def test_sizes_that_no_slice_touches_are_kept() -> None:
    """As the channels of a convolution, which must be numbers: behind slices along each axis, and what is known of shapes that are computed."""
    half = "c{0} = Constant<value_float = 1.0>() part = Mul(p{0}, c{0}) "
    loops = {
        "rows": ("0, 8", "p, q", "r, s", "p0 = Slice(x, zero, at, zero) " + half.format(0), 0),
        "columns": ("6, 0", "p, q", "r, s", "p1 = Slice(x, at, far, one) " + half.format(1), 1),
        "expanded": ("0, 6, 8", "p, q, t", "r, s, u", vector("d6", 6, 1) + "d = Concat<axis = 0>(at, d6) p2 = Expand(x, d) " + half.format(2), 0),
        "reshaped": ("1, 4, 0", "p, q, t", "r, s, u", vector("d1", 1, 8) + "r0 = Slice(x, zero, at, zero) r1 = Transpose(r0) "
                     "d = Concat<axis = 0>(d1, at) r2 = Reshape(r1, d) part = Conv(r2, w) ", 2),
        "filled": ("0, 3", "p, q", "r, s", vector("d3", 3) + "d = Concat<axis = 0>(at, d3) p3 = ConstantOfShape(d) part = Cos(p3) ", 0),
    }  # fmt: skip
    text = vector("zero", 0) + vector("one", 1) + vector("far", FAR)
    for name, (shape, had, has, body, axis) in loops.items():
        made = LOOP.format(name=name, had=had, has=has, body=body, axis=axis).replace("(shape)", f"(s_{name})").replace("none", f"no_{name}")
        text += vector(f"s_{name}", *map(int, shape.split(","))) + made
    text += (
        "k = ReduceSum<keepdims = 1>(mask) a = Slice(x, zero, k, zero) b = Slice(x, k, far, one) both = Relu(a) other = Relu(b) "
        "nothing = Slice(x, zero, zero, zero) s = SequenceConstruct(nothing) "
        "q = Loop(n, , s) <body = l (int64 i, bool go, seq(float[p, q]) had) => (bool on, seq(float[r, s]) has) "
        "{ on = Identity(go) part = Slice(x, zero, k, zero) has = SequenceInsert(had, part) }> sequence = ConcatFromSequence<axis = 0>(q) "
    )
    kinds = ["float[a0, a1] rows", "float[b0, b1] columns", "float[c0, c1, c2] expanded", "float[d0, d1, d2] reshaped", "float[e0, e1] filled",
             "float[f0, f1] both", "float[g0, g1] other", "float[h0, h1] sequence"]  # fmt: skip
    source = parsed(f"g (float[6, 8] x, float[4, 8, 1] w, int64[2000] mask, int64 n) => ({', '.join(kinds)}) {{ {text} }}")
    compiled = stepwell.compile(source, specialise="never", threads=1)
    x, w = np.random.default_rng(0).standard_normal((2, 48)).astype(np.float32).reshape(2, 6, 8)
    w = w[:4, :, None]
    shapes = {info.name: info.shape for info in compiled.outputs}
    assert (shapes["both"][1], shapes["other"][0], shapes["reshaped"][1], shapes["rows"][1]) == (8, 6, 4, 8)
    for n, k in ((4, 5), (0, 0), (1, 6), (6, 1)):
        got = compiled.run({"x": x, "w": w, "mask": (np.arange(2000) < k).astype(np.int64), "n": np.array(n)})
        filters = w[:, :, 0]
        want = {
            "rows": np.concatenate([x[:0], *(x[:i] for i in range(n))]),
            "columns": np.concatenate([x[:, :0], *(x[:, i:] for i in range(n))], axis=1),
            "expanded": np.concatenate([np.zeros((0, 6, 8)), *(np.stack([x] * i) for i in range(1, n))]),
            "reshaped": np.concatenate([np.zeros((4, 0)), *(filters @ x[:i].T for i in range(n))], axis=1)[None],
            "filled": np.ones((n * (n - 1) // 2, 3)), "both": np.maximum(x[:k], 0), "other": np.maximum(x[:, k:], 0),
            "sequence": np.concatenate([x[:0], *([x[:k]] * n)]),
        }  # fmt: skip
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5, err_msg=f"{name}, {n} rounds, {k}")


def test_a_bound_whose_sign_the_data_decide() -> None:
    text = vector("zero", 0) + vector("three", 3) + vector("far", FAR) + "k = ReduceSum<keepdims = 1>(mask) t = Slice(x, zero, k, zero) "
    text += "less = Sub(k, three) y0 = Slice(t, zero, less, zero) y1 = Slice(t, less, far, zero) s = Shape(t) none = Mul(s, zero) "
    text += "at = Slice(s, zero, three, zero) y2 = Slice(x, at, far) y3 = Slice(t, three, less, zero) "
    compiled = stepwell.compile(parsed(f"g (float[6] x, int64[6] mask) => ({outputs(4, 'float[k]')}) {{ {text} }}"), specialise="never", threads=1)
    x = np.arange(6, dtype=np.float32)
    for k in range(7):
        got = compiled.run({"x": x, "mask": (np.arange(6) < k).astype(np.int64)})
        t = x[:k]
        for name, want in {"y0": t[: k - 3], "y1": t[k - 3 :], "y2": x[k:], "y3": t[3 : k - 3]}.items():
            np.testing.assert_array_equal(got[name], want, err_msg=f"{name} of {k}")


def test_a_bound_beyond_a_size_that_is_never_that_large() -> None:
    """A size of inputs that is at most 4: bounds that it never reaches are no error of the model."""
    text = vector("zero", 0) + vector("four", 4) + vector("ten", 10) + vector("back", -10) + "n = Shape<start = 0, end = 1>(x) m = Min(n, four) "
    text += "t = Slice(x, zero, m, zero) y0 = Slice(t, zero, ten, zero) y1 = Slice(t, back, ten, zero) y2 = Slice(t, ten, ten, zero) "
    compiled = stepwell.compile(parsed(f"g (float[n, 2] x) => ({outputs(3, 'float[k, 2]')}) {{ {text} }}"), specialise="never", threads=1)
    for rows in (9, 4, 1, 0):
        x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        for got, want in zip(compiled(x), (x[:4], x[:4], x[:0]), strict=True):
            np.testing.assert_array_equal(got, want)
