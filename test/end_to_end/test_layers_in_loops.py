"""Recurrent layers written as loops: recognised or not, their results are those of ONNX Runtime in f64, for any number of rounds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest
from covering import by_day
from onnx import ModelProto, numpy_helper, parser

import stepwell
from stepwell.dialects.core.mlir import ops_below
from stepwell.passes.framework.decisions import Decisions
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner

INPUTS, HIDDEN = 3, 5
FIRST = 5  # the number of the first loop's node
SHAPES = {
    "w1": (INPUTS, HIDDEN), "w2": (INPUTS, HIDDEN), "w3": (INPUTS, HIDDEN), "w4": (INPUTS, HIDDEN), "r1": (HIDDEN, HIDDEN), "r2": (HIDDEN, HIDDEN),
    "r3": (HIDDEN, HIDDEN), "r4": (HIDDEN, HIDDEN), "wz": (INPUTS, 4 * HIDDEN), "rz": (HIDDEN, 4 * HIDDEN), "bz": (4 * HIDDEN,),
    "kz": (INPUTS + HIDDEN, 4 * HIDDEN), "k2": (INPUTS + HIDDEN, 2 * HIDDEN), "k1": (INPUTS + HIDDEN, HIDDEN), "b2": (2 * HIDDEN,), "b1": (HIDDEN,),
    "wg": (INPUTS, 3 * HIDDEN), "rg": (HIDDEN, 3 * HIDDEN), "bg": (3 * HIDDEN,), "cg": (3 * HIDDEN,), "p1": (HIDDEN,), "p2": (HIDDEN,),
    "p3": (HIDDEN,), "tz": (HIDDEN, 4 * HIDDEN),
}  # fmt: skip
SPLIT = "zi, zf, zg, zo = Split <axis = 1, num_outputs = 4> (z)"
GATES = "i = Sigmoid(zi) f = Sigmoid(zf) g = Tanh(zg) o = Sigmoid(zo)"
STEP = "cf = Mul(f, c) ci = Mul(i, g) c_ = Add(ci, cf) s = Tanh(c_) h_ = Mul(s, o)"
LSTM = f"{SPLIT} {GATES} {STEP}"
PRODUCTS = "zx = MatMul(xt, wz) zh = MatMul(h, rz) zz = Add(zx, zh) z = Add(zz, bz)"
NEXT = "h_ = Add(kept, entered)"


@dataclass(frozen=True)
class Cell:
    """The nodes of a round, which make `h_` and `c_` of the row `xt` and of `h` and `c`, and collect `h_` and `part`."""

    body: str
    layers: tuple[str, ...]
    """The ops that the compiler makes of it."""
    part: str = "h_"
    index: str = "t"
    goes: str = ""
    """What ends the loop early."""


CELLS = {
    "keras": Cell(f"{PRODUCTS} {LSTM}", ("lstm",)),
    "tf1": Cell(
        f"xh = Concat <axis = 1> (xt, h) zz = MatMul(xh, kz) z = Add(bz, zz) zi, zg, zf, zo = Split <axis = 1, num_outputs = 4> (z) zfb = "
        f"Add(zf, half) "
        f"i = Sigmoid(zi) f = Sigmoid(zfb) g = Tanh(zg) o = Sigmoid(zo) {STEP}", ("lstm",),
    ),
    "hard": Cell(
        f"{PRODUCTS} {SPLIT} i = HardSigmoid(zi) fm = Mul(zf, fifth) fa = Add(fm, half) f = Clip(fa, zero, one) o = HardSigmoid <alpha = 0.2> (zo) "
        f"g = Relu(zg) cf = Mul(f, c) ci = Mul(g, i) c_ = Add(cf, ci) s = Relu(c_) h_ = Mul(o, s)", ("lstm",),
    ),
    "apart": Cell(
        "xi = MatMul(xt, w1) hi = MatMul(h, r1) zi = Add(xi, hi) i = Sigmoid(zi) xf = MatMul(xt, w2) hf = MatMul(h, r2) zf0 = Add(hf, xf) "
        "zf = Add(zf0, b1) f = Sigmoid(zf) xg = MatMul(xt, w3) hg = MatMul(h, r3) zg = Add(xg, hg) g = Tanh(zg) xo = MatMul(xt, w4) ho = "
        "MatMul(h, r4) "
        f"zo = Add(xo, ho) o = Sigmoid(zo) {STEP}", ("lstm",),
    ),
    "peepholes": Cell(
        f"{PRODUCTS} {SPLIT} pi = Mul(c, p1) ai = Add(zi, pi) i = Sigmoid(ai) pf = Mul(p2, c) af = Add(zf, pf) f = Sigmoid(af) g = Tanh(zg) "
        "cf = Mul(f, c) ci = Mul(i, g) c_ = Add(cf, ci) po = Mul(c_, p3) ao = Add(po, zo) o = Sigmoid(ao) s = Tanh(c_) h_ = Mul(o, s)", ("lstm",),
    ),
    "gru": Cell(
        "xg = MatMul(xt, wg) xb = Add(xg, bg) xz, xr, xn = Split <axis = 1, num_outputs = 3> (xb) hg = MatMul(h, rg) hb = Add(hg, cg) "
        "hz, hr, hn = Split <axis = 1, num_outputs = 3> (hb) az = Add(xz, hz) u = Sigmoid(az) ar = Add(xr, hr) r = Sigmoid(ar) rn = Mul(r, hn) "
        f"an = Add(xn, rn) n_ = Tanh(an) kept = Mul(u, h) rest = Sub(one, u) entered = Mul(rest, n_) {NEXT} c_ = Identity(c)", ("gru",),
    ),
    "gru of TF1": Cell(
        "xh = Concat <axis = 1> (xt, h) zz = MatMul(xh, k2) z = Add(zz, b2) gates = Sigmoid(z) r, u = Split <axis = 1, num_outputs = 2> (gates) "
        "rh = Mul(r, h) xr = Concat <axis = 1> (xt, rh) nn = MatMul(xr, k1) nb = Add(nn, b1) n_ = Tanh(nb) rest = Sub(one, u) entered = "
        "Mul(rest, n_) "
        f"kept = Mul(u, h) {NEXT} c_ = Identity(c)", ("gru",),
    ),
    "rnn": Cell("xw = MatMul(xt, w1) hr = MatMul(h, r1) z = Add(xw, hr) zb = Add(z, b1) h_ = Tanh(zb) c_ = Identity(c)", ("rnn",)),
    "of a dense layer": Cell(
        "d = Tanh(xt) dm = Mul(d, xt) xw = MatMul(dm, w1) hr = MatMul(h, r1) z = Add(xw, hr) h_ = Relu(z) c_ = Identity(c) part = MatMul(h_, r2)",
        ("rnn",), "part",
    ),
    "two": Cell(
        "xw = MatMul(xt, w1) hr = MatMul(h, r1) z = Add(xw, hr) h_ = Tanh(z) yw = MatMul(h_, r2) cr = MatMul(c, r3) y = Add(yw, cr) yb = Add(y, b1) "
        "c_ = Tanh(yb)", ("rnn", "rnn"), "c_",
    ),
    "two in the other order": Cell(
        "xw = MatMul(xt, w1) cr = MatMul(c, r1) z = Add(xw, cr) c_ = Relu(z) d = Sin(c_) yw = MatMul(d, r2) "
        "hr = MatMul(h, r3) y = Add(yw, hr) h_ = Tanh(y)",
        ("rnn", "rnn"),
    ),
    "backwards": Cell(f"{PRODUCTS} {LSTM}", ("lstm",), index="back"),
    "masked": Cell(
        f"{PRODUCTS} {LSTM.replace('c_', 'cn').replace('h_', 'hn')} m = ReduceMax <keepdims = 1> (xt, axes) keep = Less(m, half) "
        "c_ = Where(keep, c, cn) h_ = Where(keep, h, hn)", (),
    ),
    "of its cell state": Cell(f"{PRODUCTS} {LSTM}", (), "c_"),
    "attention": Cell(
        "q = MatMul(h, r1) q2 = Unsqueeze(q, axes) e = Mul(keys, q2) a = ReduceSum <keepdims = 1> (e, axes2) w = Softmax <axis = 1> (a) v = "
        "Mul(w, keys) "
        f"k = ReduceSum <keepdims = 0> (v, axes) zx = MatMul(xt, wz) zk = MatMul(k, tz) zh = MatMul(h, rz) z0 = Add(zx, zk) z = Add(z0, zh) "
        f"{LSTM}", (),
    ),
    "ended": Cell(f"{PRODUCTS} {LSTM}", (), goes="top = ReduceMax <keepdims = 0> (h_) early = Less(top, half) going = And(going0, early)"),
}  # fmt: skip


def loops(dtype: str, time: int | str, batch: int | str, names: Sequence[str] = tuple(CELLS)) -> ModelProto:
    """A model with a loop for each of some cells over the rows of x, with states that are inputs."""
    state = f"{dtype}[{batch}, {HIDDEN}]"
    text, outputs = [], []
    for number, name in enumerate(names):
        cell = CELLS[name]
        made = [f"{part}_last{number}" for part in ("t", "h", "c", "y")]
        outputs += [f"int32 {made[0]}", f"{state} {made[1]}", f"{state} {made[2]}", f"{dtype}[rounds{number}, {batch}, {HIDDEN}] {made[3]}"]
        goes = cell.goes or "going = Identity(going0)"
        text.append(
            f"{', '.join(made)} = Loop (endless, first, zero_i, h0, c0) <body = b{number} (int64 round, bool go, int32 t, {state} h, {state} c) "
            f"=> (bool going, int32 t_, {state} h_, {state} c_, {state} row) {{ "
            f"t_ = Add(t, one_i) t1 = Add(t, one_i) back = Sub(n, t1) xt = Gather <axis = 0> (x, {cell.index}) {cell.body} going0 = "
            f"Less(t_, n) {goes} "
            f"row = Identity({cell.part}) }}>"
        )
    body = "\n".join(text)
    source = parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g ({dtype}[{time}, {batch}, {INPUTS}] x, {state} h0, {state} c0) => ({", ".join(outputs)}) {{
            size = Shape <start = 0, end = 1> (x) n0 = Squeeze(size) n = Cast <to = 6> (n0) first = Less(zero_i, n)
            keys = Unsqueeze(h0, axes)
            {body}
        }}""")
    rng, kind = np.random.default_rng(0), np.float32 if dtype == "float" else np.float64
    weights = {name: rng.standard_normal(shape, np.float32).astype(kind) for name, shape in SHAPES.items()}
    weights |= {"half": np.array(0.5, kind), "fifth": np.array(np.float32(0.2), kind), "one": np.array(1, kind), "zero": np.array(0, kind)}
    weights |= {"zero_i": np.array(0, np.int32), "one_i": np.array(1, np.int32), "endless": np.array(2**63 - 1)}
    weights |= {"axes": np.array([1]), "axes2": np.array([2])}
    source.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return source


def given(rounds: int, batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rounds)
    shapes = {"x": (rounds, batch, INPUTS), "h0": (batch, HIDDEN), "c0": (batch, HIDDEN)}
    return {name: rng.standard_normal(shape, np.float32) / 2 for name, shape in shapes.items()}


def check(compiled: Any, names: Sequence[str], rounds: int, batch: int) -> None:
    """Compare with ONNX Runtime in f64: a round adds up 13 products and what the state brings of the error before, which it damps."""
    inputs = given(rounds, batch)
    exact = onnxruntime.InferenceSession(loops("double", "time", "batch", names).SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = exact.run(None, {name: array.astype(np.float64) for name, array in inputs.items()})
    for (name, got), want in zip(compiled.run(inputs).items(), wanted, strict=True):
        cell = names[int(name.partition("last")[2])]
        if got.size or want.size:  # of rounds that never came, ONNX Runtime does not know the sizes
            assert got.shape == want.shape, (cell, name)
            np.testing.assert_allclose(got, want, rtol=2**-15, atol=2**-17 * np.abs(want).max(initial=1), err_msg=f"{cell}: {name}")


SOME = ("rnn", "masked", "ended")  # a layer, products for all rounds, and a loop that stays as it is


@pytest.mark.parametrize("number", by_day([0, 1], [0]))
def test_results_of_all_sizes(number: int) -> None:
    names = (SOME, tuple(CELLS))[number]
    compiled = stepwell.compile(loops("float", "time", "batch", names), specialise="never")
    for rounds, batch in ((5, 2), (0, 2), (1, 3), (9, 1)):
        check(compiled, names, rounds, batch)


def test_results_of_fixed_sizes() -> None:
    check(stepwell.compile(loops("float", 6, 2)), tuple(CELLS), 6, 2)


def test_layers() -> None:
    passes = "bind-sizes,fold-constants,remove-identities,simplify-algebra,canonicalize,cse,use-recurrences,hoist-from-loops"
    for time in (6, "time"):
        lowered = stepwell.lower(loops("float", time, 2), "graph")
        decisions = Decisions()
        PassRunner(PassState(weights=lowered.weights, decisions=decisions)).run(lowered.module, passes)
        found: dict[str, list[str]] = {}
        reasons: dict[str, str] = {}
        for decision in decisions:
            if decision.by == "use-recurrences":
                (number,) = set(re.findall(r"Loop_(\d+)", str(decision.location)))
                name = list(CELLS)[int(number) - FIRST]
                if decision.done:
                    found.setdefault(name, []).append(decision.what.rpartition(".")[2])
                else:
                    reasons[name] = f"{reasons.get(name, '')} {decision.what}"
        assert reasons.keys() == {name for name, cell in CELLS.items() if not cell.layers}
        assert "is not computed as the state of an LSTM" in reasons["masked"]
        assert "its cell state, is used otherwise, too" in reasons["of its cell state"]
        assert "neither the state nor a row that the rounds read in turn" in reasons["attention"]
        assert "only the run tells how many rounds there are" in reasons["ended"]
        hoisted = [decision for decision in decisions if decision.by == "hoist-from-loops" and decision.done]
        assert len(hoisted) == len(CELLS) - len(found) - 1  # one product of each of these loops but the one that its condition ends
        assert {name: tuple(kinds) for name, kinds in found.items()} == {name: cell.layers for name, cell in CELLS.items() if cell.layers}
        names = [op.name for op in ops_below(lowered.module.operation)]
        assert names.count("graph.loop") == sum(not cell.layers for cell in CELLS.values())
        assert names.count("graph.lstm") == sum(cell.layers.count("lstm") for cell in CELLS.values())
