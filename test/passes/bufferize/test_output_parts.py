"""Results that several kernels write: each writes its part of the caller's array, and nothing is copied on the way."""

import numpy as np
import pytest
from importing import model, node, rng
from onnx import NodeProto

import stepwell

A, B = (rng(i).normal(size=(1, n, 4, 5)).astype(np.float32) for i, n in enumerate((3, 7)))
RELU, EXP = np.maximum(A, 0), np.exp(B)
BOTH = np.concatenate([RELU, EXP], 1)
INPUTS = {"a": A, "b": B, "low": A[:, ::-1].copy(), "bits": B > 0}
TWO = [node("Relu", ["a"], ["c"]), node("Exp", ["b"], ["d"])]
JOINED = node("Concat", ["c", "d"], ["y"], axis=1)
CASES: dict[str, tuple[list[NodeProto], dict[str, np.ndarray]]] = {
    "of inputs": ([node("Concat", ["a", "b"], ["y"], axis=1)], {"y": np.concatenate([A, B], 1)}),
    "of results and an input": ([*TWO, node("Concat", ["c", "a", "d"], ["y"], axis=1)], {"y": np.concatenate([RELU, A, EXP], 1)}),
    "of one result thrice": ([TWO[0], node("Concat", ["c", "c", "c"], ["y"], axis=1)], {"y": np.concatenate([RELU] * 3, 1)}),
    "of booleans": (
        [node("Less", ["a", "low"], ["c"]), node("Concat", ["c", "bits"], ["y"], axis=1)], {"y": np.concatenate([A[:, ::-1] > A, B > 0], 1)}
    ),
    "seen in another shape": ([*TWO, node("Concat", ["c", "d"], ["e"], axis=1), node("Flatten", ["e"], ["y"])], {"y": BOTH.reshape(1, -1)}),
    "a part of which is read again": ([*TWO, JOINED, node("Neg", ["c"], ["z"])], {"y": BOTH, "z": -RELU}),
    "read again whole": ([*TWO, JOINED, node("Neg", ["y"], ["z"])], {"y": BOTH, "z": -BOTH}),
    "overwritten by the result": ([*TWO, node("Concat", ["c", "d"], ["e"], axis=1), node("Neg", ["e"], ["y"])], {"y": -BOTH}),
    "of which a part is a result too": ([*TWO, JOINED], {"y": BOTH, "c": RELU}),
    "that lie in another result": (
        [*TWO, JOINED, node("Neg", ["y"], ["z"]), node("Concat", ["z", "y"], ["w"], axis=0, name="last")],
        {"w": np.concatenate([-BOTH, BOTH]), "y": BOTH},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_parts_of_results(name: str, fused: bool) -> None:
    nodes, wanted = CASES[name]
    read = {i for made in nodes for i in made.input}
    given = {key: value for key, value in INPUTS.items() if key in read}
    compiled = stepwell.compile(model(nodes, given, wanted), disable=() if fused else ("fuse-operators",))
    assert compiled.memory.workspace_bytes == 0 or not fused, "nothing goes through the workspace"
    for threads in (1, 2):
        compiled.threads = threads
        got = compiled.run(given, out={key: np.empty(value.shape, value.dtype) for key, value in wanted.items()})
        for key, want in wanted.items():
            np.testing.assert_allclose(got[key], want, rtol=1e-6, err_msg=key)
