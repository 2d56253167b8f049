"""Samples for calibration: how arrays, archives and folders become batches, and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from stepwell import InputError
from stepwell.quantizer.samples import Samples

RNG = np.random.default_rng(0)


def model(**shapes: list[int | str]) -> onnx.ModelProto:
    """A model with inputs of these names and shapes, which adds nothing up: samples ask for its inputs only."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    return helper.make_model(helper.make_graph([], "g", inputs, []))


ONE = model(x=["batch", 3])


def test_a_free_first_axis_takes_batches_and_the_rest_is_left_out():
    data = RNG.standard_normal((7, 3)).astype(np.float32)
    samples = Samples.from_data({"x": data}, ONE, batch=2)
    assert len(samples) == 3
    for _ in range(2):  # they can be gone through again
        np.testing.assert_array_equal(np.concatenate([inputs["x"] for inputs in samples]), data[:6])
    assert [len(inputs["x"]) for inputs in Samples.from_data({"x": data}, ONE, limit=4)] == [1] * 4


def test_a_fixed_first_axis_says_the_batch():
    data = RNG.standard_normal((6, 3)).astype(np.float32)
    assert [inputs["x"].shape for inputs in Samples.from_data({"x": data}, model(x=[3, 3]), batch=2)] == [(3, 3)] * 2


def test_samples_may_lie_along_an_axis_of_their_own():
    data = RNG.standard_normal((4, 2, 3)).astype(np.float32)
    samples = list(Samples.from_data({"x": data, "n": np.arange(4, dtype=np.float32)}, model(x=["batch", 3], n=[])))
    np.testing.assert_array_equal(samples[2]["x"], data[2])
    assert samples[3]["n"].shape == ()
    assert samples[3]["n"] == 3


def test_labels_go_with_their_samples():
    data = {"x": RNG.standard_normal((5, 3)).astype(np.float32), "y": np.arange(5)}
    batches = list(Samples.from_data(data, ONE, labels="y", batch=2).batches())
    assert [batch.labels.tolist() for batch in batches] == [[0, 1], [2, 3]]
    np.testing.assert_array_equal(batches[1].inputs["x"], data["x"][2:4])


def test_integers_become_the_floats_of_the_input():
    [inputs] = Samples.from_data({"x": np.array([[1, 2, 255]], np.uint8)}, ONE)
    assert inputs["x"].dtype == np.float32
    assert inputs["x"].tolist() == [[1, 2, 255]]


def test_an_archive_and_a_folder(tmp_path: Path):
    data = RNG.standard_normal((3, 3)).astype(np.float32)
    np.savez(tmp_path / "all.npz", whatever=data, label=np.arange(3))
    [first, *_] = Samples.from_data(tmp_path / "all.npz", ONE, labels="label").batches()
    np.testing.assert_array_equal(first.inputs["x"], data[:1])
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "b.npy", data)
    np.savez(folder / "a.npz", x=data[1:], label=np.arange(2))
    (folder / "notes.txt").write_text("not data")
    shapes = [inputs["x"].shape for inputs in Samples.from_data(str(folder), ONE)]
    assert shapes == [(2, 3), (3, 3)], "a file is a batch, in the order of names"


def test_a_folder_of_images(tmp_path: Path):
    pixels = RNG.integers(0, 256, (4, 5, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    [inputs] = Samples.from_data(tmp_path, model(x=[1, 3, 4, 5]))
    np.testing.assert_allclose(inputs["x"][0], pixels.transpose(2, 0, 1) / 255, rtol=1e-6)


def test_the_digest_tells_data_apart():
    data = RNG.standard_normal((4, 3)).astype(np.float32)
    one = Samples.from_data({"x": data}, ONE).digest()
    assert one == Samples.from_data({"x": data.copy()}, ONE).digest()
    other = data.copy()
    other[3, 1] += 1e-6
    assert len({one, Samples.from_data({"x": other}, ONE).digest(), Samples.from_data({"x": data}, ONE, batch=2).digest()}) == 3


GOOD = np.ones((4, 3), np.float32)


@pytest.mark.parametrize(
    ("data", "given", "message"),
    [
        ({"y": GOOD, "z": GOOD}, {}, r"lacks an array for the input 'x'; it has y, z"),
        ({"x": GOOD}, {"labels": "y"}, r"lacks an array for the key of labels 'y'; it has x"),
        ({"x": GOOD, "y": np.zeros(3)}, {"labels": "y"}, r"a label in 'y' for each of 4 samples, got 3"),
        ({"x": np.ones((4, 2), np.float32)}, {}, r"batch 0: input 'x' is float32\[batchx3\], got the shape \[1, 2\]"),
        ({"x": np.ones(3, np.float32)}, {}, r"along the first axis, got the shape \[3\]"),
        ({"x": np.full((4, 3), np.nan, np.float32)}, {}, r"batch 0: the array for input 'x' has 3 elements that are NaN or infinite"),
        ({"x": np.ones((0, 3), np.float32)}, {}, r"there are no samples in it"),
        ({"x": GOOD}, {"batch": 5}, r"no samples in it, or fewer than a batch"),
        ({"x": GOOD.astype(np.complex64)}, {}, r"input 'x' is float32\[batchx3\], got complex64"),
        (np.ones(3), {}, r"data: expected the path of an \.npz file or folder, arrays by the inputs' names, or Samples"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(data: object, given: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        list(Samples.from_data(data, ONE, **given).batches())


def test_inputs_have_as_many_samples_each():
    with pytest.raises(InputError, match=r"as many samples for every input, got 4 for 'x', 3 for 'z'"):
        Samples.from_data({"x": GOOD, "z": GOOD[:3]}, model(x=["batch", 3], z=["batch", 3]))


def test_files_that_are_none(tmp_path: Path):
    with pytest.raises(InputError, match=r"expected an \.npz file, or a folder of files"):
        Samples.from_data(tmp_path / "none.npz", ONE)
    with pytest.raises(InputError, match=r"there are no files"):
        Samples.from_data(tmp_path, ONE)
    np.save(tmp_path / "a.npy", GOOD)
    with pytest.raises(InputError, match=r"a\.npy: expected an \.npz file with an array for each of x, z"):
        list(Samples.from_data(tmp_path, model(x=["batch", 3], z=["batch", 3])))
    with pytest.raises(InputError, match=r"labels are read from \.npz files only"):
        list(Samples.from_data(tmp_path, ONE, labels="y").batches())
    (tmp_path / "b.npz").write_bytes(b"not an archive")
    with pytest.raises(InputError, match=r"b\.npz: not a readable \.npz file"):
        list(Samples.from_data(tmp_path, ONE))
