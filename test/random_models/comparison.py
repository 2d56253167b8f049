"""What compiled models must agree on: with ONNX Runtime, with themselves, and in leaving alone what is not theirs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import hypothesis
import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper
from onnx_ops import session
from op_random import Random
from random_models.bounded_net import BoundedNet
from random_models.convolutions import convolution_net
from random_models.matmuls import matmul_net

from stepwell import api
from stepwell.model import CompiledModel, TensorInfo
from stepwell.native.buffers import aligned_empty
from stepwell.parts import assemble
from stepwell.stair import techniques
from stepwell.target import NAMES, resolve

NETS: dict[str, Callable[[Random], BoundedNet]] = {"convolutions": convolution_net, "matmuls": matmul_net}
THREADS = (1, 2)
FILL = 0xFF  # makes NaN of every floating-point type
MARGIN = 192  # bytes beside a buffer that are watched: three of the widest vectors


TARGETS = [name for name in NAMES if resolve(name).runs_here]


@dataclass
class Example:
    """A model, data for it, and the target to compile it for. `judge` gives each output and how far it may be off."""

    model: onnx.ModelProto
    judge: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    target: str
    disable: tuple[str, ...]
    """Techniques that are switched off."""
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
    mostly_none = [()] * 2 * len(techniques())
    disable = draw(st.sampled_from([*mostly_none, *((name,) for name in techniques())]))
    return Example(model, judge, net.inputs, draw(st.sampled_from(TARGETS)), disable)


def check(example: Example) -> None:
    """Raises AssertionError where the compiled model is wrong, and what the compiler raises."""
    wanted = judged(example)
    lowered = api.lower(example.model, "affine", target=example.target, disable=example.disable)
    parts = api.make_parts(lowered, None, None)
    results = {}
    for threads in THREADS:
        model = assemble(parts, threads=threads, texts={}, timings={})
        for shift in (0, example.inputs["x0"].itemsize):
            results[f"{threads} threads, {shift} bytes from alignment"] = run(model, example.inputs, shift)
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


def run(model: CompiledModel, inputs: dict[str, np.ndarray], shift: int) -> dict[str, np.ndarray]:
    """The outputs, with all memory `shift` bytes from where vectors are aligned and surrounded by NaN, the workspace full of it.

    Raises AssertionError if anything is written but outputs and workspace.
    """
    given = {info.name: Guarded(inputs[info.name].nbytes, shift) for info in model.inputs}
    taken = {info.name: Guarded(prod(sizes(info)) * info.dtype.itemsize, shift) for info in model.outputs}
    workspace = Guarded(model.memory.workspace_bytes, 0)
    model._workspaces.clear()
    model._workspaces.append(workspace.inner)
    for name, buffer in given.items():
        buffer.inner[:] = bits(inputs[name])
    arrays = {info.name: given[info.name].inner.view(info.dtype).reshape(sizes(info)) for info in model.inputs}
    out = {info.name: taken[info.name].inner.view(info.dtype).reshape(sizes(info)) for info in model.outputs}
    model.run(arrays, out=out)
    for name, buffer in given.items():
        assert (buffer.inner == bits(inputs[name])).all(), f"input {name} was written to"
    for name, buffer in {**given, **taken, "workspace": workspace}.items():
        assert buffer.untouched(), f"something was written beside {name}"
    return {name: array.copy() for name, array in out.items()}


def bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array."""
    return array.reshape(-1).view(np.uint8)


def sizes(info: TensorInfo) -> tuple[int, ...]:
    """The shape of an input or output of a compiled model, all of whose sizes are numbers."""
    return tuple(int(size) for size in info.shape if size is not None)


class Guarded:
    """A buffer within a larger one, all filled with NaN."""

    def __init__(self, size: int, shift: int) -> None:
        self._whole = aligned_empty(size + shift + 2 * MARGIN)
        self._whole[:] = FILL
        self._start = MARGIN + shift
        self.inner = self._whole[self._start : self._start + size]

    def untouched(self) -> bool:
        """Whether what is around the buffer is as it was."""
        return bool((self._whole[: self._start] == FILL).all() and (self._whole[self._start + self.inner.size :] == FILL).all())
