"""A model that is changed while it is used: what is read again later is what was compiled, or a clear error."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
from every import every
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.cache.fingerprint import _message_parts
from stepwell.dialects.support.errors import ModelError
from stepwell.driver.dynamic import AFTER

SIZE = 1024
"""Elements of the weight, which is just large enough to be taken out of the model."""
Change: TypeAlias = Callable[[], None]


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


def message(folder: Path) -> tuple[Any, Change]:
    source = network()
    return source, lambda: source.graph.initializer[1].CopyFrom(network(9).graph.initializer[1])


def buffer(folder: Path) -> tuple[Any, Change]:
    source = bytearray(network().SerializeToString())
    return source, lambda: source.__setitem__(slice(None), network(9).SerializeToString())


def view(folder: Path) -> tuple[Any, Change]:
    source, change = buffer(folder)
    return memoryview(source).toreadonly(), change


def written(path: Path, data: bytes) -> None:
    """Write to a file in place, and make its times what they were."""
    told = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


def renamed(path: Path, data: bytes) -> None:
    path.with_suffix(".new").write_bytes(data)
    path.with_suffix(".new").replace(path)


def linked(path: Path, data: bytes) -> None:
    path.with_suffix(".other").write_bytes(data)
    path.unlink()
    path.symlink_to(path.with_suffix(".other"))


def file(folder: Path, how: Callable[[Path, bytes], None]) -> tuple[Any, Change]:
    path = folder / "net.onnx"
    path.write_bytes(network().SerializeToString())
    return str(path), lambda: how(path, network(9).SerializeToString())


def weights(folder: Path, how: Callable[[Path, bytes], None]) -> tuple[Any, Change]:
    path = folder / "net.onnx"
    path.write_bytes(network(external="weights.bin").SerializeToString())
    path.with_name("weights.first").write_bytes(weight(1).tobytes())
    path.with_name("weights.bin").symlink_to("weights.first")
    return path, lambda: how(path.with_name("weights.bin"), weight(9).tobytes())


SOURCES: dict[str, Callable[[Path], tuple[Any, Change]]] = {
    "message": message, "buffer": buffer, "view": view,
    **{f"file {how.__name__}": lambda folder, how=how: file(folder, how) for how in (written, renamed, linked)},
    **{f"weights {how.__name__}": lambda folder, how=how: weights(folder, how) for how in (written, renamed, linked)},
}  # fmt: skip


@every("name", list(SOURCES))
def test_shapes_and_ir_after_a_change_are_refused(name: str, tmp_path: Path) -> None:
    source, change = SOURCES[name](tmp_path)
    model = stepwell.compile(source, specialise="always", threads=1)
    assert model(*arrays(5))[0][0, 0] == 5
    change()
    for again in (lambda: model(*arrays(6)), lambda: model.ir("graph")):
        with pytest.raises(ModelError, match="has changed since the model was compiled; compile it again"):
            again()
    assert model(*arrays(5))[0][0, 0] == 5


@pytest.mark.parametrize("cached", [False, True])
def test_code_in_the_background_and_states_are_of_what_was_compiled(cached: bool, cache_folder: Path, tmp_path: Path) -> None:
    for name in ("message", "weights linked"):
        folder = tmp_path / name.split()[0]
        folder.mkdir()
        source, change = SOURCES[name](folder)
        model = stepwell.compile(source, threads=1, cache=cached)
        model(*arrays(5))
        change()
        for _ in range(AFTER):
            model(*arrays(5))
        assert model.settle(120)
        assert [made.state for made in model.specialisations] == ["failed"]
        assert model(*arrays(5))[0][0, 0] == 5
        with pytest.raises(ModelError, match="has changed"):
            model.bind({"past": "present"})
        fresh = stepwell.compile(source, specialise="never", threads=1, cache=cached)
        assert fresh(*arrays(5))[0][0, 0] == 45


def test_weights_that_nothing_has_read_yet_may_not_change(cache_folder: Path, tmp_path: Path) -> None:
    """Of a model that needs shapes first, files are read later; their digests are taken at once."""
    net = network(external="weights.bin")
    net.graph.node[0].CopyFrom(helper.make_node("ConcatFromSequence", ["xs"], ["present"], axis=0))
    del net.graph.input[:], net.graph.output[1:]
    net.graph.input.append(helper.make_tensor_sequence_value_info("xs", TensorProto.FLOAT, ["n", SIZE]))
    file, path = tmp_path / "weights.bin", tmp_path / "net.onnx"
    path.write_bytes(net.SerializeToString())
    for _ in range(2):  # the second time from the cache
        file.write_bytes(weight(1).tobytes())
        model = stepwell.compile(path, threads=1)
        written(file, weight(9).tobytes())
        with pytest.raises(ModelError, match=r"weights\.bin: the file, which has weights, has changed"):
            model(arrays(3))


def test_a_relative_path_is_of_the_folder_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(network().SerializeToString())
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    model = stepwell.compile("net.onnx", specialise="always", threads=1)
    monkeypatch.chdir("below")
    assert model(*arrays(3))[0][0, 0] == 3


def test_parts_tell_messages_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 2 GB a message has no bytes as a whole: here none has any."""
    monkeypatch.setattr("stepwell.cache.fingerprint._serialized", lambda message: None)
    floats = helper.make_model(helper.make_graph([], "g", [], [], [helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])]))
    other = helper.make_model(helper.make_graph([], "g", [], [], [helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 3.0])]))
    told = [list(_message_parts(made)) for made in (network(), network(9), floats, other, network(external="a"), network(external="b"))]
    assert told[0] == list(_message_parts(network()))
    assert all(one != two for i, one in enumerate(told) for two in told[:i])
