"""Arguments of the wrong type or value: each public function says which one, what was expected and what came, and raises nothing raw."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import stepwell
from stepwell import ResourceError, StepwellError
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.plan_file import Plan
from stepwell.plugin_files import load_file


class Stubborn:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("no")

    def __bool__(self) -> bool:
        raise ValueError("no")


WRONG: list[Any] = [
    None, True, 0, -1, 5, 2**70, 1.5, float("nan"), "", "no", "a\0b", "x" * 5000, "\udcff", b"", b"\xff\0", [], [5], ["x"], [["x"]], (), (1, 2),
    {}, {"x": 5}, {"x": "no"}, {"x": (-1,)}, {"x": (1.5,)}, {"x": [2**70]}, {"x": None}, {5: (1,)}, {"nothing": (1,)}, {"x": (1, 2, 3)},
    set(), {5}, object(), int, len, lambda *_: None, np.zeros(3), np.float32(2), Path("nowhere"), Path("."), os.devnull, memoryview(b"ab"),
    memoryview(np.zeros((2, 2)).T), Stubborn(), iter(["x"]), range(3), Exception("x"), ...,
]  # fmt: skip


def tiny(free: bool = False) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    sizes = ["n"] if free else [3]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, sizes)], [value("y", TensorProto.FLOAT, sizes)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


MODEL = tiny()
TEXT = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""


def functions() -> Iterator[tuple[str, Callable[..., Any], dict[str, Callable[[], Any]]]]:
    """Each public function by name, with what makes its required arguments right."""
    text = {"text": lambda: TEXT, "level": lambda: "graph", "weights": WeightTable}
    yield "compile", stepwell.compile, {"source": lambda: MODEL}
    yield "lower", stepwell.lower, {"source": lambda: MODEL, "to_level": lambda: "graph"}
    yield "read_ir", stepwell.read_ir, text
    yield "compile_ir", stepwell.compile_ir, text
    yield "descend", stepwell.descend, {"lowered": lambda: stepwell.lower(MODEL, "graph"), "to_level": lambda: "graph"}
    yield "build", stepwell.build, {"lowered": lambda: stepwell.lower(MODEL, "affine")}
    # Without its shapes this model cannot be tuned, which is found out last: no kernels are built.
    yield "tune", stepwell.tune, {"source": lambda: tiny(free=True)}
    model, free = stepwell.compile(MODEL, threads=1), stepwell.compile(tiny(free=True), threads=1)
    right = np.ones(3, np.float32)
    free(right)
    for name, made in (("CompiledModel", model), ("DynamicModel", free)):
        yield f"{name}.run", made.run, {"inputs": lambda: {"x": right}}
        yield f"{name}.ir", made.ir, {"level": lambda: "graph"}
        yield f"{name}.__call__", lambda x, made=made: made(x), {"x": lambda: right}
    yield "specialise", free.specialise, {"shapes": lambda: {"x": (3,)}}
    known = {"inputs": lambda: (), "outputs": lambda: (), "compile_shapes": lambda: len}
    yield "DynamicModel", lambda capacity=8: stepwell.DynamicModel(**{name: make() for name, make in known.items()}, capacity=capacity), {}
    yield "interpret", stepwell.interpret, {"lowered": lambda: stepwell.lower(MODEL, "graph"), "inputs": lambda: {"x": right}}
    given = {"lowered": lambda: stepwell.lower(MODEL, "graph"), "inputs": lambda: {"x": right}}
    yield "compare_with_f64", stepwell.compare_with_f64, {**given, "outputs": lambda: stepwell.compile(MODEL).run({"x": right})}
    yield "compare_levels", stepwell.compare_levels, {"lowered": lambda: stepwell.lower(MODEL, "graph"), "inputs": lambda: {"x": right}}
    yield "bisect", stepwell.bisect, {"lowered": lambda: stepwell.lower(MODEL, "graph"), "inputs": lambda: {"x": right}}
    yield "memory_plan", stepwell.memory_plan, {"module": lambda: stepwell.lower(MODEL, "affine").module.operation}
    yield "Plan.from_source", Plan.from_source, {"source": lambda: "x"}
    yield "Plan.parse", lambda text: Plan.parse(text), {"text": lambda: '{"version": 2, "kernels": {}}'}
    yield "WeightTable.load", WeightTable.load, {"path": lambda: "x"}
    yield "CompileOptions", lambda **given: stepwell.CompileOptions(**given), {}
    default = stepwell.Pipeline.default()
    yield "Pipeline.parse", lambda text: stepwell.Pipeline.parse(text, base=default), {"text": lambda: "scheduled(assign-schedules)"}
    yield "Pipeline.from_source", stepwell.Pipeline.from_source, {"given": lambda: "scheduled(assign-schedules)"}
    yield "Pipeline.insert_after", default.insert_after, {"name": lambda: "pack-matmul", "passes": lambda: "cse"}
    yield "Pipeline.remove", default.remove, {"name": lambda: "pack-matmul"}
    yield "Pipeline.without", default.without, {"names": lambda: ()}
    yield "Pipeline.stage", default.stage, {"level": lambda: "linalg"}
    yield "Pipeline.load", stepwell.Pipeline.load, {"path": lambda: "x"}
    yield "Pipeline.save", default.save, {"path": lambda: os.devnull}
    # A folder that is a file: everything else is found out before that.
    yield "bundle", stepwell.bundle, {"source": lambda: MODEL, "folder": lambda: os.devnull, "kinds": lambda: ("object",)}
    yield "load", stepwell.load, {"folder": lambda: "x"}
    yield "load_file", load_file, {"path": lambda: "x"}


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of what a function takes, the fields of options among them where it takes these."""
    found = inspect.signature(function).parameters.values()
    own = [p.name for p in found if p.kind is not p.VAR_KEYWORD]
    return own + [f.name for f in dataclasses.fields(stepwell.CompileOptions)] * (len(own) < len(found))


def test_every_function_of_the_package_is_here() -> None:
    public = {name for name in stepwell.__all__ if inspect.isfunction(getattr(stepwell, name))}
    assert public <= {name for name, _, _ in functions()}


def test_wrong_arguments_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # what is the path of a file is written to
    raw, untold, taken = [], [], []
    for name, function, required in functions():
        right = {key: make() for key, make in required.items()}
        for parameter in parameters(function):
            for value in WRONG if parameter != "made" else ():
                if parameter == "on_level" and callable(value):
                    continue  # what it raises comes out as it is
                what = f"{name}({parameter}: {type(value).__name__})"
                try:
                    function(**right | {parameter: value})
                except StepwellError as error:
                    if "\n" in str(error):
                        untold.append(f"{what}: {error}")
                except Exception as error:
                    raw.append(f"{what}: {error!r}")
                else:
                    taken.append(what)
                    right = {key: make() for key, make in required.items()}  # building uses up what it is made from
    assert raw + untold == [], "\n".join(raw + untold)
    # What is not wrong at all: what every such function has in common, and what another one does not look at.
    fine = {"NoneType", "str", "bool", "PosixPath", "tuple", "list", "set", "dict", "int", "ndarray"}
    assert [what for what in taken if what.rpartition(": ")[2].rstrip(")") not in fine and "(tolerance: float" not in what] == []


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (MemoryError("17 GB"), "SW012 compile: out of memory: 17 GB"),
        (RecursionError("deep"), "SW012 compile: nested too deeply"),
        (OSError(28, "No space left on device", "/tmp/x"), "SW012 compile: /tmp/x: No space left on device"),
    ],
)
def test_what_the_machine_refuses_has_its_own_error(monkeypatch: pytest.MonkeyPatch, raised: Exception, said: str) -> None:
    def refused(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("stepwell.backends.llvm_cpu.objects.split_module", refused)
    with pytest.raises(ResourceError, match=re.escape(said)) as caught:
        stepwell.compile(MODEL)
    assert caught.value.__cause__ is raised


def test_what_a_callback_raises_comes_out_as_it_is() -> None:
    def callback(level: str, seconds: float) -> None:
        raise KeyError(level)

    with pytest.raises(KeyError, match="graph"):
        stepwell.compile(MODEL, on_level=callback)
