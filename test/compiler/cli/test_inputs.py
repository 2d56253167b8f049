"""Input data from the command line."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from every import every
from PIL import Image

from stepwell.analysis.random_inputs import random_array
from stepwell.cli.common import UsageError
from stepwell.cli.inputs import gather, load
from stepwell.dialects.support.errors import InputError
from stepwell.signature import TensorInfo

random = np.random.default_rng(5)


def info(name: str = "x", shape: tuple[int | None, ...] = (2, 3), dtype: "str | np.dtype" = "float32") -> TensorInfo:
    return TensorInfo(name, shape, np.dtype(dtype))


class TestRandom:
    def test_seeds_repeat_and_differ(self) -> None:
        first, again, other = (gather([f"x=random:{seed}"], [info()])["x"] for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert (first != other).all()

    def test_it_is_the_default_with_seed_0_and_differs_by_input(self) -> None:
        arrays = gather(["y=random:0"], [info("x"), info("y")])
        np.testing.assert_array_equal(arrays["x"], gather(["x=random"], [info("x"), info("y")])["x"])
        assert (arrays["x"] != arrays["y"]).all()

    @pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "uint8", "bool"])
    def test_dtypes(self, dtype: str) -> None:
        array = random_array(info(shape=(50, 3), dtype=dtype), 1, 0)
        assert (array.dtype, array.shape) == (np.dtype(dtype), (50, 3))
        assert len(np.unique(array)) > (1 if dtype == "bool" else 5)

    def test_free_dimensions_need_a_shape(self) -> None:
        with pytest.raises(UsageError, match=r"--shape x=1x3"):
            gather([], [info(shape=(None, 3))])


@every("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_of_the_whole_range(dtype: str) -> None:
    ends = np.iinfo(dtype)
    array = random_array(replace(info(shape=(50, 3), dtype=dtype), any_integers=True), 1, 0)
    assert (array.dtype, array.min(), array.max()) == (np.dtype(dtype), ends.min, ends.max)
    assert len(np.unique(array)) > 60
    few = random_array(replace(info(shape=(1,), dtype=dtype), any_integers=True), 1, 0)
    assert few.shape == (1,)
    assert random_array(info(shape=(50, 3), dtype=dtype), 1, 0).max() == 9


@every("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_extreme_floats(dtype: type) -> None:
    array = random_array(info(shape=(500, 3), dtype=np.dtype(dtype)), 1, 0, extreme=True)
    limits, wide = ml_dtypes.finfo(dtype), array.astype(np.float64)
    assert array.dtype == dtype
    assert (np.nanmax(wide[np.isfinite(wide)]), np.nanmin(wide[np.isfinite(wide)])) == (float(limits.max), -float(limits.max))
    assert np.isnan(wide).any()
    assert np.isposinf(wide).any()
    assert np.isneginf(wide).any()
    assert (wide == float(limits.smallest_subnormal)).any()
    assert {bool(sign) for sign in np.signbit(wide[wide == 0])} == {False, True}
    ordinary = np.isfinite(wide) & (np.abs(wide) > 0.01) & (np.abs(wide) < 5)
    assert 0.6 < ordinary.mean() < 0.9


class TestFiles:
    def test_npy_npz_and_pb(self, tmp_path: Path) -> None:
        array = random.standard_normal((2, 3)).astype(np.float32)
        np.save(tmp_path / "a.npy", array)
        np.savez(tmp_path / "one.npz", anything=array)
        np.savez(tmp_path / "two.npz", other=array + 1, x=array)
        (tmp_path / "t.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
        for name in ("a.npy", "one.npz", "two.npz", "t.pb"):
            np.testing.assert_array_equal(load(info(), str(tmp_path / name)), array)
            np.testing.assert_array_equal(gather([f"{tmp_path / name}"], [info()])["x"], array)  # without the name: there is one input

    def test_an_archive_for_all_inputs(self, tmp_path: Path) -> None:
        arrays = {name: random.standard_normal((2, 3)).astype(np.float32) for name in ("x", "y")}
        np.savez(tmp_path / "all.npz", **arrays)
        got = gather([str(tmp_path / "all.npz")], [info("x"), info("y"), info("z")])
        assert list(got) == ["x", "y", "z"]

    def test_bfloat16_which_numpy_saves_as_bare_bytes(self, tmp_path: Path) -> None:
        arrays = {name: random.standard_normal((2, 3)).astype(ml_dtypes.bfloat16) for name in ("x", "y")}
        np.savez(tmp_path / "all.npz", **arrays)
        np.save(tmp_path / "x.npy", arrays["x"])
        infos = [info("x", dtype="bfloat16"), info("y", dtype="bfloat16")]
        for specifications in ([f"{tmp_path / 'all.npz'}"], [f"x={tmp_path / 'x.npy'}", f"y={tmp_path / 'all.npz'}"]):
            got = gather(specifications, infos)
            for name, array in arrays.items():
                assert got[name].dtype == ml_dtypes.bfloat16
                np.testing.assert_array_equal(got[name], array)
        np.testing.assert_array_equal(got["y"], arrays["y"])

    def test_names_with_an_equals_sign(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.ones((2, 3), np.float32))
        assert gather([f"a=b={tmp_path / 'a.npy'}"], [info("a"), info("a=b")])["a=b"].all()

    @pytest.mark.parametrize(
        ("specification", "error", "message"),
        [
            ("nobody=random", UsageError, "no input 'nobody'; the model's inputs: x, y"),
            ("random", UsageError, "expected NAME="),
            ("x=random:-1", InputError, "no file"),
            ("x=nothing.npy", InputError, "no file nothing.npy"),
            ("x={folder}/notes.md", UsageError, "expected a file .npy, .npz, .pb, .txt or an image"),
            ("x={folder}/bad.npy", InputError, "not a readable .npy"),
            ("x={folder}/bad.npz", InputError, "not a readable .npz"),
            ("x={folder}/bad.pb", InputError, "not a readable tensor"),
            ("x={folder}/bad.png", InputError, "not a readable image"),
            ("x={folder}/objects.npy", InputError, "not a readable .npy"),
            ("x={folder}/many.npz", InputError, "expected an array 'x' or a single one, got a, b"),
        ],
    )
    def test_what_cannot_be_used(self, tmp_path: Path, specification: str, error: type[Exception], message: str) -> None:
        for name in ("notes.md", "bad.npy", "bad.npz", "bad.pb", "bad.png"):
            (tmp_path / name).write_bytes(b"\xff\xffnot at all what it should be")
        np.save(tmp_path / "objects.npy", np.array([{}, None], object), allow_pickle=True)
        np.savez(tmp_path / "many.npz", a=np.ones(1), b=np.ones(1))
        with pytest.raises(error, match=message):
            gather([specification.format(folder=tmp_path)], [info("x"), info("y")])

    def test_twice(self) -> None:
        with pytest.raises(UsageError, match="given twice"):
            gather(["x=random:1", "x=random:2"], [info("x")])


class TestImages:
    @pytest.fixture
    def image(self, tmp_path: Path) -> Callable[..., tuple[str, np.ndarray]]:
        def make(*shape: int) -> tuple[str, np.ndarray]:
            pixels = random.integers(0, 256, shape, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "image.png")
            return str(tmp_path / "image.png"), pixels

        return make

    def test_colours_become_planes_of_0_to_1(self, image: Callable[..., tuple[str, np.ndarray]]) -> None:
        path, pixels = image(5, 7, 3)
        array = load(info(shape=(1, 3, 5, 7)), path)
        np.testing.assert_array_equal(array, (pixels.transpose(2, 0, 1)[None] / np.float32(255)).astype(np.float32))
        np.testing.assert_array_equal(load(info(shape=(3, 5, 7)), path), array[0])
        np.testing.assert_array_equal(load(info(shape=(None, 3, None, None)), path), array)

    def test_grey_and_bytes(self, image: Callable[..., tuple[str, np.ndarray]]) -> None:
        path, pixels = image(5, 7)
        np.testing.assert_array_equal(load(info(shape=(5, 7), dtype="uint8"), path), pixels)
        np.testing.assert_array_equal(load(info(shape=(1, 1, 5, 7), dtype="uint8"), path), pixels[None, None])

    @pytest.mark.parametrize(
        ("shape", "dtype", "message"),
        [
            ((1, 3, 7, 5), "float32", "7 wide and 5 high"),
            ((1, 2, 5, 7), "float32", "1, 3 or 4 channels"),
            ((2, 3, 5, 7), "float32", "1, 3 or 4 channels"),
            ((35,), "float32", "1, 3 or 4 channels"),
            ((1, 3, 5, 7), "int64", "floating point or uint8"),
        ],
    )
    def test_inputs_that_are_no_images(self, image: Callable[..., tuple[str, np.ndarray]], shape: tuple[int, ...], dtype: str, message: str) -> None:
        path, _ = image(5, 7, 3)
        with pytest.raises(InputError, match=message):
            load(info(shape=shape, dtype=dtype), path)

    def test_garbage(self, tmp_path: Path) -> None:
        (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nbut then nothing")
        with pytest.raises(InputError, match="not a readable image"):
            load(info(shape=(1, 3, 5, 7)), str(tmp_path / "bad.png"))


class TestForeignContent:
    """A file is what its ending says, and holds its data itself or has them beside it."""

    def test_no_image_but_those_that_are_documented_is_opened(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pillow goes by the content, and starts Ghostscript for EPS."""
        eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 3 2\n%%EndComments\nshowpage\n"
        monkeypatch.setattr("subprocess.Popen", None)
        contents = [eps, b"P5 3 2 255\n" + bytes(6), b"", b"\x89PNG\r\n\x1a\n", b"GIF89a\xff\xff\xff\xff", b"\xff\xd8\xff\xe0", b"BM" + bytes(60)]
        for suffix in (".png", ".jpg", ".tiff", ".webp"):
            for content in contents:
                (tmp_path / f"x{suffix}").write_bytes(content)
                with pytest.raises(InputError, match="not a readable image"):
                    load(info(shape=(2, 3)), str(tmp_path / f"x{suffix}"))

    def test_all_that_opens_images_names_formats(self) -> None:
        root = Path(__file__).resolve().parents[3]
        for folder in ("compiler", "dialects", "passes", "scripts", "examples"):
            for source in (root / folder).rglob("*.py"):
                assert all("formats=" in call for call in re.findall(r"Image\.open\(.*", source.read_text())), source

    def test_a_large_image_is_refused_before_it_is_unpacked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Image.new("L", (40, 30)).save(tmp_path / "x.png")
        monkeypatch.setattr(Image.Image, "convert", None)
        with pytest.raises(InputError, match="40 wide and 30 high"):
            load(info(shape=(2, 3)), str(tmp_path / "x.png"))

    def test_data_of_a_tensor_lie_beside_it(self, tmp_path: Path) -> None:
        folder, array = tmp_path / "in", np.arange(6, dtype=np.float32).reshape(2, 3)
        folder.mkdir()
        for where in (folder / "data.bin", tmp_path / "data.bin"):
            where.write_bytes(array.tobytes())
        (folder / "link.bin").symlink_to("../data.bin")
        (folder / "sub").mkdir()

        def read(location: str) -> np.ndarray | int:
            tensor = onnx.TensorProto(dims=[2, 3], data_type=onnx.TensorProto.FLOAT, name="t", data_location=onnx.TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value=location)
            (folder / "t.pb").write_bytes(tensor.SerializeToString())
            return load(info(), str(folder / "t.pb"))

        np.testing.assert_array_equal(read("data.bin"), array)
        absolute = [str(folder / "data.bin"), str(tmp_path / "data.bin")]
        for location in ("../data.bin", *absolute, "link.bin", "sub/../data.bin", "", "none.bin", "a\0b", "sub"):
            with pytest.raises(InputError, match=r"t\.pb: "):
                read(location)
