"""Booleans in vectors, natively: what is read, written, chosen by and folded is right for every size, and true is written as 1."""

import numpy as np
from every import every
from importing import model, node, rng
from native_checks import Arrays, check_model, natively_together
from onnx import NodeProto

X = rng(1).normal(size=(3, 5, 67)).astype(np.float32)
X[0, 1, 3:20] = np.nan
CASES: dict[str, tuple[list[NodeProto], np.ndarray]] = {
    "compared": ([node("Greater", ["x", "z"])], X[::-1] < X),
    "not a number": ([node("IsNaN", ["x"])], np.isnan(X)),
    "inverted": ([node("Not", ["b"])], X <= 0.1),
    "combined": ([node("Greater", ["x", "z"], ["c"]), node("Xor", ["b", "c"])], ~(X <= 0.1) ^ (X[::-1] < X)),
    "chosen by": ([node("Where", ["b", "x", "z"])], np.where(X <= 0.1, X[::-1], X)),
    "chosen by a row": ([node("Where", ["row", "x", "z"])], np.where(np.arange(67) % 3 == 0, X, X[::-1])),
    "turned round": ([node("Transpose", ["b"], perm=[2, 1, 0])], ~(X <= 0.1).transpose(2, 1, 0)),
    "last dimensions turned round": ([node("Transpose", ["b"], perm=[0, 2, 1])], (~(X <= 0.1)).transpose(0, 2, 1)),
    "every third, backwards": (
        [node("Slice", ["b", "sixty", "before", "last", "minus3"], ["c"]), node("Not", ["c"])], (X <= 0.1)[..., 60::-3]
    ),
    "joined": ([node("Concat", ["b", "row3"], axis=1)], np.concatenate([~(X <= 0.1), np.tile(np.arange(67) % 3 == 0, (3, 1, 1))], 1)),
    "any": ([node("ReduceMax", ["b", "last"], keepdims=0)], (~(X <= 0.1)).any(axis=2)),
    "all of a column": ([node("ReduceMin", ["b", "first"], keepdims=0)], (~(X <= 0.1)).all(axis=0)),
    "as numbers": ([node("Cast", ["b"], to=1)], (~(X <= 0.1)).astype(np.float32)),
    "from numbers": ([node("Cast", ["x"], to=9)], X.astype(bool)),
}  # fmt: skip


@natively_together
@every("target", ["host", "x86-64-v3"])
@every("name", CASES)
def test_booleans_in_vectors(name: str, target: str) -> None:
    nodes, want = CASES[name]
    row = np.arange(67) % 3 == 0
    inputs = {"x": X, "z": X[::-1].copy(), "b": ~(X <= 0.1), "row": row, "row3": np.tile(row, (3, 1, 1))}
    weights = {name: np.array([n]) for name, n in {"last": 2, "first": 0, "sixty": 60, "before": -1000, "minus3": -3}.items()}
    used = {i for made in nodes for i in made.input}
    given = {k: v for k, v in inputs.items() if k in used}
    proto = model(nodes, given, {"y": want}, {k: v for k, v in weights.items() if k in used})

    def judge(got: Arrays) -> None:
        np.testing.assert_array_equal(got["y"], want)
        if want.dtype == bool:
            assert set(np.unique(got["y"].view(np.uint8))) <= {0, 1}

    check_model(proto, given, judge, threads=[1], target=target)


@natively_together
@every("size", [1, 7, 15, 16, 17, 31, 33, 64, 129, 1000])
def test_every_size(size: int) -> None:
    bits, x = rng(size).integers(0, 2, size).astype(bool), rng(size).normal(size=size).astype(np.float32)
    nodes = [node("Less", ["x", "zero"], ["c"]), node("Or", ["b", "c"])]
    proto = model(nodes, {"b": bits, "x": x}, {"y": bits}, {"zero": np.array(0, np.float32)})
    check_model(proto, {"b": bits, "x": x}, lambda got: np.testing.assert_array_equal(got["y"], bits | (x < 0)))
