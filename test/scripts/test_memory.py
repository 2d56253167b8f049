"""Compiling a model takes memory for its weights once, and little more: a second copy of them would not fit the bound. Nor would one for callers."""

from pathlib import Path

import bundle_models as models
import memory
import numpy as np
import onnx
import pytest

import stepwell

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


@pytest.mark.parametrize("kind", ["bundle", "model"])
def test_callers_share_the_weights_and_have_a_workspace_each(kind: str, tmp_path: Path) -> None:
    rows, inner, count = 512, 8192, 6
    text = models.HEAD + f"wide (float[{rows}, 256] x) => (float[{rows}, 256] y) {{ a = MatMul(x, v) b = Tanh(a) y = MatMul(b, w) }}"
    made = models.with_weights(text, v=np.ones((256, inner), np.float32), w=np.ones((inner, 256), np.float32))
    path, cache = tmp_path / "wide.onnx", tmp_path / "cache"
    onnx.save(made, path)
    if kind == "bundle":
        path = stepwell.bundle(made, tmp_path / "bundle", kinds=("shared",))
    else:
        memory.measure_contexts(kind, path, 1, cache)  # fills the cache
    found = memory.measure_contexts(kind, path, count, cache)
    workspaces = count * found["workspace"]
    assert found["workspace"] >= rows * inner * 4
    assert found["weights"] >= 2 * 256 * inner * 4
    assert workspaces <= found["own"] <= 1.15 * workspaces
    assert workspaces <= found["grown"] <= found["weights"] + workspaces + memory.BESIDE_CONTEXTS
