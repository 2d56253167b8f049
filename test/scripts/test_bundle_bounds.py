"""scripts/bundle_bounds.py measures what bundles must keep to, and fails where a bound is exceeded."""

from pathlib import Path

import bundle_bounds
import pytest


def test_digits_keeps_to_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = [*bundle_bounds.size(tmp_path, tmp_path), *bundle_bounds.symbols(tmp_path, tmp_path)]
    assert all(one.holds for one in found), found
    assert found[-1].measured == "17 names, 0 not in the header"
    monkeypatch.setattr(bundle_bounds, "SIZE", 1000)
    assert bundle_bounds.main(["--only", "size"]) == 1
    assert "EXCEEDED" in capsys.readouterr().out


def test_opening_reads_no_weights(tmp_path: Path) -> None:
    folder = bundle_bounds.digits(tmp_path).parent
    found = bundle_bounds.child(folder, 2)
    assert found["touched"] <= 1 << 12
    assert found["read"] >= found["weights"] > 1 << 15
    assert 0 < found["contexts"] < found["run"]
