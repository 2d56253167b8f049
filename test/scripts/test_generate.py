"""scripts/generate.py compares how fast decoders generate."""

from functools import partial

import generate
import pytest

import networks


@pytest.mark.parametrize("name", ["gpt", pytest.param("llama_fused", marks=pytest.mark.nightly)])
def test_a_line_for_each_engine(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    network = networks.FREE[name]
    small = networks.FreeNetwork(partial(network.build, **network.small), {}, network.sizes)
    monkeypatch.setitem(networks.FREE, name, small)
    monkeypatch.setattr(generate, "PAUSE", 0)
    monkeypatch.setattr(generate, "BLOCK", 1 << 16)
    assert generate.main([name, "--prompt", "3,5", "--tokens", "4", "--threads", "1", "--rounds", "1", "--cpu"]) == 0
    _, title, _, *lines, last = capsys.readouterr().out.splitlines()
    assert title.startswith(f"{name}, 1 thread: ")
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    ours = [line.split() for line in lines if line.split()[1] == "stepwell"]
    assert [line[0] for line in ours] == ["3", "5"]
    assert all(len(line) == 7 for line in ours)
    assert float(last.split()[-1]) > 0


def test_usage() -> None:
    for wrong in (["bert"], ["--cpu", "--threads", "1,2"], ["--prompt", "x"]):
        with pytest.raises(SystemExit, match="2"):
            generate.main(wrong)
