"""The memory plan of a model as text: a row for each buffer, a drawing of the workspace over time, totals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepwell.cli.display import plural, print_table, quantity, say, width

if TYPE_CHECKING:
    from stepwell.analysis.memory import Buffer, MemoryPlan

ROWS, COLUMNS = 20, 100  # the largest size of the drawing
NODES_SHOWN = 3
_EMPTY, _SCRATCH, _TENSOR = " ░█"


def show_memory(plan: "MemoryPlan") -> None:
    """Print a plan to standard output, and those of the functions of its branches and loops."""
    _show_function(plan)
    shown = {plan.function}
    waiting = list(plan.regions)
    while waiting:
        region = waiting.pop(0)
        if region.function not in shown:
            say()
            _show_function(region)
            shown.add(region.function)
            waiting += region.regions


def _show_function(plan: "MemoryPlan") -> None:
    numbers = {buffer: str(i) for i, buffer in enumerate(plan.buffers)}
    rows = [
        [numbers[b], _offset(plan, b), str(b.where.size), f"{b.first}–{b.last}" if b.last > b.first else str(b.first), b.where.type,
         "scratch" if b.scratch else "carried" if b.carried else "", b.kernel, _nodes(b.nodes), _aliases(plan, b, numbers)]
        for b in plan.buffers
    ]  # fmt: skip
    header = ("", "offset", "bytes", "launches", "type", "", "kernel", "ONNX nodes", "aliases")
    print_table(header, rows, title=f"buffers of @{plan.function}", numbers=(0, 1, 2, 3))
    lines = drawing(plan, ROWS, min(COLUMNS, width() - 10))
    if lines:
        over = plural(len(plan.launches), "launch")
        say(f"workspace over {over} ({_TENSOR} tensors, {_SCRATCH} scratch), offsets upwards, launches to the right")
        say("\n".join([*lines, ""]))
    _show_totals(plan)


def drawing(plan: "MemoryPlan", rows: int, columns: int) -> list[str]:
    """The workspace over time, offset 0 at the bottom: a column is one or several launches, a row a range of bytes."""
    launches, size = len(plan.launches), plan.workspace_bytes
    if not launches or not size or columns < 1:
        return []
    per_column = -(-launches // columns)
    cells = [[_EMPTY] * -(-launches // per_column) for _ in range(rows)]
    for buffer in filter(plan.is_in_workspace, plan.buffers):
        bottom = buffer.where.offset * rows // size
        top = max(bottom + 1, round(buffer.where.end * rows / size))
        for row in range(bottom, min(rows, top)):
            for column in range(buffer.first // per_column, buffer.last // per_column + 1):
                if cells[row][column] != _TENSOR:
                    cells[row][column] = _SCRATCH if buffer.scratch else _TENSOR
    ends = [(row + 1) * size // rows for row in range(rows)]
    return [f"{quantity(end, 'B'):>8} {''.join(line)}".rstrip() for end, line in zip(reversed(ends), reversed(cells), strict=True)]


def _show_totals(plan: "MemoryPlan") -> None:
    from stepwell.passes.bufferize.program import COPY

    busiest = max(range(len(plan.live)), key=plan.live.__getitem__, default=None)
    where = f" (launch {busiest}, {plan.launches[busiest].kernel})" if busiest is not None else ""
    say(f"workspace: {plan.workspace_bytes} bytes, {plan.ratio:.3f} times the {plan.lower_bound} that live at the busiest launch{where}")
    held = [b for b in plan.buffers if plan.is_in_workspace(b)]
    say(f"without sharing memory its buffers would take {quantity(sum(b.where.size for b in held), 'B')}")
    say(f"weights: {quantity(plan.weights_bytes, 'B')} in one arena")
    outside = [b for b in plan.buffers if not plan.is_in_workspace(b)]
    for kind, buffers in (("inputs", [b for b in outside if not b.kernel]), ("outputs", [b for b in outside if b.kernel])):
        say(f"{kind}: {quantity(sum(b.where.size for b in buffers), 'B')} in the caller's arrays")
    results = [b for b in plan.buffers if b.kernel and not b.scratch]
    in_place, joined = sum(b.in_place_of is not None for b in results), sum(b.joined is not None for b in results)
    copied = sum(launch.kernel.startswith(COPY) for launch in plan.launches)
    kinds = f"{in_place} overwrite an input, {joined} are written in their place in a larger one, {copied} are only copied"
    say(f"{plural(len(results), 'result')}: {kinds}")
    if plan.unplaced:
        say(f"not shown: {plural(plan.unplaced, 'operand')} of launches that lie where, or are as large as, only a run says")


def _offset(plan: "MemoryPlan", buffer: "Buffer") -> str:
    return str(buffer.where.offset) if plan.is_in_workspace(buffer) else ""


def _nodes(names: Sequence[str]) -> str:
    more = len(names) - NODES_SHOWN
    return ", ".join(names[:NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _aliases(plan: "MemoryPlan", buffer: "Buffer", numbers: "dict[Buffer, str]") -> str:
    parts = []
    if not plan.is_in_workspace(buffer):
        parts.append(f"{'output' if buffer.kernel else 'input'} '{plan.names[buffer.where.argument]}'")
    if buffer.in_place_of is not None:
        parts.append(f"in place of {numbers[buffer.in_place_of]}")
    if buffer.joined is not None:
        parts.append(f"byte {buffer.where.offset - buffer.joined.offset} of {buffer.joined.type}")
    parts += [f"read as {other}" for other in sorted(buffer.read_as)]
    return ", ".join(parts)
