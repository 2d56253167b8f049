"""What compiled models must agree on: with ONNX Runtime, with themselves, and in leaving alone what is not theirs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import numpy as np
import onnx
from guarded import TARGETS, bits, run
from hypothesis import strategies as st
from onnx import helper
from onnx_ops import session
from op_random import Random
from random_models.bounded_net import BoundedNet
from random_models.convolutions import convolution_net
from random_models.matmuls import matmul_net

from stepwell.driver import build, lowering
from stepwell.driver.artifact import assemble
from stepwell.pipelines.pipeline import Pipeline

NETS: dict[str, Callable[[Random], BoundedNet]] = {"convolutions": convolution_net, "matmuls": matmul_net}
THREADS = (1, 2)
SWITCHES = tuple(Pipeline.default().switches())


@dataclass
class Example:
    """A model, data for it, and the target to compile it for. `judge` gives each output and how far it may be off."""

    model: onnx.ModelProto
    judge: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    target: str
    disable: tuple[str, ...]
    """Switches that are off."""
    worst: float = field(default=0.0, compare=False)
    """The largest error found, as a share of what is allowed."""

    def __str__(self) -> str:
        shapes = {name: list(array.shape) for name, array in self.inputs.items()}
        shapes.update({t.name: list(t.dims) for t in self.model.graph.initializer})
        lines = [f"target {self.target}" + "".join(f", without {name}" for name in self.disable)]
        for node in self.model.graph.node:
            operands = ", ".join(f"{name}{shapes.get(name, '')}" for name in node.input)
            attributes = ", ".join(f"{a.name}={helper.get_attribute_value(a)}" for a in node.attribute)
            lines.append(f"{', '.join(node.output)} = {node.op_type}({operands}) {attributes}".rstrip())
        return "\n  ".join([*lines, f"outputs: {', '.join(value.name for value in self.model.graph.output)}"])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What hypothesis prints."""
        printer.text(str(self))


@st.composite
def examples(draw: st.DrawFn, kind: str) -> Example:
    """Examples of one of the kinds of `NETS`."""
    net = NETS[kind](Random(draw))
    model, judge = net.finish()
    mostly_none = [()] * 2 * len(SWITCHES)
    disable = draw(st.sampled_from([*mostly_none, *((name,) for name in SWITCHES)]))
    return Example(model, judge, net.inputs, draw(st.sampled_from(TARGETS)), disable)


def examine(example: Example) -> float | None:
    """The largest error as a share of what is allowed; None for no example. Raises as `check`."""
    try:
        check(example)
    except hypothesis.errors.UnsatisfiedAssumption:
        return None
    return example.worst


def check(example: Example) -> None:
    """Raises AssertionError where the compiled model is wrong, and what the compiler raises."""
    wanted = judged(example)
    lowered = lowering.lower(example.model, "affine", target=example.target, disable=example.disable)
    artifact = build.make_artifact(lowered, None, None)
    results = {}
    for threads in THREADS:
        model = assemble(artifact, threads=threads, snapshots={}, timings={})
        for shift in (0, 1):
            results[f"{threads} threads, {shift} elements from alignment"] = run(model, example.inputs, shift)
    (reference, first), *others = results.items()
    for name, (expected, bound) in wanted.items():
        example.worst = max(example.worst, compare(f"{name} with {reference}", first[name], expected, bound))
        for way, outputs in others:
            same = bits(first[name]) == bits(outputs[name])
            assert same.all(), f"{name}: {(~same).sum()} bytes differ between {reference} and {way}"


def judged(example: Example) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """ONNX Runtime's outputs, and how far they may be off. Examples whose numbers overflow are no examples."""
    results = session(example.judge.SerializeToString()).run(None, example.inputs)
    if not all(np.isfinite(array).all() for array in results):
        hypothesis.reject()
    return {value.name: (results[2 * i], results[2 * i + 1]) for i, value in enumerate(example.model.graph.output)}


def compare(what: str, got: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> float:
    """The largest share of the bound that an error is. Raises AssertionError if it is more than all, or the bound would let anything pass."""
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype), f"{what}: {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}"
    if not got.size:
        return 0.0
    error = np.abs(got.astype(np.float64) - expected)
    share = np.where(error == 0, 0.0, error / np.maximum(bound, np.finfo(expected.dtype).tiny))
    worst = np.unravel_index(np.argmax(np.where(np.isnan(share), np.inf, share)), share.shape)
    place = ", ".join(map(str, worst))
    assert share[worst] <= 1, (
        f"{what}: [{place}] is {got[worst]}, not {expected[worst]}: off by {error[worst]:.3g}, {share[worst]:.3g} of the bound; "
        f"{(~(share <= 1)).sum()} of {share.size} elements are wrong"
    )
    return float(share[worst])
