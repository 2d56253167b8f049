"""Bundles for many callers: a stream has a context, with its workspace, its state and its threads."""

import time
from concurrent.futures import CancelledError
from pathlib import Path

import bundle_models as models
import numpy as np
import pytest
from bundle_models import plain_cases, with_weights

import stepwell
from stepwell.dialects.support.errors import DeadlineError, InputError

SECONDS = 30.0


def bundle_of(model: object, folder: Path, **options: object) -> stepwell.BundledModel:
    return stepwell.load(stepwell.bundle(model, folder, prefix="made", kinds=("shared",), **options), threads=1)  # type: ignore[arg-type]


def test_streams_share_the_weights_and_have_a_context_each(tmp_path: Path) -> None:
    case = next(case for case in plain_cases() if case.name == "mlp")
    made = bundle_of(case.model, tmp_path)
    expected = [made.run(feed) for feed in case.feeds]
    with made.streams(2, threads=2) as streams:
        futures = [streams.submit(case.feeds[i % 3], caller=i) for i in range(60)]
        for i, future in enumerate(futures):
            assert [array.tobytes() for array in future.result(SECONDS).values()] == [array.tobytes() for array in expected[i % 3].values()]
        each = made.context_bytes
        assert each <= streams.workspace_bytes / 2 <= 1.5 * each
        y = np.empty((3, models.WIDTH), np.float32)
        assert streams.submit(case.feeds[0], out={"y": y}).result(SECONDS)["y"] is y
        with pytest.raises(InputError, match="unknown output 'z'"):
            streams.submit(case.feeds[0], out={"z": y}).result(SECONDS)
    assert streams.workspace_bytes == 0
    assert len(made._contexts) == 1
    with made.streams("auto", callers=2) as streams:
        assert "most requests a second" in streams.choice.why or "too short" in streams.choice.why or "faster by less" in streams.choice.why


def test_a_run_in_a_loop_ends(tmp_path: Path) -> None:
    made, feed = bundle_of(with_weights(models.ENDLESS), tmp_path), {"x": np.ones(8, np.float32), "rounds": np.array(1 << 39)}
    begun = time.monotonic()
    with made.streams(2) as streams:
        running, late = streams.submit(feed), streams.submit(feed, deadline=0.05)
        with pytest.raises(DeadlineError, match="while the request ran"):
            late.result(SECONDS)
        assert not running.cancel()
        with pytest.raises(CancelledError):
            running.result(SECONDS)
        assert streams.submit({**feed, "rounds": np.array(3)}).result(SECONDS)["y"].tolist() == [1.0] * 8
    assert time.monotonic() - begun < SECONDS


def test_each_stream_has_a_state(tmp_path: Path) -> None:
    case = models.cell_case()
    made = bundle_of(case.model, tmp_path, **case.options)
    expected = [made.run(feed)["y"].tobytes() for feed in case.feeds]
    made.reset()
    assert made.keeps_state
    with made.streams(2) as streams:
        got = {caller: [streams.submit(feed, caller=caller) for feed in case.feeds] for caller in "ab"}
        for futures in got.values():
            assert [future.result(SECONDS)["y"].tobytes() for future in futures] == expected
        with pytest.raises(InputError, match="expected at most 2 callers"):
            streams.submit(case.feeds[0], caller="c")
        streams.release("b")
        assert streams.submit(case.feeds[0], caller="c").result(SECONDS)["y"].tobytes() == expected[0]
    assert made.run(case.feeds[0])["y"].tobytes() == expected[0]
