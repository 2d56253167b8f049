"""Compiling a model takes memory for its weights once, and little more: a second copy of them would not fit the bound."""

from pathlib import Path

import memory
import numpy as np

SIZE, MATRICES = 2048, 16  # 16 MiB each
BESIDE = 200 << 20  # what importing, passes and code generation take


def test_weights_are_in_memory_once(tmp_path: Path) -> None:
    path = memory.write_model(tmp_path, MATRICES, SIZE)
    weights = (tmp_path / "weights.bin").stat().st_size
    assert weights == MATRICES * SIZE * SIZE * 4
    rows = np.memmap(tmp_path / "weights.bin", np.float32, mode="r").reshape(MATRICES, SIZE, SIZE)[:, 0].astype(np.float64)
    want = np.zeros(SIZE) + 1.0
    for row in rows:  # only the first row of each matrix is not zero
        want = want[0] * row
    for what in ("cold", "cached"):
        found = memory.measure(path, tmp_path / "cache")
        assert found["cached"] == (what == "cached")
        np.testing.assert_allclose(found["first"], want[0], rtol=1e-5)
        for when in ("compiled", "run"):
            assert found[when] - found["before"] < memory.FACTOR * weights + BESIDE, (what, when, found)
