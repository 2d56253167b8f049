"""A model that is changed while it is used: what is read again later is what was compiled, or a clear error."""

from pathlib import Path

import pytest
from changing_sources import SIZE, SOURCES, arrays, network, weight, written
from every import every
from onnx import TensorProto, helper

import stepwell
from stepwell.dialects.support.errors import ModelError
from stepwell.driver.combinations import AFTER
from stepwell.frontends.onnx.digest import _message_parts


@every("name", list(SOURCES))
def test_shapes_and_ir_after_a_change_are_refused(name: str, tmp_path: Path) -> None:
    source, put = SOURCES[name](tmp_path)
    model = stepwell.compile(source, specialise="always", threads=1)
    assert model(*arrays(5))[0][0, 0] == 5
    put(9)
    for again in (lambda: model(*arrays(6)), lambda: model.ir("graph")):
        with pytest.raises(ModelError, match="has changed since the model was compiled; compile it again"):
            again()
    assert model(*arrays(5))[0][0, 0] == 5


@pytest.mark.parametrize("cached", [False, True])
def test_code_in_the_background_and_states_are_of_what_was_compiled(cached: bool, cache_folder: Path, tmp_path: Path) -> None:
    for name in ("message", "weights linked"):
        folder = tmp_path / name.split()[0]
        folder.mkdir()
        source, put = SOURCES[name](folder)
        model = stepwell.compile(source, threads=1, cache=cached)
        model(*arrays(5))
        put(9)
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
    monkeypatch.setattr("stepwell.frontends.onnx.digest.serialized", lambda message: None)
    floats = helper.make_model(helper.make_graph([], "g", [], [], [helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])]))
    other = helper.make_model(helper.make_graph([], "g", [], [], [helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 3.0])]))
    told = [list(_message_parts(made)) for made in (network(), network(9), floats, other, network(external="a"), network(external="b"))]
    assert told[0] == list(_message_parts(network()))
    assert all(one != two for i, one in enumerate(told) for two in told[:i])
