"""The device of native code: builds in processes of an executor, measurements in fresh ones."""

from collections.abc import Mapping, Sequence

from stepwell.database.records import State
from stepwell.dialects.support.errors import CodegenError
from stepwell.tuning.device import WHOLE, Built, Contest, Fault, Measurement, Request, Turns
from stepwell.tuning.executor import Executor
from stepwell.tuning.measuring import PARTS, BitsRequest, OutputsRequest, Timings
from stepwell.tuning.program import KernelCode, Program

DIFFERS = "its results have other bits than the default's"
_OF_PROGRAMS = (WHOLE, PARTS)


class NativeDevice:
    """Builds and runs the kernels of one network, `base`, or whole networks: see `Device`."""

    def __init__(self, base: Program, executor: Executor, threads: int, *, rounding: bool = False) -> None:
        """With `rounding`, results may differ from the default's by other roundings."""
        self.base, self.executor, self.threads, self.rounding = base, executor, threads, rounding

    def build(self, requests: Sequence[Request[Built]], timeout: float) -> list[Built | Fault]:
        """See `Device`."""
        return self.executor.build(requests, timeout)

    def check(self, contests: Sequence[Contest], timeout: float) -> dict[str, list[Fault | None]]:
        """See `Device`. All arms run in one process if none of them crashes or hangs, else in ever fewer at a time."""
        found: dict[str, list[Fault | None]] = {contest.name: [None] * len(contest.arms) for contest in contests}
        every = [(contest, arm) for contest in contests for arm in range(1, len(contest.arms))]
        self._check(every, timeout, found)
        return found

    def _check(self, arms: Sequence[tuple[Contest, int]], timeout: float, found: dict[str, list[Fault | None]]) -> None:
        """Check these arms, and write their faults to `found`."""
        if not arms:
            return
        together: dict[str, tuple[Contest, list[int]]] = {}
        for contest, arm in arms:
            together.setdefault(contest.name, (contest, [0]))[1].append(arm)
        answer = self.executor.run(self._bits(together), timeout)
        if isinstance(answer, Fault):
            if len(arms) == 1:
                [(contest, arm)] = arms
                found[contest.name][arm] = answer
                return
            half = len(arms) // 2
            self._check(arms[:half], timeout, found)
            self._check(arms[half:], timeout, found)
            return
        for name, different in answer.items():
            for index in different:
                found[name][together[name][1][index]] = Fault(State.DIFFERS, DIFFERS)

    def _bits(self, contests: Mapping[str, tuple[Contest, Sequence[int]]]) -> "BitsRequest | OutputsRequest":
        """The request to compare the results of some arms of each contest with those of the first."""
        for contest, arms in contests.values():
            if contest.name in _OF_PROGRAMS:
                return OutputsRequest(contest.name, tuple(_program(contest, arm) for arm in arms), self.threads, self.rounding)
        codes = {name: tuple(_kernel(contest, arm) for arm in arms) for name, (contest, arms) in contests.items()}
        return BitsRequest(self.base, codes, self.threads, self.rounding)

    def measure(self, measurement: Measurement) -> Turns | Fault:
        """See `Device`."""
        kernels, programs = {}, {}
        for contest in measurement.contests:
            if contest.name in _OF_PROGRAMS:
                programs[contest.name] = tuple(_program(contest, arm) for arm in range(len(contest.arms)))
            else:
                kernels[contest.name] = tuple(_kernel(contest, arm) for arm in range(len(contest.arms)))
        if programs and (kernels or len(programs) > 1):
            raise CodegenError(f"a measurement compares kernels or networks, got {', '.join([*kernels, *programs])}")
        request = Timings(self.base, kernels, measurement.turns, measurement.threads, measurement.warm_up, programs or None)
        answer = self.executor.run(request, measurement.timeout)
        return answer if isinstance(answer, (Fault, Turns)) else Fault(State.FAILED, f"expected times, got {type(answer).__name__}")


def _program(contest: Contest, arm: int) -> Program:
    code = contest.arms[arm].built.code
    assert isinstance(code, Program)
    return code


def _kernel(contest: Contest, arm: int) -> KernelCode:
    code = contest.arms[arm].built.code
    assert isinstance(code, KernelCode)
    return code
