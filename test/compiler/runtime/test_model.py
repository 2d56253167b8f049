"""CompiledModel: what it takes, what it refuses, where it writes, calls at the same time."""

import gc
import math
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from handmade import SOURCE, compile_and_load

from stepwell.dialects.core.types import TensorType
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import InputError
from stepwell.runtime.about import About
from stepwell.runtime.buffers import pack_arena
from stepwell.runtime.executable import NativeExecutable
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.openmp import openmp
from stepwell.runtime.weights import unshared
from stepwell.signature import TensorInfo

F32 = np.dtype(np.float32)
BIAS = np.random.default_rng(9).standard_normal(8, np.float32)


COPY = """func.func @main(%x: memref<{0}>, %y: memref<{0}>, %w: memref<1xi8>, %ws: memref<1xi8>) {{
  {1}
  return }}"""
EACH = "affine.for %i = 0 to {0} {{ %v = affine.load %x[%i] : memref<{0}x{1}>  affine.store %v, %y[%i] : memref<{0}x{1}> }}"


def make(source: str, inputs: list[TensorInfo], outputs: list[TensorInfo], weights: np.ndarray | None = None, **keywords: object) -> CompiledModel:
    options: dict[str, object] = {"about": About(), **keywords}
    sizes = {"workspace_bytes": options.pop("workspace_bytes", 2048), "threads": options.pop("threads", 1)}
    arena = pack_arena(WeightTable(), {}, 0) if weights is None else weights
    code = NativeExecutable(compile_and_load(source, packed=True), arena, arguments=len(inputs) + len(outputs), **sizes)  # type: ignore[arg-type]
    return CompiledModel(inputs=inputs, outputs=outputs, executable=code, weights=unshared(arena), workspace_bytes=code.workspace_bytes, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> CompiledModel:
    """y = erf(x) * table + bias, from 64x8 to 64x8."""
    weights = pack_arena(WeightTable({"bias": BIAS}), {"bias": 64}, 96)
    info = TensorInfo("x", (64, 8), F32)
    snapshots = {"llvm": lambda: "the text"}
    return make(SOURCE, [info], [TensorInfo("y", (64, 8), F32)], weights, about=About(snapshots, {"graph": 0.5}, 2))


def example(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((64, 8), np.float32)


def reference(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x.astype(np.float64)) * np.array([1.5, -2.0, 3.25, 4.0] * 2) + BIAS


def assert_right(y: np.ndarray, x: np.ndarray) -> None:
    assert np.abs(y - reference(x)).max() < 8 * 4 * np.finfo(np.float32).eps


# --- what it says about itself


def test_description(model: CompiledModel) -> None:
    assert [(i.name, i.shape, i.dtype) for i in model.inputs] == [("x", (64, 8), F32)]
    assert [(i.name, i.shape, i.dtype) for i in model.outputs] == [("y", (64, 8), F32)]
    assert (model.kernels, model.timings, model.threads) == (2, {"graph": 0.5}, 1)
    assert (model.memory.weights_bytes, model.memory.workspace_bytes, model.memory.own_weights_bytes) == (96, 2048, 96)
    assert model.ir("llvm") == "the text"
    with pytest.raises(InputError, match="unknown level 'affin'; known: llvm"):
        model.ir("affin")


def test_info_of_a_tensor_type() -> None:
    info = TensorInfo.from_type("x", TensorType("bf16", (2, None)))
    assert (info.name, info.shape, info.dtype) == ("x", (2, None), np.dtype(ml_dtypes.bfloat16))
    assert str(info) == "bfloat16[2x?]"


# --- running


def test_run_by_name_and_by_position(model: CompiledModel) -> None:
    x = example()
    (y,) = model(x)
    assert_right(y, x)
    outputs = model.run({"x": x})
    assert list(outputs) == ["y"]
    np.testing.assert_array_equal(outputs["y"], y)


def test_results_are_the_callers_own(model: CompiledModel) -> None:
    first = model(example(1))[0]
    kept = first.copy()
    model(example(2))
    np.testing.assert_array_equal(first, kept)


def test_arrays_that_cannot_be_read_in_place_are_copied(model: CompiledModel) -> None:
    x = example()
    transposed = np.asfortranarray(x)
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    reversed_ = x[::-1].copy()[::-1]
    misaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(F32).reshape(64, 8)
    assert not misaligned.flags.aligned
    swapped = x.astype(">f4")
    read_only = x.copy()
    read_only.flags.writeable = False
    for array in (transposed, strided, reversed_, misaligned, swapped, read_only):
        before = array.copy()
        assert_right(model(array)[0], x)
        np.testing.assert_array_equal(array, before)
    assert model._ins[0].fit(misaligned).flags.aligned  # x86 would forgive it


def test_broadcast_array_is_read_as_what_it_shows(model: CompiledModel) -> None:
    row = example()[:1]
    assert_right(model(np.broadcast_to(row, (64, 8)))[0], np.repeat(row, 64, axis=0))


def test_subclasses_of_arrays_are_arrays(model: CompiledModel, tmp_path: object) -> None:
    x = example()
    mapped = np.memmap(f"{tmp_path}/x.bin", F32, "w+", shape=(64, 8))
    mapped[:] = x
    assert_right(model(mapped)[0], x)


# --- refusing


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "missing input 'x'; the model's inputs: x"),
        ({"z": 1}, "missing input 'x', unknown input 'z'"),
        ({"x": example(), "z": example()}, "unknown input 'z'"),
        ([example()], "expected inputs by name, as a dict, got a list"),
        (None, "expected inputs by name, as a dict, got None"),
        ({"x": example().astype(np.float64)}, r"input 'x': expected float32\[64x8\], got dtype float64"),
        ({"x": example().astype(np.int32)}, "got dtype int32"),
        ({"x": np.array([["a"] * 8] * 64)}, "got dtype str"),
        ({"x": np.full((64, 8), None)}, "got dtype object"),
        ({"x": example().T}, r"input 'x': expected float32\[64x8\], got shape 8x64"),
        ({"x": example().reshape(-1)}, "got shape 512"),
        ({"x": example()[None]}, "got shape 1x64x8"),
        ({"x": np.float32(1)}, r"got shape \(\) \(a scalar\)"),
        ({"x": example().tolist()}, r"input 'x': expected an array float32\[64x8\], got a list"),
        ({"x": None}, "got None"),
        ({"x": "x"}, "got a str"),
    ],
)
def test_bad_inputs(model: CompiledModel, inputs: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.run(inputs)  # type: ignore[arg-type]


def test_wrong_number_of_arrays(model: CompiledModel) -> None:
    with pytest.raises(InputError, match=r"expected 1 inputs \(x\), got 0"):
        model()
    with pytest.raises(InputError, match=r"expected 1 inputs \(x\), got 2"):
        model(example(), example())


def test_refusal_leaves_the_model_usable(model: CompiledModel) -> None:
    for _ in range(3):
        with pytest.raises(InputError):
            model(example().T)
    assert_right(model(example())[0], example())


# --- writing into the caller's arrays


def test_outputs_go_where_they_are_asked_to(model: CompiledModel) -> None:
    x, y = example(), np.full((64, 8), np.nan, np.float32)
    assert model.run({"x": x}, out={"y": y})["y"] is y
    assert_right(y, x)
    assert model.run({"x": x}, out={})["y"] is not y


def test_output_in_the_memory_of_the_input() -> None:
    model = make(COPY.format("40xf32", EACH.format(40, "f32")), [TensorInfo("x", (40,), F32)], [TensorInfo("y", (40,), F32)])
    x = np.random.default_rng(5).standard_normal(40, np.float32)
    buffer = np.zeros(41, np.float32)
    buffer[:40] = x
    model.run({"x": buffer[:40]}, out={"y": buffer[1:]})  # each element that is written is the next to be read
    np.testing.assert_array_equal(buffer[1:], x)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({"z": np.zeros((64, 8), np.float32)}, "unknown output 'z'; the model's outputs: y"),
        (np.zeros((64, 8), np.float32), "expected outputs by name, as a dict, got a ndarray"),
        ({"y": np.zeros((64, 8))}, r"output 'y': expected float32\[64x8\] to write to, got float64\[64x8\]"),
        ({"y": np.zeros((8, 64), np.float32)}, r"got float32\[8x64\]"),
        ({"y": np.zeros((8, 64), np.float32).T}, "expected a contiguous, aligned, writeable array"),
        ({"y": np.broadcast_to(np.float32(0), (64, 8))}, "expected a contiguous, aligned, writeable array"),
        ({"y": [0.0]}, "expected an array"),
    ],
)
def test_bad_destinations(model: CompiledModel, out: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.run({"x": example()}, out=out)  # type: ignore[arg-type]


def test_two_outputs_cannot_share_memory() -> None:
    source = """func.func @main(%x: memref<4xf32>, %a: memref<4xf32>, %b: memref<4xf32>, %w: memref<1xi8>, %ws: memref<1xi8>) {
      affine.for %i = 0 to 4 {
        %v = affine.load %x[%i] : memref<4xf32>
        %n = arith.negf %v : f32
        affine.store %v, %a[%i] : memref<4xf32>
        affine.store %n, %b[%i] : memref<4xf32>
      }
      return }"""
    infos = [TensorInfo(name, (4,), F32) for name in ("x", "a", "b")]
    model = make(source, infos[:1], infos[1:])
    x = np.array([1, -2, 3, 4], np.float32)
    buffer = np.zeros(8, np.float32)
    outputs = model.run({"x": x}, out={"b": buffer[4:], "a": buffer[:4]})
    assert list(outputs) == ["a", "b"]
    np.testing.assert_array_equal(buffer, np.concatenate([x, -x]))
    with pytest.raises(InputError, match="output 'b': expected memory of its own, got memory shared with output 'a'"):
        model.run({"x": x}, out={"a": buffer[:4], "b": buffer[3:7]})


# --- element types and shapes


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "bf16"])
def test_every_element_type(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype)
    mlir = "i1" if dtype == "bool" else dtype if dtype == "bf16" else f"{'f' if dtype[0] == 'f' else 'i'}{kind.itemsize * 8}"
    model = make(COPY.format(f"40x{mlir}", EACH.format(40, mlir)), [TensorInfo("x", (40,), kind)], [TensorInfo("y", (40,), kind)])
    x = np.random.default_rng(4).integers(0, 2 if dtype == "bool" else 256, 40 * kind.itemsize, np.uint8).view(kind)
    (y,) = model(x)
    assert y.dtype == kind
    assert y.tobytes() == x.tobytes()
    other = np.float64 if dtype != "f8" else np.float32
    with pytest.raises(InputError, match="got dtype float"):
        model(np.zeros(40, other))


def test_scalars() -> None:
    body = "%v = affine.load %x[] : memref<f32>  %n = arith.negf %v : f32  affine.store %n, %y[] : memref<f32>"
    model = make(COPY.format("f32", body), [TensorInfo("x", (), F32)], [TensorInfo("y", (), F32)])
    for x in (np.array(2.5, np.float32), np.float32(2.5)):
        (y,) = model(x)
        assert y.shape == ()
        assert y == -2.5
    with pytest.raises(InputError, match=r"input 'x': expected float32\[\], got shape 1"):
        model(np.zeros(1, np.float32))
    with pytest.raises(InputError, match="got a float"):
        model(2.5)  # type: ignore[arg-type]


def test_tensors_without_elements() -> None:
    infos = [TensorInfo("x", (0, 4), F32)], [TensorInfo("y", (0, 4), F32)]
    model = make(COPY.format("0x4xf32", ""), *infos, workspace_bytes=0)
    (y,) = model(np.zeros((0, 4), np.float32))
    assert y.shape == (0, 4)
    with pytest.raises(InputError, match="got shape 4x0"):
        model(np.zeros((4, 0), np.float32))


def test_no_inputs() -> None:
    source = """func.func @main(%y: memref<2xi64>, %w: memref<1xi8>, %ws: memref<1xi8>) {
      %a = arith.constant 3 : i64
      affine.store %a, %y[0] : memref<2xi64>
      affine.store %a, %y[1] : memref<2xi64>
      return }"""
    model = make(source, [], [TensorInfo("y", (2,), np.dtype(np.int64))])
    assert model()[0].tolist() == [3, 3]
    assert model.run({})["y"].tolist() == [3, 3]
    with pytest.raises(InputError, match="unknown input 'x'; the model's inputs: none"):
        model.run({"x": np.zeros(1)})


def test_order_of_inputs_and_outputs() -> None:
    source = """func.func @main(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<3xf32>, %d: memref<3xf32>, %w: memref<1xi8>, %ws: memref<1xi8>) {
      affine.for %i = 0 to 3 {
        %x = affine.load %a[%i] : memref<3xf32>
        %y = affine.load %b[%i] : memref<3xf32>
        %s = arith.subf %x, %y : f32
        %q = arith.divf %x, %y : f32
        affine.store %s, %c[%i] : memref<3xf32>
        affine.store %q, %d[%i] : memref<3xf32>
      }
      return }"""
    infos = [TensorInfo(name, (3,), F32) for name in ("b name", "a", "z", "y")]
    model = make(source, infos[:2], infos[2:])
    a, b = np.array([5, 7, 9], np.float32), np.array([2, 4, 8], np.float32)
    outputs = model.run({"a": b, "b name": a})
    assert list(outputs) == ["z", "y"]
    np.testing.assert_array_equal(outputs["z"], a - b)
    np.testing.assert_array_equal(outputs["y"], a / b)
    np.testing.assert_array_equal(model(a, b)[1], a / b)


# --- several threads, lifetime


def test_calls_at_the_same_time_do_not_disturb_each_other(model: CompiledModel) -> None:
    examples = [example(seed) for seed in range(8)]
    expected = [model(x)[0] for x in examples]
    start = threading.Barrier(8)

    def repeat(index: int) -> bool:
        start.wait()
        return all(np.array_equal(model(examples[index])[0], expected[index]) for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(repeat, range(8)))
    assert len(model.executable.workspaces) <= 8


def test_a_call_leaves_the_callers_number_of_threads() -> None:
    runtime = openmp()
    assert runtime is not None
    source = """func.func private @omp_get_max_threads() -> i32
    func.func @main(%y: memref<1xi32>, %w: memref<1xi8>, %ws: memref<1xi8>) {
      %t = func.call @omp_get_max_threads() : () -> i32
      affine.store %t, %y[0] : memref<1xi32>
      return }"""
    model = make(source, [], [TensorInfo("y", (1,), np.dtype(np.int32))], threads=3)
    before = runtime.set_threads(5)
    assert model()[0][0] == 3
    assert runtime.set_threads(before) == 5


def test_model_is_freed_with_its_code() -> None:
    model = make(SOURCE, [TensorInfo("x", (64, 8), F32)], [TensorInfo("y", (64, 8), F32)], pack_arena(WeightTable({"bias": BIAS}), {"bias": 64}, 96))
    model(example())
    code = weakref.ref(model.executable.main.keep)
    del model
    gc.collect()
    assert code() is None
