"""DynamicModel: one compilation for each combination of shapes, a bounded number kept."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from handmade import compile_and_load

from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import InputError, UnsupportedError
from stepwell.driver.combinations import Shapes
from stepwell.driver.dynamic import DynamicModel
from stepwell.runtime.about import About
from stepwell.runtime.buffers import pack_arena
from stepwell.runtime.executable import NativeExecutable
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import unshared
from stepwell.signature import TensorInfo

F32 = np.dtype(np.float32)
SUM = """func.func @main(%a: memref<{n}xf32>, %b: memref<{n}xf32>, %c: memref<f32>, %y: memref<{n}xf32>, %w: memref<1xi8>, %ws: memref<1xi8>) {{
  affine.for %i = 0 to {n} {{
    %p = affine.load %a[%i] : memref<{n}xf32>
    %q = affine.load %b[%i] : memref<{n}xf32>
    %r = affine.load %c[] : memref<f32>
    %s = arith.subf %p, %q : f32
    %t = arith.mulf %s, %r : f32
    affine.store %t, %y[%i] : memref<{n}xf32>
  }}
  return }}"""
INPUTS = [TensorInfo("a", ("n",), F32), TensorInfo("b", ("n",), F32), TensorInfo("c", (), F32)]
OUTPUTS = [TensorInfo("y", (None,), F32)]


class Compiler:
    """Counts what it is asked to compile."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.calls: list[dict[str, tuple[int, ...]]] = []
        self.seconds = seconds

    def __call__(self, shapes: Shapes, values: Mapping[str, np.ndarray]) -> CompiledModel:
        self.calls.append(dict(shapes))
        time.sleep(self.seconds)
        (n,) = shapes["a"]
        infos = [TensorInfo(name, shape, F32) for name, shape in shapes.items()]
        about = About({"llvm": lambda: f"n={n}"}, {"graph": float(n)}, n)
        arena = pack_arena(WeightTable(), {}, 0)
        code = NativeExecutable(compile_and_load(SUM.format(n=n), packed=True), arena, workspace_bytes=0, threads=1, arguments=len(infos) + 1)
        return CompiledModel(
            inputs=infos, outputs=[TensorInfo("y", (n,), F32)], executable=code, weights=unshared(arena), workspace_bytes=0, about=about,
        )  # fmt: skip


def make(compiler: Compiler, capacity: int = 8) -> DynamicModel:
    return DynamicModel(inputs=INPUTS, outputs=OUTPUTS, compile_shapes=compiler, capacity=capacity)


def arrays(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.standard_normal(n, np.float32), rng.standard_normal(n, np.float32), np.array(1.5, np.float32)


def assert_right(y: np.ndarray, n: int) -> None:
    a, b, c = arrays(n)
    np.testing.assert_array_equal(y, (a - b) * c)


def test_compiles_once_for_each_combination() -> None:
    compiler = Compiler()
    model = make(compiler)
    for n in (3, 5, 3, 5, 3):
        assert_right(model(*arrays(n))[0], n)
        assert_right(model.run(dict(zip("cba", reversed(arrays(n)), strict=True)))["y"], n)
    assert compiler.calls == [{"a": (3,), "b": (3,), "c": ()}, {"a": (5,), "b": (5,), "c": ()}]


def test_the_one_not_used_for_the_longest_time_goes() -> None:
    compiler = Compiler()
    model = make(compiler, capacity=2)
    for n in (3, 4, 3, 5, 3, 4):
        assert_right(model(*arrays(n))[0], n)
    assert [call["a"][0] for call in compiler.calls] == [3, 4, 5, 4]


def test_description_before_and_after() -> None:
    model = make(Compiler())
    assert (model.inputs, model.outputs) == (tuple(INPUTS), tuple(OUTPUTS))
    with pytest.raises(InputError, match=r"nothing is compiled yet.*'a' float32\[n\]"):
        _ = model.kernels
    with pytest.raises(InputError, match="nothing is compiled yet"):
        model.ir("llvm")
    model(*arrays(4))
    model(*arrays(6))
    model(*arrays(4))
    assert (model.kernels, model.timings, model.ir("llvm"), model.memory.workspace_bytes, model.threads) == (4, {"graph": 4.0}, "n=4", 0, 1)


def test_specialise() -> None:
    compiler = Compiler()
    model = make(compiler)
    special = model.specialise({"a": (3,), "b": (3,)})
    assert isinstance(special, CompiledModel)
    assert special is model.specialise({"b": (3,), "a": (3,), "c": ()})
    assert len(compiler.calls) == 1
    with pytest.raises(InputError, match="input 'b': expected a shape"):
        model.specialise({"a": (3,)})
    with pytest.raises(InputError, match="unknown input 'd'"):
        model.specialise({"a": (3,), "b": (3,), "d": (1,)})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"b": np.zeros(4, np.float32)}, "input 'b': expected n = 3, as in input 'a', got 4"),
        ({"b": np.zeros((3, 1), np.float32)}, r"input 'b': expected float32\[n\], got shape 3x1"),
        ({"c": np.zeros(1, np.float32)}, r"input 'c': expected float32\[\], got shape 1"),
        ({"a": np.zeros(3)}, "input 'a': expected .*got dtype float64"),
        ({"a": [1.0, 2.0, 3.0]}, "input 'a': expected an array .* got a list"),
        ({"d": np.zeros(3, np.float32)}, "unknown input 'd'"),
    ],
)
def test_bad_inputs_compile_nothing(changed: dict[str, np.ndarray], message: str) -> None:
    compiler = Compiler()
    with pytest.raises(InputError, match=message):
        make(compiler).run({**dict(zip("abc", arrays(3), strict=True)), **changed})
    assert compiler.calls == []


def test_wrong_number_of_arrays_and_capacity() -> None:
    with pytest.raises(InputError, match=r"expected 3 inputs \(a, b, c\), got 1"):
        make(Compiler())(np.zeros(3, np.float32))
    with pytest.raises(InputError, match="capacity: expected at least 1"):
        make(Compiler(), capacity=0)


def test_threads_wait_for_the_compilation_of_another() -> None:
    compiler = Compiler(seconds=0.2)
    model = make(compiler)
    start = threading.Barrier(6)

    def call(index: int) -> None:
        start.wait()
        n = 3 + index % 2
        assert_right(model(*arrays(n))[0], n)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(6)))
    assert sorted(call["a"][0] for call in compiler.calls) == [3, 4]


def test_failed_compilation_is_tried_again() -> None:
    compiler = Compiler()
    fail = [True]

    def compile_shapes(shapes: Shapes, values: Mapping[str, np.ndarray]) -> CompiledModel:
        if fail.pop() if fail else False:
            raise UnsupportedError("not this one")
        return compiler(shapes, values)

    model = DynamicModel(inputs=INPUTS, outputs=OUTPUTS, compile_shapes=compile_shapes)
    with pytest.raises(UnsupportedError, match="not this one"):
        model(*arrays(3))
    assert_right(model(*arrays(3))[0], 3)
