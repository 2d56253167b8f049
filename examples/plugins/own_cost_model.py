"""A cost model: a class that predicts the costs of candidates, for one kind of choice or for all.

    stepwell inspect model.onnx --explain conv1 --load examples/plugins/own_cost_model.py

This one models a machine with slow memory, on which only bytes count: of Winograd's tiles it chooses the one with the smallest filters.
"""

from collections.abc import Sequence

import numpy as np

from stepwell.plugin import Candidate, Site, register_cost_model

BYTES_PER_SECOND = 1.0e8


@register_cost_model("winograd")
class SlowMemory:
    """Predicts that a convolution takes as long as reading its filters."""

    def predict(self, site: Site, candidates: Sequence[Candidate]) -> Sequence[float | None]:
        """Seconds for each candidate; `stored` is the number of its filter elements of four bytes each."""
        return [4 * candidate.features["stored"] / BYTES_PER_SECOND for candidate in candidates]


if __name__ == "__main__":
    import small_models

    import stepwell

    random = np.random.default_rng(0)
    x, w = random.standard_normal((1, 64, 28, 28), np.float32), random.standard_normal((64, 64, 3, 3), np.float32)
    model = small_models.chain([("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]})], x, np.empty_like(x), w=w)
    text = stepwell.lower(model, "graph-opt", target="x86-64-v3").text()
    assert '"packed.winograd_conv"' not in text, "the filters of the direct method are the smallest"
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    small_models.check(model, x, np.einsum("nchwyx,fcyx->nfhw", windows, w))
