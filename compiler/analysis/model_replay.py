"""The launches of a compiled model, replayed one by one."""

from collections.abc import Mapping

import numpy as np

from stepwell.analysis.kernel_launches import kernel_launches
from stepwell.analysis.launches import KernelLaunch
from stepwell.analysis.replay import Replay
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.support.errors import InputError
from stepwell.runtime.executable import NativeExecutable
from stepwell.runtime.model import CompiledModel


def replay_of(model: CompiledModel, inputs: Mapping[str, np.ndarray], threads: int | None = None) -> Replay:
    """The launches of a compiled model on these inputs, by name. Raises InputError for a model without native code, or for invalid inputs.

    Raises IRError for a @main that is more than a list of calls.
    """
    if not isinstance(model.executable, NativeExecutable):
        raise InputError("kernels are timed in native code: expected a model of the backend 'llvm'")
    want = model.run(inputs)
    given = [np.require(inputs[info.name], requirements=("C", "A")) for info in model.inputs]
    # It has its own outputs and workspace, so that the replay cannot find results there that it fails to compute.
    outputs = [*map(np.zeros_like, want.values()), *model.executable.checks.parts()]
    return Replay(
        launches_of(model.ir("affine")), model.objects, inputs=given, outputs=outputs, weights=model.weights.arena(),
        workspace_bytes=model.workspace_bytes, threads=threads or model.threads, located=model.executable.weights,
    )  # fmt: skip


def launches_of(text: str) -> list[KernelLaunch]:
    """The launches in @main, from the text of a model at level affine. Raises IRError for a @main that is more than a list of calls."""
    context = make_context()
    with context:
        return kernel_launches(parse_module(text, context, "affine").operation)
