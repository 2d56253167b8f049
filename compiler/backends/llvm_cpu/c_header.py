"""The C header of a model's object: what a program in C calls, with which arguments, and what the table of sizes holds."""

from collections.abc import Iterator

from stepwell.dialects.core.index_checks import widths
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.runtime_interface import ANSWER, FUNCTIONS, RUNTIME, VERSION
from stepwell.dialects.core.segments import Segment
from stepwell.dialects.core.size_table import SIZES_FUNCTION, Status
from stepwell.dialects.core.sizes import Size
from stepwell.dialects.support.names import printable
from stepwell.signature import TensorInfo

EXPORTED = {"main": "stepwell_main", SIZES_FUNCTION: "stepwell_sizes"}
"""The names in an object of the functions that a program calls: a program in C has a `main` of its own."""


def c_header(info: ModuleInfo) -> str:
    """The header of a model at the level llvm. docs/sizes.md explains it."""
    statuses = "".join(f"    STEPWELL_STATUS_{status.name} = {status.value},\n" for status in Status)
    parts = ["#include <stdint.h>", f"enum stepwell_status {{\n{statuses}}};"]
    numbers = {"WEIGHTS_BYTES": info.weights_bytes}
    entries = dict(_entries(info))
    if info.located:
        parts.append(_weights(info.weight_offsets))
    if info.table_entries:
        numbers |= {"RUNTIME_VERSION": VERSION, "ENTRY_RUNTIME": info.table_entries + RUNTIME, "ENTRY_ANSWER": info.table_entries + ANSWER}
        functions = "".join(f"    void (*{name})(struct stepwell_runtime *, int64_t *table, int64_t);\n" for name in FUNCTIONS)
        parts.append(f"struct stepwell_runtime {{\n    int64_t version;\n{functions}}};")
    if info.size_table is None:
        numbers["WORKSPACE_BYTES"] = info.workspace_bytes
    else:
        numbers["ENTRY_WORKSPACE"] = info.size_table.workspace
        parts.append(f"int64_t {EXPORTED[SIZES_FUNCTION]}(int64_t *table);")
    if entries:
        numbers["ENTRIES"] = max(info.table_entries, 0 if info.size_table is None else info.size_table.entries)
        parts.append(_comment("table", entries))
    arguments = dict(enumerate(_arguments(info)))
    numbers["ARGUMENTS"] = len(arguments)
    parts += [_comment("arguments", arguments), f"int64_t {EXPORTED['main']}(void **arguments);"]
    parts.insert(1, "\n".join(f"#define STEPWELL_{name} {number}" for name, number in numbers.items()))
    return "\n\n".join(parts) + "\n"


def _comment(name: str, lines: dict[int, str]) -> str:
    """A comment with what the elements of an array are."""
    return "\n".join(["/*", *(f"    {name}[{number}]  {printable(text).replace('*/', '* /')}" for number, text in sorted(lines.items())), "*/"])


def _weights(offsets: list[int]) -> str:
    """A function that makes the table of where each weight of an arena lies (`locate-weights`)."""
    return "\n".join([
        f"#define STEPWELL_WEIGHTS {len(offsets)}", "static inline void stepwell_locate(int64_t table[STEPWELL_WEIGHTS], const char *arena) {",
        f"    static const int64_t offsets[] = {{{', '.join(map(str, offsets))}}};",
        "    for (int i = 0; i < STEPWELL_WEIGHTS; ++i) table[i] = (int64_t)(intptr_t)(arena + offsets[i]) - (int64_t)(intptr_t)table;", "}",
    ])  # fmt: skip


def _arguments(info: ModuleInfo) -> Iterator[str]:
    """The arguments of @main, in order."""
    for name, kind in info.inputs:
        yield f"input {TensorInfo.from_type(name, kind)} {name}"
    late = {output for segment in info.segments for _, output in segment.outputs}
    for number, (name, kind) in enumerate(info.outputs):
        yield f"output {TensorInfo.from_type(name, kind)} {name}{', in memory from the runtime: 0' if number in late else ''}"
    for number, width in enumerate(widths(info.checks)):
        checks = [f"{place} ({check.node})" for place, check in enumerate(info.checks) if check.result == number]
        yield f"uint64[{width}], how far indices reach, for check {', '.join(checks)}"
    yield f"weights{', as stepwell_locate places them' if info.located else ''}"
    yield "workspace"
    if info.symbols or info.table_entries:
        yield "table"


def _entries(info: ModuleInfo) -> Iterator[tuple[int, str]]:
    """The entries of the table that a caller or the runtime reads or writes."""
    yield from enumerate(info.symbols)
    for number, segment in enumerate(info.segments):
        yield from ((place, f"segment {number}: {what}") for place, what in enumerate(_segment(info, segment), segment.start))
    if info.size_table is not None:
        yield info.size_table.workspace, "bytes of the workspace"
        yield from enumerate(map(str, info.size_table.sizes), info.size_table.workspace + 1)


def _segment(info: ModuleInfo, segment: Segment) -> Iterator[str]:
    """The entries of a segment, in order (`Segment`)."""
    alone = {slot: f"output {info.outputs[output][0]}" for slot, output in segment.outputs}
    alone |= {slot: "a box, which may hold boxes" if nested else "a box" for slot, nested in segment.boxes}
    slots = [f"slot {slot}{f', {alone[slot]}' if slot in alone else ''}" for slot in range(len(segment.slots))]
    yield from (f"number {size}" for size in segment.sizes)
    yield from slots
    yield "bytes of the block"
    yield from (f"bytes of {slots[slot]}" for slot, _ in (*segment.outputs, *segment.boxes))
    yield from (f"bytes {when} of {slots[slot]}" for slot, _ in segment.grows for when in ("before", "after"))
    for (slot, _), shape in zip(segment.outputs, segment.shapes, strict=True):
        yield from (f"size {size} of {alone[slot]}" for size in shape if isinstance(size, Size))
