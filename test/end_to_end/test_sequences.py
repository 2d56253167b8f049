"""Sequences and optionals in compiled code: their results are those of ONNX Runtime, or of ONNX's evaluator where it has no kernel."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from covering import by_day
from onnx import ModelProto, parser
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, NotImplemented
from together import together

import stepwell
from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.dialects.support.errors import LimitError
from stepwell.runtime import late_sizes
from stepwell.runtime.boxes import Boxes

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'
X = np.random.default_rng(7).standard_normal((5, 3)).astype(np.float32)
# The trip count follows from data, and the condition is computed: the loop is compiled, for any number of rounds.
ROUNDS = """
  sum = ReduceSum <keepdims = 0> (x)
  whole = Cast <to = 7> (sum)
  none = Constant <value_int = 0> ()
  zero = Mul (whole, none)
  rounds = Add (zero, k)
  yes = Constant <value = bool {1}> ()
  start = SequenceEmpty <dtype = 1> ()
"""


def counted(number: int) -> np.ndarray:
    return np.array(number, np.int64)


def model(text: str) -> ModelProto:
    return parser.parse_model(HEADER + text)


def loop(body: str, start: str = "start", outputs: str = "float[a, 3] y", after: str = "y = ConcatFromSequence <axis = 0> (s)") -> ModelProto:
    """A loop that carries a sequence `s`, whose body makes `so` of `si`, the round `i` and the input `x`."""
    return model(
        f"g (float[n, 3] x, int64 k) => ({outputs}) {{ {ROUNDS}\n first = SequenceConstruct (x)\n"
        f"s = Loop (rounds, yes, {start}) <body = b (int64 i, bool go, seq(float[p, 3]) si) => (bool go2, seq(float[q, 3]) so)"
        f"{{ go2 = Identity (go)\n {body} }}> {after} }}"
    )


def expected(proto: ModelProto, given: tuple[Any, ...]) -> list[Any]:
    feeds = dict(zip([value.name for value in proto.graph.input], given, strict=True))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeError):
        return list(ReferenceEvaluator(proto).run(None, feeds))


def assert_same(got: Any, want: Any, terms: int = 16) -> None:
    """Equal form, types and shapes; values within the rounding of that many operations."""
    if want is None or isinstance(want, list):
        assert (got is None) == (want is None)
        assert want is None or (isinstance(got, list) and len(got) == len(want))
        for one, other in zip(got or (), want or (), strict=True):
            assert_same(one, other, terms)
        return
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind == "f":
        eps = np.finfo(want.dtype).eps
        np.testing.assert_allclose(got, want, rtol=terms * eps, atol=terms * eps * max(1.0, np.abs(want).max(initial=0)))
    else:
        np.testing.assert_array_equal(got, want)


CALLS = [(X, counted(4)), (X[:2], counted(1)), (X[:1], counted(7)), (X[:3], counted(4))]
READ_LAST = "last = Constant <value_int = -1> ()\n e = SequenceAt (si, last)"
LOOPS = {
    "inserted": loop("f = Cast <to = 1> (i)\n v = Add (x, f)\n so = SequenceInsert (si, v)"),
    "of other sizes": loop(f"{READ_LAST}\n v = Concat <axis = 0> (e, x)\n so = SequenceInsert (si, v)", "first"),
    "in front": loop("f = Cast <to = 1> (i)\n v = Sub (x, f)\n front = Constant <value_int = 0> ()\n so = SequenceInsert (si, v, front)"),
    "in between": loop("f = Cast <to = 1> (i)\n v = Mul (x, f)\n so = SequenceInsert (si, v, i)", "first"),
    "erased": loop(
        "e = SequenceAt (si, i)\n v = Tanh (e)\n a = SequenceInsert (si, v, i)\n c = SequenceInsert (a, e)\n place = Constant <value_int = -2> ()\n"
        "so = SequenceErase (c, place)", "first", "float[a, 3] y, int64 l", "y = ConcatFromSequence <axis = 0> (s)\n l = SequenceLength (s)",
    ),
    "states": loop("front = Constant <value_int = 0> ()\n e = SequenceAt (si, front)\n v = Sin (e)\n r = SequenceErase (si, front)\n"
                   "so = SequenceInsert (r, v)", "first"),
    "guarded": loop(
        "front = Constant <value_int = 0> ()\n new = Equal (i, front)\n v = If (new) <then_branch = t () => (float[u, 3] a) { a = Identity (x) },"
        "else_branch = o () => (float[w, 3] c) { last = Constant <value_int = -1> ()\n e = SequenceAt (si, last)\n c = Cos (e) }>\n"
        "so = SequenceInsert (si, v)"
    ),
    "in a branch": loop(
        "two = Constant <value_int = 2> ()\n odd = Mod (i, two)\n is_odd = Cast <to = 9> (odd)\n"
        "so = If (is_odd) <then_branch = t () => (seq(float[u, 3]) a) { a = Identity (si) },"
        "else_branch = o () => (seq(float[w, 3]) c) { v = Concat <axis = 0> (x, x)\n c = SequenceInsert (si, v) }>", "first",
    ),
    "nested": loop(
        "so = Loop (i, go, si) <body = inner (int64 j, bool on, seq(float[p2, 3]) ti) => (bool on2, seq(float[q2, 3]) to) { on2 = Identity (on)\n"
        "f = Cast <to = 1> (j)\n v = Mul (x, f)\n to = SequenceInsert (ti, v) }>", "first",
    ),
    "stacked": loop("f = Cast <to = 1> (i)\n v = Add (x, f)\n so = SequenceInsert (si, v)", outputs="float[a, c, 3] y",
                    after="y = ConcatFromSequence <axis = 1, new_axis = 1> (s)"),
    "returned": loop(f"{READ_LAST}\n v = Concat <axis = 0> (e, x)\n so = SequenceInsert (si, v)", "first", "seq(float[a, 3]) t",
                     "t = Identity (s)"),
    "mapped": loop(
        "f = Cast <to = 1> (i)\n v = Add (x, f)\n so = SequenceInsert (si, v)", outputs="float[a, 3] y, float[c, 3] z",
        after="m, o = SequenceMap (s, x) <body = each (float[d, 3] e, float[n2, 3] w) => (float[d2, 3] p, float[d3, 3] r)"
        "{ p = Sigmoid (e)\n r = Mul (e, w) }>\n y = ConcatFromSequence <axis = 0> (m)\n z = ConcatFromSequence <axis = 0> (o)",
    ),
    "forked": loop(  # what is inserted into one sequence twice must not meet
        "f = Cast <to = 1> (i)\n v = Add (x, f)\n w = Mul (x, f)\n last = Constant <value_int = -1> ()\n a = SequenceInsert (si, v)\n"
        "c = SequenceInsert (si, w)\n d = SequenceInsert (c, x)\n e = SequenceAt (d, last)\n h = SequenceAt (c, last)\n so1 = SequenceInsert (a, e)\n"
        "so = SequenceInsert (so1, h)", "first",
    ),
    "forked from round to round": model(
        f"g (float[n, 3] x, int64 k) => (float[a, 3] y, float[c, 3] z) {{ {ROUNDS}\n first = SequenceConstruct (x)\n"
        "s, t = Loop (rounds, yes, start, first) <body = b (int64 i, bool go, seq(float[p, 3]) si, seq(float[p2, 3]) ti) =>"
        "(bool go2, seq(float[q, 3]) so, seq(float[q2, 3]) to) { go2 = Identity (go)\n f = Cast <to = 1> (i)\n v = Add (x, f)\n w = Mul (x, f)\n"
        "last = Constant <value_int = -1> ()\n so = SequenceInsert (si, v)\n e = SequenceAt (ti, last)\n d = Sub (e, w)\n"
        "to = SequenceInsert (si, d) }>\n u = SequenceInsert (t, x)\n y = ConcatFromSequence <axis = 0> (s)\n"
        "z = ConcatFromSequence <axis = 0> (u) }"
    ),
}  # fmt: skip


WAYS = [(name, specialise) for specialise in ("never", "always") for name in LOOPS]
OF_KNOWN_SIZES = ("of other sizes", "erased", "guarded")


@pytest.mark.parametrize(("name", "specialise"), by_day(WAYS, lambda way: way[1] == "never" or way[0] in OF_KNOWN_SIZES))
def test_loops_that_carry_sequences(name: str, specialise: str) -> None:
    compiled = stepwell.compile(LOOPS[name], specialise=specialise, cache=False)
    for given in CALLS if specialise == "never" else CALLS[:2]:
        for got, want in zip(compiled(*given), expected(LOOPS[name], given), strict=True):
            assert_same(got, want)


class Counting(Boxes):
    """Counts the bytes that are copied to grow, and how many boxes are followed."""

    copied = followed = 0

    def grow(self, place: int, before: int, size: int, *, nested: bool) -> int:
        found = super().grow(place, before, size, nested=nested)
        Counting.copied += before if found != place else 0
        return found

    def _whole_boxes(self, place: int) -> np.ndarray:
        found = super()._whole_boxes(place)
        Counting.followed += found.size // BOX_ELEMENTS
        return found


def test_to_append_takes_constant_time_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_sizes, "Boxes", Counting)
    compiled = stepwell.compile(LOOPS["inserted"], specialise="never")
    assert "grows = [[" in compiled.ir("affine")
    x, rounds = X[:1], 1000
    (y,) = compiled(x, counted(rounds))
    np.testing.assert_array_equal(y, x + np.arange(rounds, dtype=np.float32)[:, None])
    assert 0 < Counting.copied <= 2 * 8 * BOX_ELEMENTS * rounds
    assert Counting.followed <= 8 * rounds + 64 * 64


def test_a_sequence_that_grows_heeds_the_limit_of_a_run() -> None:
    compiled = stepwell.compile(LOOPS["inserted"], specialise="never", limits=stepwell.Limits(workspace_bytes=1 << 18))
    assert compiled(X[:1], counted(300))[0].shape == (300, 3)
    with pytest.raises(LimitError, match=r"Loop_\d+.*more than 262144 \(limit workspace_bytes\)"):
        compiled(X[:1], counted(5000))
    assert compiled(X[:1], counted(300))[0].shape == (300, 3)


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_at_the_same_time(threads: int) -> None:
    compiled = stepwell.compile(LOOPS["returned"], specialise="never", threads=threads)
    wanted = [expected(LOOPS["returned"], given) for given in CALLS]

    def calls(shift: int) -> None:
        for i in range(12):
            given, want = CALLS[(i + shift) % len(CALLS)], wanted[(i + shift) % len(CALLS)]
            assert_same(compiled(*given), want)

    together(*(partial(calls, shift) for shift in range(3)))


CHOSEN = """
g (float[n, 3] x) => (float[a, 3] y, int64 l, seq(float[c, 3]) t) {
  sum = ReduceSum <keepdims = 0> (x)
  least = Constant <value = float {0}> ()
  positive = Greater (sum, least)
  s = If (positive) <
    then_branch = t () => (seq(float[u, 3]) a) { a = SequenceConstruct (x, x) },
    else_branch = o () => (seq(float[w, 3]) c) { d = Neg (x)
      e = Concat <axis = 0> (x, d)
      c = SequenceConstruct (x, d, e) }
  >
  y = ConcatFromSequence <axis = 0> (s)
  l = SequenceLength (s)
  t = Identity (s)
}"""


@pytest.mark.parametrize("rows", ["n", "5"])
def test_branches_of_different_lengths(rows: str) -> None:
    proto = model(CHOSEN.replace("[n, 3]", f"[{rows}, 3]"))
    compiled = stepwell.compile(proto, specialise="never")
    for given in (np.abs(X), -np.abs(X)):
        for got, want in zip(compiled(given), expected(proto, (given,)), strict=True):
            assert_same(got, want)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("split", ["", "2", "{2, 1}"])
def test_splits(split: str, axis: int) -> None:
    """Of a free dimension too: how many parts there are, only the run tells."""
    made = {"": "", "2": "p = Constant <value_int = 2> ()", "{2, 1}": "p = Constant <value_ints = [2, 1]> ()"}[split]
    for keepdims in (0, 1) if not split else (1,):
        text = f"""g (float[n, m] x) => (seq(float) s, int64 l) {{ {made}
          s = SplitToSequence <axis = {axis}, keepdims = {keepdims}> (x{", p" if split else ""})
          l = SequenceLength (s) }}"""
        proto = model(text)
        shapes = [(3, 3)] if "," in split else [(5, 3), (1, 4), (4, 1)]
        compiled = stepwell.compile(proto, specialise="never")
        for shape in shapes:
            x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
            for got, want in zip(compiled(x), expected(proto, (x,)), strict=True):
                assert_same(got, want)


def test_splits_by_sizes_of_the_run() -> None:
    """A list of any length, as torch writes `repeat_interleave` with one of ones, and one that is computed; sizes that do not fit are an error."""
    of_any_length = model("""g (float[n, 3] x, int64[k] p) => (seq(float) s, float[a, 3] y, int64 l) {
      s = SplitToSequence <axis = 0> (x, p)
      y = ConcatFromSequence <axis = 0> (s)
      l = SequenceLength (s) }""")
    computed = model("""g (float[n, 3] x, int64[2] u) => (seq(float) s) { p = Abs (u)
      s = SplitToSequence <axis = 0> (x, p) }""")
    repeated = model("""g (float[n, 3] x, int64[n] times) => (float[a, 3] y) {
      shape = Shape (times)
      ones = ConstantOfShape <value = int64[1] {1}> (shape)
      parts = SplitToSequence <axis = 0> (x, ones)
      counts = SplitToSequence <axis = 0> (times, ones)
      count = Squeeze (shape)
      yes = Constant <value = bool {1}> ()
      start = SequenceEmpty <dtype = 1> ()
      s = Loop (count, yes, start) <body = b (int64 i, bool go, seq(float[p, 3]) si) => (bool go2, seq(float[q, 3]) so) {
        go2 = Identity (go)
        one = SequenceAt (parts, i)
        number = SequenceAt (counts, i)
        columns = Constant <value_ints = [3]> ()
        sizes = Concat <axis = 0> (number, columns)
        more = Expand (one, sizes)
        so = SequenceInsert (si, more)
      }>
      y = ConcatFromSequence <axis = 0> (s) }""")
    x = np.random.default_rng(3).standard_normal((6, 3)).astype(np.float32)
    lists = [np.array(numbers) for numbers in ([1, 2, 3], [6], [0, 2, 0, 4], [2, 1])]
    cases = [(of_any_length, [(x[: numbers.sum()], numbers) for numbers in lists])]
    cases += [(computed, [(x, np.array([-2, 4])), (x, np.array([5, -1]))])]
    cases += [(repeated, [(x[: len(numbers)], numbers) for numbers in lists[::3]])]
    for proto, calls in cases:
        compiled = stepwell.compile(proto, specialise="never")
        for given in calls:
            for got, want in zip(compiled(*given), expected(proto, given), strict=True):
                assert_same(got, want)
    with pytest.raises(stepwell.IndexRangeError, match="the data ask for the size 7, where n is 6"):
        stepwell.compile(of_any_length, specialise="never")(x, np.array([3, 4]))


PICKED = model("g (seq(float[n, 3]) s, int64 k, float[n, 3] x) => (float[a, 3] e, seq(float[c, 3]) t, float[d, 3] y, int64 l) {"
               "e = SequenceAt (s, k)\n t = SequenceInsert (s, x, k)\n y = ConcatFromSequence <axis = 0> (t)\n l = SequenceLength (s) }")  # fmt: skip


@pytest.mark.parametrize("specialise", ["auto", "always", "never"])
def test_sequences_as_inputs(specialise: str) -> None:
    compiled = stepwell.compile(PICKED, specialise=specialise, cache=False)
    assert [str(info) for info in (*compiled.inputs[:1], *compiled.outputs)] == [
        "seq(float32[?x3])", "float32[ax3]" if "a" in compiled.outputs[0].shape else "float32[?x3]", "seq(float32[?x3])", "float32[?x3]", "int64[]",
    ]  # fmt: skip
    for given in (([X], counted(0), X[:2]), ([X, X[:1]], counted(1), X[2:]), ([X[:1], X, X[:3]], counted(-2), X[:4]), ([X], counted(0), X[:3])):
        for got, want in zip(compiled(*given), expected(PICKED, given), strict=True):
            assert_same(got, want)
        by_name = compiled.run(dict(zip("skx", given, strict=True)))
        assert_same(by_name["t"], expected(PICKED, given)[1])


def test_a_sequence_of_a_known_structure() -> None:
    """Its elements are inputs of their own then."""
    compiled = stepwell.compile(PICKED, shapes={"s": [(2, 3), (None, 3)], "x": (2, 3)}, values={"k": counted(1)}, specialise="never")
    assert [(info.name, info.shape) for info in compiled.inputs] == [("s.0", (2, 3)), ("s.1", ("s_1_0", 3)), ("x", (2, 3))]
    got = compiled(X[:2], X, X[3:])
    for one, want in zip(got, expected(PICKED, ([X[:2], X], counted(1), X[3:])), strict=True):
        assert_same(one, want)


HELD = {
    "tensor": ("optional(float[n, 3]) o, float[n, 3] d", "float[a, 3] t"),
    "sequence": ("optional(seq(float[n, 3])) o, float[n, 3] d", "seq(float[a, 3]) t"),
}


@pytest.mark.parametrize("kind", HELD)
def test_optionals_as_inputs(kind: str) -> None:
    inputs, inner = HELD[kind]
    default = "e = Neg (d)" if kind == "tensor" else "f = Neg (d)\n e = SequenceConstruct (f)"
    proto = model(f"g ({inputs}) => ({inner.replace(' t', ' y')}, bool h) {{ h = OptionalHasElement (o)\n"
                  f"y = If (h) <then_branch = g1 () => ({inner})"
                  f"{{ t = OptionalGetElement (o) }}, else_branch = g2 () => ({inner.replace(' t', ' e')}) {{ {default} }}> }}")  # fmt: skip
    compiled = stepwell.compile(proto)
    some: list[Any] = [X[:2], X] if kind == "tensor" else [[X[:2], X], []]
    for held in (None, *some, None):
        y, h = compiled(held, X[:1])
        assert bool(h) == (held is not None)
        assert_same(y, held if held is not None else -X[:1] if kind == "tensor" else [-X[:1]])


def test_optionals_as_outputs() -> None:
    proto = model("g (optional(seq(float[n, 3])) o) => (optional(seq(float[n, 3])) p) { p = Identity (o) }")
    compiled = stepwell.compile(proto)
    assert str(compiled.outputs[0]) == "optional(seq(float32[?x3]))"
    for held in (None, [], [X[:2]], [X, X[:1]]):
        assert_same(compiled(held)[0], held)


BAD: list[tuple[tuple[Any, ...], str]] = [
    ((X, counted(0), X), r"input 's': expected seq\(float32\[\?x3\]\), a list of arrays, got a ndarray"),
    ((None, counted(0), X), r"input 's': expected seq\(.*, got None"),
    (([X, X.astype(np.int32)], counted(0), X), r"input 's', element 1: expected float32\[\?x3\], got dtype int32"),
    (([X[:, :2]], counted(0), X), r"input 's', element 0: expected float32\[\?x3\], got shape 5x2"),
    (([X, [1.0]], counted(0), X), r"input 's', element 1: expected an array float32\[\?x3\], got a list"),
    (([X], counted(0)), "expected 3 inputs"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_inputs(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(stepwell.InputError, match=message):
        stepwell.compile(PICKED)(*given)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"s": (5, 3)}, r"input 's': expected a list of shapes, one for each element of seq\(float32\[\?x3\]\), got \(5, 3\)"),
        ({"s": None}, "input 's': expected a list of shapes"),
        ({"s": [(5, 4)]}, "input 's.0' is 3 in the model"),
        ({"x": [(5, 3)]}, "input 'x': expected the shape of a tensor, got"),
        ({"x": None}, "input 'x': expected the shape of a tensor, got None"),
        ({"s": "xy"}, "shapes: expected the sizes of 's'"),
    ],
)
def test_bad_shapes(shapes: dict[str, Any], message: str) -> None:
    with pytest.raises(stepwell.InputError, match=message):
        stepwell.compile(PICKED, shapes=shapes)


def test_an_output_that_is_a_sequence_takes_no_array() -> None:
    with pytest.raises(stepwell.InputError, match=r"output 't': expected no array to write to, since it is seq\(float32\[5x3\]\)"):
        stepwell.compile(PICKED).run({"s": [X], "k": counted(0), "x": X}, out={"t": X})


@pytest.mark.parametrize(("sign", "after", "node"), [
    ("Add", "y = SequenceAt (s, place)", "SequenceAt"),
    ("Sub", "y = SequenceAt (s, place)", "SequenceAt"),
    ("Add", "t = SequenceInsert (s, x, place)\n y = ConcatFromSequence <axis = 0> (t)", "SequenceInsert"),
    ("Add", "t = SequenceErase (s, place)\n y = ConcatFromSequence <axis = 0> (t)", "SequenceErase"),
])  # fmt: skip
def test_positions_out_of_range(sign: str, after: str, node: str) -> None:
    """They are an error before anything is read; the next call is right again."""
    place = f"four = Constant <value_int = 4> ()\n place = {sign} (zero, four)"
    compiled = stepwell.compile(loop("so = SequenceInsert (si, x)", after=f"{place}\n {after}"), specialise="never")
    for rounds in (0, 1, 3):
        with pytest.raises(stepwell.IndexRangeError, match=f"{node}.*expected a number from 0 for .*position"):
            compiled(X, counted(rounds))
    assert compiled(X, counted(5))[0].shape[1] == 3


def test_nothing_to_concatenate() -> None:
    compiled = stepwell.compile(LOOPS["inserted"], specialise="never")
    with pytest.raises(stepwell.IndexRangeError, match="ConcatFromSequence"):
        compiled(X, counted(0))


def test_the_cache_keeps_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded from it takes and gives the same lists; other structures have other entries."""
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    calls: list[tuple[Any, ...]] = [([X], counted(0), X[:2]), ([X, X[:1]], counted(1), X[2:])]
    for _ in range(2):
        compiled, returned = stepwell.compile(PICKED), stepwell.compile(LOOPS["returned"], specialise="never")
        assert str(returned.outputs[0]) == "seq(float32[?x3])"
        assert_same(returned(*CALLS[0]), expected(LOOPS["returned"], CALLS[0]))
        for given in calls:
            for got, want in zip(compiled(*given), expected(PICKED, given), strict=True):
                assert_same(got, want)
