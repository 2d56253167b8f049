"""Every graph op in bundles for other machines: the sample of test_native_ops gives the bits that this machine gives for the same schedules."""

from pathlib import Path

import check_ops
import crossed_ops
import crossing
import pytest
from guarded import NAMED
from native_ops import NOT_NATIVE, SAMPLE, instances
from op_cases import LEFT_OUT, with_cases

NOT_EMULATED = {"riscv64-v": {"mod": "qemu 7.2 ends itself at a remainder of vectors (`Assertion ctx->insn_start != NULL`)"}}
"""The ops that qemu cannot run, and why."""
AT_NIGHT = [pytest.param(target, 1, marks=pytest.mark.nightly) for target in ("aarch64-neon", "riscv64-v")]


@pytest.mark.parametrize(("target", "every"), [("aarch64-neon", 16), *AT_NIGHT])
def test_ops_on_another_machine(target: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crossing.needed(target)
    monkeypatch.setenv("CFLAGS", crossing.FAST)
    mnemonics = [m for m in with_cases() if m not in {*LEFT_OUT, *NOT_NATIVE, *NOT_EMULATED.get(target, ())}]
    cases = [single for m in mnemonics for single in instances(m, NAMED, first=SAMPLE)][::every]
    assert len(cases) > 500 / every
    wrong = crossed_ops.problems(cases, target, tmp_path)
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


def test_the_script_runs_cases_on_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    crossing.needed("riscv64-v")
    assert check_ops.main(["--op", "exp", "--row", "1", "--machine", "riscv64-v"]) == 0
    assert "riscv64-v, plain: 1 cases, 0 wrong" in capsys.readouterr().out
