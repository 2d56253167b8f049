"""What prepares features, against ONNX's evaluator and numpy."""

from typing import Any

import numpy as np
import pytest
from every import every
from importing import floats
from native_checks import natively_together
from onnx import NodeProto, helper
from other_domains import ML, check_native, model_of

import stepwell
from stepwell.dialects.support.errors import IndexRangeError, ModelError, UnsupportedError

X = floats(7, 4)
KINDS = [np.float32, np.float64, np.int64, np.int32]
NAN = float("nan")


def node(op: str, inputs: Any = ("x",), **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), ["y"], name="encoder", domain=ML, **attributes)


@natively_together
@every("kind", KINDS)
def test_scaler(kind: Any) -> None:
    x = (X * 10).astype(kind)
    for offset, scale in (([1.5], [0.25]), ([1.0, -2.0, 3.5, 0.0], [0.5, 2.0, -1.0, 0.1]), ([], [2.0]), ([0.5], [])):
        want = (x.astype(np.float64) - np.array(offset or [0], np.float32)) * np.array(scale or [1], np.float32)
        given = {name: values for name, values in (("offset", offset), ("scale", scale)) if values}
        check_native(node("Scaler", **given), {"x": x}, {"y": want.astype(np.float32)})


@natively_together
@every("kind", KINDS)
@every("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str, kind: Any) -> None:
    """A row of zeros stays one."""
    x = (X * 10).astype(kind)
    x[2] = 0
    wide = x.astype(np.float64)
    size = {"MAX": np.abs(wide).max(axis=1), "L1": np.abs(wide).sum(axis=1), "L2": np.sqrt((wide**2).sum(axis=1))}[norm]
    check_native(node("Normalizer", norm=norm), {"x": x}, {"y": (wide / np.maximum(size, 1e-30)[:, np.newaxis]).astype(np.float32)})


@natively_together
@every("kind", KINDS)
def test_binarizer(kind: Any) -> None:
    x = (X * 3).astype(kind)
    check_native(node("Binarizer", threshold=1.0), {"x": x}, {"y": (x > 1).astype(kind)})
    check_native(node("Binarizer"), {"x": x}, {"y": (x > 0).astype(kind)})


@natively_together
def test_imputer() -> None:
    x = X.copy()
    x[1, 2] = x[3, 0] = NAN
    x[4, 1] = -1.0
    filled = np.array([10.0, 20.0, 30.0, 40.0], np.float32)
    for kind in (np.float32, np.float64):
        y = x.astype(kind)
        made = node("Imputer", imputed_value_floats=filled.tolist(), replaced_value_float=NAN)
        check_native(made, {"x": y}, {"y": np.where(np.isnan(y), filled.astype(kind), y)})
        made = node("Imputer", imputed_value_floats=[7.0], replaced_value_float=-1.0)
        check_native(made, {"x": y}, {"y": np.where(y == -1, kind(7), y)})
    for kind in (np.int64, np.int32):
        z = (X * 3).astype(kind)
        made = node("Imputer", imputed_value_int64s=[1, -2, 3, 9], replaced_value_int64=0)
        check_native(made, {"x": z}, {"y": np.where(z == 0, np.array([1, -2, 3, 9], kind), z)})


@natively_together
@every("kind", KINDS)
def test_array_feature_extractor(kind: Any) -> None:
    x = (floats(2, 3, 5) * 5).astype(kind)
    chosen = np.array([4, 0, 0, 2])
    check_native(node("ArrayFeatureExtractor", ("x", "i")), {"x": x}, {"y": x[..., chosen]}, {"i": chosen})
    check_native(node("ArrayFeatureExtractor", ("x", "i")), {"x": x[0, 0], "i": chosen[np.newaxis]}, {"y": x[0, 0][chosen][np.newaxis]})


@natively_together
@every("kind", KINDS)
def test_feature_vectorizer(kind: Any) -> None:
    """Cut, filled up and kept; a vector is a column; all as f32."""
    x = (X * 9).astype(kind)
    inputs = {"a": x, "b": x[:, 1:3], "c": x[:, 0], "d": x[:, ::-1]}
    want = [x[:, :3], np.pad(inputs["b"], [(0, 0), (0, 2)]), x[:, :1], inputs["d"]]
    made = node("FeatureVectorizer", inputs, inputdimensions=[3, 4, 1, 4])
    check_native(made, inputs, {"y": np.concatenate(want, axis=1).astype(np.float32)})


@natively_together
@every("kind", KINDS)
@every("shape", [(9,), (4, 3)])
def test_one_hot_encoder(kind: Any, shape: tuple[int, ...]) -> None:
    categories = [3, -1, 7, 0]
    x = np.random.default_rng(2).choice([*categories, 2, 9], shape).astype(kind)
    want = (x[..., np.newaxis] == np.array(categories)).astype(np.float32)
    check_native(node("OneHotEncoder", cats_int64s=categories), {"x": x}, {"y": want})
    known = np.where(want.any(axis=-1), x, 3).astype(kind)
    made = node("OneHotEncoder", cats_int64s=categories, zeros=0)
    check_native(made, {"x": known}, {"y": (known[..., np.newaxis] == np.array(categories)).astype(np.float32)})
    with pytest.raises(IndexRangeError, match="encoder"):
        stepwell.compile(model_of(made, {"x": x}, {"y": want}))(x)


TABLES = [
    ({"keys_int64s": [5, -3, 5, 8], "values_floats": [0.5, 1.5, 2.5, -1.0], "default_float": 9.5}, np.int64, np.float32),
    ({"keys_floats": [1.5, NAN, 0.0], "values_int64s": [10, 20, 30]}, np.float32, np.int64),
    ({"keys_int64s": [1, 2, 3], "values_int64s": [4, 5, 6], "default_int64": 77}, np.int64, np.int64),
    ({"keys_floats": [1.5, 2.5], "values_floats": [-4.0, 5.0]}, np.float32, np.float32),
]


@natively_together
@every(("given", "kind", "result"), TABLES)
def test_label_encoder(given: dict[str, Any], kind: Any, result: Any) -> None:
    """The last of equal keys counts, NaN is equal to NaN, and what is unknown gets the default."""
    keys, values = (next(v for k, v in given.items() if k.startswith(what)) for what in ("keys", "values"))
    default = next((v for k, v in given.items() if k.startswith("default")), -1 if result is np.int64 else -0.0)
    x = np.array([*keys, 99, -7, *keys], kind).reshape(2, -1)
    table = {("nan" if k != k else kind(k).item()): v for k, v in zip(keys, values, strict=True)}
    want = np.array([table.get("nan" if v != v else v, default) for v in x.reshape(-1).tolist()], result).reshape(x.shape)
    check_native(node("LabelEncoder", **given), {"x": x}, {"y": want}, version=2)


@natively_together
@every(("kind", "result"), [(np.float64, np.int16), (np.int32, np.float64), (np.int16, np.int32)])
def test_label_encoder_with_tensors(kind: Any, result: Any) -> None:
    keys, values = np.array([3, -4, 100], kind), np.array([7, 8, -9], result)
    x = np.array([[100, 3, 5], [-4, 0, 3]], kind)
    want = np.array([[-9, 7, 55], [8, 55, 7]], result)
    made = node("LabelEncoder")
    for name, array in (("keys_tensor", keys), ("values_tensor", values), ("default_tensor", np.array([55], result))):
        made.attribute.append(helper.make_attribute(name, helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array)))
    check_native(made, {"x": x}, {"y": want}, version=4)


@pytest.mark.parametrize(
    ("made", "kind", "message"),
    [
        (node("Scaler", scale=[1.0, 2.0]), ModelError, "scale must have one entry, or one for each feature"),
        (node("Normalizer", norm="L3"), UnsupportedError, "norm='L3'"),
        (node("Imputer"), ModelError, "imputed_value_floats and no other"),
        (node("Imputer", imputed_value_floats=[1.0], imputed_value_int64s=[1]), ModelError, "imputed_value_floats and no other"),
        (node("OneHotEncoder", cats_strings=["a"]), ModelError, "its keys are of type string, its input is not"),
        (node("LabelEncoder", keys_floats=[1.0], values_floats=[1.0, 2.0]), ModelError, "as many keys as values"),
        (node("FeatureVectorizer", inputdimensions=[1, 2]), ModelError, "an entry for each of 1 inputs, got 2"),
    ],
)
def test_what_is_wrong_is_said(made: NodeProto, kind: Any, message: str) -> None:
    proto = model_of(made, {"x": X}, {"y": X.reshape(7, 4, 1) if made.op_type == "OneHotEncoder" else X})
    with pytest.raises(kind, match=message):
        stepwell.compile(proto)
