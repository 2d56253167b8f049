"""Bundles do what their models do in Python: equal bits, one error for bad input, whatever the model needs of the run time."""

from pathlib import Path

import bundle_models as models
import numpy as np
import pytest
from bundle_models import Case, cache_case, cell_case, plain_cases, sequence_model

import stepwell
from stepwell.dialects.support.errors import IndexRangeError, InputError, LimitError, StepwellError, UnsupportedError

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def bundled(case: Case, folder: Path, **more: object) -> stepwell.BundledModel:
    """The bundle of a case."""
    made = stepwell.bundle(case.model, folder / case.name, prefix=case.name, kinds=("shared",), **{**case.options, **more})  # type: ignore[arg-type]
    return stepwell.load(made, threads=1)


def assert_same(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert list(got) == list(expected)
    for name, array in expected.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape), name
        assert got[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("case", plain_cases(), ids=lambda case: case.name)
def test_a_bundle_gives_the_bits_of_its_model(case: Case, tmp_path: Path) -> None:
    model, made = stepwell.compile(case.model, threads=1, specialise="never"), bundled(case, tmp_path)
    assert [info.name for info in made.inputs] == [info.name for info in model.inputs]
    for feed in (*case.feeds, *case.feeds):
        assert_same(made.run(feed), model.run(feed))


def test_a_cache_grows_in_place_and_starts_over(tmp_path: Path) -> None:
    case = cache_case()
    made, model = bundled(case, tmp_path), stepwell.compile(case.model, threads=1, specialise="never").bind({"past": "present"})
    assert [info.name for info in made.inputs] == ["x"]
    assert [info.name for info in made.outputs] == ["y"]
    assert made.manifest.state == ("past",)
    for feed in case.feeds:
        assert_same(made.run(feed), model.run(feed))
    made.reset()
    model.reset()
    for rows in (5, 1):
        feed = {"x": models.floats(1, rows, models.WIDTH)}
        assert_same(made.run(feed), model.run(feed))
    with pytest.raises(InputError, match="state 'past': expected b = 3, as in another input, got 1"):
        made.run({"x": models.floats(3, 1, models.WIDTH)})
    feed = {"x": models.floats(1, 2, models.WIDTH)}  # a failure leaves the state as it was
    assert_same(made.run(feed), model.run(feed))


def test_a_state_that_does_not_grow_is_passed_on(tmp_path: Path) -> None:
    case = cell_case()
    made, model = bundled(case, tmp_path), stepwell.compile(case.model, threads=1)
    state = np.zeros((3, models.WIDTH), np.float32)
    for feed in case.feeds:
        expected, state = model(feed["x"], state)
        assert_same(made.run(feed), {"y": expected})


def test_bad_input_is_one_clear_error(tmp_path: Path) -> None:
    cases = {case.name: case for case in plain_cases()}
    free, index = (bundled(cases[name], tmp_path) for name in ("free", "index"))
    x, z = models.floats(3, 8), models.floats(3, 2)
    with pytest.raises(InputError, match=r"input 'z': expected n = 3, as in another input, got 4"):
        free(x, models.floats(4, 2))
    with pytest.raises(InputError, match=r"input 'x': expected nx8, got 3x7"):
        free(models.floats(3, 7), z)
    with pytest.raises(InputError, match=r"input 'x': expected nx8, got a scalar"):
        free(np.float32(1), z)
    with pytest.raises(InputError, match=r"float64"):
        free(x.astype(np.float64), z)
    with pytest.raises(IndexRangeError, match=r"Gather_0: index 5 is out of range for dimension 0 of size 5"):
        index(models.floats(5, 6), np.array([1, 5]))
    with pytest.raises(IndexRangeError, match=r"index -6 is out of range"):
        index(models.floats(5, 6), np.array([-6]))
    valued = bundled(cases["valued"], tmp_path)
    with pytest.raises(InputError, match=r"the sizes do not fit: expected n == "):
        valued(models.floats(12), np.array([5, 2]))
    with pytest.raises(InputError, match=r"is negative"):
        valued(models.floats(12), np.array([-3, -4]))
    places = {"x": np.ndarray((3, 8), np.float32, bytes(range(97)), 1), "z": np.ndarray((3, 0), np.float32, bytes(2), 1)}  # without alignment
    for feed in ({"x": x, "z": z}, places):
        assert_same(free.run(feed), stepwell.compile(cases["free"].model, threads=1).run(feed))


def test_limits_hold(tmp_path: Path) -> None:
    cases = {case.name: case for case in plain_cases()}
    limits = stepwell.Limits(workspace_bytes=1 << 20, value_bytes=1 << 16, loop_rounds=20)
    made = {name: bundled(cases[name], tmp_path, limits=limits) for name in ("free", "late", "loop")}
    with pytest.raises(LimitError, match="limit value_bytes"):
        made["free"](models.floats(9000, 8), models.floats(9000, 1))
    with pytest.raises(LimitError, match="limit workspace_bytes"):
        made["late"](np.ones((30000, 6), np.float32))
    with pytest.raises(LimitError, match="limit loop_rounds"):
        made["loop"](models.floats(2, 8), np.array(1000), np.array(1e9, np.float32))


def test_arrays_to_write_to(tmp_path: Path) -> None:
    cases = {case.name: case for case in plain_cases()}
    mlp, late = (bundled(cases[name], tmp_path) for name in ("mlp", "late"))
    feed = cases["mlp"].feeds[0]
    expected, out = mlp.run(feed), np.full((3, 8), np.nan, np.float32)
    assert mlp.run(feed, out={"y": out})["y"] is out
    assert out.tobytes() == expected["y"].tobytes()
    x = feed["x"].copy()
    with pytest.raises(InputError, match="output 'y': expected memory of its own, got memory shared with input 'x'"):
        mlp.run({"x": x}, out={"y": x})
    with pytest.raises(InputError, match=r"output 'y': expected float32\[3x8\] to write to, got float32\[3x9\]"):
        mlp.run(feed, out={"y": np.zeros((3, 9), np.float32)})
    with pytest.raises(InputError, match=r"unknown output 'z'"):
        mlp.run(feed, out={"z": out})
    roomy = np.zeros((2, 3), np.int64)
    x = np.array([[0, 0, 1, 0, 1, 1]], np.float32)
    assert late.run({"x": x}, out={"places": roomy})["places"] is roomy
    assert roomy.tolist() == [[0, 0, 0], [2, 4, 5]]
    with pytest.raises(InputError, match="output 'places': expected memory of 48 bytes, got 32"):
        late.run({"x": x}, out={"places": np.zeros((2, 2), np.int64)})


def test_what_a_bundle_cannot_say_is_refused_by_name(tmp_path: Path) -> None:
    def refused(model: object, match: str, error: type[StepwellError] = UnsupportedError, **options: object) -> None:
        with pytest.raises(error, match=match):
            stepwell.bundle(model, tmp_path / "no", prefix="no", **options)  # type: ignore[arg-type]
        assert not (tmp_path / "no").exists()

    refused(sequence_model(), "output 'all' .* is a sequence whose length only a run can tell")
    refused(models.with_weights(models.FREE, w=models.WEIGHTS), "compiled for each shape of its inputs", specialise="always")
    mlp = plain_cases()[0].model
    refused(mlp, "kinds: expected some of static, shared, object for target host, got", InputError, kinds=("so",))
    with pytest.raises(InputError, match="prefix: expected a name in C"):
        stepwell.bundle(mlp, tmp_path / "no", prefix="int")
    refused(mlp, "bind: expected an input of the model, got 'nothing'", InputError, bind={"nothing": "y"})


def test_a_bundle_by_its_file_and_threads(tmp_path: Path) -> None:
    folder = stepwell.bundle(DIGITS, tmp_path / "digits", shapes={"image": (1, 1, 8, 8)}, embed=True)
    assert not (folder / "digits.weights").exists()
    image = models.floats(1, 1, 8, 8)
    expected = stepwell.compile(DIGITS, shapes={"image": (1, 1, 8, 8)}, threads=1)(image)[0]
    for threads in (1, 2, 3):
        made = stepwell.load(folder, threads=threads)
        assert made.name == "digits"
        for _ in range(5):
            assert made(image)[0].tobytes() == expected.tobytes()
        made.close()
