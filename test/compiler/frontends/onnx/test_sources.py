"""Where models come from: paths, bytes and protos, external data, and everything that can be wrong with them."""

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from every import every
from importing import assert_close, context, floats, model, node, rng, run
from onnx import TensorProto, helper, numpy_helper

from stepwell.dialects.support.errors import InputError, ModelError, UnsupportedError
from stepwell.frontends.onnx import import_model

X = floats(3, 40)
W = floats(40, 50, seed=1)


def linear() -> onnx.ModelProto:
    """A matrix product with a weight large enough to be taken out of the model, and a small bias."""
    nodes = [node("MatMul", ["x", "w"], ["t"]), node("Add", ["t", "bias"])]
    return model(nodes, {"x": X}, {"y": X @ W}, {"w": W, "bias": W[0, :1]})


def with_external(folder: Path, **entries: object) -> Path:
    """`linear` with its weight in a file beside it; entries of the external data may be replaced, or left out by None."""
    proto = linear()
    (folder / "weights.bin").write_bytes(b"\0" * 64 + W.tobytes())
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": "weights.bin", "offset": 64, "length": W.nbytes} | entries).items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def is_view(array: np.ndarray) -> bool:
    base = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return not isinstance(base, np.ndarray)


@pytest.mark.parametrize("form", ["path", "str", "bytes", "bytearray", "proto"])
def test_every_form_gives_the_same(form: str, tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    path.write_bytes(linear().SerializeToString())
    data = path.read_bytes()
    source = {"path": path, "str": str(path), "bytes": data, "bytearray": bytearray(data), "proto": linear()}[form]
    imported = import_model(source, context())
    assert set(imported.weights) == {"w", "bias"}
    np.testing.assert_array_equal(imported.weights["w"], W)
    assert_close(run(source, {"x": X})["y"], X @ W + W[0, :1], terms=80)


def test_the_callers_model_stays_as_it_is() -> None:
    proto = linear()
    proto.graph.node[0].name = ""
    before = proto.SerializeToString()
    import_model(proto, context(), shapes={"x": [3, 40]})
    assert proto.SerializeToString() == before


def test_large_weights_are_views_of_file_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    path.write_bytes(linear().SerializeToString())
    for source in (path, path.read_bytes()):
        array = import_model(source, context()).weights["w"]
        assert is_view(array)
        assert not array.flags.writeable


def test_external_data_is_mapped(tmp_path: Path) -> None:
    path = with_external(tmp_path)
    assert is_view(import_model(path, context()).weights["w"])
    assert_close(run(path, {"x": X})["y"], X @ W + W[0, :1], terms=80)


def test_external_data_without_length_or_in_a_folder_below(tmp_path: Path) -> None:
    assert_close(run(with_external(tmp_path, length=None), {"x": X})["y"], X @ W + W[0, :1], terms=80)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "w.bin").write_bytes(W.tobytes())
    assert_close(run(with_external(tmp_path, location="below/w.bin", offset=None), {"x": X})["y"], X @ W + W[0, :1], terms=80)


def test_small_external_data_is_known_to_shape_inference(tmp_path: Path) -> None:
    proto = model([node("Reshape", ["x", "shape"])], {"x": X}, {"y": X.reshape(12, 10)}, {"shape": np.array([12, 10])})
    tensor = proto.graph.initializer[0]
    (tmp_path / "shape.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="shape.bin")
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert import_model(tmp_path / "m.onnx", context()).outputs[0][1].shape == (12, 10)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "missing.bin"}, "'missing.bin' is missing"),
        ({"location": "../outside.bin"}, "lies outside the model's folder"),
        ({"location": "below/../../outside.bin"}, "lies outside the model's folder"),
        ({"location": "link.bin"}, "lies outside the model's folder"),
        ({"location": "circle.bin"}, "circle.bin'"),
        ({"location": "/etc/hostname"}, "must be a path inside"),
        ({"location": ""}, "must be a path inside"),
        ({"location": "."}, "'.' is missing"),
        ({"length": W.nbytes - 4}, f"takes {W.nbytes} bytes, but its external data 'weights.bin' has the length {W.nbytes - 4}"),
        ({"offset": 65}, f"should hold bytes 65 to {W.nbytes + 65}, but the file has {W.nbytes + 64}"),
        ({"offset": -1}, "offset of its external data must be a number"),
        ({"offset": "many"}, "offset of its external data must be a number"),
        ({"offset": 10**18}, "but the file has"),
    ],
)
def test_bad_external_data(entries: dict[str, object], message: str, tmp_path: Path) -> None:
    (tmp_path / "outside.bin").write_bytes(W.tobytes() + b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    os.symlink(tmp_path / "outside.bin", folder / "link.bin")
    os.symlink("circle.bin", folder / "circle.bin")
    with pytest.raises(ModelError, match=r"(?s)'w'.*" + message.replace(".", r"\.")):
        import_model(with_external(folder, **entries), context())


def test_external_data_needs_a_path(tmp_path: Path) -> None:
    path = with_external(tmp_path)
    for source in (path.read_bytes(), onnx.load(path, load_external_data=False)):
        with pytest.raises(ModelError, match=r"'w' lies in the external file 'weights.bin': import the model by its path"):
            import_model(source, context())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\0" * 100, "not an ONNX model"),
        (b"#!/bin/sh\necho hello\n", "not an ONNX model|is cut short"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not an ONNX model|is cut short"),
        (b"PK\x03\x04" + b"a" * 50, "not an ONNX model|is cut short"),
        (b"\x08\x07", "not valid ONNX"),  # a model of IR version 7 and nothing else
        (b"\xff" * 30, "not an ONNX model|is cut short"),
    ],
)
def test_files_that_are_no_models(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "thing.onnx"
    path.write_bytes(data)
    for source in (path, data):
        with pytest.raises(ModelError, match=message):
            import_model(source, context())


def test_every_truncation_is_an_error() -> None:
    data = linear().SerializeToString()
    for end in [*range(0, 200, 3), *rng().integers(200, len(data) - 1, 40)]:
        with pytest.raises(ModelError):
            import_model(data[:end], context())


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.onnx", tmp_path):
        with pytest.raises(ModelError, match="cannot be read"):
            import_model(path, context())
    with pytest.raises(InputError, match=r"must be a path, bytes or an onnx.ModelProto, got int"):
        import_model(3, context())  # type: ignore[arg-type]


@every("size", [3, 5000])  # held by the model, or taken out of it
@every(
    "dtype",
    [
        np.bool_,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.float16,
        ml_dtypes.bfloat16,
        np.float32,
        np.float64,
    ],
)
@every("typed", [False, True])
def test_initializers_of_every_type(size: int, dtype: type, typed: bool) -> None:
    data = rng(size).integers(0, 100, size).astype(dtype)
    tensor = numpy_helper.from_array(data, "w")
    if typed:
        values = data.astype(np.float32 if data.dtype.kind == "V" else data.dtype)
        tensor = helper.make_tensor("w", tensor.data_type, data.shape, values.tolist())
        assert not tensor.HasField("raw_data")
    proto = model([node("Identity", ["w"])], {}, {"y": data})
    proto.graph.initializer.append(tensor)
    imported = import_model(proto.SerializeToString(), context())
    assert imported.weights["w"].dtype == data.dtype
    np.testing.assert_array_equal(imported.weights["w"], data)


def test_booleans_are_whatever_is_not_zero() -> None:
    proto = model([node("Identity", ["w"])], {}, {"y": np.zeros(3, bool)})
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.BOOL, dims=[3], raw_data=b"\x00\x02\xff"))
    np.testing.assert_array_equal(import_model(proto, context()).weights["w"], [False, True, True])


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (TensorProto(name="w", data_type=1, dims=[4], raw_data=b"1234"), "too small|has 4"),
        (TensorProto(name="w", data_type=1, dims=[3000], raw_data=b"1" * 11999), "too small|has 11999"),
        (TensorProto(name="w", data_type=1, dims=[3000], raw_data=b"1" * 12004), "has 12004"),
        (TensorProto(name="w", data_type=1, dims=[1 << 40], raw_data=b"1234"), "at most|too small"),
        (TensorProto(name="w", data_type=1, dims=[1 << 62, 1 << 62], raw_data=b"1" * 5000), "at most|[Oo]verflow|has 5000"),
        (TensorProto(name="w", data_type=1, dims=[-1], raw_data=b"1" * 5000), "negative|[Nn]egative"),
        (TensorProto(name="w", data_type=1, dims=[1 << 40], float_data=[1.0, 2.0]), "at most"),
        (TensorProto(name="w", data_type=1, dims=[2000], float_data=[1.0] * 1999), "w"),
    ],
)
def test_initializers_whose_data_does_not_fit(tensor: TensorProto, message: str) -> None:
    proto = model([node("Relu", ["w"])], {}, {"y": np.zeros((1,) * len(tensor.dims), np.float32)})
    proto.graph.initializer.append(tensor)
    for source in (proto, proto.SerializeToString()):
        with pytest.raises(ModelError, match=message):
            import_model(source, context())


def test_foreign_element_types_matter_only_where_they_are_used() -> None:
    proto = linear()
    proto.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [2], [b"a", b"b"]))
    assert "text" not in import_model(proto, context()).weights
    proto.graph.node.append(node("Neg", ["text"], ["z"]))
    with pytest.raises(UnsupportedError, match=r'Neg "the_neg" \(opset 21\): its input \'text\' is of strings or maps, which is not supported here'):
        import_model(proto, context())


def test_names_that_come_twice() -> None:
    proto = linear()
    proto.graph.initializer.append(numpy_helper.from_array(-W, "w"))
    with pytest.raises(ModelError, match="two initializers have the name 'w' and differ"):
        import_model(proto.SerializeToString(), context())


def test_sparse_initializers_are_named() -> None:
    proto = linear()
    values, indices = numpy_helper.from_array(floats(2), "sparse"), numpy_helper.from_array(np.array([1, 3]), "i")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [5]))
    proto.graph.node.append(node("Neg", ["sparse"], ["unread"]))
    with pytest.raises(UnsupportedError, match=r"sparse initializers are not supported; supported: dense ones. The model has 'sparse'"):
        import_model(proto, context())


def test_text_that_is_not_utf8() -> None:
    data = linear().SerializeToString()
    at = data.index(b"bias")
    with pytest.raises(ModelError, match="not UTF-8 text"):
        import_model(data[:at] + b"b\xff\xfes" + data[at + 4 :], context())
