"""Operators that move data without computing."""

from collections.abc import Iterator, Sequence

from benchmark.operators.case import Case, constant, given, integers, op


def cases() -> Iterator[Case]:
    """Transpose, and what joins, cuts, fills and repeats."""
    yield from transposes()
    yield op("Concat", "YOLO neck", given(1, 128, 40, 40), given(1, 256, 40, 40), axis=1)
    yield op("Concat", "DenseNet block", *(given(1, 32, 56, 56) for _ in range(6)), axis=1)
    yield op("Concat", "rotary halves", given(1, 32, 128, 64), given(1, 32, 128, 64), axis=-1)
    yield op("Concat", "class token, batch of 8", given(8, 1, 768), given(8, 196, 768), axis=1)
    yield op("Split", "queries, keys and values of GPT-2", given(1, 256, 2304), outputs=3, axis=-1, num_outputs=3)
    yield op("Split", "ShuffleNet's branches", given(1, 232, 28, 28), outputs=2, axis=1, num_outputs=2)
    yield cut("YOLOv5 focus, every second column", (1, 3, 640, 640), [(0, 1 << 30, 2, 3)])
    yield cut("last token's neighbours", (8, 512, 768), [(256, 512, 1, 1)])
    yield cut("centre crop", (1, 3, 256, 256), [(16, 240, 1, 2), (16, 240, 1, 3)])
    yield cut("reversed time, bidirectional", (1, 512, 256), [(-1, -(1 << 30), -1, 1)])
    yield from pads()
    yield op("Tile", "class token of a ViT, batch of 256", given(1, 1, 768), constant([256, 1, 1]), note="256x1x1")
    yield op("Tile", "texture", given(1, 16, 64, 64), constant([1, 1, 2, 2]), note="1x1x2x2")
    yield op("Tile", "columns", given(1024, 16), constant([1, 16]), note="1x16")
    yield op("Expand", "keys of grouped queries", given(1, 8, 1, 256, 128), constant([1, 8, 4, 256, 128]), note="to 1x8x4x256x128")
    yield op("Expand", "mask over heads", given(1, 1, 1, 384), constant([1, 12, 384, 384]), note="to 1x12x384x384")
    yield op("Expand", "bias column", given(512, 1), constant([512, 512]), note="to 512x512")
    yield op("DepthToSpace", "ESPCN, times 2", given(1, 64, 128, 128), opset=13, blocksize=2, mode="CRD")
    yield op("DepthToSpace", "segmentation head, times 4", given(1, 64, 64, 64), opset=13, blocksize=4, mode="DCR")
    yield op("SpaceToDepth", "YOLOv2 reorganisation", given(1, 64, 52, 52), opset=13, blocksize=2)
    yield op("ReverseSequence", "padded batch", given(64, 8, 512), constant([64 - 3 * i for i in range(8)]), opset=10, time_axis=0, batch_axis=1)
    yield op("Trilu", "causal scores", given(1, 12, 256, 256), opset=14, upper=0)
    yield op(
        "OneHot",
        "tokens of a small vocabulary",
        given(1, 256, dtype="int64", fill=integers(0, 512)),
        constant(512),
        constant([0, 1], "float32"),
        outputs=["float32"],
        note="512 classes",
        opset=11,
    )


def transposes() -> Iterator[Case]:
    """Permutations as layouts, heads and windows need them."""

    def transpose(origin: str, shape: Sequence[int], perm: Sequence[int], dtype: str = "float32") -> Case:
        fill = {} if dtype.startswith("float") else {"fill": integers(0, 100)}
        return op("Transpose", origin, given(*shape, dtype=dtype, **fill), perm=list(perm))

    yield transpose("image to channels first", (1, 224, 224, 3), (0, 3, 1, 2))
    yield transpose("image to channels first, bytes", (1, 512, 512, 3), (0, 3, 1, 2), "uint8")
    yield transpose("feature map to channels last", (1, 64, 56, 56), (0, 2, 3, 1))
    yield transpose("heads of BERT base", (1, 384, 12, 64), (0, 2, 1, 3))
    yield transpose("keys of BERT base", (1, 384, 12, 64), (0, 2, 3, 1))
    yield transpose("matrix", (1024, 1024), (1, 0))
    yield transpose("matrix, half precision", (1024, 1024), (1, 0), "float16")
    yield transpose("windows of Swin", (1, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5))
    yield transpose("channel shuffle", (1, 2, 116, 784), (0, 2, 1, 3))
    yield transpose("sequence first", (8, 256, 512), (1, 0, 2))
    yield transpose("scores of SSD", (1, 24, 38, 38), (0, 2, 3, 1))


def cut(origin: str, shape: Sequence[int], ranges: Sequence[tuple[int, int, int, int]]) -> Case:
    """A Slice by (start, end, step, axis)."""
    starts, ends, steps, axes = zip(*ranges, strict=True)
    note = " ".join(f"axis {axis} from {start} by {step}" for start, _, step, axis in ranges)
    return op("Slice", origin, given(*shape), constant(starts), constant(ends), constant(axes), constant(steps), opset=13, note=note)


def pads() -> Iterator[Case]:
    """Borders of images, signals and sequences."""

    def pad(origin: str, shape: Sequence[int], pads: Sequence[int], mode: str) -> Case:
        return op("Pad", origin, given(*shape), constant(pads), note=f"{mode} {','.join(map(str, pads))}", mode=mode)

    yield pad("ResNet-50 stem", (1, 64, 112, 112), (0, 0, 1, 1, 0, 0, 1, 1), "constant")
    yield pad("style transfer", (1, 32, 128, 128), (0, 0, 4, 4, 0, 0, 4, 4), "reflect")
    yield pad("video frames", (1, 16, 180, 320), (0, 0, 6, 0, 0, 0, 6, 0), "edge")
    yield pad("HiFi-GAN", (1, 64, 4096), (0, 0, 3, 0, 0, 3), "reflect")
