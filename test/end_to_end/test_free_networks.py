"""Networks with free sizes against ONNX Runtime: one program for a dozen sizes in random order, on one and two threads, and from several at once."""

import functools
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from covering import by_day
from together import together

import networks
import stepwell

pytestmark = pytest.mark.optimised

TOLERANCE = 2e-6  # of the output's scale: the largest difference over the largest value
Run = tuple[dict[str, np.ndarray], list[np.ndarray]]


@functools.cache
def small(name: str) -> onnx.ModelProto:
    network = networks.FREE[name]
    return network.build(0, **network.small)


@functools.cache
def runs(name: str) -> list[Run]:
    """Inputs of each of a network's sizes, in random order, and what ONNX Runtime gives for them."""
    network, source = networks.FREE[name], small(name)
    session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    count = len(next(iter(network.sizes.values())))
    made = []
    for i in np.random.default_rng(len(name)).permutation(count):
        feed = network.inputs(source, {symbol: numbers[i] for symbol, numbers in network.sizes.items()}, int(i))
        if "lengths" in feed:  # of sequences: none is longer than there are steps
            feed["lengths"] = np.minimum(feed["lengths"] + 1, feed["source"].shape[1]).astype(feed["lengths"].dtype)
        made.append((feed, session.run(None, feed)))
    assert count >= 12
    return made


def check(got: dict[str, np.ndarray], want: list[np.ndarray]) -> None:
    for ours, theirs in zip(got.values(), want, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        assert np.abs(ours.astype(np.float64) - theirs).max(initial=0) <= TOLERANCE * np.abs(theirs).max(initial=1)


# What the symbols of some outputs are.
TOLD: dict[str, dict[str, tuple[Any, ...]]] = {
    "ocr": {"scores": ("width // 4", "batch", 11)}, "encoder": {"hidden": ("batch", "sequence", 48)},
    "translator": {"logits": ("batch", "target_length", 31)},
    "gpt": {"logits": ("batch", "sequence", 101), "present.1.value": ("batch", 6, "past + sequence", 8)},
    "llama": {"output": ("batch", "sequence", 48), "present.0.key": ("batch", 2, "past + sequence", 8)},
    "llama_fused": {"output": ("batch", "sequence", 64), "present.0.key": ("batch", 2, "max(past, total)", 16)},
    "detector": {"selected": ("suppression_out_0", 3)},
}  # fmt: skip


IN_OTHER_TESTS = ("llama", "llama_fused", "ocr")  # by day: decoders in test_bound_state.py, images in test_images_of_all_sizes.py


@pytest.mark.parametrize("name", by_day(networks.FREE, lambda name: name not in IN_OTHER_TESTS))
def test_a_dozen_sizes_in_random_order(name: str) -> None:
    """One after the other, then from several threads at once."""
    levels: list[str] = []
    model: Any = stepwell.compile(small(name), specialise="never", threads=2, on_level=lambda level, seconds: levels.append(level))
    assert TOLD[name].items() <= {info.name: info.shape for info in model.outputs}.items()
    made = len(levels)
    for threads in (1, 2):
        for feed, want in runs(name):
            one = model.specialise({key: array.shape for key, array in feed.items()})
            one.threads = threads
            check(one.run(feed), want)

    def work(number: int) -> None:
        for feed, want in runs(name)[number::2] + runs(name)[: number + 1]:
            check(model.run(feed), want)

    together(*(partial(work, i) for i in range(4)))
    assert len(levels) == made, "something was compiled for sizes"


@pytest.mark.nightly  # by day test_bound_state.py
def test_tokens_one_by_one_give_what_all_at_once_do() -> None:
    """A prompt and then a token at a time, the cache of one call given to the next."""
    model: Any = stepwell.compile(small("gpt"), specialise="never", threads=1)
    tokens = np.random.default_rng(3).integers(0, 101, (1, 12))
    empty = {info.name: np.zeros((1, 6, 0, 8), np.float32) for info in model.inputs[1:]}
    whole = model.run({"input_ids": tokens, **empty})
    cache, logits = empty, []
    for part in (tokens[:, :5], *np.split(tokens[:, 5:], 7, axis=1)):
        given = model.run({"input_ids": part, **cache})
        logits.append(given.pop("logits"))
        cache = {name.replace("present", "past_key_values"): array for name, array in given.items()}
    check({"logits": np.concatenate(logits, axis=1)}, [whole.pop("logits")])
    check({name.replace("past_key_values", "present"): array for name, array in cache.items()}, list(whole.values()))
