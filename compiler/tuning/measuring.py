"""The requests of measurements: what a fresh process, without the bindings, runs and times."""

import gc
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.support.buffers import aligned_empty
from stepwell.dialects.support.errors import CodegenError
from stepwell.tuning.device import WHOLE, Sample, Turn, Turns
from stepwell.tuning.program import FLOATS, KernelCode, Loaded, Program, Times, are_close, same_bits, timed

_KINDS = {dtype.str: kind for kind, dtype in FLOATS.items()}
PARTS = "@parts"
"""The contest of whole networks of which only the launches are timed that they do not have in common."""


@dataclass(frozen=True)
class Timings:
    """A request to run a network several times, with other code in each run.

    Contests of kernels have the kernel's name. The contests `WHOLE` and `PARTS` are between `programs`; then there are no kernels.
    """

    base: Program
    kernels: Mapping[str, tuple[KernelCode, ...]]
    turns: tuple[Turn, ...]
    threads: int
    warm_up: int = 1
    programs: Mapping[str, tuple[Program, ...]] | None = None
    """For `WHOLE` or `PARTS`, the programs that compete."""

    def answer(self) -> Turns:
        """Measure, in the process that received the request. Raises CodegenError for code that cannot be loaded."""
        run = _KernelTurns(self) if self.programs is None else _ProgramTurns(self, self.programs)
        samples, disturbed, begin = [], [], time.perf_counter()
        gc.disable()
        try:
            for number, turn in enumerate((*[self.turns[0]] * self.warm_up, *self.turns) if self.turns else ()):
                begin = time.perf_counter() if number <= self.warm_up else begin
                before = _preemptions()
                times = run.time(turn)
                samples.append({name: _sample(one, self.threads) for name, one in times.items()})
                disturbed.append(_preemptions() > before)
        finally:
            gc.enable()
        return Turns(samples[self.warm_up :], disturbed[self.warm_up :], time.perf_counter() - begin)


@dataclass(frozen=True)
class BitsRequest:
    """A request to run several codes of some kernels on the same data, and to compare their results bit by bit."""

    base: Program
    kernels: Mapping[str, tuple[KernelCode, ...]]
    threads: int
    rounding: bool = False
    """Whether they may round differently."""

    def answer(self) -> Mapping[str, Sequence[int]]:
        """For each kernel, the indices of the codes whose results differ from those of the first one."""
        return Loaded(self.base, _arena(self.base, {}), self.threads, self.kernels).differing(rounding=self.rounding)


@dataclass(frozen=True)
class OutputsRequest:
    """A request to run whole programs on the same data, and to compare their outputs bit by bit."""

    contest: str
    programs: tuple[Program, ...]
    threads: int
    rounding: bool = False
    """Whether they may round differently."""

    def answer(self) -> Mapping[str, Sequence[int]]:
        """For the contest, the indices of the programs whose outputs differ from those of the first one."""
        arenas: dict[str, np.ndarray] = {}
        results = []
        for program in self.programs:
            loaded = Loaded(program, _arena(program, arenas), self.threads)
            loaded.replay.run()
            results.append([array.copy() for array in loaded.replay.outputs])
        return {self.contest: [index for index, outputs in enumerate(results) if not _alike(outputs, results[0], self.rounding)]}


class _KernelTurns:
    """Runs of one network, launch by launch, with a choice of code for each kernel."""

    def __init__(self, request: Timings) -> None:
        self._loaded = Loaded(request.base, _arena(request.base, {}), request.threads, request.kernels)
        self._contests = set(request.kernels)

    def time(self, turn: Turn) -> dict[str, Times]:
        """The times of the kernels that compete, in one run."""
        with self._loaded.replay.on_threads():
            times = self._loaded.time(turn)
        return {name: one for name, one in times.items() if name in self._contests}


class _ProgramTurns:
    """Runs of one of several networks."""

    def __init__(self, request: Timings, programs: Mapping[str, tuple[Program, ...]]) -> None:
        [(self._contest, competing)] = programs.items()
        arenas: dict[str, np.ndarray] = {}
        # Where data lie changes times by as much as a plan does: in a run of their own, too, only one network uses the workspace.
        workspace = aligned_empty(max(program.workspace_bytes for program in competing))
        self._loaded = [Loaded(program, _arena(program, arenas), request.threads, workspace=workspace) for program in competing]
        self._whole = self._contest == WHOLE
        self._mains = [loaded.replay.main(shares=True) for loaded in self._loaded] if self._whole else []
        codes = [set(program.objects.items()) for program in competing]
        self._common = {name for name, _ in set.intersection(*codes)}

    def time(self, turn: Turn) -> dict[str, Times]:
        """The time of the chosen network, or of its launches that not all have, in one run."""
        loaded = self._loaded[turn[self._contest]]
        with loaded.replay.on_threads():
            if self._whole:
                return {self._contest: timed(self._mains[turn[self._contest]], Times())}
            total = Times()
            for kernel, times in loaded.time({}).items():
                if kernel not in self._common:
                    total.add(times.cpu, times.wall)
            return {self._contest: total}


def _alike(outputs: Sequence[np.ndarray], others: Sequence[np.ndarray], rounding: bool) -> bool:
    pairs, alike = zip(outputs, others, strict=True), are_close if rounding else same_bits
    return all(alike(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8), _KINDS.get(one.dtype.str, "")) for one, other in pairs)


def _sample(times: Times, threads: int) -> Sample:
    return Sample(times.cpu if threads == 1 and times.is_valid else None, times.wall if times.is_valid else None)


def _arena(program: Program, known: dict[str, np.ndarray]) -> np.ndarray:
    """The weights in memory of the same kind as that of a compiled model: pages of a mapped file are smaller, which large weights notice."""
    digest = program.weights.digest
    if digest not in known:
        stored = program.weights.array()
        if stored.nbytes != program.weights.size:
            raise CodegenError(f"the weights have {stored.nbytes} bytes, expected {program.weights.size}")
        known[digest] = aligned_empty(stored.nbytes)
        known[digest][:] = stored
    return known[digest]


def _preemptions() -> int:
    """How often other processes took a core from a thread of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
