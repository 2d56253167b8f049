"""Damaged files and senseless arguments give an error with a message: weights, manifests, shapes, versions of structs."""

import ctypes
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import bundle_models
import numpy as np
import pytest

import stepwell
from stepwell.bundling.interface import MAX_RANK, Tensor
from stepwell.bundling.toolchain import find_tools
from stepwell.dialects.support.errors import InputError, ModelError, StepwellError, UnsupportedError
from stepwell.dialects.target.host import host

RANDOM = np.random.default_rng(7)
FREE = next(case for case in bundle_models.plain_cases() if case.name == "free")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stepwell.bundle(FREE.model, tmp_path_factory.mktemp("free") / "free", prefix="free", kinds=("shared",))


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "free"))


def assert_fails(folder: Path, *, error: type[StepwellError] = ModelError) -> str:
    """Loading a bundle, or its first run, is an error; returns the message."""
    with pytest.raises(error) as found:
        stepwell.load(folder, threads=1).run(FREE.feeds[1])
    assert str(found.value)
    return str(found.value)


def test_damaged_weights_are_noticed(copied: Path) -> None:
    file = copied / "free.weights"
    whole = file.read_bytes()

    def with_bytes(data: bytes) -> str:
        file.write_bytes(data)
        return assert_fails(copied)

    assert "no weights of Stepwell" in with_bytes(b"")
    assert "no weights of Stepwell" in with_bytes(whole[:40])
    assert "no weights of Stepwell" in with_bytes(b"x" + whole[1:])
    assert "expected" in with_bytes(whole[:-1])
    assert "expected" in with_bytes(whole + b"\0")
    assert "of version 2" in with_bytes(whole[:8] + b"\2" + whole[9:])
    assert "of another model than free" in with_bytes(whole[:24] + b"?" + whole[25:])
    for place in RANDOM.integers(4096, len(whole), 8):
        assert "damaged: they have another digest" in with_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
    for place in RANDOM.integers(0, 56, 30):
        with_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
    file.unlink()
    assert "No such file" in assert_fails(copied)
    file.mkdir()
    assert "no weights of Stepwell" in assert_fails(copied)
    file.rmdir()
    os.mkfifo(file)
    assert "no weights of Stepwell" in assert_fails(copied)
    file.unlink()
    file.write_bytes(whole)
    stepwell.load(copied, threads=1).run(FREE.feeds[1])


def test_the_digest_can_be_left_out_or_compared_at_once(copied: Path) -> None:
    file = copied / "free.weights"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for in_memory in (False, True):
        stepwell.load(copied, threads=1, verify=False, copied=in_memory).run(FREE.feeds[1])
        with pytest.raises(ModelError, match="another digest"):
            stepwell.load(copied, threads=1, copied=in_memory).run(FREE.feeds[1])
    checking = stepwell.load(copied, threads=1)
    with pytest.raises(ModelError, match="another digest"):
        checking.verify()


def test_a_damaged_manifest_is_noticed(copied: Path) -> None:
    file = copied / "manifest.json"
    whole = file.read_text()

    def changed(change: Callable[[dict[str, object]], object]) -> str:
        content = json.loads(whole)
        change(content)
        file.write_text(json.dumps(content))
        return assert_fails(copied)

    assert "format 1" in changed(lambda content: content.update(format=2))
    assert "interface 1" in changed(lambda content: content.update(abi=9))
    assert "lie beside it" in changed(lambda content: content["weights"].update(file="../free.weights"))  # type: ignore[attr-defined]
    assert "name in C" in changed(lambda content: content.update(name="../../evil"))
    for key in json.loads(whole):
        changed(lambda content, key=key: content.pop(key))
        if key not in ("source", "stepwell", "sizes_known_only_by_a_run", "workspace_bytes"):
            changed(lambda content, key=key: content.update({key: 1.5}))
    changed(lambda content: content["inputs"][0].update(dtype="wide"))  # type: ignore[index]
    for end in RANDOM.integers(0, len(whole) - 2, 10):
        file.write_text(whole[:end])
        assert_fails(copied)
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in assert_fails(copied)


def test_a_library_of_something_else_is_noticed(copied: Path) -> None:
    library = copied / "libfree.so"
    library.write_bytes(b"no library")
    assert "libfree.so" in assert_fails(copied)
    shutil.copy(ctypes.CDLL(None)._name or "/lib/x86_64-linux-gnu/libm.so.6", library)
    assert "free_" in assert_fails(copied)


def test_senseless_tensors_and_options_are_refused(made: Path) -> None:
    model = stepwell.load(made, threads=1)
    context = model._taken()
    run = model._interface.run

    def refused(expected: str, **fields: object) -> None:
        ins, outs = (Tensor * 2)(), (Tensor * 3)()
        arrays = [np.zeros((3, 8), np.float32), np.zeros((3, 2), np.float32)]
        for tensor, array in zip(ins, arrays, strict=True):
            tensor.data, tensor.bytes, tensor.dtype, tensor.rank = array.ctypes.data, array.nbytes, 1, 2
            tensor.shape[:2] = array.shape
        for name, value in fields.items():
            if name == "shape":
                for at, size in enumerate(value):  # type: ignore[arg-type]
                    ins[0].shape[at] = size
            else:
                setattr(ins[0], name, value)
        status = run(context.handle, ins, outs)
        assert status
        assert expected in str(model._interface.error(status, context.handle))

    refused("expected elements of type 1, got 77", dtype=77)
    refused("got another rank", rank=-1)
    refused("got another rank", rank=MAX_RANK + 1)
    refused("expected nx8", rank=0)
    refused("expected nx8, got -1x8", shape=(-1, 8))
    refused("bytes at a multiple of 4", shape=(1 << 62, 8))
    refused("bytes at a multiple of 4", shape=((1 << 61) - 1, 8))
    refused("bytes at a multiple of 4", bytes=4)
    refused("bytes at a multiple of 4", data=None)
    refused("at a multiple of 4", data=4097)
    for _ in range(300):
        shape = [int(RANDOM.choice([-(1 << 63), -1, 0, 1, 3, 8, 1 << 31, 1 << 40, (1 << 63) - 1])) for _ in range(2)]
        if shape != [3, 8]:
            refused("", shape=shape)
    model._contexts.append(context)


def test_structs_of_another_version_are_refused(made: Path) -> None:
    library = ctypes.CDLL(str(made / "libfree.so"))
    message, model, weights = ctypes.create_string_buffer(256), ctypes.c_void_p(), os.fsencode(made / "free.weights")
    for options in ((2, 16, 152, 0), (1, 12, 152, 0), (1, 16, 24, 0)):
        assert library.free_open(weights, (ctypes.c_uint32 * 4)(*options), ctypes.byref(model), message, 256) == 1
        assert b"another header" in message.value
        assert not model
    assert library.free_open(weights, None, None, message, 256) == 1
    assert library.free_open(None, None, ctypes.byref(model), message, 256) == 1
    assert library.free_open(weights, None, ctypes.byref(model), None, 0) == 0
    context = ctypes.c_void_p()
    for threads, size in ((0, 32), (1025, 32), (1, 24)):
        given = (ctypes.c_int32 * 8)(size, threads, -1, 0, 0, 0, 0, 0)
        assert library.free_context_new(model, given, ctypes.byref(context), message, 256) == 1
        assert not context
    assert library.free_run(None, None, None) == 1
    library.free_close(model)
    library.free_close(None)


def test_a_bundle_that_is_written_again_is_loaded_anew(tmp_path: Path) -> None:
    """The system goes by the name of a library, and would go on with the old one."""
    feed = {"x": np.linspace(-1, 1, 4, dtype=np.float32)}

    def write(operator: str) -> Path:
        text = f'{bundle_models.HEAD}one (float[4] x) => (float[4] y) {{ y = {operator}(x) }}'
        return stepwell.bundle(bundle_models.with_weights(text), tmp_path / "one", prefix="one", kinds=("shared",))

    model = stepwell.load(write("Neg"), threads=1)
    np.testing.assert_array_equal(model.run(feed)["y"], -feed["x"])
    folder = write("Abs")
    with pytest.raises(ModelError, match="was replaced after this process had loaded it; close the models of the one before first"):
        stepwell.load(folder)
    model.close()
    np.testing.assert_array_equal(stepwell.load(folder, threads=1).run(feed)["y"], np.abs(feed["x"]))


def test_a_machine_without_the_instructions_is_refused(tmp_path: Path) -> None:
    """As if it were one: a bit of `cpuid` that no machine sets stands for a feature."""
    folder = stepwell.bundle(FREE.model, tmp_path / "free", prefix="free", kinds=("object",))
    tables = folder / "free_tables.h"
    text = tables.read_text()
    place = text.index("static const struct feature features[] = {{")
    end = text.index("}", place)
    tables.write_text(f'{text[:place]}static const struct feature features[] = {{{{"sse99", 1, 0, 2, 16{text[end:]}')
    tools = find_tools(host())
    tools.compile(folder / "free.c", folder / "runtime.o")
    tools.link([folder / "runtime.o", folder / "free.o"], folder / "libfree.so", "free")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"files": ["libfree.so"]}))
    assert "this machine lacks sse99" in assert_fails(folder, error=UnsupportedError)
    with pytest.raises(InputError):
        stepwell.load(folder, threads=0)
