"""Calibration: runs a network on samples, compiled with taps, and counts how large its values are. The counts are kept on disk."""

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path

import numpy as np
from onnx import ModelProto

from stepwell.analysis.archives import Archive
from stepwell.cache.disk import chosen_cache
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.errors import InputError, LimitError, ModelError, ResourceError
from stepwell.dialects.support.files import write_atomically
from stepwell.frontends.onnx.digest import message_digest
from stepwell.quantizer.graphs import Links
from stepwell.quantizer.histogram import BINS, Histogram
from stepwell.quantizer.samples import Samples
from stepwell.quantizer.taps import Tapped

KIND = "histograms"  # the kind of entries in the cache
_FORMAT = f"histograms 1 {BINS}"

OnBatch = Callable[[int, int], None]
"""Called with the number of finished batches, and their total number."""


def calibrate(
    model: ModelProto, names: Sequence[str], samples: Samples, *, file: str | PathLike[str] | None = None, cache: bool = True,
    threads: int | None = None, on_batch: OnBatch | None = None,
) -> dict[str, Histogram]:  # fmt: skip
    """A histogram of each of the values in `names`, over all samples.

    Histograms are kept in `file` (.npz), else in the cache if that is on, and read back, without a run, if model, samples and names are unchanged.
    `file` is overwritten if it holds those of something else. Raises InputError for samples that do not fit or a `file` without histograms,
    ModelError if a value is NaN or infinite, and the errors of `stepwell.compile`.
    """
    key = key_of(_FORMAT, message_digest(model), samples.digest(), *sorted(names))
    kept = _read_file(Path(file), key) if file is not None else _read_cache(key, cache)
    if kept is not None:
        return kept
    found = {name: Histogram() for name in names}
    tapped = Tapped(model, names, threads=threads, cache=cache)
    for index, batch in enumerate(samples.batches()):
        if on_batch is not None:
            on_batch(index, len(samples))
        for name, values in tapped.run(batch.inputs).items():
            if not np.isfinite(values).all():
                maker = Links(model.graph).makers.get(name)
                where = f"node '{maker.name}' ({maker.op_type})" if maker is not None else "the model"
                raise ModelError(f"{where}: its value '{name}' has NaN or infinite elements on {batch.source}; expected finite numbers")
            found[name].add(values)
    if on_batch is not None:
        on_batch(len(samples), len(samples))
    data = _packed(found, key)
    if file is not None:
        write_atomically(file, data)
    elif (store := chosen_cache(cache)) is not None:
        store.put(KIND, key, data)
    return found


def _read_cache(key: str, cache: bool) -> dict[str, Histogram] | None:
    store = chosen_cache(cache)
    data = None if store is None else store.get(KIND, key)
    return None if data is None else _unpacked(np.load(BytesIO(data), allow_pickle=False))


def _read_file(path: Path, key: str) -> dict[str, Histogram] | None:
    """The histograms in a file; None if there is none, or it holds histograms under another key."""
    if not path.exists():
        return None
    try:
        archive = Archive(path)
        return _unpacked(archive) if str(archive["key"]) == key else None
    except (InputError, LimitError, ResourceError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: expected histograms that the quantiser wrote, or no such file") from None


def _packed(histograms: Mapping[str, Histogram], key: str) -> bytes:
    """Histograms as an .npz file, with the counts of all in one array."""
    every = list(histograms.values())
    arrays = {
        "key": np.array(key), "names": np.array(list(histograms)), "exponents": np.array([h.exponent for h in every]),
        "firsts": np.array([h.first for h in every]), "lows": np.array([h.low for h in every]), "highs": np.array([h.high for h in every]),
        "sizes": np.array([len(h.counts) for h in every]), "counts": np.concatenate([np.zeros(0, np.int64), *(h.counts for h in every)]),
    }  # fmt: skip
    buffer = BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # its other parameter is a flag that no array is named after
    return buffer.getvalue()


def _unpacked(archive: Mapping[str, np.ndarray]) -> dict[str, Histogram]:
    sizes = archive["sizes"]
    parts = np.split(archive["counts"], np.cumsum(sizes)[:-1]) if len(sizes) else []
    columns = (archive[name].tolist() for name in ("names", "exponents", "firsts", "lows", "highs"))
    return {
        name: Histogram(exponent, first, counts, low, high)
        for name, exponent, first, low, high, counts in zip(*columns, parts, strict=True)
    }  # fmt: skip
