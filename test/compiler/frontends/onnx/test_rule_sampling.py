"""GridSample, Col2Im and Fourier transforms against ONNX Runtime and numpy."""

from typing import Any

import numpy as np
import pytest
from covering import each, pairs
from every import every
from importing import Arrays, assert_close, check, floats, ints, model, node, rng
from native_checks import check_model, natively_together

import stepwell
from stepwell.frontends.blocks.fourier import roots_of_unity

IMAGE, VOLUME = floats(2, 3, 5, 6), floats(1, 2, 3, 4, 5)


@every("padding", ["zeros", "border", "reflection"])
@every("mode", ["linear", "nearest", "cubic"])
@every("aligned", [0, 1])
def test_grid_sample(mode: str, padding: str, aligned: int) -> None:
    """Places inside the image and up to half its size outside."""
    grid = rng(3).uniform(-1.5, 1.5, (2, 4, 3, 2)).astype(np.float32)
    check(node("GridSample", ["x", "g"], mode=mode, padding_mode=padding, align_corners=aligned), {"x": IMAGE, "g": grid}, opset=20, terms=256)


def grid_of(theta: np.ndarray, spatial: tuple[int, ...], aligned: int) -> np.ndarray:
    """What AffineGrid is defined as, in f64, where a single element is at -1 if corners are aligned."""
    along = [np.arange(n) * (2 / max(n - 1, 1)) - 1 if aligned else (2 * np.arange(n) + 1) / n - 1 for n in spatial if n]
    if 0 in spatial:
        return np.zeros((len(theta), *spatial, len(spatial)))
    positions = np.stack([*reversed(np.meshgrid(*along, indexing="ij")), np.ones(spatial)], axis=-1)
    return np.asarray(np.einsum("...k,nrk->n...r", positions, theta.astype(np.float64)))


GRIDS = [(1, 4, 5), (2, 3, 1), (1, 1, 1), (0, 2, 3), (2, 0, 3), (1, 2, 3, 4), (2, 1, 3, 2), (3, 2, 2, 1)]


@natively_together
@each({"sizes": GRIDS, "aligned": [0, 1], "free": [False, True]})
def test_affine_grids(sizes: tuple[int, ...], aligned: int, free: bool) -> None:
    """Images and volumes, of one element, of none, a batch of one; sizes that are constants, or those of another input that is free."""
    batch, *spatial = sizes
    theta = rng(7).standard_normal((batch, len(spatial), len(spatial) + 1)).astype(np.float32)
    want, image = grid_of(theta, tuple(spatial), aligned).astype(np.float32), np.zeros((batch, 3, *spatial), np.float32)
    grid = node("AffineGrid", ["theta", "size"], align_corners=aligned)
    if free:
        proto = model([node("Shape", ["image"], ["size"]), grid], {"theta": theta, "image": image}, {"y": want}, opset=20)
        for value, names in zip(proto.graph.input, (["n"], ["n", "c", *"dhw"]), strict=True):
            for dim, name in zip(value.type.tensor_type.shape.dim, names, strict=False):
                dim.dim_param = name
        check_model(proto, {"theta": theta, "image": image}, lambda got: assert_close(got["y"], want, 8), specialise="never")
    else:
        proto = model([grid], {"theta": theta}, {"y": want}, {"size": np.array([batch, 3, *spatial])}, opset=20)
        check_model(proto, {"theta": theta}, lambda got: assert_close(got["y"], want, 8))


def test_grid_sample_of_volumes_and_of_old_opsets() -> None:
    grid = rng(4).uniform(-1.3, 1.3, (1, 2, 3, 4, 3)).astype(np.float32)
    check(node("GridSample", ["x", "g"]), {"x": VOLUME, "g": grid}, opset=20, terms=256)
    flat = rng(5).uniform(-1.3, 1.3, (2, 4, 3, 2)).astype(np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        check(node("GridSample", ["x", "g"], mode=mode), {"x": IMAGE, "g": flat}, opset=16, terms=256)


@pytest.mark.parametrize(
    ("image", "block", "count", "attributes"),
    [
        ((5, 6), (2, 3), 16, {}),
        ((5, 6), (2, 3), 9, {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
        ((6, 7), (2, 2), 16, {"dilations": [2, 3]}),
        ((7,), (3,), 3, {"strides": [2]}),
    ],
)
def test_col2im(image: tuple[int, ...], block: tuple[int, ...], count: int, attributes: dict[str, Any]) -> None:
    data = floats(2, 3 * int(np.prod(block)), count)
    check(node("Col2Im", ["x", "i", "b"], **attributes), {"x": data}, {"i": ints(*image), "b": ints(*block)}, opset=18)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("length", [None, 5, 9])
def test_dft(opset: int, length: int | None) -> None:
    data = floats(2, 7, 3, 2)
    complexes = data[..., 0] + 1j * data[..., 1].astype(np.float64)
    weights = {} if length is None else {"n": np.array(length)}
    inputs = ["x", *weights] if opset == 17 else ["x", "n" if weights else "", "axis"]
    place = {"axis": 1} if opset == 17 else {}
    constants = weights if opset == 17 else {**weights, "axis": np.array(-3)}
    for inverse, function in ((0, np.fft.fft), (1, np.fft.ifft)):
        want = function(complexes, n=length, axis=1)
        expected = np.stack([want.real, want.imag], axis=-1).astype(np.float32)
        check(node("DFT", inputs, inverse=inverse, **place), {"x": data}, constants, opset=opset, expected=[expected])


@pytest.mark.parametrize("size", [7, 8])
def test_dft_of_real_data_and_back(size: int) -> None:
    data = floats(2, size, 1)
    half = np.fft.rfft(data[..., 0].astype(np.float64), axis=1)
    spectrum = np.stack([half.real, half.imag], axis=-1).astype(np.float32)
    check(node("DFT", ["x"], axis=1, onesided=1), {"x": data}, opset=17, expected=[spectrum])
    weights = {"n": np.array(size)}
    check(node("DFT", ["x", "n"], onesided=1, inverse=1), {"x": spectrum}, weights, opset=20, expected=[data], terms=256)


WAYS = [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0), (2, 0, 1)]


@natively_together
@pairs({"size": [63, 64, 65], ("parts", "onesided", "inverse"): WAYS, "dtype": [np.float32, np.float64]})
def test_long_dft_of_all_frequencies(size: int, parts: int, onesided: int, inverse: int, dtype: type) -> None:
    """Of even and odd lengths, from which on signals are folded; a middle dimension is transformed, and others stay where they are."""
    check_dft(size, parts, onesided, inverse, dtype)


@pytest.mark.nightly
@natively_together
@every("dtype", [np.float32, np.float64])
@every(("parts", "onesided", "inverse"), WAYS)
@every("size", [90, 129])
def test_longer_dft_of_all_frequencies(size: int, parts: int, onesided: int, inverse: int, dtype: type) -> None:
    check_dft(size, parts, onesided, inverse, dtype)


def check_dft(size: int, parts: int, onesided: int, inverse: int, dtype: type) -> None:
    data = floats(2, size, 3, parts).astype(dtype)
    values = data[..., 0].astype(np.complex128) + (1j * data[..., 1] if parts == 2 else 0)
    want = np.fft.ifft(values, axis=1) if inverse else np.fft.fft(values, axis=1)[:, : size // 2 + 1 if onesided else size]
    made = node("DFT", ["x"], axis=1, inverse=inverse, onesided=onesided)
    proto = model([made], {"x": data}, {"y": data}, opset=17)
    tolerance = np.finfo(dtype).eps * (size if dtype == np.float64 else 1) * np.abs(values).sum(axis=1).max() / (size if inverse else 1)

    def judge(got: Arrays) -> None:
        assert got["y"].dtype == dtype
        np.testing.assert_allclose(got["y"], np.stack([want.real, want.imag], axis=-1), rtol=0, atol=tolerance)

    check_model(proto, {"x": data}, judge, threads=(1, 2))


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided: int) -> None:
    data, window = floats(2, 20, 1), floats(6)
    made = node("STFT", ["x", "step", "window", "length"], onesided=onesided)
    frames = np.stack([data[:, i : i + 6, 0] * window for i in range(0, 15, 4)], axis=1).astype(np.float64)
    want = np.fft.rfft(frames, axis=2) if onesided else np.fft.fft(frames, axis=2)
    weights = {"step": np.array(4), "window": window, "length": np.array(6)}
    check(made, {"x": data}, weights, opset=17, expected=[np.stack([want.real, want.imag], axis=-1).astype(np.float32)])


@every("size", [*range(1, 14), 700, 4093])
def test_roots_of_unity_are_those_of_f64(size: int) -> None:
    """Not the cosines of many turns: there the rounding of the angle counts that often."""
    cosines, sines = roots_of_unity(size)
    angles = np.arange(size, dtype=np.longdouble) * 8 * np.arctan(np.longdouble(1)) / size
    assert np.abs(cosines - np.cos(angles)).max() < 2.3e-16
    assert np.abs(sines - np.sin(angles)).max() < 2.3e-16
    if size % 4 == 0:
        np.testing.assert_array_equal(cosines[:: size // 4], [1, 0, -1, 0])
        np.testing.assert_array_equal(sines[:: size // 4], [0, 1, 0, -1])


def test_stft_of_two_samples_is_a_sum_and_a_difference() -> None:
    """To the last bit: half a turn has no sine."""
    data = rng(1).integers(-9, 9, (2, 9, 1)).astype(np.float32)
    frames = np.stack([data[:, :-1, 0] + data[:, 1:, 0], data[:, :-1, 0] - data[:, 1:, 0]], axis=-1)
    want = np.stack([frames, np.zeros_like(frames)], axis=-1)
    proto = model([node("STFT", ["x", "step", "", "length"])], {"x": data}, {"y": want}, {"step": np.array(1), "length": np.array(2)}, opset=17)
    np.testing.assert_array_equal(stepwell.compile(proto).run({"x": data})["y"], want)
