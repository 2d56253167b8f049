"""A network as code and data that a process without the bindings runs: launch by launch, with other code for some kernels, or as a whole."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from stepwell.analysis.launches import KernelLaunch
from stepwell.analysis.replay import Replay
from stepwell.dialects.support.buffers import address, aligned_empty
from stepwell.dialects.support.digests import key_of
from stepwell.dialects.support.errors import CodegenError
from stepwell.dialects.support.properties import cached_property
from stepwell.runtime.loader import load
from stepwell.runtime.weights import Places, unshared
from stepwell.tuning.blobs import Blob

Run = Callable[[], None]


@dataclass(frozen=True)
class KernelCode:
    """A kernel with one schedule."""

    kernel: str
    code: bytes
    """Its object."""
    scratch_bytes: int | None = None
    """The bytes of its scratch memory, its last argument; None if it has none."""

    @cached_property
    def digest(self) -> str:
        """The digest of the code."""
        return key_of(self.code, str(self.scratch_bytes))


@dataclass(frozen=True)
class Program:
    """A network: the launches of its kernels in order, their code, and its data."""

    launches: tuple[KernelLaunch, ...]
    objects: Mapping[str, bytes]
    """The object of each function, by its name, `main` among them."""
    inputs: tuple[tuple[Blob, tuple[int, ...], str], ...]
    """The data of each input, its shape and its numpy type."""
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    """The shape and the numpy type of each output, the hidden ones last."""
    weights: Blob
    places: Places
    """The offset and the bytes of each weight, if the code of `main` looks them up in a table."""
    workspace_bytes: int

    @cached_property
    def digest(self) -> str:
        """The digest of its code, and of the memory that it uses."""
        parts = [str(launch) for launch in self.launches]
        return key_of(*parts, str(self.workspace_bytes), self.weights.digest, *(key_of(name, code) for name, code in sorted(self.objects.items())))

    @cached_property
    def in_place(self) -> frozenset[str]:
        """The kernels of which a result shares memory with an input in some launch, by name."""
        shared = (any(one.overlaps(other) for one in launch.destinations for other in launch.sources) for launch in self.launches)
        return frozenset(launch.kernel for launch, shares in zip(self.launches, shared, strict=True) if shares)

    def kernel(self, name: str) -> KernelCode:
        """The code of one of its kernels."""
        launch = next(launch for launch in self.launches if launch.kernel == name)
        return KernelCode(name, self.objects[name], None if launch.scratch is None else launch.scratch.size)


@dataclass
class Times:
    """The time of some launches in one run, in seconds."""

    cpu: float = 0.0
    wall: float = 0.0
    is_valid: bool = True
    """Whether the clocks did not step back."""

    def add(self, cpu: float, wall: float) -> None:
        """Add the time of one launch."""
        self.cpu, self.wall = self.cpu + cpu, self.wall + wall
        self.is_valid = self.is_valid and cpu >= 0 and wall >= 0


@dataclass
class Loaded:
    """A program in this process, ready to run, with other code for some of its kernels.

    Raises CodegenError for code that cannot be loaded.
    """

    program: Program
    arena: np.ndarray
    """The weights, in memory like that of a compiled model."""
    threads: int
    arms: Mapping[str, Sequence[KernelCode]] = field(default_factory=dict)
    """For some kernels by name, the codes that can run in their place."""
    workspace: np.ndarray | None = None
    """Memory for intermediate results, which several programs may share; of its own if None."""

    def __post_init__(self) -> None:
        program, arena = self.program, self.arena
        self._weights = unshared(arena, program.places)
        self.inputs = [blob.array().view(dtype).reshape(shape) for blob, shape, dtype in program.inputs]
        outputs = [np.zeros(shape, dtype) for shape, dtype in program.outputs]
        located = self._weights.table() if program.places else arena
        self.replay = Replay(
            program.launches, program.objects, inputs=self.inputs, outputs=outputs, weights=arena, workspace_bytes=program.workspace_bytes,
            threads=self.threads, located=located, workspace=self.workspace,
        )  # fmt: skip
        self._runs: dict[str, list[list[Run]]] = {name: [self._bound(name, code) for code in codes] for name, codes in self._with_scratch()}

    def _with_scratch(self) -> list[tuple[str, list[tuple[KernelCode, np.ndarray | None]]]]:
        """The codes of each kernel, with the scratch memory that they share if one of them needs more than the program has for the kernel."""
        found = []
        for name, codes in self.arms.items():
            own = self.program.kernel(name).scratch_bytes or 0
            most = max((code.scratch_bytes or 0 for code in codes), default=0)
            scratch = aligned_empty(most) if most > own else None
            found.append((name, [(code, scratch) for code in codes]))
        return found

    def _bound(self, name: str, one: tuple[KernelCode, np.ndarray | None]) -> list[Run]:
        """The launches of a kernel with other code."""
        code, scratch = one
        linked = load({name: code.code}, exports=[name])
        addresses = [address(array) for array in self.replay.arrays]
        runs: list[Run] = []
        for launch in self.program.launches:
            if launch.kernel != name:
                continue
            operands = [addresses[operand.argument] + operand.offset for operand in (*launch.sources, *launch.destinations)]
            if code.scratch_bytes is not None:
                own = None if launch.scratch is None else addresses[launch.scratch.argument] + launch.scratch.offset
                memory = own if scratch is None else address(scratch)
                if memory is None:
                    raise CodegenError(f"@{name} takes scratch memory of {code.scratch_bytes} bytes, and the network has none for it")
                operands.append(memory)
            function = linked.function(name, len(operands))
            runs.append(partial(function, *operands))
        return runs

    def steps(self, chosen: Mapping[str, int]) -> list[tuple[str, Run]]:
        """The launches in order, each with its kernel: of some kernels those of the chosen code, by its index, of the others the program's own."""
        counts: dict[str, int] = {}
        found = []
        for launch, own in zip(self.program.launches, self.replay.runners, strict=True):
            number = counts[launch.kernel] = counts.get(launch.kernel, -1) + 1
            arm = chosen.get(launch.kernel)
            found.append((launch.kernel, own if arm is None else self._runs[launch.kernel][arm][number]))
        return found

    def time(self, chosen: Mapping[str, int]) -> dict[str, Times]:
        """Run once; the times of the launches of each kernel."""
        found: dict[str, Times] = {}
        for kernel, run in self.steps(chosen):
            timed(run, found.setdefault(kernel, Times()))
        return found

    def differing(self, *, rounding: bool) -> dict[str, list[int]]:
        """For each kernel with several codes, the indices of those whose results differ from those of the first code, in any launch.

        All run on the same data, those that the first code computes. They differ in any bit, or with `rounding` by more than `are_close` allows.
        """
        alike = are_close if rounding else same_bits
        found: dict[str, set[int]] = {name: set() for name in self.arms}
        counts: dict[str, int] = {}
        with self.replay.on_threads():
            for launch, own in zip(self.program.launches, self.replay.runners, strict=True):
                number = counts[launch.kernel] = counts.get(launch.kernel, -1) + 1
                runs = self._runs.get(launch.kernel)
                if runs is None:
                    own()
                    continue
                memory = [self.replay.bytes(operand) for operand in launch.destinations]
                kinds = [operand.type.rpartition("x")[2] for operand in launch.destinations]
                before = [part.copy() for part in memory]
                runs[0][number]()
                expected = [part.copy() for part in memory]
                for arm, others in enumerate(runs[1:], 1):
                    _restore(memory, before)
                    others[number]()
                    if not all(alike(part, want, kind) for part, want, kind in zip(memory, expected, kinds, strict=True)):
                        found[launch.kernel].add(arm)
                _restore(memory, expected)
        return {name: sorted(arms) for name, arms in found.items()}


FLOATS: Mapping[str, np.dtype] = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
"""The numpy type of each float type of MLIR that numpy has."""


def same_bits(one: np.ndarray, other: np.ndarray, kind: str) -> bool:
    """Whether two arrays of bytes, with elements of an MLIR type, are equal. All NaN are: their sign and payload depend on the order of operands."""
    if np.array_equal(one, other):
        return True
    if kind not in FLOATS or one.nbytes != other.nbytes or one.nbytes % FLOATS[kind].itemsize:
        return False
    floats = one.view(FLOATS[kind]), other.view(FLOATS[kind])
    size = floats[0].itemsize
    differ = (one.reshape(-1, size) != other.reshape(-1, size)).any(axis=1)
    return bool(np.isnan(floats[0][differ]).all() and np.isnan(floats[1][differ]).all())


def are_close(one: np.ndarray, other: np.ndarray, kind: str) -> bool:
    """The same, but floats may differ by half of the digits of their type, relative to the largest: other methods and orders of sums round so far."""
    if kind not in FLOATS or same_bits(one, other, kind):
        return same_bits(one, other, kind)
    mine, theirs = one.view(FLOATS[kind]).astype(np.float64), other.view(FLOATS[kind]).astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(finite, np.isfinite(mine)):
        return False
    scale = np.abs(theirs[finite]).max(initial=0.0)
    return bool(np.abs(mine[finite] - theirs[finite]).max(initial=0.0) <= float(np.finfo(FLOATS[kind]).eps) ** 0.5 * scale)


def timed(run: Run, times: Times) -> Times:
    """Run once, and add the time to `times`, which is returned."""
    cpu, wall = time.thread_time, time.perf_counter
    start_cpu, start = cpu(), wall()
    run()
    end, end_cpu = wall(), cpu()
    times.add(end_cpu - start_cpu, end - start)
    return times


def _restore(memory: Sequence[np.ndarray], content: Sequence[np.ndarray]) -> None:
    for part, wanted in zip(memory, content, strict=True):
        part[:] = wanted
