"""Files of arrays: what is read of them, what a damaged one gives, and what an array of any name is saved as."""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from stepwell.analysis.archives import Archive, npz_bytes, read_npy
from stepwell.dialects.support.errors import InputError, LimitError, StepwellError
from stepwell.dialects.support.limits import Limits
from stepwell.dialects.support.names import file_names, printable
from stepwell.quantizer.samples import Samples


def test_what_is_saved_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    names = ["x", "file", "allow_pickle", "args", "a/b", "X", "é", "a:0"]
    odd = ["../x", "/etc/x", "", ".", "..", "a//b", "a\\b", "x.npy", "n\nm", "n\\nm", "l" * 999]
    names += odd
    arrays = {name: np.full((2, 3), i, np.float32) for i, name in enumerate(names)}
    data, chosen = npz_bytes(arrays)
    (tmp_path / "a.npz").write_bytes(data)
    members = zipfile.ZipFile(BytesIO(data)).namelist()
    assert len(set(members)) == len(names)
    for member in members:
        assert member.isprintable()
        assert not member.startswith("/")
        assert not {"", ".", ".."} & set(member.removesuffix(".npy").split("/"))
        assert len(member.encode()) < 255
    assert [name for name, text in chosen.items() if name != text] == odd
    read, by_numpy = Archive(tmp_path / "a.npz"), np.load(tmp_path / "a.npz")
    for i, name in enumerate(names):
        assert read[chosen[name]][0, 0] == by_numpy[chosen[name]][0, 0] == i, name


def test_names_of_files_stay_in_their_folder() -> None:
    found = file_names(["a/b", "a_b", "../c", "", "x" * 500, "\x1b"])
    assert found == {"a/b": "a_b.1", "a_b": "a_b", "../c": ".._c", "": "unnamed", "x" * 500: "x" * 200, "\x1b": "_x1b"}


def bomb(path: Path, rows: int) -> Path:
    """A small archive with an array of `rows` times 1 kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("x.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (rows, 256)})
        for _ in range(rows >> 12):
            member.write(bytes(1 << 22))
    return path


def test_no_more_is_unpacked_than_is_needed_and_than_limits_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bomb(tmp_path / "bomb.npz", rows=1 << 14)
    sides = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 256])]
    model = helper.make_model(helper.make_graph([], "g", sides, []))
    unpacked: list[int] = []

    def read(file: zipfile.ZipExtFile, n: int | None = -1, actual: Any = zipfile.ZipExtFile.read) -> bytes:
        data: bytes = actual(file, n)
        unpacked.append(len(data))
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", read)
    assert [batch["x"].shape for batch in Samples.from_data(path, model, batch=4, limit=2)] == [(4, 256)] * 2
    archive = Archive(path, Limits(value_bytes=1 << 20))
    assert archive.shape("x") == (1 << 14, 256)
    assert archive.rows("x", 3).shape == (3, 256)
    with pytest.raises(LimitError, match="value_bytes"):
        archive["x"]
    assert 8 * 1024 <= sum(unpacked) < 1 << 16


def test_damage_of_any_kind_is_one_typed_error(tmp_path: Path) -> None:
    """Each byte of a small archive changed or all behind it gone, headers of arrays that lie, kinds of archives that are not read."""
    buffer = BytesIO()
    np.savez_compressed(buffer, x=np.arange(60, dtype=np.float32).reshape(5, 12))
    whole, path = buffer.getvalue(), tmp_path / "a.npz"
    rng = np.random.default_rng(3)
    cases = [whole[:cut] for cut in range(0, len(whole), 9)]
    cases += [bytes([*whole[:at], *rng.integers(0, 256, 2, np.uint8), *whole[at + 2 :]]) for at in range(0, len(whole) - 2, 2)]
    for method in (99, 97, 14):  # no such compressions, or one whose stream that is not
        cases.append(whole[:8] + method.to_bytes(2, "little") + whole[10:])
    central = whole.rindex(b"PK\x01\x02")
    cases.append(whole[:6] + b"\x01\x00" + whole[8 : central + 8] + b"\x01\x00" + whole[central + 10 :])  # encrypted
    for header in (
        *(b"{'descr': %s, 'fortran_order': False, 'shape': (%s,)}" % (kind, size) for kind, size in (
            (b"'<f4'", b"1000000000000, 1000000000000"), (b"'<f4'", b"-1"), (b"'|O'", b"1"), (b"'<f4'", b"9" * 5000), (b"[('a', '<f4')]", b"1"),
        )),
        b"(" * 3000, b"{'descr': '", b"\xff\xfe", b"[" * 200 + b"]" * 200,
    ):  # fmt: skip
        npy = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n"
        made = BytesIO()
        with zipfile.ZipFile(made, "w") as file:
            file.writestr("x.npy", npy)
        cases += [made.getvalue()]
        (tmp_path / "x.npy").write_bytes(npy)
        with pytest.raises(StepwellError) as refused:
            read_npy(tmp_path / "x.npy")
        assert printable(str(refused.value)) == str(refused.value)
    refusals = []
    for case in cases:
        path.write_bytes(case)
        try:
            for array in Archive(path).values():
                assert array.nbytes <= 240
        except (InputError, LimitError) as error:
            refusals.append(str(error))
    assert len(refusals) > len(cases) * 0.8
    assert [text for text in refusals if str(path) not in text or not text.isprintable()] == []
