"""Locations that name ONNX nodes: made by the importer, read through fusion and inlining by everything below it."""

from collections.abc import Iterator

from stepwell.dialects.core.mlir import ir

MODEL_FILE = "model.onnx"


def node_location(name: str, index: int, context: ir.Context | None = None) -> ir.Location:
    """The location of ops made for the node `name`, which is number `index` (from 0) of the module's `stepwell.nodes`.

    The index is stored as a line number (plus one, since lines count from 1), because only files and lines survive into debug information.
    """
    return ir.Location.name(name, childLoc=ir.Location.file(MODEL_FILE, index + 1, 0, context=context), context=context)


def node_names(location: ir.Location) -> list[str]:
    """The names of all nodes in `location`, each once, in order; those inside fused and call-site locations included."""
    return list(dict.fromkeys(leaf.name_str for leaf in _leaves(location) if isinstance(leaf, ir.NameLoc)))


def nodes_text(location: ir.Location) -> str:
    """The names of all nodes in `location`, for a message."""
    return " and ".join(node_names(location)) or "an unnamed node"


def leading(location: ir.Location) -> ir.Location:
    """The first of the locations that a fused one is made of, or the location itself.

    A line table has one line per instruction: LLVM would give an instruction of several nodes the line 0, which is no node's.
    """
    while isinstance(location, ir.FusedLoc):
        location = location.locations[0]
    return location


def node_index(location: ir.Location) -> int | None:
    """The index of the first node in `location`, or None if it names none."""
    for leaf in _leaves(location):
        if isinstance(leaf, ir.FileLineColLoc) and leaf.filename == MODEL_FILE and leaf.start_line > 0:
            return int(leaf.start_line) - 1
    return None


def _leaves(location: ir.Location) -> Iterator[ir.Location]:
    """The name, file and unknown locations that `location` is made of, in order; a name before what it names."""
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
