"""Specialised programs of a model share weights with its program for all sizes; what they do not share is counted and bounded."""

import gc
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from handmade import compile_and_load
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.support.errors import InputError, LimitError
from stepwell.driver.background import Job
from stepwell.driver.combinations import LEAST_BYTES, Shapes
from stepwell.driver.dynamic import DynamicModel, Made
from stepwell.runtime.about import About
from stepwell.runtime.buffers import arena_places, can_give_back, pack_arena
from stepwell.runtime.executable import NativeExecutable
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.weights import WeightPool, Weights
from stepwell.signature import TensorInfo

pytestmark = pytest.mark.skipif(not can_give_back(aligned_empty(4 << 20)), reason="this system takes no pages back")
F32 = np.dtype(np.float32)
BYTES = 3 << 20
COPY = """func.func @main(%x: memref<{n}xf32>, %y: memref<{n}xf32>, %w: memref<1xi8>, %ws: memref<1xi8>) {{
  affine.for %i = 0 to {n} {{ %v = affine.load %x[%i] : memref<{n}xf32>  affine.store %v, %y[%i] : memref<{n}xf32> }}
  return }}"""
WIDE, NARROW = 700, 300


def network() -> tuple[bytes, Callable[[np.ndarray], np.ndarray]]:
    """`relu(x @ w) @ v + b` of any number of rows, of 2.8 MB of weights, and the same in f64."""
    rng = np.random.default_rng(3)
    w, v = rng.standard_normal((WIDE, WIDE), F32), rng.standard_normal((WIDE, NARROW), F32)
    b = rng.standard_normal(NARROW, F32)
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["r"]), helper.make_node("MatMul", ["r", "v"], ["q"]),
        helper.make_node("Add", ["q", "b"], ["y"]),
    ]  # fmt: skip
    weights = [numpy_helper.from_array(array, name) for name, array in {"w": w, "v": v, "b": b}.items()]
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", WIDE])], [value("y", TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString(), lambda x: np.maximum(x.astype(np.float64) @ w, 0) @ v + b


def test_specialised_programs_hold_no_weights_that_the_general_one_has() -> None:
    source, reference = network()
    model = stepwell.compile(source, threads=1)
    assert isinstance(model, DynamicModel)
    alone = model.weights_bytes
    assert alone >= 4 * (WIDE * WIDE + WIDE * NARROW)

    def check(n: int) -> None:
        x = np.random.default_rng(n).standard_normal((n, WIDE), F32)
        scale = np.abs(x).sum(1, keepdims=True) * WIDE
        assert (np.abs(model(x)[0] - reference(x)) <= 8 * np.finfo(F32).eps * scale).all()

    for n in (2, 5):
        special = model.specialise({"x": (n, WIDE)})
        assert isinstance(special, CompiledModel)
        assert special.memory.weights_bytes >= 4 * (WIDE * WIDE + WIDE * NARROW)
        assert special.memory.own_weights_bytes < 1 << 16
        check(n)
    check(7)
    assert model.weights_bytes <= alone + (1 << 17)
    assert all(made.own_weights_bytes < 1 << 16 for made in model.specialisations)
    copied = special.weights.arena()
    general = model.weights_bytes
    del special
    model.capacity = 1
    model.specialise({"x": (2, WIDE)})  # the other one goes
    gc.collect()
    assert [made.shapes for made in model.specialisations if made.state == "specialised"] == [((2, WIDE),)]
    assert alone <= model.weights_bytes < general
    assert copied.nbytes == model.specialise({"x": (2, WIDE)}).memory.weights_bytes
    check(2)


class Programs:
    """Compiles programs of their own weights, of `BYTES`."""

    def __init__(self) -> None:
        self.pool = WeightPool()
        self.base = self.weights(0)
        self.made: list[int] = []

    def weights(self, seed: int, count: int = BYTES) -> Weights:
        table = WeightTable({"w": np.random.default_rng(seed).integers(0, 255, count, np.uint8)})
        return self.pool.place(pack_arena(table, {"w": 0}, count), arena_places(table, {"w": 0}))

    def __call__(self, shapes: Shapes, values: Mapping[str, np.ndarray] = {}, weights: Weights | None = None) -> CompiledModel:
        (n,) = shapes["x"]  # type: ignore[misc]
        self.made.append(n)
        code = NativeExecutable(compile_and_load(COPY.format(n=n), packed=True), np.empty(8, np.uint8), workspace_bytes=0, threads=1, arguments=2)
        info = [TensorInfo(name, (n,), F32) for name in "xy"]
        return CompiledModel(
            inputs=info[:1], outputs=info[1:], executable=code, weights=weights or self.weights(n), workspace_bytes=0, about=About()
        )

    def model(self, capacity_bytes: int | None = None, *, general: bool = True) -> DynamicModel:
        def background(shapes: Shapes, values: Mapping[str, np.ndarray], done: Callable[[Made], None], failed: Callable[[Exception], None]) -> Job:
            return Job(None, lambda reached: done(self(shapes)), failed)

        return DynamicModel(
            inputs=[TensorInfo("x", ("n",), F32)], outputs=[TensorInfo("y", (None,), F32)], compile_shapes=self, pool=self.pool,
            program=self.program(self.base) if general else None, background=background if general else None, capacity_bytes=capacity_bytes,
        )  # fmt: skip

    def program(self, weights: Weights) -> Any:
        """As much of a `GeneralProgram` as the model uses."""
        return SimpleNamespace(model=lambda shapes, values: self(shapes, weights=weights), weights=weights, valued={}, sizes=dict, about=About())


def states(model: DynamicModel) -> dict[int, str]:
    return {made.shapes[0][0]: made.state for made in model.specialisations}  # type: ignore[index]


def test_what_is_not_shared_is_bounded_and_the_least_recently_used_goes() -> None:
    programs = Programs()
    model = programs.model(2 * BYTES)
    for n in (3, 4, 3, 5):
        x = np.full(n, n, F32)
        for _ in range(3):
            np.testing.assert_array_equal(model(x)[0], x)
        assert model.settle(60)
    assert states(model) == {3: "specialised", 5: "specialised"}
    gc.collect()
    assert model.weights_bytes == 3 * BYTES
    np.testing.assert_array_equal(model(np.ones(4, F32))[0], np.ones(4, F32))


def test_a_combination_that_is_too_large_by_itself_stays_with_the_program_for_all_sizes() -> None:
    programs = Programs()
    model = programs.model(BYTES - 1)
    for _ in range(5):
        model(np.ones(3, F32))
        assert model.settle(60)
    (made,) = model.specialisations
    assert made.state == "failed"
    assert isinstance(made.error, LimitError)
    assert f"{BYTES} bytes of weights beside those of the program for all sizes, more than {BYTES - 1}" in str(made.error)
    gc.collect()
    assert model.weights_bytes == BYTES
    model.specialise({"x": (3,)})  # one that is asked for is there all the same
    assert states(model) == {3: "specialised"}


def test_default_bounds() -> None:
    programs = Programs()
    assert programs.model().capacity_bytes == LEAST_BYTES
    large = programs.weights(1, LEAST_BYTES + (1 << 20))
    assert DynamicModel(inputs=[], outputs=[], compile_shapes=programs, program=programs.program(large)).capacity_bytes == large.nbytes
    model = programs.model(general=False)
    assert model.capacity_bytes is None
    with pytest.raises(InputError, match="capacity_bytes: expected a number of bytes from 0, got -1"):
        programs.model(-1)
