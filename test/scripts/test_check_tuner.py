"""scripts/check_tuner.py tunes networks whose candidates all have the code of the default."""

import re
from pathlib import Path

import check_tuner
import pytest

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"


def test_candidates_of_the_same_code_are_tried_and_none_is_confirmed(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_tuner.main([str(DIGITS), "--shape", "image=1x1x8x8", "--runs", "1", "--budget", "2s"]) == 0
    said = re.fullmatch(r"digits, seed 0: (\d+) candidates tried, confirmed: nothing\n0 of 1 confirmed\n", capsys.readouterr().out)
    assert said is not None
    assert int(said[1]) > 2


def test_a_network_that_is_missing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_tuner.main(["none.onnx"]) == 1
    assert "none.onnx" in capsys.readouterr().err
