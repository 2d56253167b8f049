"""Data-dependent sizes inside a branch: assumptions there are checked when the branch is taken, and do not affect other runs."""

from collections.abc import Iterable, Sequence

from onnx import GraphProto

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Assumption, Size, symbol
from stepwell.dialects.core.types import type_of
from stepwell.frontends.builder import dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.frames import Frame
from stepwell.frontends.onnx.order import names_read
from stepwell.frontends.symbols import Symbols


def guarded(assumed: Iterable[Assumption], known: frozenset[str], symbols: Symbols) -> list[str]:
    """The data-dependent symbols of `known` about which something is assumed.

    Symbols of inputs are excluded: they are known before a run, which gets specialised code for sizes that do not fit.
    """
    names = {name for assumption in assumed if known.issuperset(assumption.symbols) for name in assumption.symbols}
    return sorted(name for name in names if symbols.origins(name) is None)


def with_own_sizes(b: ImportBuilder, graph: GraphProto, frame: Frame, names: Sequence[str]) -> Frame:
    """The frame for a branch, built at the current insertion point, in which these symbols have other names, local to the branch.

    Values that it reads from the surrounding graph have these sizes there. Where the branch begins, their numbers are read, and the assumptions about
    them are checked.
    """
    own = {name: b.symbols.fresh(name) for name in names}
    b.bind_sizes(b.sizes(values=tuple(map(symbol, names))), sizes=tuple(own.values()))
    renamed = {name: str(size) for name, size in own.items()}
    inner = Frame(frame.opsets, frame, prefix=frame.prefix, owner=frame.owner, attributes=frame.attributes)
    for name in sorted(set().union(*map(names_read, graph.node), (value.name for value in graph.output))):
        value = frame.lookup(name) if name and frame.has(name) else None
        if not isinstance(value, ir.Value) or set(names).isdisjoint(_symbols(value)):
            continue
        sizes = [size.renamed(renamed) if isinstance(size, Size) else size for size in dims_of(value)]
        inner.values[name] = b.with_shape(value, sizes)
        if frame.is_tainted(name):
            inner.tainted.add(name)
    return inner


def _symbols(value: ir.Value) -> set[str]:
    return {name for size in type_of(value).shape if isinstance(size, Size) for name in size.symbols}
