"""Quantises a whole network: prepare, plan, calibrate, write."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from stepwell.arguments import checked_by
from stepwell.dialects.support.errors import InputError, UnsupportedError
from stepwell.quantizer import arguments
from stepwell.quantizer.calibration import OnBatch, calibrate
from stepwell.quantizer.correct_bias import bias_corrected
from stepwell.quantizer.equalize import equalized
from stepwell.quantizer.histogram import Histogram
from stepwell.quantizer.insert import Quantized, inserted
from stepwell.quantizer.options import PRODUCTS, QuantizeOptions
from stepwell.quantizer.plan import candidates, planned
from stepwell.quantizer.prepare import Source, prepared
from stepwell.quantizer.samples import Samples

_CHECKS: dict[str, arguments.Check] = {
    "model": arguments.source, "data": arguments.data, "options": arguments.OPTIONS, "batch": arguments.whole(1), "limit": arguments.whole(1),
    "histograms": arguments.like("path"), "on_batch": arguments.function, "on_step": arguments.function,
    "labels": arguments.like("text"),
}  # fmt: skip


@checked_by(**_CHECKS)
def quantize(
    model: Source, data: str | Path | Mapping[str, np.ndarray] | Samples, options: QuantizeOptions | None = None, *, batch: int | None = None,
    limit: int | None = None, histograms: str | os.PathLike[str] | None = None, cache: bool = True, threads: int | None = None,
    on_batch: OnBatch | None = None,
) -> Quantized:  # fmt: skip
    """Quantise an f32 network, with ranges of activations from its runs on samples.

    `data`, `batch` and `limit` define the samples (`Samples.from_data`). Calibration counts are kept in the file `histograms`, else in the cache if
    `cache` is true, and read back if nothing that they depend on has changed. `on_batch(done, all)` is called as calibration progresses. Raises
    InputError for samples or options that do not fit the model, UnsupportedError for a model that has nothing to quantise, is quantised already, or
    cannot be prepared, and the errors of `stepwell.compile`.
    """
    return Calibrated(
        model, data, options, batch=batch, limit=limit, histograms=histograms, cache=cache, threads=threads, on_batch=on_batch
    ).quantized()  # fmt: skip


class Calibrated:
    """A prepared network and the histograms of its values, which can be quantised in several ways."""

    @checked_by(**_CHECKS)
    def __init__(
        self, model: Source, data: str | Path | Mapping[str, np.ndarray] | Samples, options: QuantizeOptions | None = None, *,
        labels: str | None = None, batch: int | None = None, limit: int | None = None, histograms: str | os.PathLike[str] | None = None,
        cache: bool = True, threads: int | None = None, on_batch: OnBatch | None = None, on_step: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        """Like `quantize`; `labels` is the key of an array of labels in `data`, and `on_step` reports the steps of a bias correction."""
        self.options = options or QuantizeOptions()
        self.cache, self.threads, self.on_step = cache, threads, on_step
        self.floats = prepared(model)
        """The prepared network."""
        check_options(self.floats, self.options)
        self.equalized: list[str] = []
        """The equalised and skipped layers, a line for each."""
        if self.options.equalize:
            self.floats, self.equalized = equalized(self.floats)
        self.samples = Samples.from_data(data, self.floats, labels=labels, batch=batch, limit=limit)
        values = sorted(planned(self.floats, self.options).values)
        self.histograms = self._seen(values, file=histograms, on_batch=on_batch) if values else {}

    def quantized(self, keep: frozenset[str] = frozenset()) -> Quantized:
        """The quantised network, in which the nodes with these names stay in float, in addition to those that the options name."""
        options = replace(self.options, keep_float=self.options.keep_float | keep)
        plan = planned(self.floats, options)
        if missing := sorted(plan.values - self.histograms.keys()):
            self.histograms |= self._seen(missing)
        made = inserted(self.floats, plan, self.histograms, options)
        if options.correct_bias:
            how: dict[str, Any] = {"threads": self.threads, "cache": self.cache, "on_step": self.on_step}
            made = replace(made, model=bias_corrected(self.floats, made.model, self.samples, **how))
        return made

    def _seen(self, values: list[str], **given: Any) -> dict[str, Histogram]:
        return calibrate(self.floats, values, self.samples, cache=self.cache, threads=self.threads, **given)


def check_options(floats: ModelProto, options: QuantizeOptions) -> None:
    """Raise UnsupportedError if a prepared network has no layer that can be quantised, InputError if an option names no node of it."""
    if not candidates(floats, options):
        kinds = ", ".join(sorted({node.op_type for node in floats.graph.node})) or "no nodes"
        wanted = ", ".join(kind for kind in PRODUCTS if kind in options.op_types) or "none, by op_types"
        raise UnsupportedError(f"the model has no node that can be quantised: expected products of f32 ({wanted}), it has {kinds}")
    names = {node.name for node in floats.graph.node}
    for name in sorted(options.keep_float):
        if name not in names and not any(QuantizeOptions(keep_float=frozenset([name])).keeps(node) for node in names):
            raise InputError(f"keep_float: expected names of nodes, or patterns of such, got '{name}', which fits none of {len(names)} nodes")
