"""The memory plan of a model: which buffer lies where, and when. It is read back from the launches in @main, so it shows the actual code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.analysis.kernel_launches import launches_of, placed_operand
from stepwell.analysis.launches import KernelLaunch, Operand
from stepwell.checks import wrong
from stepwell.dialects.core.kernel_info import REGION_MEMORY
from stepwell.dialects.core.layout import aligned
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.module_info import ValueInfo
from stepwell.dialects.support.errors import IRError
from stepwell.passes.framework.rewriting import find_function


@dataclass(eq=False)
class Buffer:
    """A piece of memory, live from launch `first`, which writes it, to launch `last`, which reads it last; numbers are per function."""

    where: Operand
    first: int
    last: int
    kernel: str  # the kernel whose result or scratch it is; "" for an input
    nodes: tuple[str, ...]
    scratch: bool = False
    in_place_of: "Buffer | None" = None
    """The buffer that the launch read and overwrote."""
    joined: Operand | None = None
    """The larger operand, such as the result of a concatenation, that a later launch reads and this buffer is part of."""
    read_as: set[str] = field(default_factory=set)
    """Other types under which launches read it: reshapes."""
    carried: bool = False
    """Whether a loop carries it between iterations, or keeps it for its iterations."""


@dataclass
class MemoryPlan:
    """All buffers, inputs first, then in the order of their first launch. Sizes are in bytes."""

    launches: list[KernelLaunch]
    buffers: list[Buffer]
    names: list[str]
    """The names of the arguments of @main: inputs, then outputs."""
    weights_bytes: int
    workspace_bytes: int
    live: list[int]
    """For each launch, the bytes of the workspace in use, including scratch, in whole cache lines."""
    function: str = "main"
    """The function whose launches these are."""
    regions: list["MemoryPlan"] = field(default_factory=list)
    """The plans of the functions of branches and of loops' bodies that it calls. Their workspaces are the scratch of the calling launches."""

    def is_in_workspace(self, buffer: Buffer) -> bool:
        """Whether it lies in the workspace, not in the caller's memory."""
        return buffer.where.argument == len(self.names) + 1

    @property
    def unplaced(self) -> int:
        """The number of operands of launches that are not in the plan, because their placement or size is known only at run time."""
        return sum(launch.unplaced for launch in self.launches)

    @property
    def lower_bound(self) -> int:
        """The bytes that are live at the busiest launch: no placement of these buffers takes less."""
        return max(self.live, default=0)

    @property
    def ratio(self) -> float:
        """The size of the workspace divided by its lower bound."""
        return self.workspace_bytes / self.lower_bound if self.lower_bound else 1.0


def memory_plan(module: ir.Operation) -> MemoryPlan:
    """The plan of a module at level affine, with those of the functions of its branches and loops.

    Raises IRError if a launch reads bytes of the workspace or of an output that no launch wrote, or that another one overwrote.
    """
    if not isinstance(getattr(module, "operation", None), ir.Operation):
        raise wrong("module", "a module at level affine", module)
    main = find_function(module, "main")
    arguments = ValueInfo.arguments(main)
    sizes = [value.byte_count for value in arguments]
    if sum(size is not None for size in sizes) != 2:
        raise IRError(f"@main is expected to end in weights and workspace, arguments with {ValueInfo.byte_count.name}")
    count = sizes.index(next(size for size in sizes if size is not None))
    weights, workspace = (size or 0 for size in sizes[count : count + 2])
    return _plan(module, main, ValueInfo.names(arguments[:count], "argument "), weights, workspace)


def _region_plan(module: ir.Operation, name: str) -> MemoryPlan:
    """The plan of a function of a region; the types of its last arguments give the sizes of weights and workspace."""
    function = find_function(module, name)
    types = list(function.type.inputs)
    weights, workspace = (kind.shape[0] for kind in types[-REGION_MEMORY : 2 - REGION_MEMORY])
    names = [f"argument {i}" for i in range(len(types) - REGION_MEMORY)]
    return _plan(module, function, names, weights, workspace if workspace > 1 else 0)  # an empty workspace has one byte, as memory must


def _plan(module: ir.Operation, function: Any, names: list[str], weights: int, workspace: int) -> MemoryPlan:
    types, count = list(function.type.inputs), len(names)
    launches = launches_of(module, function)
    outputs = {destination.argument for launch in launches for destination in launch.destinations}
    inputs = [Buffer(placed_operand(i, 0, types[i]), 0, 0, "", ()) for i in range(count) if i not in outputs and types[i].has_static_shape]
    buffers = [*inputs, *sorted(_Reader(inputs, count).buffers(launches), key=lambda b: b.first)]
    live = live_bytes([b for b in buffers if b.where.argument == count + 1], len(launches))
    regions = [_region_plan(module, name) for name in dict.fromkeys(launch.kernel for launch in launches if launch.is_region)]
    return MemoryPlan(launches, buffers, names, weights, workspace, live, function.sym_name.value, regions)


def live_bytes(buffers: Sequence[Buffer], launches: int) -> list[int]:
    """For each launch, the bytes of whole cache lines that live buffers cover; shared memory counts once."""
    alive: list[list[tuple[int, int]]] = [[] for _ in range(launches)]
    for buffer in buffers:
        for launch in range(buffer.first, buffer.last + 1):
            alive[launch].append((buffer.where.offset, buffer.where.end))
    totals = []
    for spans in alive:
        total = reached = 0
        for start, end in sorted(spans):
            total += max(0, aligned(end) - max(reached, start))
            reached = max(reached, aligned(end))
        totals.append(total)
    return totals


class _Reader:
    """Follows the launches and tracks which buffers each argument of @main holds."""

    def __init__(self, inputs: Sequence[Buffer], weights: int) -> None:
        self.content = {buffer.where.argument: [buffer] for buffer in inputs}
        self.weights = weights

    def buffers(self, launches: Sequence[KernelLaunch]) -> Iterator[Buffer]:
        """The buffers that each launch writes."""
        for number, launch in enumerate(launches):
            read = [b for source in launch.sources if source.argument != self.weights for b in self._read(source, launch, number)]
            if launch.scratch is not None:
                yield self._write(Buffer(launch.scratch, number, number, launch.kernel, launch.nodes, scratch=True))
            for place in launch.carried:
                if place.argument != self.weights:
                    yield from self._carry(place, launch, number)
            for destination in launch.destinations:
                made = Buffer(destination, number, number, launch.kernel, launch.nodes)
                made.in_place_of = next((b for b in read if b.where.overlaps(made.where)), None)
                yield self._write(made)

    def _read(self, source: Operand, launch: KernelLaunch, number: int) -> list[Buffer]:
        """The buffers that make up a source, each now known to be live until this launch."""
        found = sorted((b for b in self.content.get(source.argument, []) if b.where.overlaps(source)), key=lambda b: b.where.offset)
        reached = source.offset
        for buffer in found:
            if buffer.scratch or buffer.where.offset > reached:
                break
            reached = max(reached, buffer.where.end)
            buffer.last = number
            if source.size > buffer.where.size:
                buffer.joined = source
            elif source.type != buffer.where.type:
                buffer.read_as.add(source.type)
        if reached < source.end:
            where = f"{source.type} at byte {source.offset}"
            raise IRError(f"launch {number}, of @{launch.kernel}, reads {where}, but byte {reached} is not written by then")
        return found

    def _carry(self, place: Operand, launch: KernelLaunch, number: int) -> Iterator[Buffer]:
        """The buffer at a place that a loop reads and writes, if it is new."""
        before = [b for b in self.content.get(place.argument, []) if b.where.overlaps(place) and not b.scratch]
        for buffer in before:
            buffer.last = number
        if not before:
            yield self._write(Buffer(place, number, number, launch.kernel, launch.nodes, carried=True))

    def _write(self, buffer: Buffer) -> Buffer:
        before = self.content.get(buffer.where.argument, [])
        self.content[buffer.where.argument] = [*(b for b in before if not b.where.overlaps(buffer.where)), buffer]
        return buffer
