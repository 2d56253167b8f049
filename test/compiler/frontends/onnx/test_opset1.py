"""Operators as they were up to opset 5, compiled, against numpy: what was written otherwise then."""

from typing import Any

import numpy as np
import pytest
from every import every
from importing import check_native, floats, ints, model, node, run
from native_checks import natively_together
from onnx import NodeProto, TensorProto, helper

X = floats(2, 3, 4)
IMAGE = np.abs(floats(1, 2, 3, 4))
Case = tuple[NodeProto, dict[str, np.ndarray], np.ndarray | list[np.ndarray]]


def hinted(op: str, *inputs: str, **attributes: Any) -> NodeProto:
    return node(op, inputs or ["x"], consumed_inputs=[0] * (len(inputs) or 1), **attributes)


CASES: list[Case] = [
    (hinted("Relu"), {"x": X}, np.maximum(X, 0)),
    (hinted("Neg"), {"x": X}, -X),
    (hinted("Max", "x", "z"), {"x": X, "z": -X}, np.abs(X)),
    (hinted("Mean", "x", "z"), {"x": X, "z": np.ones_like(X)}, (X + 1) / 2),
    (hinted("Add", "x", "z", broadcast=1, axis=1), {"x": X, "z": floats(3)}, X + floats(3)[:, None]),
    (hinted("Clip", max=0.5, min=-0.25), {"x": X}, np.clip(X, np.float32(-0.25), np.float32(0.5))),
    (hinted("Clip"), {"x": X}, X),
    (hinted("LeakyRelu", alpha=0.5), {"x": X}, np.where(X < 0, X / 2, X)),
    (hinted("Selu"), {"x": X}, np.float32(1.0507) * np.where(X < 0, np.float32(1.6732) * np.expm1(X), X)),
    (hinted("PRelu", "x", "s"), {"x": X, "s": floats(3, seed=4)}, np.where(X < 0, X * floats(3, seed=4)[:, None], X)),
    (hinted("PRelu", "x", "s"), {"x": X[0, 0], "s": floats(4, seed=4)}, np.where(X[0, 0] < 0, X[0, 0] * floats(4, seed=4), X[0, 0])),
    (node("Cast", ["x"], to="INT32"), {"x": X * 5}, (X * 5).astype(np.int32)),
    (node("Cast", ["x"], to="DOUBLE"), {"x": X}, X.astype(np.float64)),
    (node("Concat", ["x", "z"]), {"x": X, "z": 2 * X}, np.concatenate([X, 2 * X], 1)),
    (hinted("Reshape", shape=[0, -1, 2]), {"x": X}, X.reshape(2, -1, 2)),
    (node("Pad", ["x"], paddings=[0, 1, 0, 0, 0, 2], value=1.5), {"x": X}, np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=1.5)),
    (node("Pad", ["x"], paddings=[0, 1, 0, 0, 0, 2], mode="reflect"), {"x": X}, np.pad(X, [(0, 0), (1, 0), (0, 2)], mode="reflect")),
    (node("Split", ["x"], ["y", "z"], axis=2, split=[1, 3]), {"x": X}, [X[..., :1], X[..., 1:]]),
    (node("Split", ["x"], ["y", "z"], axis=0), {"x": X}, [X[:1], X[1:]]),
    (node("GlobalLpPool", ["x"], p=3.0), {"x": IMAGE}, (IMAGE**3).sum((2, 3), keepdims=True) ** np.float32(1 / 3)),
    (node("LpPool", ["x"], kernel_shape=[3, 4], p=1.5), {"x": IMAGE}, (IMAGE**1.5).sum((2, 3), keepdims=True) ** (1 / 1.5)),
    (node("Upsample", ["x"], height_scale=2.0, width_scale=3.0), {"x": IMAGE}, IMAGE.repeat(2, 2).repeat(3, 3)),
]  # fmt: skip


@natively_together
@every(("made", "inputs", "want"), CASES, ids=lambda v: v.op_type if isinstance(v, NodeProto) else "")
def test_operators(made: NodeProto, inputs: dict[str, np.ndarray], want: Any) -> None:
    wanted = [np.asarray(w) for w in (want if isinstance(want, list) else [want])]
    wanted = [w.astype(np.float32) if w.dtype == np.float64 and made.op_type != "Cast" else w for w in wanted]
    check_native(made, inputs, outputs=["y", "z"][: len(wanted)], opset=1, expected=wanted)


def test_sizes_as_inputs() -> None:
    """Only known ones, as later."""
    weights = {"n": np.array(3, np.float32), "axis": np.array(1, np.float32), "sizes": np.array([1, 3], np.float32)}
    made = [node("Tile", ["x", "n", "axis"], ["t"], name="tile"), node("Split", ["x", "sizes"], ["y", "z"], axis=2)]
    expected = {"t": np.tile(X, (1, 3, 1)), "y": X[..., :1], "z": X[..., 1:]}
    got = run(model(made, {"x": X}, expected, weights, opset=1), {"x": X})
    for name, want in expected.items():
        np.testing.assert_array_equal(got[name], want)


@pytest.mark.parametrize("lengths", [None, ints(2, 3)])
@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_of_each_batch(lengths: np.ndarray | None, direction: int) -> None:
    """A running sum and the elements so far weighted, in each of two batches."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("s", "e", "t", "o")]
    nodes = [node("Add", ["s", "e"], ["t"], name="sum"), node("Mul", ["t", "e"], ["o"], name="product")]
    body = helper.make_graph(nodes, "body", infos[:2], infos[2:])
    start, sequence = floats(2, 2), floats(2, 3, 2, seed=1)
    final, outputs = start.copy(), np.zeros_like(sequence)
    for i, count in enumerate((3, 3) if lengths is None else lengths):
        for step, place in enumerate(reversed(range(count)) if direction else range(count)):
            final[i] += sequence[i, place]
            outputs[i, step] = final[i] * sequence[i, place]
    inputs = ["" if lengths is None else "n", "start", "sequence"]
    made = node("Scan", inputs, ["y", "z"], body=body, num_scan_inputs=1, directions=[direction])
    given = {"start": start, "sequence": sequence}
    got = run(model([made], given, {"y": final, "z": outputs}, {} if lengths is None else {"n": lengths}, opset=8), given)
    np.testing.assert_allclose(got["y"], final, rtol=1e-6)
    np.testing.assert_allclose(got["z"], outputs, rtol=1e-6)
