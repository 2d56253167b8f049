"""Which front end imports a model, and what it may do wrong."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepwell
from stepwell.dialects.core.types import TensorType
from stepwell.frontends import registry
from stepwell.frontends.base import FrontEnd, ImportedModel
from stepwell.frontends.new_model import NewModel
from stepwell.frontends.registry import find_frontend, register_frontend
from stepwell.plugin import content_of

X = np.array([[1.0, -2.0, 3.0]], np.float32)


class Scale:
    """An object that says by what its input is multiplied."""

    def __init__(self, number: float) -> None:
        self.number = number


class ScaleEnd(FrontEnd):
    """Accepts `Scale` objects and files that hold a number."""

    accepted = "a Scale"
    files: tuple[Path, ...] = ()
    other_type = False

    def accepts(self, source: object) -> bool:
        return isinstance(source, Scale) or (isinstance(source, Path) and source.suffix == ".scale")

    def load(self, source: object, context: Any, options: Any) -> ImportedModel:
        content = None if isinstance(source, Scale) else content_of(source)
        number = source.number if isinstance(source, Scale) else float(bytes(content or b"0"))
        beside = {file: content_of(file) for file in self.files}
        number += sum(float(bytes(data)) for data in beside.values())
        model = NewModel(context, {"x": ("f32", (1, "n")), "k": ("f32", ())}, options)
        with model.node("times"):
            y = model.builder.mul(model.builder.mul(model.values["x"], model.builder.literal(np.float32(number))), model.values["k"])
        made = model.finished({"y": y}, content=content, files=beside, warnings=["a scale"])
        if self.other_type:
            made.outputs = [("y", TensorType("f64", (1, 3)))]
        return made


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> Iterator[None]:
    registry.all_frontends()
    monkeypatch.setattr(registry, "_FRONTENDS", dict(registry._FRONTENDS))
    monkeypatch.setattr("stepwell.dialects.support.extensions._modules", set())
    return


def compiled(source: object, **options: Any) -> stepwell.CompiledModel:
    model = stepwell.compile(source, shapes={"x": X.shape}, values={"k": np.array(2, np.float32)}, threads=1, **options)
    assert isinstance(model, stepwell.CompiledModel)
    return model


def is_cached(model: stepwell.CompiledModel) -> bool:
    return list(model.timings) == ["cache"]


def test_the_last_registered_one_is_asked_first_and_the_built_in_one_last(tmp_path: Path) -> None:
    def end(name: str) -> type[FrontEnd]:
        return register_frontend(name)(type("End", (ScaleEnd,), {"__qualname__": name}))

    end("first")
    end("second")
    assert find_frontend(Scale(1)).name == "second"
    assert find_frontend(tmp_path / "net.scale").name == find_frontend(str(tmp_path / "net.scale")).name == "second"
    assert find_frontend(tmp_path / "net.onnx").name == find_frontend(b"").name == "onnx"
    end("first")  # again, as when its file is loaded once more
    assert find_frontend(Scale(1)).name == "first"


def test_names_and_classes_are_checked() -> None:
    for name, cls, said in (
        ("onnx", type("Mine", (FrontEnd,), {}), "front end 'onnx' is already there"),
        ("", type("Mine", (FrontEnd,), {}), "expected the name of a front end, got ''"),
        ("mine", int, "front end 'mine': expected a subclass of FrontEnd, got"),
    ):
        with pytest.raises(stepwell.InputError, match=said):
            register_frontend(name)(cls)


def test_files_and_what_lies_beside_them_are_parts_of_the_key(tmp_path: Path) -> None:
    file, more = tmp_path / "net.scale", tmp_path / "more"
    register_frontend("scale")(type("End", (ScaleEnd,), {"files": (more,)}))
    for number, added in (("2", "0"), ("3", "0"), ("3", "1")):
        file.write_text(number)
        more.write_text(added)
        for cached in (False, True):
            model = compiled(file)
            assert is_cached(model) == cached
            np.testing.assert_array_equal(model(X)[0], X * 2 * (float(number) + float(added)))


def test_objects_are_cached_by_their_digest(tmp_path: Path) -> None:
    register_frontend("scale")(ScaleEnd)
    assert [is_cached(compiled(Scale(2))) for _ in range(2)] == [False, False]
    digest = {"digest": lambda self, source: hashlib.sha256(str(source.number).encode()).digest()}
    register_frontend("with-digest")(type("End", (ScaleEnd,), digest))
    scale = Scale(2)
    model = stepwell.compile(scale, values={"k": np.array(2, np.float32)}, specialise="always", threads=1)
    assert [is_cached(compiled(Scale(2))) for _ in range(2)] == [False, True]
    np.testing.assert_array_equal(model(X)[0], X * 4)
    scale.number = 3
    with pytest.raises(stepwell.ModelError, match="the Scale has changed since the model was compiled"):
        model(np.ones((1, 5), np.float32))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"accepts": lambda self, source: "yes"}, "front end 'bad': accepts must give True or False, got 'yes'"),
        ({"accepts": lambda self, source: source["kind"]}, r"front end 'bad': accepts: TypeError: .* \(.*test_registry.py, line \d+\)"),
        ({"digest": lambda self, source: "d"}, "front end 'bad': digest must give bytes or None, got 'd'"),
        ({"load": lambda self, source, context, options: None}, "front end 'bad': load must give an ImportedModel, got None"),
        ({"load": lambda self, source, context, options: {}["w"]}, r"front end 'bad': load: KeyError: 'w' \(.*test_registry.py, line \d+\)"),
        ({"other_type": True}, r"front end 'bad': its outputs are \(tensor<1x3xf64>\), but those of its @main are \(tensor<1x3xf32>\)"),
        ({"files": (Path(__file__),)}, "front end 'bad': load: ValueError: could not convert string"),
    ],
)  # fmt: skip
def test_what_a_front_end_may_do_wrong(members: dict[str, Any], said: str) -> None:
    register_frontend("bad")(type("End", (ScaleEnd,), members))
    with pytest.raises(stepwell.ModelError, match=said):
        compiled(Scale(2))


def test_files_elsewhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "more").write_text("1")
    (tmp_path / "models" / "net.scale").write_text("1")
    register_frontend("scale")(type("End", (ScaleEnd,), {"files": (tmp_path / "more",)}))
    with pytest.raises(stepwell.ModelError, match=r"it has read .*more, which does not lie beside the model or below"):
        compiled(tmp_path / "models" / "net.scale")


def test_values_and_shapes_must_fit() -> None:
    register_frontend("scale")(ScaleEnd)
    for shapes, values, said in (
        (None, {"k": np.array(2.0)}, r"input 'k' is tensor<f32>, the value given is tensor<f64>"),
        (None, {"z": np.array(2.0)}, "there is no input 'z'"),
        ({"x": (2, 3)}, None, "dimension 0 of input 'x' is 1 in 'x', the shape given says 2"),
    ):
        with pytest.raises(stepwell.InputError, match=said):
            stepwell.compile(Scale(2), shapes=shapes, values=values)
