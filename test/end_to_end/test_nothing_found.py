"""Tensors of which the data, or a call, leave no element: what has nothing to read asks for none, and indices into them are in range."""

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, parser

import stepwell
from stepwell.dialects.core.sizes import Dim, assumptions, has_elements, symbol
from stepwell.dialects.support.errors import IndexRangeError

HEADER = '<ir_version: 9, opset_import: ["" : 18]> '
VECTORS = {"zero": [0], "one": [1], "two": [2], "three": [3], "back": [-1], "edges": [0, 1, 0, 2], "pairs": [2, 2], "ten": [10]}
NUMBERS = (
    "".join(f"{name} = Constant<value = int64[{len(values)}] {{{', '.join(map(str, values))}}}>() " for name, values in VECTORS.items())
    + "zero_ = Constant<value = int64 {0}>() half = Constant<value_float = 0.5>() low = Constant<value = float[1] {0.1}>() "
)
# `t` has k rows of 4; each part ends with an output of its own.
PARTS = {
    "chosen": ("float[a, 4]", ("c1 = Greater(t, half) c2 = Gather<axis = 1>(c1, zero_) c3 = NonZero(c2) c4 = Squeeze(c3, zero) "
               "chosen = Gather<axis = 0>(t, c4)")),
    "points": ("float[b]", "p1 = NonZero(c1) p2 = Transpose(p1) points = GatherND(t, p2)"),
    "scattered": ("float[c, 4]", "s1 = Neg(points) scattered = ScatterND(t, p2, s1)"),
    "best": ("float[d, 4]", ("n = Shape<start = 0, end = 1>(t) b1 = Min(n, three) b2, b3 = TopK<axis = 0>(t, b1) "
             "best = GatherElements<axis = 0>(t, b3)")),
    "sorted": ("float[e, 4]", "o1 = Gather<axis = 1>(t, zero_) o2, o3 = TopK<axis = 0, largest = 0>(o1, n) sorted = Gather<axis = 0>(t, o3)"),
    "places": ("float[f, 1]", "l1 = ArgMax<axis = 1>(t) places = GatherElements<axis = 1>(t, l1)"),
    "hard": ("float[g, 4]", "hard = Hardmax<axis = 0>(t)"),
    "padded": ("float[h, 7]", 'padded = Pad<mode = "edge">(t, edges)'),
    "rows": ("float[i, 2, 2]", "r1 = Reshape(t, back) r2 = Concat<axis = 0>(n, pairs) rows = Reshape(r1, r2)"),
    "regions": ("float[j, 2, 2, 2]", ("i1 = ConstantOfShape<value = int64[1] {0}>(n) "
                "regions = RoiAlign<output_height = 2, output_width = 2>(image, t, i1)")),
    "kept": ("float[l, 4]", ("k1 = Unsqueeze(t, zero) k2 = Unsqueeze(o1, zero) k3 = Unsqueeze(k2, zero) "
            "k4 = NonMaxSuppression(k1, k3, ten, low, low) "
             "k5 = Gather<axis = 1>(k4, two) k6 = Squeeze(k5, one) kept = Gather<axis = 0>(t, k6)")),
    "different": ("float[m]", "d1, d2, d3, d4 = Unique(r1) different = Gather(d1, d3)"),
}  # fmt: skip
X = np.random.default_rng(3).uniform(0, 1, (6, 4)).astype(np.float32)
IMAGE = np.random.default_rng(4).standard_normal((1, 2, 6, 6)).astype(np.float32)


def source(inputs: str, made: str) -> ModelProto:
    outputs = ", ".join(f"{kind} {name}" for name, (kind, _) in PARTS.items())
    body = " ".join(text for _, text in PARTS.values())
    return parser.parse_model(f"{HEADER}g ({inputs}, float[1, 2, 6, 6] image) => ({outputs}) {{ {NUMBERS} {made} {body} }}")


@pytest.mark.parametrize("way", ["found", "given"])
def test_what_is_read_of_nothing_is_nothing(way: str) -> None:
    found = way == "found"
    model = source("float[6, 4] x, bool[6] keep", "t = Compress<axis = 0>(x, keep)") if found else source("float[k, 4] t", "")
    compiled = stepwell.compile(model, specialise="never", threads=1)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for rows in (3, 0, 1, 6):
        feeds = {"image": IMAGE} | ({"x": X, "keep": np.arange(6) < rows} if found else {"t": X[:rows]})
        got = compiled.run(feeds)
        for name, want in zip(PARTS, session.run(list(PARTS), feeds), strict=True):
            assert got[name].shape == want.shape, f"{name} of {rows}"
            np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6, err_msg=f"{name} of {rows}")
    if not found:
        assert {made.state for made in compiled.specialisations} == {"general"}, "a size of 0 had code of its own"


def test_an_index_into_nothing_is_out_of_range() -> None:
    text = "t = Compress<axis = 0>(x, keep) y = Gather<axis = 0>(t, i)"
    compiled = stepwell.compile(parser.parse_model(f"{HEADER}g (float[6, 4] x, bool[6] keep, int64[n] i) => (float[k, 4] y) {{ {text} }}"), threads=1)
    none, some = np.zeros(6, bool), np.arange(6) < 2
    assert compiled.run({"x": X, "keep": none, "i": np.zeros(0, np.int64)})["y"].shape == (0, 4)
    np.testing.assert_array_equal(compiled.run({"x": X, "keep": some, "i": np.array([1, -2])})["y"], X[[1, 0]])
    for keep, i in ((none, [0]), (some, [2]), (some, [0, -3])):
        with pytest.raises(IndexRangeError, match="SW010"):
            compiled.run({"x": X, "keep": keep, "i": np.array(i)})


def test_places_along_a_free_size_are_checked_beside_others() -> None:
    """ArgMax and TopK along a free size, beside indices that are computed and products of integers: these ask for ranges of all values."""
    text = (
        f"{NUMBERS} a = ArgMax<axis = -1, keepdims = 1>(ids) y0 = GatherElements<axis = 1>(h, a) b, y1 = TopK<axis = 1>(h, two) "
        "y2 = Gather<axis = 1>(h, j) c = MatMulInteger(q, q) d = ArgMin<axis = 0, keepdims = 0>(c) y3 = Gather(d, zero_) y4 = Hardmax<axis = 0>(h) "
    )
    kinds = "float[b, 1] y0, int64[b, 2] y1, float[b, n] y2, int64 y3, float[b, s] y4"
    model = parser.parse_model(f"{HEADER}g (int64[b, s] ids, float[b, s] h, int64[n] j, int8[s, s] q) => ({kinds}) {{ {text} }}")
    compiled = stepwell.compile(model, specialise="never", threads=1)
    rng = np.random.default_rng(0)
    for b, s in ((2, 5), (1, 2), (3, 9)):
        ids, h, j = rng.integers(0, 99, (b, s)), rng.standard_normal((b, s)).astype(np.float32), rng.integers(-s, s, 4)
        q = rng.integers(-9, 9, (s, s)).astype(np.int8)
        y0, y1, y2, y3, y4 = compiled(ids, h, j, q)
        np.testing.assert_array_equal(y0, np.take_along_axis(h, ids.argmax(1, keepdims=True), 1))
        np.testing.assert_array_equal(y1, np.argsort(-h, axis=1)[:, :2])
        np.testing.assert_array_equal(y2, h[:, j])
        assert y3 == (q.astype(np.int32) @ q).argmin(0)[0]
        np.testing.assert_array_equal(y4, h == h.max(0))


def test_elements_are_asked_for_where_any_is_needed() -> None:
    n, k = symbol("n"), symbol("k")
    with assumptions() as found:
        fitting: list[tuple[Dim, Dim]] = [(n, 0), (0, 0), (n + 1, k), (n, n), (0, k), (None, 2), (n, None)]
        assert all(has_elements(*pair) for pair in fitting)
        assert not has_elements(0, 2)
        assert not has_elements(0, k + 1)
    assert [str(a) for a in found] == ["max(-k + 1, 0) > 0", "n > 0"]
    with assumptions() as found:
        assert has_elements(n, 3)
        assert has_elements(n, 2 * k)
    assert [str(a) for a in found] == ["n > 0", "max(-2*k + 1, n) > 0"]
    assert [[a.holds({"n": x, "k": y}) for a in found] for x, y in ((0, 0), (0, 1), (1, 0))] == [[False, True], [False, False], [True, True]]


GUARDED = {
    "first": ("float[4]", "first = Gather<axis = 0>(t, zero_)", "first = Identity(row)"),
    "greatest": ("float[4]", ("g1 = ArgMax<axis = 0>(t) g2 = Slice(g1, zero, one, one) g3 = Squeeze(g2) "
                 "greatest = Gather<axis = 0>(t, g3)"), "greatest = Neg(row)"),
    "element": ("float[1, 4]", "e1 = Expand(zero, e0) element = GatherElements<axis = 0>(t, e1)", "element = Unsqueeze(row, zero)"),
    "point": ("float", "q1 = GatherND(t, origin) point = Exp(q1)", "point = Gather(row, zero_)"),
    "put": ("float[o, 4]", "p0 = Unsqueeze(row, zero) p1 = Unsqueeze(zero, zero) put = ScatterND(t, p1, p0)", "put = Unsqueeze(row, zero)"),
}  # fmt: skip


def guarded_model() -> ModelProto:
    """Branches for a case in which there is something, and loops over what there is."""
    made = (
        "t = Compress<axis = 0>(x, keep) k = Shape<start = 0, end = 1>(t) some = Greater(k, least) rounds = Add(k, more) r = Squeeze(rounds, zero) "
    )
    made += "e0 = Constant<value = int64[2] {1, 4}>() origin = Constant<value = int64[2] {0, 0}>() yes = Constant<value = bool {1}>() "
    for name, (kind, then, otherwise) in GUARDED.items():
        sides = [f"{which} = {which[0]} () => ({kind} {name}) {{ {text} }}" for which, text in (("then_branch", then), ("else_branch", otherwise))]
        made += f"{name} = If (some) <{', '.join(sides)}> "
    made += "rows = Loop(r, yes) <body = l (int64 i, bool go) => (bool on, float[4] one_) { "
    made += "on = Identity(go) l1 = Gather<axis = 0>(t, i) one_ = Neg(l1) }> "
    outputs = ", ".join([*(f"{kind} {name}" for name, (kind, *_) in GUARDED.items()), "float[p, 4] rows"])
    inputs = "float[6, 4] x, bool[6] keep, float[4] row, int64[1] least, int64[1] more"
    return parser.parse_model(f"{HEADER}g ({inputs}) => ({outputs}) {{ {NUMBERS} {made} }}")


def test_what_branches_and_loops_read_is_asked_for_where_they_run() -> None:
    compiled = stepwell.compile(guarded_model(), specialise="never", threads=1)
    row = np.array([1, 2, 3, 4], np.float32)
    feeds = {"x": X, "row": row, "least": np.array([0]), "more": np.array([0])}
    for found in (3, 0, 1, 6):
        t = X[:found]
        got = compiled.run({**feeds, "keep": np.arange(6) < found})
        want = {"first": row, "greatest": -row, "element": row[None], "point": row[0], "put": row[None], "rows": -t}
        if found:
            want |= {"first": t[0], "greatest": t[t.argmax(0)[0]], "element": t[:1], "point": np.exp(t[0, 0]), "put": np.vstack([row[None], t[1:]])}
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-6, err_msg=f"{name} of {found}")
    for changed in ({"least": np.array([-1])}, {"more": np.array([1])}):  # a branch that reads of nothing, a round too many
        with pytest.raises(IndexRangeError, match="SW010"):
            compiled.run({**feeds, **changed, "keep": np.zeros(6, bool)})
    with pytest.raises(IndexRangeError, match="SW010"):
        compiled.run({**feeds, "more": np.array([1]), "keep": np.arange(6) < 2})
