"""Where the time of a compiled model goes: the list of calls of its @main, replayed and timed call by call."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmark.jobs import Failure, Feed, KernelTime, Profile
from benchmark.peak import peak_flops
from stepwell.analysis.calls import Call, kernel_calls
from stepwell.cli.inspect import flops_of
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import make_context, parse_module
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.support.errors import IRError
from stepwell.passes.framework.rewriting import functions, ops_below
from stepwell.runtime.buffers import address, aligned_empty
from stepwell.runtime.loader import load
from stepwell.runtime.model import CompiledModel
from stepwell.runtime.openmp import openmp

__all__ = ["calls_of", "kernel_flops", "profile"]


def profile(model: CompiledModel, feed: Feed, threads: int, repeats: int, target: str = "host") -> Profile:
    """Replay the calls of @main in order, on real data, `repeats` times; the median time of each. `target` is what the model was compiled for.

    In order, so that each call finds the caches as it does in the model, and data that is real: a kernel run again and again on its own
    result would drift towards infinities or denormal numbers. Raises Failure if the replay does not give what the model gives.
    """
    calls = calls_of(model.ir("affine"))
    flops = kernel_flops(model.ir("graph-opt"))
    arrays = [np.asarray(feed[info.name], order="C") for info in model.inputs]
    want = list(model.run(feed).values())
    # The whole model gets outputs and a workspace of its own, so that the replay cannot find there what it fails to compute.
    outputs, other = ([np.zeros_like(array) for array in want] for _ in range(2))
    workspace, other_workspace = (aligned_empty(model.memory.workspace_bytes) for _ in range(2))
    hidden, other_hidden = (model.checks.buffer() for _ in range(2))
    base = _addresses(model, [*arrays, *outputs], hidden, workspace)
    other_base = _addresses(model, [*arrays, *other], other_hidden, other_workspace)
    code = load(model.objects, exports=list(model.objects))
    bound = [(code.function(c.kernel, len(c.operands)), [base[o.argument] + o.offset for o in c.operands]) for c in calls]
    main = code.packed_function("main", len(base))
    runtime = openmp()
    if runtime is not None:
        runtime.set_threads(threads)
    samples, whole = _replay(bound, lambda: main(*other_base), repeats)
    for got, expected in zip(outputs, want, strict=True):
        if not np.array_equal(got, expected, equal_nan=got.dtype.kind == "f"):
            raise Failure("the replayed calls give another result than the model: the profile would not be of the same work")
    times = [
        KernelTime(call.kernel, call.nodes, statistics.median(seconds), flops.get(call.kernel), sum(o.size for o in call.operands))
        for call, seconds in zip(calls, samples, strict=True)
    ]
    return Profile(times, statistics.median(whole), peak_flops(threads, target))


def _addresses(model: CompiledModel, arrays: list[np.ndarray], hidden: np.ndarray, workspace: np.ndarray) -> list[int]:
    """The arguments of @main."""
    return [*map(address, arrays), *map(address, model.checks.parts(hidden)), address(model.weights), address(workspace)]


def _replay(bound: list[tuple[Callable[..., None], list[int]]], main: Callable[[], None], repeats: int) -> tuple[list[list[float]], list[float]]:
    """Seconds of each call and of the whole, in turns."""
    clock = time.perf_counter
    samples: list[list[float]] = [[] for _ in bound]
    whole = []
    for _ in range(max(1, repeats)):
        start = clock()
        main()
        whole.append(clock() - start)
        for (function, operands), seconds in zip(bound, samples, strict=True):
            start = clock()
            function(*operands)
            seconds.append(clock() - start)
    return samples, whole


def calls_of(text: str) -> list[Call]:
    """The calls of @main, from the text of a model at level affine. Raises Failure for a @main that is more than a list of calls."""
    context = make_context()
    with context:
        try:
            return kernel_calls(parse_module(text, context, "affine").operation)
        except IRError as error:
            raise Failure(str(error)) from None


def kernel_flops(text: str) -> dict[str, int | None]:
    """The arithmetic of each kernel, from the text of a model at level graph-opt; None where not known."""
    context = make_context()
    with context:
        module = parse_module(text, context, "graph-opt")
        found: dict[str, int | None] = {}
        for function in functions(module.operation):
            if KernelInfo(function).is_kernel:
                views = [op.opview for op in ops_below(function.operation)]
                amounts = [flops_of(view) for view in views if isinstance(view, GraphOp) and len(view.operation.operands)]
                found[function.sym_name.value] = None if None in amounts else sum(amount or 0 for amount in amounts)
        return found
