"""Graph ops in bundles for another machine, many in one, against code for this machine by the same schedules."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import crossing
from guarded import run
from native_ops import Instance, batches, lowered
from op_closeness import meaningful

from stepwell.bundling.toolchain import find_tools
from stepwell.bundling.writing import write
from stepwell.dialects.support.errors import StepwellError
from stepwell.dialects.target.registry import resolve
from stepwell.driver import build
from stepwell.driver.artifact import assemble

NAME = "ops"
TOGETHER = 48  # number of cases in one bundle


def problems(every: Sequence[Instance], target: str, folder: Path) -> dict[str, str]:
    """The cases that give other bits, or no bundle, with the reason; their own targets do not matter."""
    found: dict[str, str] = {}
    for batch in batches((replace(single, target=target) for single in every), TOGETHER):
        found |= _of_batch(batch, target, folder)
    return found


def _of_batch(batch: Sequence[Instance], target: str, folder: Path) -> dict[str, str]:
    """The same for cases in one bundle. If that fails as a whole, they are in parts, down to single ones."""
    arrays = [a for single in batch for n, a in enumerate(single.arrays) if n not in single.constants]
    try:
        native = build.make_artifact(lowered(batch), None, None)
        inputs = {info.name: array for info, array in zip(native.inputs, arrays, strict=True)}
        wanted = list(run(assemble(native, threads=1, snapshots={}, timings={"obj": 0.0}), inputs, 0).values())
        crossed = build.make_artifact(lowered(batch, last=True), None, None, cross=True)
        machine = resolve(target)
        write(crossed, [], folder, NAME, machine, ("static",), find_tools(machine), embed=False)
        got = crossing.outputs(crossing.program(folder, NAME, target), target, [inputs])
    except (StepwellError, AssertionError) as error:
        if len(batch) == 1:
            return {str(batch[0]): f"{type(error).__name__}: {str(error)[:400]}"}
        half = len(batch) // 2
        return {**_of_batch(batch[:half], target, folder), **_of_batch(batch[half:], target, folder)}
    found: dict[str, str] = {}
    at = 0
    for single in batch:
        place = slice(at, at := at + len(single.expected))
        mine, want = (meaningful(single.mnemonic, tuple(arrays[place])) for arrays in (got, wanted))
        if not all(map(crossing.same_bits, mine, want)):
            found[str(single)] = "other bits"
    return found
