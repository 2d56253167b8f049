"""LSTM, GRU and RNN in native code: every attribute and input against the formulas of ONNX, one sequence at a time, and ONNX Runtime."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import native_checks
import numpy as np
import onnxruntime
import pytest
from covering import by_day, every_by_day, fewest
from every import every, running
from importing import model, node
from native_checks import Check, natively_together
from onnx import ModelProto, defs
from op_sweep import pairwise

import stepwell
from stepwell.dialects.support.errors import ModelError, StepwellError, UnsupportedError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.graph_to_linalg import recurrence

Array = np.ndarray
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# The activation functions as ONNX writes them; the numbers that they take if the node has none, NaN where it must have some.
FUNCTIONS: dict[str, tuple[Callable[[Array, float, float], Array], tuple[float, ...]]] = {
    "Affine": (lambda x, alpha, beta: alpha * x + beta, (np.nan, np.nan)),
    "Elu": (lambda x, alpha, beta: np.where(x >= 0, x, alpha * (np.exp(x) - 1)), (1.0,)),
    "HardSigmoid": (lambda x, alpha, beta: np.minimum(np.maximum(alpha * x + beta, 0), 1), (0.2, 0.5)),
    "LeakyRelu": (lambda x, alpha, beta: np.where(x >= 0, x, alpha * x), (0.01,)),
    "Relu": (lambda x, alpha, beta: np.maximum(0, x), ()),
    "ScaledTanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), (np.nan, np.nan)),
    "Sigmoid": (lambda x, alpha, beta: 1 / (1 + np.exp(-x)), ()),
    "Softplus": (lambda x, alpha, beta: np.log(1 + np.exp(x)), ()),
    "Softsign": (lambda x, alpha, beta: x / (1 + np.abs(x)), ()),
    "Tanh": (lambda x, alpha, beta: np.tanh(x), ()),
    "ThresholdedRelu": (lambda x, alpha, beta: np.where(x >= alpha, x, 0), (1.0,)),
}
DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
OTHERS = {
    "LSTM": (("HardSigmoid", "Softsign", "Affine"), ("LeakyRelu", "Elu", "ScaledTanh"), ("Softplus", "ThresholdedRelu", "Relu")),
    "GRU": (("HardSigmoid", "ScaledTanh"), ("Softsign", "Elu"), ("Affine", "LeakyRelu")),
    "RNN": (("ThresholdedRelu",), ("Relu",), ("Softplus",)),
}


@dataclass
class Layer:
    """A node: its operator, inputs by their names in ONNX (in the node's layout) and attributes."""

    op: str
    inputs: dict[str, Array | None]
    attributes: dict[str, Any]

    @property
    def directions(self) -> int:
        return len(self.inputs["W"])  # type: ignore[arg-type]

    def proto(self, opset: int, outputs: Sequence[str], constants: Sequence[str]) -> ModelProto:
        """A model of the node, some of whose inputs are weights; outputs that are not asked for have no name."""
        names = [name if array is not None else "" for name, array in self.inputs.items()]
        every = ["Y", "Y_h", *(["Y_c"] if self.op == "LSTM" else [])]
        hidden = self.inputs["R"].shape[-1]  # type: ignore[union-attr]
        made = node(self.op, names, [o if o in outputs else "" for o in every], hidden_size=hidden, **self.attributes)
        given = {name: array for name, array in self.inputs.items() if array is not None}
        ranks = {name: np.zeros((1,) * (4 if name == "Y" else 3), given["X"].dtype) for name in outputs}
        kept = {name: array for name, array in given.items() if name not in constants}
        return model([made], kept, ranks, {name: given[name] for name in constants if name in given}, opset=opset)

    def functions(self) -> list[Callable[[Array], Array]]:
        """The activation functions of all directions, numbers taken in order by those that have any."""
        names = self.attributes.get("activations", DEFAULTS[self.op] * self.directions)
        alphas, betas = (iter(self.attributes.get(name, ())) for name in ("activation_alpha", "activation_beta"))
        out = []
        for name in names:
            function, numbers = FUNCTIONS[name]
            alpha = next(alphas, numbers[0]) if numbers else 0.0
            beta = next(betas, numbers[1]) if len(numbers) > 1 else 0.0
            out.append(lambda x, function=function, alpha=f32(alpha), beta=f32(beta): function(x, alpha, beta))  # noqa: B008
        return out

    def expected(self) -> dict[str, Array]:
        """The outputs, in f64: one sequence after the other, a reversed one from its own last step."""
        first = self.attributes.get("layout", 0) == 1
        given = {name: None if array is None else array.astype(np.float64) for name, array in self.inputs.items()}
        x, w, r = given["X"], given["W"], given["R"]
        assert x is not None
        assert w is not None
        assert r is not None
        x = x.transpose(1, 0, 2) if first else x
        (steps, batch, _), hidden, directions = x.shape, r.shape[2], len(w)
        bias = given["B"] if given["B"] is not None else np.zeros((directions, 2 * GATES[self.op] * hidden))
        lengths = given["sequence_lens"] if given["sequence_lens"] is not None else np.full(batch, steps)
        y, states = np.zeros((steps, directions, batch, hidden)), []
        for name in ("initial_h", "initial_c"):
            state = given.get(name)
            state = np.zeros((directions, batch, hidden)) if state is None else state.transpose(1, 0, 2) if first else state
            states.append(state.copy())
        backward = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[self.attributes.get("direction", "forward")]
        functions, each = self.functions(), len(DEFAULTS[self.op])
        for d, n in itertools.product(range(directions), range(batch)):
            times = range(min(int(lengths[n]), steps))
            h, c = states[0][d, n], states[1][d, n]
            holes = None if given.get("P") is None else given["P"][d]  # type: ignore[index]
            for t in reversed(times) if backward[d] else times:
                h, c = self.step(x[t, n], h, c, w[d], r[d], bias[d], holes, functions[each * d : each * (d + 1)])
                y[t, d, n] = h
            states[0][d, n], states[1][d, n] = h, c
        if first:
            y, states = y.transpose(2, 0, 1, 3), [state.transpose(1, 0, 2) for state in states]
        return {"Y": y, "Y_h": states[0], "Y_c": states[1]}

    def step(self, x: Array, h: Array, c: Array, w: Array, r: Array, bias: Array, holes: Array | None, functions: Any) -> tuple[Array, Array]:
        """One step of one sequence, as ONNX writes it."""
        n, gates = len(h), GATES[self.op]
        clip = f32(self.attributes.get("clip", np.inf))
        W, R = ([m[i * n : (i + 1) * n] for i in range(gates)] for m in (w, r))
        Wb, Rb = ([half[i * n : (i + 1) * n] for i in range(gates)] for half in (bias[: gates * n], bias[gates * n :]))
        f, *rest = [lambda v, function=function: function(np.clip(v, -clip, clip)) for function in functions]
        if self.op == "RNN":
            return f(W[0] @ x + R[0] @ h + Wb[0] + Rb[0]), c
        if self.op == "GRU":
            z, reset = (f(W[i] @ x + R[i] @ h + Wb[i] + Rb[i]) for i in range(2))
            if self.attributes.get("linear_before_reset", 0):
                candidate = rest[0](W[2] @ x + reset * (R[2] @ h + Rb[2]) + Wb[2])
            else:
                candidate = rest[0](W[2] @ x + R[2] @ (reset * h) + Rb[2] + Wb[2])
            return (1 - z) * candidate + z * h, c
        P = np.zeros(3 * n) if holes is None else holes
        i = f(W[0] @ x + R[0] @ h + P[:n] * c + Wb[0] + Rb[0])
        forget = 1 - i if self.attributes.get("input_forget", 0) else f(W[2] @ x + R[2] @ h + P[2 * n :] * c + Wb[2] + Rb[2])
        c = forget * c + i * rest[0](W[3] @ x + R[3] @ h + Wb[3] + Rb[3])
        return f(W[1] @ x + R[1] @ h + P[n : 2 * n] * c + Wb[1] + Rb[1]) * functions[2](c), c


def f32(number: float) -> float:
    """As an attribute of a node has it."""
    return float(np.float32(number))


def layer(
    op: str, sizes: tuple[int, int, int, int], dtype: Any = np.float32, *, direction: str = "forward", layout: int = 0, bias: bool = True,
    lengths: bool = False, initial: bool = False, own: int = 0, functions: int = -1, numbers: bool = False, clip: float | None = None, seed: int = 0,
) -> Layer:  # fmt: skip
    """A layer of so many steps, sequences, inputs and units, on random data.

    `functions` chooses the activation functions: the default ones, or those of a number of `OTHERS`, another for a second direction. `own` is what
    only the operator has: 1 for peepholes or linear_before_reset, 2 for input_forget.
    """
    rng = np.random.default_rng([*sizes, own, seed, len(direction)])
    (steps, batch, inputs, hidden), gates, directions = sizes, GATES[op], 1 + (direction == "bidirectional")

    def draw(size: float, *shape: int) -> Array:
        return rng.uniform(-size, size, shape).astype(dtype)

    def state() -> Array:
        return draw(1, *((batch, directions, hidden) if layout else (directions, batch, hidden)))

    given: dict[str, Array | None] = {
        "X": draw(1.5, *((batch, steps, inputs) if layout else (steps, batch, inputs))),
        "W": draw(inputs**-0.5, directions, gates * hidden, inputs),
        "R": draw(hidden**-0.5, directions, gates * hidden, hidden),
        "B": draw(0.5, directions, 2 * gates * hidden) if bias else None,
        "sequence_lens": rng.integers(1, steps + 1, batch).astype(np.int32) if lengths else None,
        "initial_h": state() if initial else None,
    }
    attributes: dict[str, Any] = {"direction": direction, **({"layout": 1} if layout else {}), **({} if clip is None else {"clip": clip})}
    if op == "LSTM":
        given |= {"initial_c": state() if initial else None, "P": draw(0.5, directions, 3 * hidden) if own == 1 else None}
        attributes |= {"input_forget": 1} if own == 2 else {}
    elif op == "GRU" and own:
        attributes["linear_before_reset"] = 1
    if functions >= 0:
        names = [name for d in range(directions) for name in OTHERS[op][(functions + d) % 3]]
        attributes["activations"] = names
        if numbers or {"Affine", "ScaledTanh"} & set(names):
            for place, attribute in enumerate(("activation_alpha", "activation_beta")):
                count = sum(len(FUNCTIONS[name][1]) > place for name in names)
                attributes |= {attribute: [float(n) for n in rng.uniform(0.3, 0.9, count)]} if count else {}
    while len(given) > 3 and given[list(given)[-1]] is None:
        del given[list(given)[-1]]
    for name in ("B", "sequence_lens"):
        given.setdefault(name, None)
    return Layer(op, given, attributes)


def assert_close(got: Array, want: Array, steps: int, terms: int) -> None:
    """Within the roundings of so many sums of so many terms, and of what the narrow types round to on the way."""
    eps = float(ml_dtypes.finfo(got.dtype).eps)  # type: ignore[no-untyped-call]
    narrow = got.dtype.itemsize < 4
    allowed = (8 if narrow else 2 * (terms + 8)) * eps * (steps + 1) * max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=allowed)


WEIGHTS = ("W", "R", "B", "P")


def check(made: Layer, opset: int = 22, outputs: Sequence[str] | None = None, constants: Sequence[str] = WEIGHTS, **options: Any) -> None:
    """Compare compiled code with the formulas. Within `natively_together` it is at the test's end."""
    names = list(outputs or (["Y", "Y_h", "Y_c"] if made.op == "LSTM" else ["Y", "Y_h"]))
    want, x = made.expected(), made.inputs["X"]
    assert x is not None

    def judge(got: Mapping[str, Array]) -> None:
        assert list(got) == names
        for name in names:
            assert got[name].dtype == x.dtype
            assert got[name].shape == want[name].shape
            assert_close(got[name], want[name], x.shape[1 if made.attributes.get("layout") else 0], x.shape[2] + want[name].shape[-1])

    given = {n: a for n, a in made.inputs.items() if a is not None and n not in constants}
    native_checks.check(Check("-".join([*running, made.op]), made.proto(opset, names, constants), given, judge, tuple(options.items())))


def check_as_onnx_runtime(made: Layer, outputs: Sequence[str], rtol: float, atol: float) -> None:
    """Compare compiled code with ONNX Runtime. Within `natively_together` it is at the test's end."""
    proto = made.proto(14, outputs, WEIGHTS)
    given = {n: a for n, a in made.inputs.items() if a is not None and n not in WEIGHTS}
    found = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(outputs, given)

    def judge(got: Mapping[str, Array]) -> None:
        for name, want in zip(outputs, found, strict=True):
            np.testing.assert_allclose(got[name], want, rtol=rtol, atol=atol)

    native_checks.check(Check("-".join([*running, made.op]), proto, given, judge))


# Steps, sequences, inputs, units: with vectors that fill up and that do not, and more than one panel of columns.
SIZES = ((1, 1, 1, 1), (5, 1, 3, 20), (4, 3, 7, 16), (7, 2, 16, 33), (3, 9, 5, 70))
FACTORS = {
    "op": tuple(GATES), "sizes": SIZES, "direction": ("forward", "reverse", "bidirectional"), "layout": (0, 1), "bias": (True, False),
    "lengths": (False, True), "initial": (False, True), "own": (0, 1, 2), "functions": (-1, 0, 1, 2), "numbers": (False, True),
    "clip": (None, 0.4), "dtype": (np.float32, np.float64, np.float16), "constant": (True, False), "outputs": (0, 1, 2),
}  # fmt: skip
ROWS = [row for seed in range(2) for row in pairwise(FACTORS, seed)]
# Together they take every path through the compiler that any of the rows takes, and have every value.
DAY = [ROWS[i] for i in (1, 3, 5, 6, 7, 10, 11, 15, 19, 26, 30, 31, 32, 34, 35, 36, 37, 41)]


def named(row: dict[str, Any]) -> str:
    """A row's values, as the name of a test."""
    return "-".join(str(getattr(v, "__name__", v)).replace(" ", "") for v in row.values())


@natively_together
@every_by_day("row", ROWS, DAY, ids=named)
def test_layers(row: dict[str, Any]) -> None:
    kept = {name: value for name, value in row.items() if name not in ("constant", "outputs")}
    made = layer(**kept)
    outputs = (None, ["Y"], ["Y_c"] if row["op"] == "LSTM" else ["Y_h"])[row["outputs"]]
    check(made, 14 if row["layout"] else 7, outputs, WEIGHTS if row["constant"] else ())


@natively_together
@every("opset", [1, 3, 7, 14, 22])
@every("op", GATES)
def test_every_version(op: str, opset: int) -> None:
    made = layer(op, (3, 2, 4, 5), lengths=True, initial=True, direction="bidirectional")
    if opset < 7:
        made.attributes["output_sequence"] = 1
    check(made, opset)


@natively_together
def test_bf16() -> None:
    for op in GATES:
        check(layer(op, (4, 2, 5, 24), ml_dtypes.bfloat16, initial=True, direction="bidirectional"))


@natively_together
@every("name", FUNCTIONS)
def test_activation_functions_are_those_of_onnx_runtime(name: str) -> None:
    made = layer("RNN", (1, 3, 4, 37), seed=5)
    made.attributes["activations"] = [name]
    for attribute, number, _ in zip(("activation_alpha", "activation_beta"), (0.7, 0.3), FUNCTIONS[name][1], strict=False):
        made.attributes[attribute] = [number]
    check_as_onnx_runtime(made, ["Y"], rtol=2e-5, atol=2e-6)


@natively_together
@every("name", [name for name, (_, numbers) in FUNCTIONS.items() if not np.isnan(numbers).any()])
def test_numbers_of_activation_functions_are_those_of_the_operator(name: str) -> None:
    attributes = defs.get_schema(name).attributes
    assert [np.float32(n) for n in FUNCTIONS[name][1]] == [attributes[a].default_value.f for a in ("alpha", "beta") if a in attributes]
    made = layer("RNN", (1, 3, 4, 11), seed=5)
    made.attributes["activations"] = [name.upper()]  # in any case
    proto = made.proto(14, ["Y"], ["W", "R", "B"])
    made.attributes["activations"] = [name]
    given = {"X": made.inputs["X"]}
    native_checks.check(Check(name, proto, given, lambda got: assert_close(got["Y"], made.expected()["Y"], 1, 15)))  # type: ignore[dict-item]


@natively_together
@every("seed", range(3))
@every("op", GATES)
def test_against_onnx_runtime(op: str, seed: int) -> None:
    """The clip, the order of the numbers of activation functions, lengths, and a reversed sequence."""
    varied: dict[str, Any] = {"own": seed, "functions": seed, "numbers": True, "clip": 0.7, "seed": seed}
    made = layer(op, (6, 4, 5, 19), direction="bidirectional", lengths=True, initial=True, **varied)
    check_as_onnx_runtime(made, ["Y", "Y_h", "Y_c"] if op == "LSTM" else ["Y", "Y_h"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
def test_lengths_are_read_when_it_runs(op: str) -> None:
    """One compiled model takes any lengths: none of a sequence's steps, and more than there are, too."""
    made = layer(op, (5, 4, 3, 18), lengths=True, initial=True, direction="bidirectional")
    names = ["Y", "Y_h"]
    compiled = stepwell.compile(made.proto(14, names, ["W", "R", "B"]))
    for lengths in ([5, 5, 5, 5], [1, 5, 2, 3], [0, 4, 9, 1]):
        made.inputs["sequence_lens"] = np.array(lengths, np.int32)
        got = compiled.run({n: a for n, a in made.inputs.items() if a is not None and n not in ("W", "R", "B")})
        want = made.expected()
        for name in names:
            assert_close(got[name], want[name], 5, 21)


@natively_together
@every("threads", [1, 2])
@every("op", GATES)
def test_a_layer_whose_products_run_on_threads(op: str, threads: int) -> None:
    check(layer(op, (4, 3, 24, 200), direction="bidirectional", initial=True), threads=threads)


PIECES = {
    "op": tuple(GATES), "sizes": ((5, 4, 3, 20), (4, 8, 7, 33), (3, 12, 5, 16)), "direction": ("forward", "reverse", "bidirectional"),
    "layout": (0, 1), "lengths": (False, True), "initial": (False, True), "own": (0, 1, 2), "functions": (-1, 0), "clip": (None, 0.4),
    "dtype": (np.float32, np.float64, np.float16, ml_dtypes.bfloat16), "chunks": (1, 2, 4), "threads": (1, 2, 3),
}  # fmt: skip


PIECE_ROWS = list(pairwise(PIECES, 0))


@pytest.mark.parametrize("row", by_day(PIECE_ROWS, fewest(PIECE_ROWS, ("direction", "functions"), *PIECES)), ids=named)
def test_pieces_of_a_layer_on_threads(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """However a layer is cut into directions and chunks of the batch, which each go through all steps on a thread."""
    kept = {name: value for name, value in row.items() if name not in ("chunks", "threads")}
    made = layer(**kept)
    both, alike = row["direction"] == "bidirectional", row["functions"] < 0
    chunks = row["chunks"] if both and alike else max(row["chunks"], 2)
    monkeypatch.setattr(recurrence, "chunks_on_threads", lambda *_: chunks)
    lowered = str(stepwell.lower(made.proto(22, ["Y"], WEIGHTS), "linalg").module)
    assert lowered.count("sched.parallel") == (1 if alike or not both else 2), "directions with other functions have other code"
    check(made, threads=row["threads"], cache=False)


def test_pieces_where_they_pay() -> None:
    """Two cores share both directions, or the batch; one core does not, nor is a short layer cut."""
    for sizes, direction, cores, loops in (
        ((50, 8, 40, 128), "bidirectional", 2, 1), ((50, 8, 40, 128), "forward", 2, 1), ((50, 8, 40, 128), "bidirectional", 1, 0),
        ((50, 1, 40, 128), "forward", 2, 0), ((2, 2, 4, 8), "bidirectional", 2, 0),
    ):  # fmt: skip
        target = dataclasses.replace(resolve("x86-64-v3"), cores=cores)
        lowered = stepwell.lower(layer("LSTM", sizes, direction=direction).proto(14, ["Y"], WEIGHTS), "affine", target=target)
        assert str(lowered.snapshots["linalg"]).count("sched.parallel") == loops
        assert str(lowered.module).count("sched.parallel") == 0
    again = [layer("GRU", (30, 8, 16, 64), direction="bidirectional", lengths=True, initial=True, seed=seed) for seed in range(2)]
    for made in again:
        check(made, 14, threads=2)


@pytest.mark.parametrize("op", GATES)
def test_two_layers_in_a_row(op: str) -> None:
    first, second = layer(op, (6, 2, 3, 12)), layer(op, (6, 2, 12, 9), seed=1)
    weights = {f"{name}{i}": made.inputs[name] for i, made in enumerate((first, second)) for name in ("W", "R", "B")}
    nodes = [
        node(op, ["X", "W0", "R0", "B0"], ["Y"], hidden_size=12, name="first"),
        node("Squeeze", ["Y", "axis"], ["H"], name="squeeze"),
        node(op, ["H", "W1", "R1", "B1"], ["Z"], hidden_size=9, name="second"),
    ]
    proto = model(nodes, {"X": first.inputs["X"]}, {"Z": np.zeros((1,) * 4, np.float32)}, {**weights, "axis": np.array([1])}, opset=14)
    second.inputs["X"] = first.expected()["Y"][:, 0]
    assert_close(stepwell.compile(proto).run({"X": first.inputs["X"]})["Z"], second.expected()["Y"], 12, 24)


def test_the_steps_are_a_loop_of_one_kernel() -> None:
    """However many there are: code and compile time do not grow with them, and no limit for loops is met."""
    sizes = {}
    for steps in (10, 100_000):
        lowered = stepwell.lower(layer("LSTM", (steps, 1, 4, 16)).proto(14, ["Y_h"], ["W", "R", "B"]), "affine", target="x86-64-v4")
        sizes[steps] = str(lowered.module).count("\n")
    assert sizes[10] == sizes[100_000]
    check(layer("LSTM", (2000, 1, 4, 16), initial=True), outputs=["Y_h", "Y_c"])


# --- what is refused

BAD: list[tuple[dict[str, Any], str, type[StepwellError]]] = [
    ({"direction": "backward"}, "direction must be one of forward, reverse, bidirectional; got 'backward'", ModelError),
    ({"direction": "bidirectional"}, "its input W must have the shape 2x20x4, got", ModelError),
    ({"hidden_size": 6}, "hidden_size is 6, but R .* is for 5", ModelError),
    ({"layout": 2}, "layout must be 0 or 1, got 2", ModelError),
    ({"clip": -1.0}, "clip must not be negative, got -1", ModelError),
    ({"activations": ["Tanh"]}, "activations must name 3 functions, 3 for each direction; got Tanh", ModelError),
    ({"activations": ["Tanh", "Swish", "Tanh"]}, "the activation 'Swish' is not supported; supported: Affine, Elu", UnsupportedError),
    ({"activations": ["Tanh", "Affine", "Tanh"], "activation_alpha": [2.0]}, "activation_beta must have a number for .* 'Affine'", ModelError),
    ({"activations": ["Tanh", "Elu", "Tanh"], "activation_alpha": [1.0, 2.0]}, "activation_alpha has 2 numbers, but .* 1 take one", ModelError),
]


@pytest.mark.parametrize(("attributes", "message", "kind"), BAD, ids=[", ".join(f"{k}={v}" for k, v in bad[0].items()) for bad in BAD])
def test_attributes_that_do_not_fit(attributes: dict[str, Any], message: str, kind: type[StepwellError]) -> None:
    made = layer("LSTM", (3, 2, 4, 5))
    proto = made.proto(14, ["Y"], ["W", "R", "B"])
    given = {"hidden_size": 5, "direction": "forward", **attributes}
    del proto.graph.node[0].attribute[:]
    proto.graph.node[0].CopyFrom(node("LSTM", ["X", "W", "R", "B"], ["Y"], **given))
    with pytest.raises(kind, match=message):
        stepwell.lower(proto, "graph")


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("W", (1, 20, 3), "its input W must have the shape 1x20x4"),
        ("R", (1, 20), "its input R must have rank 3"),
        ("B", (1, 20), "its input B must have the shape 1x40"),
        ("sequence_lens", (3,), "its input sequence_lens must have the shape 2"),
        ("initial_c", (2, 1, 5), "its input initial_c must have the shape 1x2x5"),
        ("P", (1, 20), "its input P must have the shape 1x15"),
    ],
)
def test_inputs_that_do_not_fit(name: str, shape: tuple[int, ...], message: str) -> None:
    made = layer("LSTM", (3, 2, 4, 5), lengths=True, initial=True, own=1)
    made.inputs[name] = np.ones(shape, np.int32 if name == "sequence_lens" else np.float32)
    proto = made.proto(14, ["Y"], [])
    with pytest.raises(StepwellError, match=message):
        stepwell.lower(proto, "graph")


FREE = {
    "op": tuple(GATES), "direction": ("forward", "reverse", "bidirectional"), "layout": (0, 1), "lengths": (False, True), "initial": (False, True),
    "own": (0, 1, 2), "threads": (1, 2), "dtype": (np.float32, np.float16),
}  # fmt: skip


FREE_ROWS = list(pairwise(FREE, 0))


@pytest.mark.parametrize("row", by_day(FREE_ROWS, fewest(FREE_ROWS, ("direction", "lengths"), *FREE)), ids=named)
def test_one_program_for_any_length_and_batch(row: dict[str, Any]) -> None:
    kept = {name: value for name, value in row.items() if name != "threads"}
    first = layer(sizes=(2, 3, 5, 33), **kept)
    names = ["Y", "Y_h"]
    proto = first.proto(14, names, WEIGHTS)
    for value in proto.graph.input:  # the sizes of the operands by name, batch and steps free
        dims = value.type.tensor_type.shape.dim
        for dim in dims:
            if dim.dim_value in (2, 3) and not (dim.dim_value == 2 and value.name.startswith("initial")):
                dim.dim_param = "steps" if dim.dim_value == 2 else "batch"
    compiled = stepwell.compile(proto, specialise="never", threads=row["threads"])
    for turn, (steps, batch) in enumerate([(5, 4), (1, 1), (19, 2), (2, 7), (0, 3), (3, 0), (5, 4)]):
        if row["lengths"] and not steps:
            continue
        made = layer(sizes=(steps, batch, 5, 33), seed=turn, **kept)
        made.inputs |= {name: first.inputs[name] for name in WEIGHTS if name in first.inputs}
        made.attributes = first.attributes
        got = compiled.run({n: a for n, a in made.inputs.items() if a is not None and n not in WEIGHTS})
        want = made.expected()
        for name in names:
            assert got[name].shape == want[name].shape
            assert_close(got[name], want[name], steps, 38)
