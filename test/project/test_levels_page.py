"""docs/levels.md: its attributes are those of the code, in the IR of the levels that it says, written and read by the files that it names."""

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest
from importing import context, floats, ints, model, node
from onnx import helper

import stepwell
from stepwell.dialects.core.carried import Carried, carriers
from stepwell.dialects.core.mlir import ir, make_context, parse_module
from stepwell.dialects.graph.control import ControlInfo
from stepwell.dialects.target.registry import resolve
from stepwell.passes.framework.instrumentation import Instrumentation
from stepwell.passes.framework.pipeline import Step
from stepwell.pipelines.routes import CPU_PATH

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "levels.md"
INSIDE = "inside"


@dataclass(frozen=True)
class Row:
    """What the page says of one attribute."""

    name: str
    python: str
    writers: tuple[Path, ...]
    readers: tuple[Path, ...]
    first: str
    until: str

    def is_at(self, level: str) -> bool:
        """Whether IR of that level may have it."""
        return self.until != INSIDE and level in CPU_PATH.since(self.first) and self.until in CPU_PATH.since(level)


def linked(cell: str) -> tuple[Path, ...]:
    return tuple((PAGE.parent / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", cell))


@cache
def rows() -> tuple[Row, ...]:
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        level = section.partition("\n")[0]
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| `") and len(cells) == 6:
                names, fields = (re.findall(r"`([^`]+)`", cell) for cell in cells[:2])
                found += [Row(n, p, linked(cells[3]), linked(cells[4]), level, cells[5].strip("`")) for n, p in zip(names, fields, strict=True)]
    return tuple(found)


def test_the_page_lists_the_attributes_of_the_code() -> None:
    make_context()  # imports all that carry something
    own = [cls for cls in carriers() if cls.__module__.startswith("stepwell.")]
    there = {(field.name, f"{cls.__name__}.{key}") for cls in own for key, field in vars(cls).items() if isinstance(field, Carried)}
    said = {(row.name, row.python) for row in rows()}
    assert said == there
    assert len(said) == len(rows()), "each once"
    assert {row.first for row in rows()} <= set(CPU_PATH)
    assert {row.until for row in rows()} <= {INSIDE, *CPU_PATH}


SETS = {  # how else a field is set than by an assignment to it
    "is_kernel": r"\.make_kernel\(\)",
    "name": r"ValueInfo\(name=",
    "byte_count": r"ValueInfo\(byte_count=",
}
READS = {
    "name": r"ValueInfo\.names\(",
    "results": r"KernelInfo\(.*\.(results|first_destination)\b|info\.results\b",
    "is_parallel": r"\.is_parallel\b|LoopInfo\.parallel_around\(",
}


def test_the_page_names_files_that_write_and_read_them() -> None:
    for row in rows():
        field = row.python.partition(".")[2]
        for path in row.writers:
            assert re.search(SETS.get(field, rf"\.{field}\b(, [\w.]+)? = "), path.read_text()), f"{path.name} does not write {row.name}"
        for path in row.readers:
            assert re.search(READS.get(field, rf"\.{field}\b(?!(, [\w.]+)? = )"), path.read_text()), f"{path.name} does not read {row.name}"


def everything() -> onnx.ModelProto:
    """Kernels in shared loops, with scratch, in place, with two results, in rounds on threads; an index that only a run has; any integers."""
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "u"], ["c"], pads=[1, 1, 1, 1]), node("Add", ["c", "x"], ["d"]),
        node("GlobalAveragePool", ["d"], ["p"]), node("Flatten", ["p"], ["f"]),
        node("TopK", ["f", "k"], ["v", "i"]), node("Gather", ["f", "j"], ["g"], axis=1),
        node("RNN", ["s", "m", "r"], ["", "h"], direction="bidirectional", hidden_size=64), node("Neg", ["n"], ["o"]),
    ]  # fmt: skip
    inputs = {"x": floats(1, 64, 56, 56), "j": ints(2), "s": floats(50, 8, 4), "n": ints(2)}
    weights = {"w": floats(64, 64, 3, 3), "u": floats(64, 64, 3, 3, seed=1), "k": ints(3), "m": floats(2, 64, 4), "r": floats(2, 64, 64)}
    return model(nodes, inputs, {"v": floats(1, 3), "i": ints(1, 3).reshape(1, 2), "g": floats(1, 1), "h": floats(2, 8, 64), "o": ints(1)}, weights)


def unresolved() -> onnx.ModelProto:
    """A loop of more rounds than are written out."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Mul", ["c", "c"], ["d"]), helper.make_node("Identity", ["more"], ["again"])], "body",
        [value("n", onnx.TensorProto.INT64, []), value("more", onnx.TensorProto.BOOL, []), value("c", onnx.TensorProto.FLOAT, [4])],
        [value("again", onnx.TensorProto.BOOL, []), value("d", onnx.TensorProto.FLOAT, [4])],
    )  # fmt: skip
    return model([node("Loop", ["m", "", "x"], ["y"], body=body)], {"x": floats(4)}, {"y": floats(4)}, {"m": ints(1 << 40).reshape(())})


def free() -> onnx.ModelProto:
    """A model for all sizes of its input, which is assumed to be square; another input says how often it is repeated."""
    nodes = [
        node("Relu", ["x"], ["r"]), node("Softmax", ["r"], ["s"]), node("MatMul", ["s", "x"], ["p"]), node("Tile", ["p", "t"], ["m"]),
        node("Shape", ["m"], ["y"]),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    outputs = [value("m", onnx.TensorProto.FLOAT, None), value("y", onnx.TensorProto.INT64, None)]
    inputs = [value("x", onnx.TensorProto.FLOAT, ["n", "m"]), value("t", onnx.TensorProto.INT64, [2])]
    graph = helper.make_graph(nodes, "free", inputs, outputs)
    return helper.make_model(graph)


def controlled() -> onnx.ModelProto:
    """A conditional that only a run decides, and a size that only a run tells."""
    value = helper.make_tensor_value_info
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], [value("b", onnx.TensorProto.FLOAT, [6])]) for op in ("Neg", "Exp")
    ]
    nodes = [node("If", ["c"], ["r"], then_branch=branches[0], else_branch=branches[1]), node("NonZero", ["r"], ["y"])]
    inputs = [value("x", onnx.TensorProto.FLOAT, [6]), value("c", onnx.TensorProto.BOOL, [])]
    return helper.make_model(helper.make_graph(nodes, "controlled", inputs, [value("y", onnx.TensorProto.INT64, None)]))


def kept() -> onnx.ModelProto:
    """A cache that grows by some rows, of which there is a product."""
    value = helper.make_tensor_value_info
    sides = [[("past", ["p", 4]), ("x", ["n", 4])], [("present", ["q", 4]), ("y", ["n", 64])]]
    inputs, outputs = ([value(name, onnx.TensorProto.FLOAT, shape) for name, shape in side] for side in sides)
    nodes = [node("Concat", ["past", "x"], ["present"], axis=0), node("MatMul", ["x", "w"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "kept", inputs, outputs, [onnx.numpy_helper.from_array(floats(4, 64), "w")]))


def batched() -> onnx.ModelProto:
    """Any number of images, whose channels are joined; so many filters that another schedule is better for one image than for four."""
    value = helper.make_tensor_value_info
    pool = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("MaxPool", ["x"], ["a"], **pool), node("MaxPool", ["a"], ["b"], **pool), node("Concat", ["a", "b"], ["c"], axis=1),
        node("Conv", ["c", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]  # fmt: skip
    sides = [[value(name, onnx.TensorProto.FLOAT, ["n", count, 28, 28])] for name, count in (("x", 128), ("y", 512))]
    filters = onnx.numpy_helper.from_array(floats(512, 256, 3, 3), "w")
    return helper.make_model(helper.make_graph(nodes, "batched", *sides, [filters]))


def deep() -> onnx.ModelProto:
    """A convolution over more channels than Winograd's method sums at once."""
    weights = {"w": floats(16, 520, 3, 3)}
    return model([node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], {"x": floats(1, 520, 14, 14)}, {"y": floats(1, 16, 14, 14)}, weights)


BOUND: dict[str, Any] = {"specialise": "never", "bind": {"past": "present"}}


@cache
def texts() -> dict[str, list[str]]:
    """IR of each level."""
    lowered = stepwell.lower(everything(), CPU_PATH.last, target=replace(resolve("x86-64-v3"), cores=2))
    found = {level: [str(snapshot)] for level, snapshot in lowered.snapshots.items()}
    general = stepwell.lower(free(), CPU_PATH.last, specialise="never", size_hints={"n": 8})
    for level, snapshot in general.snapshots.items():
        found[level].append(str(snapshot))
    for level, snapshot in stepwell.lower(batched(), CPU_PATH.last, specialise="never", target="x86-64-v3").snapshots.items():
        found[level].append(str(snapshot))
    for level, snapshot in stepwell.lower(deep(), CPU_PATH.last, target="x86-64-v3").snapshots.items():
        found[level].append(str(snapshot))
    for level, snapshot in stepwell.lower(controlled(), CPU_PATH.last).snapshots.items():
        found[level].append(str(snapshot))
    for level, snapshot in stepwell.lower(kept(), CPU_PATH.last, **BOUND).snapshots.items():
        found[level].append(str(snapshot))
    found["graph"].append(stepwell.lower(unresolved(), "graph").text())
    return found


def names_in(text: str) -> set[str]:
    """The names of our attributes in IR."""
    return set(re.findall(r'(?<![\w.#"@%])((?:stepwell|sched|target)\.\w+)(?= = |[,}])', text))


@pytest.mark.parametrize("level", CPU_PATH)
def test_the_ir_of_each_level_has_the_attributes_that_the_page_says(level: str) -> None:
    assert names_in("".join(texts()[level])) == {row.name for row in rows() if row.is_at(level)}


@pytest.mark.parametrize("level", CPU_PATH)
def test_what_is_written_is_sound(level: str) -> None:
    for text in texts()[level]:
        parse_module(text, context())


class Watch(Instrumentation):
    """Reads back the IR after each pass, and keeps the names of the attributes that were in some."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def after(self, step: Step, module: ir.Module, level: str | None, seconds: float) -> None:
        text = str(module)
        self.seen |= names_in(text)
        parse_module(text, context(), step.name)


def test_attributes_that_come_and_go_on_the_way_to_a_level() -> None:
    watch = Watch()
    stepwell.lower(everything(), "affine", target="x86-64-v3", instrumentation=watch)
    stepwell.lower(free(), "affine", target="x86-64-v3", specialise="never", size_hints={"n": 8}, instrumentation=watch)
    stepwell.lower(batched(), "affine", target="x86-64-v3", specialise="never", instrumentation=watch)
    stepwell.lower(deep(), "affine", target="x86-64-v3", instrumentation=watch)
    stepwell.lower(controlled(), "affine", target="x86-64-v3", instrumentation=watch)
    stepwell.lower(kept(), "affine", target="x86-64-v3", instrumentation=watch, **BOUND)
    assert watch.seen == {row.name for row in rows() if row.first != "llvm"} - {ControlInfo.reason.name}
