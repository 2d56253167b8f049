"""Bundles for other machines give the bits that this machine gives for the same schedules: qemu runs them."""

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import bundle_models
import numpy as np
import pytest
from bundle_models import Case
from cross_bundles import MACHINES, needs, outputs_of

import stepwell

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="compares with code for x86-64")


def expected_of(case: Case, target: str) -> list[np.ndarray]:
    """What this machine computes by the schedules for the target."""
    options: Mapping[str, object] = {**case.options, "target": target, "specialise": "never"}
    model = stepwell.compile(case.model, threads=1, **options)  # type: ignore[arg-type]
    return [array for feed in case.feeds for array in model.run(feed).values()]


def assert_equal(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert [(array.dtype, array.shape) for array in got] == [(array.dtype, array.shape) for array in expected]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("target", MACHINES)
def test_another_machine_gives_the_same_bits(target: str, tmp_path: Path) -> None:
    needs(target)
    for case in bundle_models.plain_cases():
        if case.name == "halves" and target == "riscv64-v":
            continue  # the library of GCC 12 for RISC-V has no conversions of f16
        assert_equal(outputs_of(case, target, tmp_path), expected_of(case, target))
    threaded = bundle_models.plain_cases()[0]
    assert_equal(outputs_of(threaded, target, tmp_path, threads=2), expected_of(threaded, target))


def test_without_a_cross_compiler_there_is_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    case = bundle_models.plain_cases()[0]
    with pytest.raises(stepwell.ResourceError, match=r"there is no riscv64-linux-gnu-gcc \(on Debian: apt install gcc-riscv64-linux-gnu\)"):
        stepwell.bundle(case.model, tmp_path / "no", prefix="mlp", target="riscv64-v")
    made = stepwell.bundle(case.model, tmp_path / "yes", prefix="mlp", target="riscv64-v", kinds=("object",))
    head = (made / "mlp.o").read_bytes()[:20]
    assert head[:4] == b"\x7fELF"
    assert int.from_bytes(head[18:20], "little") == 243
    with pytest.raises(stepwell.UnsupportedError, match="a bundle for target wasm32-simd128 is not supported; supported: machines of"):
        stepwell.bundle(case.model, tmp_path / "wasm", prefix="mlp", target="wasm32-simd128")
