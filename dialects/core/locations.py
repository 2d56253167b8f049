"""Locations that name ONNX nodes: made by the importer, read through fusion and inlining by everything below it."""

from collections.abc import Callable, Iterator
from typing import Any

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.support.names import printable

MODEL_FILE = "model.onnx"


def node_location(name: str, index: int, context: ir.Context | None = None) -> ir.Location:
    """The location of ops made for the node `name`, which is number `index` (from 0) of the module's `stepwell.nodes`.

    The index is stored as a line number (plus one, since lines count from 1), because only files and lines survive into debug information.
    """
    return ir.Location.name(name, childLoc=ir.Location.file(MODEL_FILE, index + 1, 0, context=context), context=context)


def node_names(location: ir.Location) -> list[str]:
    """The names of all nodes in `location`, each once, in order; those inside fused and call-site locations included."""
    return list(dict.fromkeys(printable(leaf.name_str) for leaf in _leaves(location) if isinstance(leaf, ir.NameLoc)))


def nodes_text(location: ir.Location) -> str:
    """The names of all nodes in `location`, for a message."""
    return " and ".join(node_names(location)) or "an unnamed node"


def leading(location: ir.Location) -> ir.Location:
    """The first part of a fused location, or the location itself.

    A line table has one line for each instruction: LLVM gives an instruction with several nodes line 0, which belongs to no node.
    """
    while isinstance(location, ir.FusedLoc):
        location = location.locations[0]
    return location


def renumber_nodes(op: ir.Operation) -> tuple[int, ...]:
    """Renumber the nodes that locations in `op` name from 0, in order of appearance; returns the previous index of each.

    Equal parts of two models then have equal line tables, whatever their position in the models.
    """
    numbers: dict[int, int] = {}

    def local(leaf: ir.Location) -> ir.Location:
        if isinstance(leaf, ir.FileLineColLoc) and leaf.filename == MODEL_FILE and leaf.start_line > 0:
            number = numbers.setdefault(leaf.start_line - 1, len(numbers))
            return ir.Location.file(MODEL_FILE, number + 1, leaf.start_col, context=leaf.context)
        return leaf

    _map_leaves(op, local, named=True)
    return tuple(numbers)


def strip_node_names(op: ir.Operation) -> None:
    """Remove names from all locations in `op`; files and lines, the source of debug information, stay."""
    _map_leaves(op, lambda leaf: leaf, named=False)


def place_calls(module: ir.Operation) -> None:
    """Give calls whose location names no file line 0 of the model, which belongs to no node.

    LLVM rejects a call without a line, in a function with debug information, of another one that it may inline.
    """
    with module.context:
        nowhere = ir.Location.file(MODEL_FILE, 0, 0)
    for call in ops_below(module, "llvm.call"):
        if not any(isinstance(leaf, ir.FileLineColLoc) for leaf in _leaves(call.location)):
            call.location = nowhere


def _map_leaves(op: ir.Operation, change: Callable[[ir.Location], ir.Location], *, named: bool) -> None:
    """Replace the leaves of all locations of operations and block arguments in `op`."""
    done: dict[Any, ir.Location] = {}

    def replaced(location: ir.Location) -> ir.Location:
        if isinstance(location, ir.NameLoc):
            child = replaced(location.child_loc)
            return ir.Location.name(location.name_str, child, context=location.context) if named else child
        if isinstance(location, ir.FusedLoc):
            return ir.Location.fused([replaced(inner) for inner in location.locations], location.metadata, context=location.context)
        if isinstance(location, ir.CallSiteLoc):
            return ir.Location.callsite(replaced(location.callee), [replaced(location.caller)], context=location.context)
        return change(location)

    def mapped(location: ir.Location) -> ir.Location:
        key = location.attr  # locations themselves hash by identity
        if key not in done:
            done[key] = replaced(location)
        return done[key]

    for inner in (op, *ops_below(op)):
        inner.location = mapped(inner.location)
        for region in inner.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.set_location(mapped(argument.location))


def _leaves(location: ir.Location) -> Iterator[ir.Location]:
    """The name, file and unknown locations inside `location`, in order; a name comes before the location that it names."""
    if isinstance(location, ir.NameLoc):
        yield location
        yield from _leaves(location.child_loc)
    elif isinstance(location, ir.FusedLoc):
        for inner in location.locations:
            yield from _leaves(inner)
    elif isinstance(location, ir.CallSiteLoc):
        yield from _leaves(location.callee)
        yield from _leaves(location.caller)
    else:
        yield location
