"""Boolean inputs whose bytes are others than 0 and 1: any but 0 is true, as in numpy."""

from pathlib import Path

import numpy as np
import pytest
from importing import check_native, model, node
from onnx import NodeProto

import stepwell
from stepwell.dialects.core.weights import WeightTable

BYTES = np.array([0, 1, 2, 255, 128, 3, 0, 1, 77, 254, 16, 0, 0, 64, 9, 1, 2, 4, 0], np.uint8)
ODD = BYTES.view(np.bool_)
EVEN = np.roll(BYTES, 3).view(np.bool_)
TRUTH, OTHER = BYTES != 0, np.roll(BYTES, 3) != 0


def exact(array: np.ndarray) -> np.ndarray:
    """A result as bytes, each of which must be 0 or 1 if it is a truth."""
    return array.view(np.uint8) if array.dtype == np.bool_ else array


X, Y = np.arange(19, dtype=np.float32), -np.arange(19, dtype=np.float32)
CASES: list[tuple[NodeProto, dict[str, np.ndarray], np.ndarray]] = [
    (node("Not", ["a"]), {"a": ODD}, ~TRUTH),
    (node("Identity", ["a"]), {"a": ODD}, TRUTH),
    (node("Cast", ["a"], to=1), {"a": ODD}, TRUTH.astype(np.float32)),
    (node("Cast", ["a"], to=2), {"a": ODD}, TRUTH.astype(np.uint8)),
    (node("And", ["a", "b"]), {"a": ODD, "b": EVEN}, TRUTH & OTHER),
    (node("Xor", ["a", "b"]), {"a": ODD, "b": EVEN}, TRUTH ^ OTHER),
    (node("Equal", ["a", "b"]), {"a": ODD, "b": EVEN}, TRUTH == OTHER),
    (node("Where", ["a", "x", "z"]), {"a": ODD, "x": X, "z": Y}, np.where(TRUTH, X, Y)),
    (node("Reshape", ["a", "s"]), {"a": ODD[:12], "s": np.array([3, 4])}, TRUTH[:12].reshape(3, 4)),
]


@pytest.mark.parametrize(("made", "inputs", "want"), CASES, ids=[case[0].op_type for case in CASES])
def test_any_byte_but_zero_is_true(made: NodeProto, inputs: dict[str, np.ndarray], want: np.ndarray) -> None:
    constants = {name: array for name, array in inputs.items() if name == "s"}
    given = {name: array for name, array in inputs.items() if name != "s"}
    check_native(made, given, constants, expected=[want])
    compiled = stepwell.compile(model([made], given, {"y": want}, constants))
    np.testing.assert_array_equal(exact(compiled.run(given)["y"]), exact(want))
    np.testing.assert_array_equal(exact(compiled(*given.values())[0]), exact(want))


def test_into_the_caller_s_array_and_the_input_itself() -> None:
    compiled = stepwell.compile(model([node("Identity", ["a"]), node("Not", ["a"], ["z"])], {"a": ODD}, {"y": ODD, "z": ODD}))
    out = np.empty(19, np.bool_)
    np.testing.assert_array_equal(exact(compiled.run({"a": ODD}, out={"y": out})["z"]), exact(~TRUTH))
    np.testing.assert_array_equal(exact(out), exact(TRUTH))
    same = BYTES.copy().view(np.bool_)
    assert compiled.run({"a": same}, out={"y": same})["y"] is same
    np.testing.assert_array_equal(exact(same), exact(TRUTH))


@pytest.mark.parametrize("length", [0, 1, 7])
def test_free_dimensions_and_odd_layouts(length: int) -> None:
    proto = model([node("Not", ["a"])], {"a": ODD}, {"y": ODD})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    compiled = stepwell.compile(proto)
    given = ODD[2 : 2 + 2 * length : 2]
    np.testing.assert_array_equal(exact(compiled.run({"a": given})["y"]), exact(~TRUTH[2 : 2 + 2 * length : 2]))


def test_a_scalar_and_the_input_stays() -> None:
    scalar = np.array(2, np.uint8).view(np.bool_)
    compiled = stepwell.compile(model([node("Cast", ["a"], to=7)], {"a": scalar}, {"y": np.array(1)}))
    assert compiled(scalar)[0] == 1
    assert scalar.view(np.uint8) == 2


def test_weights_of_a_file(tmp_path: Path) -> None:
    WeightTable({"mask": ODD}).save(tmp_path / "w.safetensors")
    np.testing.assert_array_equal(exact(WeightTable.load(tmp_path / "w.safetensors")["mask"]), exact(TRUTH))
