"""The quality of a quantised network, layer by layer: signal-to-noise ratios, ranges, and the effect of each layer on the outputs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from stepwell.arguments import checked_by
from stepwell.dialects.support.errors import InputError
from stepwell.quantizer import arguments
from stepwell.quantizer.histogram import Histogram
from stepwell.quantizer.layers import SWITCHES, LayerPair, layer_pairs, switched
from stepwell.quantizer.ranges import Parameters, Range
from stepwell.quantizer.taps import Tapped

Arrays = Mapping[str, np.ndarray]
BLAMED = 8
"""The default number of batches for the share of each layer in the outputs' error: each costs a run for every layer."""


@dataclass(frozen=True, kw_only=True)
class LayerQuality:
    """The effect of quantisation on the result of one layer, after its activation."""

    name: str
    kind: str
    """The operator."""
    ratio: float
    """Signal-to-quantisation-noise ratio in dB, in the quantised network, including the noise of earlier layers. inf without noise."""
    ratio_alone: float
    """The same with only this layer quantised: its inputs, its weights, and its result."""
    share: float
    """Mean squared error of the network's outputs with only this layer quantised, as a fraction of that of the quantised network."""
    seen: Histogram
    """The numbers in floats."""
    parameters: Parameters | None
    """The quantisation; None if the result is not quantised, or has several scales."""
    clipped: float
    """The share of the numbers in floats that saturate: those beyond half a step from the range of the integers."""

    @property
    def range(self) -> Range | None:
        """The range that the integers represent."""
        return None if self.parameters is None else self.parameters.range


@dataclass(frozen=True)
class Quality:
    """The comparison of a quantised network with its original."""

    layers: tuple[LayerQuality, ...]
    """In the network's order."""
    outputs: Mapping[str, float]
    """The signal-to-noise ratio of each output in dB."""
    batches: int
    """The number of batches."""
    blamed: int
    """The number of batches used for the shares."""

    def worst_first(self) -> list[LayerQuality]:
        """The layers, the most harmful first: by share, then by the ratio of the layer alone."""
        return sorted(self.layers, key=lambda layer: (-layer.share, layer.ratio_alone))


@dataclass
class _Noise:
    """Sums of squares of a value and of its error."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, want: np.ndarray, got: np.ndarray) -> None:
        """Count another array of the value."""
        exact = want.astype(np.float64).ravel()
        error = got.astype(np.float64).ravel() - exact
        self.signal += float(exact @ exact)
        self.noise += float(error @ error)

    @property
    def relative(self) -> float:
        """The noise relative to the signal; infinite if there is only noise."""
        return self.noise / self.signal if self.signal else (np.inf if self.noise else 0.0)

    @property
    def ratio(self) -> float:
        """Signal to noise in dB."""
        with np.errstate(divide="ignore"):
            return float(-10 * np.log10(self.relative))


class _Ends:
    """The noise of a network's outputs."""

    def __init__(self, names: Iterable[str]) -> None:
        self.noises = {name: _Noise() for name in names}

    def add(self, want: Arrays, got: Arrays) -> None:
        """Count the outputs of another run."""
        for name, noise in self.noises.items():
            noise.add(want[name], got[name])

    @property
    def relative(self) -> float:
        """The sum over the outputs, each relative to its signal."""
        return sum(noise.relative for noise in self.noises.values())


class _Watched:
    """The sums for a layer."""

    def __init__(self, layer: LayerPair, outputs: Iterable[str]) -> None:
        self.layer = layer
        self.together, self.alone, self.seen, self.outputs = _Noise(), _Noise(), Histogram(), _Ends(outputs)
        self.outside = self.count = 0

    def add(self, want: np.ndarray, together: np.ndarray, alone: np.ndarray) -> None:
        """Count the results of a run: in floats, in the quantised network, and with only this layer quantised."""
        self.together.add(want, together)
        self.alone.add(want, alone)
        self.seen.add(want)
        self.count += want.size
        if (used := self.layer.parameters) is not None:
            half, bounds = float(used.scale) / 2, used.range
            self.outside += int(((want < bounds.low - half) | (want > bounds.high + half)).sum())

    def found(self, whole: float) -> LayerQuality:
        """The results for the layer; `whole` is the error of the quantised network's outputs."""
        return LayerQuality(
            name=self.layer.name, kind=self.layer.node.op_type, ratio=self.together.ratio, ratio_alone=self.alone.ratio,
            share=self.outputs.relative / whole if whole else 0.0, seen=self.seen, parameters=self.layer.parameters,
            clipped=self.outside / max(1, self.count),
        )  # fmt: skip


@checked_by(
    floats=arguments.proto, quantised=arguments.proto, samples=arguments.batches, blamed=arguments.whole(0), on_step=arguments.function
)  # fmt: skip
def compare(
    floats: ModelProto, quantised: ModelProto, samples: Iterable[Arrays], *, blamed: int = BLAMED, threads: int | None = None, cache: bool = True,
    on_step: Callable[[str], None] = lambda text: None,
) -> Quality:  # fmt: skip
    """Compare a quantised network with its float original, on samples of its inputs, in batches.

    Nodes have the same names in both. Single layers are run in one network that has each layer in floats and in integers, with a switch between the
    two (`layers.switched`). `blamed` is the number of batches for each layer's share in the outputs' error, each with a run for every layer.
    `on_step` reports progress. Raises InputError without samples or quantised layers, and the errors of `stepwell.compile`.
    """
    layers = layer_pairs(floats, quantised)
    if not layers:
        raise InputError("quantised: expected a network with quantised layers, got one with none")
    outputs = [value.name for value in floats.graph.output]
    if (others := [value.name for value in quantised.graph.output]) != outputs:
        raise InputError(f"quantised: expected a network with the outputs {', '.join(outputs)}, got {', '.join(others)}")
    on_step("compiling the quantised network, and one with a switch for each layer")
    both, alone = switched(floats, quantised, layers)
    switchable = Tapped(both, [*outputs, *(layer.float_result for layer in layers), *alone], threads=threads, cache=cache)
    together = Tapped(quantised, [*outputs, *(layer.result for layer in layers)], threads=threads, cache=cache)
    watched = [_Watched(layer, outputs) for layer in layers]
    ends, first_ends = _Ends(outputs), _Ends(outputs)
    batches = 0
    for batch in samples:
        on_step(f"comparing batch {batches + 1}")
        want, got = switchable.run({**batch, SWITCHES: np.zeros(len(layers), bool)}), together.run(batch)
        ends.add(want, got)
        for one, name in zip(watched, alone, strict=True):
            one.add(want[one.layer.float_result], got[one.layer.result], want[name])
        if batches < blamed:
            first_ends.add(want, got)
            for one, switches in zip(watched, np.eye(len(layers), dtype=bool), strict=True):
                on_step(f"comparing batch {batches + 1}: {one.layer.name} alone")
                one.outputs.add(want, switchable.run({**batch, SWITCHES: switches}))
        batches += 1
    if batches == 0:
        raise InputError("samples: there are none")
    whole = first_ends.relative
    return Quality(
        tuple(one.found(whole) for one in watched), {name: noise.ratio for name, noise in ends.noises.items()}, batches, min(batches, blamed)
    )  # fmt: skip
