"""Selecting and placing elements: top-k and sorting, gather and scatter, non-maximum suppression."""

from collections.abc import Iterator

import numpy as np

from benchmark.operators.case import Case, Fill, below, constant, distinct, given, op, uniform, weight


def cases() -> Iterator[Case]:
    """Top-k, sorting, gather, scatter, suppression."""

    def top(origin: str, shape: tuple[int, ...], k: int, axis: int = -1) -> Case:
        return op("TopK", origin, given(*shape), constant([k]), outputs=["float32", "int64"], opset=11, note=f"k={k} axis={axis}", axis=axis)

    yield top("classifier, batch of 64", (64, 1000), 5)
    yield top("sampling, GPT-2", (4, 50257), 50)
    yield top("RetinaNet candidates", (1, 120087), 1000)
    yield top("sorting all", (1, 10000), 10000)
    yield top("sorting rows", (64, 1000), 1000)
    yield top("experts, over channels", (1, 64, 4096), 4, axis=1)
    yield from gathers()
    yield from scatters()
    anchors = given(1, 1000, 4, fill=corners)
    scores = given(1, 10, 1000, fill=uniform(0, 1))
    limits = [constant([50]), constant([0.5], "float32"), constant([0.6], "float32")]
    yield op("NonMaxSuppression", "SSD, 1000 boxes and 10 classes", anchors, scores, *limits, outputs=["int64"], opset=11, note="at most 50")


def gathers() -> Iterator[Case]:
    """Rows of tables, single elements, and slices by several indices."""
    yield op("Gather", "embedding, 512 tokens", weight(8192, 768), given(1, 512, dtype="int64", fill=below(8192)), outputs=["float32"])
    yield op("Gather", "channels, shuffled", given(1, 256, 56, 56), constant(np.random.default_rng(0).permutation(256)), axis=1)
    yield op("Gather", "columns, relative positions", given(512, 1024), given(256, dtype="int64", fill=below(1024)), axis=1)
    yield op("GatherElements", "boxes of the best", given(1, 8400, 4), given(1, 8400, 4, dtype="int64", fill=below(8400)), opset=13, axis=1)
    yield op("GatherElements", "sorted rows", given(64, 1024), given(64, 1024, dtype="int64", fill=below(1024)), opset=13, axis=1)
    yield op("GatherND", "pixels of points", given(64, 64, 128), given(2048, 2, dtype="int64", fill=below(64)), opset=13)
    yield op("GatherND", "tokens of a batch", given(8, 512, 256), given(8, 64, 1, dtype="int64", fill=below(512)), opset=13, batch_dims=1)


def scatters() -> Iterator[Case]:
    """Into rows and elements, set and combined."""
    rows = given(64, 256, dtype="int64", fill=distinct(1024))
    yield op("ScatterElements", "mask by rank", given(64, 1024), rows, given(64, 256), opset=18, axis=1)
    repeated = given(64, 1024, dtype="int64", fill=below(1024))
    yield op("ScatterElements", "histogram", given(64, 1024), repeated, given(64, 1024), opset=18, axis=1, reduction="add")
    edges = given(8192, 32, dtype="int64", fill=below(2048))
    yield op("ScatterElements", "graph network, messages", given(2048, 32), edges, given(8192, 32), opset=18, axis=0, reduction="add")
    yield op("ScatterElements", "graph network, largest", given(2048, 32), edges, given(8192, 32), opset=18, axis=0, reduction="max")
    voxels = given(4096, 1, dtype="int64", fill=below(8192))
    yield op("ScatterND", "PointPillars", given(8192, 64), given(4096, 1, dtype="int64", fill=unique(8192)), given(4096, 64), opset=18)
    yield op("ScatterND", "voxel features, added", given(8192, 64), voxels, given(4096, 64), opset=18, reduction="add")
    yield op("ScatterND", "single pixels", given(64, 64, 64), given(4096, 3, dtype="int64", fill=below(64)), given(4096), opset=18, reduction="max")


def unique(end: int) -> Fill:
    """Indices below `end` for the rows of an (n, 1) tensor, none twice."""
    return lambda random, shape: random.permutation(end)[: shape[0]].reshape(shape)


def corners(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Boxes (y1, x1, y2, x2) in the unit square."""
    low, extent = random.uniform(0, 0.8, (*shape[:-1], 2)), random.uniform(0.02, 0.2, (*shape[:-1], 2))
    return np.concatenate([low, low + extent], axis=-1)
