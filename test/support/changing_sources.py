"""Sources of a model that change while it is used: objects, files, external data; in place, by another name, by a link."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 1024
"""Elements of the weight, which is just large enough to be taken out of the model."""
Put: TypeAlias = Callable[[float], None]
"""Makes the source that of the network with another factor."""


def weight(factor: float) -> np.ndarray:
    return np.full(SIZE, factor, np.float32)


def network(factor: float = 1.0, *, external: str = "") -> onnx.ModelProto:
    """`present = past and x behind it; y = (the sum of present) * w`, where each element of `w` is `factor`."""
    w = numpy_helper.from_array(weight(factor), "w")
    if external:
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        w.external_data.add(key="location", value=external)
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=0), helper.make_node("ReduceSum", ["present", "axes"], ["s"]),
        helper.make_node("Mul", ["s", "w"], ["y"]),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net", [value("x", TensorProto.FLOAT, ["n", SIZE]), value("past", TensorProto.FLOAT, ["p", SIZE])],
        [value("y", TensorProto.FLOAT, [1, SIZE]), value("present", TensorProto.FLOAT, ["q", SIZE])],
        [numpy_helper.from_array(np.array([0]), "axes"), w],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def arrays(rows: int) -> list[np.ndarray]:
    return [np.ones((rows, SIZE), np.float32), np.zeros((0, SIZE), np.float32)]


def message(folder: Path) -> tuple[Any, Put]:
    source = network()
    return source, lambda factor: source.graph.initializer[1].CopyFrom(network(factor).graph.initializer[1])


def buffer(folder: Path) -> tuple[Any, Put]:
    source = bytearray(network().SerializeToString())
    return source, lambda factor: source.__setitem__(slice(None), network(factor).SerializeToString())


def view(folder: Path) -> tuple[Any, Put]:
    source, put = buffer(folder)
    return memoryview(source).toreadonly(), put


def written(path: Path, data: bytes) -> None:
    """Write to a file in place, and make its times what they were."""
    told = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


def renamed(path: Path, data: bytes) -> None:
    path.with_suffix(".new").write_bytes(data)
    path.with_suffix(".new").replace(path)


def linked(path: Path, data: bytes) -> None:
    other = path.with_name(f"{len(list(path.parent.iterdir()))}.other")
    other.write_bytes(data)
    path.unlink()
    path.symlink_to(other.name)


def file(folder: Path, how: Callable[[Path, bytes], None]) -> tuple[Any, Put]:
    path = folder / "net.onnx"
    path.write_bytes(network().SerializeToString())
    return str(path), lambda factor: how(path, network(factor).SerializeToString())


def weights(folder: Path, how: Callable[[Path, bytes], None]) -> tuple[Any, Put]:
    path = folder / "net.onnx"
    path.write_bytes(network(external="weights.bin").SerializeToString())
    path.with_name("weights.first").write_bytes(weight(1).tobytes())
    path.with_name("weights.bin").symlink_to("weights.first")
    return path, lambda factor: how(path.with_name("weights.bin"), weight(factor).tobytes())


SOURCES: dict[str, Callable[[Path], tuple[Any, Put]]] = {
    "message": message, "buffer": buffer, "view": view,
    **{f"file {how.__name__}": lambda folder, how=how: file(folder, how) for how in (written, renamed, linked)},
    **{f"weights {how.__name__}": lambda folder, how=how: weights(folder, how) for how in (written, renamed, linked)},
}  # fmt: skip
