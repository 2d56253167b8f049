"""The time of each part of a compiled model: the list of calls of its @main, replayed and timed call by call."""

import statistics

from benchmark.jobs import Failure, Feed, KernelTime, Profile
from benchmark.peak import peak_flops
from stepwell.analysis.flops import kernel_flops_of_text
from stepwell.analysis.model_replay import replay_of
from stepwell.analysis.replay import check_same
from stepwell.dialects.support.errors import InputError, StepwellError
from stepwell.runtime.model import CompiledModel

__all__ = ["profile"]


def profile(model: CompiledModel, feed: Feed, threads: int, repeats: int, target: str = "host") -> Profile:
    """Replay the calls of @main in order, on real data, `repeats` times; the median and the fastest time of each.

    `target` is what the model was compiled for.
    Raises Failure if the replay does not give what the model gives, or for a @main that is more than a list of calls.
    """
    try:
        replay = replay_of(model, feed, threads)
        samples, whole = replay.times(repeats, replay.main())
        check_same(replay.outputs, list(model.run(feed).values()))
    except StepwellError as error:
        raise Failure(str(error.args[0])) from None
    try:
        flops = kernel_flops_of_text(model.ir("graph-opt"))
    except InputError:
        flops = {}  # a model from IR below that level does not say what its kernels were
    times = [
        KernelTime(
            launch.kernel, launch.nodes, statistics.median(seconds), min(seconds), flops.get(launch.kernel), sum(o.size for o in launch.operands)
        )
        for launch, seconds in zip(replay.launches, samples, strict=True)
    ]
    return Profile(times, statistics.median(whole), min(whole), peak_flops(threads, target))
