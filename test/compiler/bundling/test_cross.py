"""Bundles for other machines give the bits that this machine gives for the same schedules: qemu runs them."""

import platform
from pathlib import Path

import bundle_models
import crossing
import pytest

import stepwell

OURS = bundle_models.casts_case(), bundle_models.bytes_case(), bundle_models.sums_case()
CASES = {case.name: case for case in (*bundle_models.plain_cases(), *OURS)}
SOME = {"aarch64-dotprod": ("mlp", "bytes", "sums"), "x86-64-v2": ("mlp", "casts"), "x86-64-v3": ("mlp", "casts"), "x86-64-v4": ("mlp",)}
"""The cases for targets that differ little from others; those others have all."""


@pytest.mark.parametrize("target", crossing.EMULATED)
def test_another_machine_gives_the_same_bits(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lacks an instruction that the target has gives an error."""
    emulated = crossing.needed(target)
    made = {}
    for name in SOME.get(target, CASES):
        case = CASES[name]
        made[name] = crossing.program(crossing.made_bundle(case, target, tmp_path), name, target)
        if emulated.has:
            like = "host" if name == "bytes" else target  # integers are the same by any schedule, and instructions for them are not of this machine
            crossing.assert_equal(crossing.outputs(made[name], target, case.feeds), crossing.expected(case, like))
        monkeypatch.setenv("CFLAGS", crossing.FAST)  # one run time that is compiled as usual is enough
    case = CASES["mlp"]
    if emulated.machine != platform.machine():
        crossing.assert_equal(crossing.outputs(made["mlp"], target, case.feeds, threads=2), crossing.expected(case, target))
    if emulated.missing:
        done = crossing.emulate(made["mlp"], target, case.feeds, lacking=True)
        assert (done.returncode, done.stderr) == (1, f"mlp: this machine lacks {emulated.missing}, which the code needs\n")


def test_code_for_another_machine_is_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path) -> None:
    case = CASES["halves"]
    mapped = {"prefix": "halves", "kinds": ("object",)}
    stepwell.compile(case.model, target="riscv64-v", same_data_sizes=False)  # for this machine, otherwise like the bundle
    first = stepwell.bundle(case.model, tmp_path / "first", target="riscv64-v", **mapped)  # type: ignore[arg-type]
    other = stepwell.bundle(case.model, tmp_path / "other", target="aarch64-neon", **mapped)  # type: ignore[arg-type]
    kept = sorted(cache_folder.rglob("objects/*/*"))

    def refuse(*_: object) -> bytes:
        raise AssertionError("code is compiled that the cache has")

    monkeypatch.setattr("stepwell.backends.llvm_cpu.emitters.object_of_text", refuse)
    monkeypatch.setattr("stepwell.bundling.helpers.object_of_text", refuse)
    second = stepwell.bundle(case.model, tmp_path / "second", target="riscv64-v", **mapped)  # type: ignore[arg-type]
    assert sorted(cache_folder.rglob("objects/*/*")) == kept
    codes = [(folder / "halves.o").read_bytes() for folder in (first, second, other)]
    assert [int.from_bytes(code[18:20], "little") for code in codes] == [243, 243, 183]
    assert codes[0] == codes[1]
    with pytest.raises(AssertionError, match="code is compiled"):
        stepwell.bundle(case.model, tmp_path / "uncached", target="riscv64-v", cache=False, **mapped)  # type: ignore[arg-type]


def test_without_a_cross_compiler_there_is_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    case = CASES["mlp"]
    with pytest.raises(stepwell.ResourceError, match=r"there is no riscv64-linux-gnu-gcc \(on Debian: apt install gcc-riscv64-linux-gnu\)"):
        stepwell.bundle(case.model, tmp_path / "no", prefix="mlp", target="riscv64-v")
    made = stepwell.bundle(case.model, tmp_path / "yes", prefix="mlp", target="riscv64-v", kinds=("object",))
    head = (made / "mlp.o").read_bytes()[:20]
    assert head[:4] == b"\x7fELF"
    assert int.from_bytes(head[18:20], "little") == 243
