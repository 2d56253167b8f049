"""com.microsoft's layers with quantised weights against numpy models of their definitions and against ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import native_checks
import numpy as np
import onnx
import onnxruntime
import pytest
from covering import every_by_day, fewest
from every import every, running
from importing import floats, ints, model
from native_checks import Check, natively_together
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from op_sweep import pairwise
from other_domains import MICROSOFT, agree, check_native, of_runtime

import stepwell
from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError

Array = np.ndarray
Arrays = dict[str, Array]
F = np.float32
FUNCTIONS = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Tanh": np.tanh, "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "Softsign": lambda x: x / (1 + np.abs(x)), "Elu": lambda x: np.where(x < 0, np.exp(x) - 1, x),
}  # fmt: skip
NAMES = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P", "W_scale", "W_zero_point", "R_scale", "R_zero_point")
OUTPUTS = ("Y", "Y_h", "Y_c")
WEIGHTS = ("W", "R", "B", "P", *NAMES[8:])


def layer(
    sizes: tuple[int, int, int, int], *, direction: str = "forward", kind: Any = np.int8, by_column: bool = True, zeros: bool = False,
    bias: bool = True, lengths: bool = False, initial: bool = False, holes: bool = False, other: bool = False, clip: float | None = None,
    coupled: bool = False, seed: int = 0,
) -> tuple[Arrays, dict[str, Any]]:  # fmt: skip
    """Inputs and attributes of a layer of so many steps, sequences, inputs and units, on random data.

    Two products of weights with unsigned bytes fit 16 bits, where ONNX Runtime saturates on machines without VNNI. `zeros` gives each column, or each
    direction, a zero point of its own; else it is the middle of the weights, which is what the quantiser writes.
    """
    r = np.random.default_rng([*sizes, seed, len(direction)])
    (steps, batch, inputs, hidden), directions = sizes, 1 + (direction == "bidirectional")
    shape = (directions, 4 * hidden) if by_column else (directions,)
    middle = 0 if kind is np.int8 else 64
    given: Arrays = {"X": r.uniform(-1.5, 1.2, (steps, batch, inputs)).astype(F)}
    for name, rows in (("W", inputs), ("R", hidden)):
        given[name] = (r.integers(-64, 64, (directions, rows, 4 * hidden)) + middle).astype(kind)
        given[f"{name}_scale"] = (r.uniform(0.5, 1, shape) * rows**-0.5 / 40).astype(F)
        given[f"{name}_zero_point"] = (middle + (r.integers(-20, 20, shape) if zeros else np.zeros(shape))).astype(kind)
    if bias:
        given["B"] = r.uniform(-0.5, 0.5, (directions, 8 * hidden)).astype(F)
    if lengths:
        given["sequence_lens"] = r.integers(1, steps + 1, batch).astype(np.int32)
    if initial:
        given |= {name: r.uniform(-1, 1, (directions, batch, hidden)).astype(F) for name in ("initial_h", "initial_c")}
    if holes:
        given["P"] = r.uniform(-0.5, 0.5, (directions, 3 * hidden)).astype(F)
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden, **({"input_forget": 1} if coupled else {})}
    attributes |= {"activations": ["HardSigmoid", "Softsign", "Elu"] * directions} if other else {}
    return given, attributes | ({} if clip is None else {"clip": clip})


def quantised(x: Array) -> tuple[Array, np.float32, float]:
    """The numbers of ui8, their scale and their zero point, as DynamicQuantizeLinear says, in f32; numbers as f64."""
    low, high = min(F(0), x.astype(F).min()), max(F(0), x.astype(F).max())
    scale = F(1) if low == high else F((high - low) / F(255))
    zero = float(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x.astype(F) / scale) + zero, 0, 255).astype(np.float64), scale, zero


def expected(given: Arrays, attributes: dict[str, Any]) -> Arrays:
    """The outputs by the definition, in f64 but for what is quantised."""
    x, w, r = (given[name] for name in ("X", "W", "R"))
    (steps, batch, _), (directions, hidden, _) = x.shape, r.shape
    scale, zero = ({n: np.broadcast_to(given[f"{n}_{what}"].astype(np.float64).reshape(directions, -1), (directions, 4 * hidden)) for n in "WR"}
                   for what in ("scale", "zero_point"))  # fmt: skip
    bias = given.get("B", np.zeros((directions, 8 * hidden))).astype(np.float64)
    lengths, clip = given.get("sequence_lens", np.full(batch, steps)), attributes.get("clip", np.inf)
    states = [given.get(name, np.zeros((directions, batch, hidden))).astype(np.float64) for name in ("initial_h", "initial_c")]
    backward = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[attributes["direction"]]
    names = attributes.get("activations", ["Sigmoid", "Tanh", "Tanh"] * directions)
    q, s, z = quantised(x)
    y = np.zeros((steps, directions, batch, hidden))
    for d in range(directions):
        f, g, out = (FUNCTIONS[name] for name in names[3 * d : 3 * d + 3])
        hole = np.split(given["P"][d].astype(np.float64), 3) if "P" in given else [np.zeros(hidden)] * 3
        of_inputs = (q - z) @ (w[d] - zero["W"][d]) * (s * scale["W"][d]) + bias[d, : 4 * hidden] + bias[d, 4 * hidden :]
        h, c = states[0][d], states[1][d]
        for t in reversed(range(steps)) if backward[d] else range(steps):
            qh, sh, zh = quantised(h)
            i, o, forget, cell = np.split(of_inputs[t] + (qh - zh) @ (r[d] - zero["R"][d]) * (sh * scale["R"][d]), 4, axis=1)
            entering = f(np.clip(i + hole[0] * c, -clip, clip))
            kept = 1 - entering if attributes.get("input_forget") else f(np.clip(forget + hole[2] * c, -clip, clip))
            after = kept * c + entering * g(np.clip(cell, -clip, clip))
            made = f(np.clip(o + hole[1] * after, -clip, clip)) * out(after)
            goes_on = (t < lengths)[:, np.newaxis]
            y[t, d] = np.where(goes_on, made, 0)
            h, c = np.where(goes_on, made, h), np.where(goes_on, after, c)
        states[0][d], states[1][d] = h, c
    return {"Y": y, "Y_h": states[0], "Y_c": states[1]}


def node_of(given: Arrays, attributes: dict[str, Any], outputs: tuple[str, ...] = OUTPUTS) -> NodeProto:
    names = [name if name in given else "" for name in NAMES]
    return helper.make_node("DynamicQuantizeLSTM", names, list(outputs), name="layer", domain=MICROSOFT, **attributes)


def proto_of(given: Arrays, attributes: dict[str, Any], constants: tuple[str, ...] = WEIGHTS, *, free: bool = False) -> ModelProto:
    """A model of the layer; with `free`, the numbers of steps and of sequences are those of a run."""
    ranks = {name: np.zeros((1,) * (4 if name == "Y" else 3), F) for name in OUTPUTS}
    inputs = {name: array for name, array in given.items() if name not in constants}
    made = model([node_of(given, attributes)], inputs, ranks, {name: array for name, array in given.items() if name in constants})
    symbols = {"X": {0: "steps", 1: "batch"}, "sequence_lens": {0: "batch"}, "initial_h": {1: "batch"}, "initial_c": {1: "batch"}} if free else {}
    for value in made.graph.input:
        for axis, symbol in symbols.get(value.name, {}).items():
            value.type.tensor_type.shape.dim[axis].dim_param = symbol
    return made


def assert_alike(got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    """Within a few roundings of f32. Were one state's number another one, results would be off by more than a hundred times as much."""
    for name in OUTPUTS:
        assert (got[name].dtype, got[name].shape) == (F, want[name].shape)
        np.testing.assert_allclose(got[name], want[name], rtol=0, atol=3e-6 * max(1.0, float(np.abs(want[name]).max())))


def check(given: Arrays, attributes: dict[str, Any], constants: tuple[str, ...] = WEIGHTS, *, free: bool = False, **options: Any) -> None:
    """Compare compiled code with the definition. Within `natively_together` it is at the test's end."""
    want, made = expected(given, attributes), proto_of(given, attributes, constants, free=free)
    inputs = {name: array for name, array in given.items() if name not in constants}
    native_checks.check(Check("-".join(running), made, inputs, lambda got: assert_alike(got, want), tuple(options.items())))


# Steps, sequences, inputs, units: one of each; units that fill vectors, panels or groups of four, and that do not.
SIZES = ((1, 1, 1, 1), (4, 1, 9, 16), (5, 3, 7, 33), (3, 2, 4, 72))
FACTORS = {
    "sizes": SIZES, "direction": ("forward", "reverse", "bidirectional"), "kind": (np.int8, np.uint8), "by_column": (True, False),
    "zeros": (False, True), "bias": (True, False), "lengths": (False, True), "initial": (False, True), "holes": (False, True),
    "other": (False, True), "clip": (None, 0.7), "coupled": (False, True), "constant": (True, False), "free": (False, True),
}  # fmt: skip
ROWS = list(pairwise(FACTORS, 0))


@natively_together
@every_by_day("row", ROWS, fewest(ROWS, *FACTORS), ids=lambda row: "-".join(str(getattr(v, "__name__", v)).replace(" ", "") for v in row.values()))
def test_lstm_by_its_definition(row: dict[str, Any]) -> None:
    kept = {name: value for name, value in row.items() if name not in ("constant", "free")}
    check(*layer(**kept), WEIGHTS if row["constant"] else (), free=row["free"])


def of_onnx_runtime(made: ModelProto, inputs: Arrays) -> Arrays:
    """On one thread: on more, ONNX Runtime gives each part of the batch a scale of its own."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(OUTPUTS, session.run(list(OUTPUTS), inputs), strict=True))


SAME: list[dict[str, Any]] = [
    {"sizes": (4, 3, 7, 20), "direction": "bidirectional", "initial": True},
    {"sizes": (5, 2, 6, 33), "direction": "reverse", "kind": np.uint8, "holes": True},
    {"sizes": (3, 2, 6, 24), "kind": np.uint8, "by_column": False, "zeros": True, "clip": 0.7},
    {"sizes": (3, 4, 6, 24), "by_column": False, "bias": False, "coupled": True, "other": True},
]


@natively_together
@every("case", SAME, ids=str)
def test_lstm_is_that_of_onnx_runtime(case: dict[str, Any]) -> None:
    """Its logistic function and hyperbolic tangent are approximations."""
    given, attributes = layer(**case)
    made, inputs = proto_of(given, attributes), {name: array for name, array in given.items() if name not in WEIGHTS}
    want = of_onnx_runtime(made, inputs)
    assert_alike(want, expected(given, attributes))
    native_checks.check(Check("-".join(running), made, inputs, lambda got: assert_alike(got, want)))


def test_one_model_takes_all_sizes_and_lengths() -> None:
    """Of no steps, of no sequences, and lengths of none or of more than there are steps."""
    given, attributes = layer((4, 3, 5, 24), direction="bidirectional", lengths=True, initial=True)
    compiled = stepwell.compile(proto_of(given, attributes, free=True), threads=1)
    for steps, batch in ((4, 3), (1, 1), (7, 2), (2, 1), (3, 9)):
        other, _ = layer((steps, batch, 5, 24), direction="bidirectional", lengths=True, initial=True, seed=1)
        other |= {name: array for name, array in given.items() if name in WEIGHTS}
        other["sequence_lens"] = np.arange(batch, dtype=np.int32) % (steps + 2)
        inputs = {name: array for name, array in other.items() if name not in WEIGHTS}
        assert_alike(compiled.run(inputs), expected(other, attributes))
    empty, _ = layer((4, 3, 5, 24), direction="bidirectional", lengths=True, initial=True)
    empty["X"] = empty["X"][:0]
    got = compiled.run({name: array for name, array in empty.items() if name not in WEIGHTS})
    assert got["Y"].shape == (0, 2, 3, 24)
    np.testing.assert_array_equal(got["Y_h"], empty["initial_h"])


@natively_together
@every("threads", [1, 2])
def test_a_batch_is_one_tensor_on_any_number_of_threads(threads: int) -> None:
    """Chunks of it would have other scales."""
    for sizes, direction in (((6, 8, 16, 128), "bidirectional"), ((3, 8, 16, 192), "forward")):
        check(*layer(sizes, direction=direction), threads=threads)


INTRINSICS = {
    "x86-64-v2": (None, None), "x86-64-v3": ("pmaddwd.256", "pmaddwd.256"), "avx-vnni": ("vpdpbusd.256", "vpdpwssd.256"),
    "x86-64-v4-vnni": ("vpdpbusd.512", "vpdpwssd.512"), "aarch64-neon": ("smlal.128", "smlal.128"), "aarch64-dotprod": ("sdot.128", "smlal.128"),
}  # fmt: skip


@pytest.mark.parametrize("target", INTRINSICS)
def test_the_product_of_a_step_is_one_of_integers(target: str) -> None:
    """By the instruction that multiplies most: of bytes where weights fit them without their zero point, else of 16 bits. States fit its operand."""
    of_bytes, of_words = INTRINSICS[target]
    for intrinsic, wide in ((of_bytes, False), (of_words, True)):
        given, attributes = layer((2, 4, 8, 62), kind=np.uint8)
        given["R"][0, :8] = 255 if wide else 0
        lowered = stepwell.lower(proto_of(given, attributes), "scheduled", target=target)
        assert_alike(stepwell.interpret(lowered, {"X": given["X"]}), expected(given, attributes))
        (kernel,) = [text for text in str(lowered.module).split("func.func")[1:] if "scf.for" in text]
        (product,) = [line for line in kernel.splitlines() if '"reduction"' in line and "xi32>) attrs" in line]
        assert f'intrinsic = "{intrinsic}"' in product if intrinsic else "intrinsic" not in product


def test_an_lstm_that_the_quantiser_writes(tmp_path: Any) -> None:
    """Its weights become whole vectors of bytes by direction or by column, with the whole of i8: ONNX Runtime saturates on machines without VNNI."""
    r, hidden = np.random.default_rng(3), 32
    weights = {"W": r.normal(0, 0.2, (2, 4 * hidden, 12)), "R": r.normal(0, 0.2, (2, 4 * hidden, hidden)), "B": r.normal(0, 0.2, (2, 8 * hidden))}
    x = r.normal(0, 1, (5, 2, 12)).astype(F)
    made = helper.make_node("LSTM", ["X", "W", "R", "B"], list(OUTPUTS), name="layer", hidden_size=hidden, direction="bidirectional")
    ranks = {name: np.zeros((1,) * (4 if name == "Y" else 3), F) for name in OUTPUTS}
    onnx.save(model([made], {"X": x}, ranks, {name: array.astype(F) for name, array in weights.items()}, opset=17), tmp_path / "floats.onnx")
    for by_column in (False, True):
        quantize_dynamic(tmp_path / "floats.onnx", tmp_path / "bytes.onnx", per_channel=by_column, weight_type=QuantType.QInt8)
        written = onnx.load(tmp_path / "bytes.onnx")
        (found,) = written.graph.node
        assert found.op_type == "DynamicQuantizeLSTM"
        arrays = {i.name: numpy_helper.to_array(i) for i in written.graph.initializer}
        given = {"X": x, **{name: arrays[known] for name, known in zip(NAMES, found.input, strict=True) if known in arrays}}
        assert_alike(stepwell.compile(written).run({"X": x}), expected(given, {"direction": "bidirectional"}))


WRONG: list[tuple[str, Any, str, type[StepwellError]]] = [
    ("W", np.zeros((1, 9, 63), np.int8), "its input W must have the shape 1x9x64, got tensor<1x9x63xi8>", ModelError),
    ("R", np.zeros((1, 16, 63), np.int8), "its input R must have the shape 1x16x64", ModelError),
    ("R", np.zeros((1, 16, 64), np.int16), "weights R of tensor<1x16x64xi16> are not supported; supported: i8, ui8", UnsupportedError),
    ("W", np.zeros((16, 64), np.int8), "its input W must have rank 3", ModelError),
    ("R_scale", np.zeros((64,), F), "R_scale must be of f32, one number for each direction or for each column; got tensor<64xf32>", ModelError),
    ("W_zero_point", np.zeros((1, 64), np.uint8), "W_zero_point must be of i8", ModelError),
    ("P", np.zeros((1, 47), F), "its input P must have the shape 1x48", ModelError),
    ("R_zero_point", None, "R_scale and R_zero_point must be given", ModelError),
    ("X", np.zeros((4, 1, 9), np.float16), "of tensor<4x1x9xf16> is not supported; supported: f32", UnsupportedError),
    ("direction", "backward", "direction must be one of forward", ModelError),
    ("layout", 1, "attribute layout=1 is not supported", UnsupportedError),
]


@pytest.mark.parametrize(("name", "value", "message", "kind"), WRONG, ids=[f"{wrong[0]}-{i}" for i, wrong in enumerate(WRONG)])
def test_what_is_wrong_with_an_lstm_is_said(name: str, value: Any, message: str, kind: type[StepwellError]) -> None:
    given, attributes = layer((4, 1, 9, 16), holes=True)
    (given if name in NAMES else attributes)[name] = value
    given = {key: array for key, array in given.items() if array is not None}
    with pytest.raises(kind, match=message):
        stepwell.lower(proto_of(given, attributes), "graph")


# --- attention and embeddings

BATCH, LENGTH, HEADS, SIZE = 2, 5, 3, 4


def by_head(x: Array) -> Array:
    return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)


ATTENTION = {
    "kind": (np.int8, np.uint8), "by_column": (True, False), "mask": (0, 1, 2), "past": (0, 3), "unidirectional": (0, 1), "scale": (0.0, 0.3),
}  # fmt: skip
HEADS_ROWS = list(pairwise(ATTENTION, 1))


@natively_together
@every_by_day("row", HEADS_ROWS, fewest(HEADS_ROWS, *ATTENTION), ids=str)
def test_attention(row: dict[str, Any]) -> None:
    r, columns, keys = np.random.default_rng(5), 3 * HEADS * SIZE, LENGTH + row["past"]
    middle = 0 if row["kind"] is np.int8 else 64
    given: Arrays = {
        "x": r.integers(0, 256, (BATCH, LENGTH, 16)).astype(np.uint8), "w": (r.integers(-64, 64, (16, columns)) + middle).astype(row["kind"]),
        "b": floats(columns), "xs": np.array(0.02, F), "ws": np.array(r.uniform(0.002, 0.01, (columns,) if row["by_column"] else ()), F),
        "xz": np.array(117, np.uint8), "wz": np.full((columns,) if row["by_column"] else (), middle, row["kind"]),
    }  # fmt: skip
    product = (given["x"].astype(np.float64) - 117) @ (given["w"].astype(np.float64) - middle)
    q, k, v = (by_head(part) for part in np.split(product * (given["xs"].astype(np.float64) * given["ws"]) + given["b"], 3, axis=2))
    want: Arrays = {}
    if row["past"]:
        given["past"] = floats(2, BATCH, HEADS, row["past"], SIZE, seed=4)
        k, v = (np.concatenate([old, new], axis=2) for old, new in zip(given["past"], (k, v), strict=True))
        want["present"] = np.stack([k, v]).astype(F)
    scores = q @ k.swapaxes(2, 3) * (row["scale"] or SIZE**-0.5)
    if row["mask"] == 1:
        given["m"] = ints(2, keys, dtype=np.int32)
        scores = scores + np.where(np.arange(keys) < given["m"][:, np.newaxis], 0, -10000.0)[:, np.newaxis, np.newaxis]
    elif row["mask"] == 2:
        given["m"] = np.array([[1] * keys, [1, 0] * (keys // 2) + [1] * (keys % 2)], np.int32)
        scores = scores + np.where(given["m"] > 0, 0, -10000.0)[:, np.newaxis, np.newaxis]
    if row["unidirectional"]:
        scores = scores + np.where(np.arange(keys) > np.arange(LENGTH)[:, np.newaxis] + row["past"], -np.inf, 0)
    powers = np.exp(scores - scores.max(axis=3, keepdims=True))
    made = (powers / powers.sum(axis=3, keepdims=True)) @ v
    want = {"y": made.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, -1).astype(F), **want}
    attributes = {"num_heads": HEADS, "unidirectional": row["unidirectional"], **({"scale": row["scale"]} if row["scale"] else {})}
    names = [name if name in given else "" for name in ("x", "w", "b", "xs", "ws", "m", "xz", "wz", "past")]
    node = helper.make_node("QAttention", names, list(want), name="heads", domain=MICROSOFT, **attributes)
    agree(want, of_runtime(node, given, want), terms=512)
    weights = {name: array for name, array in given.items() if name in ("w", "b", "ws", "wz")}
    check_native(node, {name: array for name, array in given.items() if name not in weights}, want, weights, terms=512)
    check_native(node, given, want, terms=512)


@natively_together
@every("segments", [False, True])
@every("masked", [False, True])
def test_embeddings(segments: bool, masked: bool) -> None:
    """Rows are looked up as bytes, also those of a table that is an input."""
    r, hidden = np.random.default_rng(6), 16
    tables = {"word": (r.integers(0, 256, (40, hidden)), 121), "place": (r.integers(0, 256, (9, hidden)), 90)}
    tables |= {"segment": (r.integers(0, 256, (2, hidden)), 130)} if segments else {}
    tables |= {"gamma": (r.integers(100, 256, hidden), 3), "beta": (r.integers(0, 256, hidden), 127)}
    given: Arrays = {"ids": r.integers(0, 40, (2, 7)).astype(np.int32)}
    given |= {"of": r.integers(0, 2, (2, 7)).astype(np.int32)} if segments else {}
    given |= {"mask": np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)} if masked else {}
    numbers = {}
    for name, (table, zero) in tables.items():
        given |= {name: table.astype(np.uint8), f"{name}_scale": np.array(0.01 + len(name) / 200, F), f"{name}_zero": np.array(zero, np.uint8)}
        numbers[name] = (table - zero) * given[f"{name}_scale"].astype(np.float64)
    total = numbers["word"][given["ids"]] + numbers["place"][:7] + (numbers["segment"][given["of"]] if segments else 0)
    spread = total - total.mean(axis=2, keepdims=True)
    y = spread / np.sqrt((spread**2).mean(axis=2, keepdims=True) + 1e-3) * numbers["gamma"] + numbers["beta"]
    want = {"y": y.astype(F), "count": ints(7, 4, dtype=np.int32) if masked else ints(0, 0, dtype=np.int32)}
    five = ("word", "place", "segment", "gamma", "beta")
    names = ["ids", "of", *five, "mask", *(f"{name}_scale" for name in five), *(f"{name}_zero" for name in five)]
    node = helper.make_node(
        "QEmbedLayerNormalization", [n if n in given else "" for n in names], list(want), name="rows", domain=MICROSOFT, epsilon=1e-3
    )
    agree(want, of_runtime(node, given, want))
    kept = {name: array for name, array in given.items() if name in ("ids", "of", "mask")}
    check_native(node, kept, want, {name: array for name, array in given.items() if name not in kept})
    check_native(node, given, want)
