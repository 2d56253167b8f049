"""Builds the functions that complete the table of sizes, before a run and during it, and the one that compares indices with sizes at its end."""

from collections.abc import Mapping, Sequence

from stepwell.dialects.core.dtypes import to_numpy
from stepwell.dialects.core.index_checks import IndexCheck
from stepwell.dialects.core.layout import Joined, Slot
from stepwell.dialects.core.mlir import arith, func, ir, memref
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.segments import Segment
from stepwell.dialects.core.size_table import CHECKS_FUNCTION, MOST_TOTAL, SIZES_FUNCTION, SizeTable, Status, Verdict, segment_function
from stepwell.dialects.core.sizes import Assumption, Size, product, symbol
from stepwell.dialects.core.symbolic_shapes import constant as index_constant
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.support.limits import Limits
from stepwell.passes.bufferize.size_arithmetic import SizeArithmetic, any_of, compare, constant

_CMP = arith.CmpIPredicate


def add_sizes_function(
    info: ModuleInfo, layout: Sequence[Slot], joined: Joined | None, workspace_bytes: int, entries: int, limits: Limits, location: ir.Location
) -> SizeTable:
    """Build `@sizes(%table: memref<…xi64>) -> i64` after the functions of a module; returns the form of its table.

    It reads the symbols at the beginning of the table, and writes the offsets of buffers in the `layout` (or in `joined`, if that applies), the bytes
    of the workspace and the sizes of results. `@main` reads `entries`; `workspace_bytes` is the size without a layout. The
    result is a `Verdict`; it has no branches.
    """
    symbols = info.symbols
    table = SizeTable(entries, derived_sizes(info))
    i64 = ir.IntegerType.get_signless(64)
    signature = ir.FunctionType.get([ir.MemRefType.get([table.entries], i64)], [i64])
    with ir.InsertionPoint(info.op.regions[0].blocks[0]), location:
        function = func.FuncOp(SIZES_FUNCTION, signature)
        block = function.add_entry_block([location])
    with ir.InsertionPoint(block), location:
        values = {name: memref.LoadOp(block.arguments[0], [index_constant(entry)]).result for entry, name in enumerate(symbols)}
        sizes = SizeArithmetic(values.__getitem__)
        early = [assumption for assumption in info.assumptions if assumption.symbols.issubset(symbols)]
        broken = [sizes.is_broken(assumption) for assumption in early]
        offsets, _, total = sizes.placed(layout) if layout else ([], [], constant(workspace_bytes))
        if joined is not None:
            offsets, total = _where_joined(sizes, joined, offsets, total)
        found = [*values.values(), *offsets]
        written = {entry: value for entry, value in enumerate(found) if entry >= len(symbols)}
        written |= {entries: total} | {entry: sizes.value(size) for entry, size in enumerate(table.sizes, entries + 1)}
        for entry, value in written.items():
            memref.StoreOp(value, block.arguments[0], [index_constant(entry)])
        large = [_is_large(sizes, kind, symbols, limits) for _, kind in (info.outputs if info.has_signature else ())]
        negative = [compare(_CMP.slt, value, constant(0)) for value in values.values()]
        too_much = compare(_CMP.sgt, total, constant(min(limits.workspace_bytes, MOST_TOTAL)))
        overflows = any_of(compare(_CMP.eq, total, constant(MOST_TOTAL)), *sizes.overflows)
        verdicts = [
            *each(Status.NEGATIVE, negative), *each(Status.ASSUMPTION, broken),
            *each(Status.DIVISION, [any_of(*sizes.divides_by_zero)]),
            *each(Status.OVERFLOW, [overflows]), *each(Status.WORKSPACE, [too_much]), *each(Status.OUTPUT, large),
        ]  # fmt: skip
        func.ReturnOp([first_of(verdicts, _longest(list(values.values()), min(limits.value_bytes, MOST_TOTAL)))])
    return table


def add_segment_function(
    module: ir.Operation, entries: int, segment: Segment, number: int, places: Mapping[str, int], assumptions: Sequence[Assumption],
    location: ir.Location,
) -> str:  # fmt: skip
    """Build `@sizes_<number>(%table: memref<…xi64>) -> i64`, which a run calls when it has written the numbers of a segment; returns its name.

    `places` are the entries of symbols. It compares the numbers with what they must be, looks at `assumptions`, and tells the runtime what the
    segment asks for (`Segment`). If anything is wrong, it gives that as a `Verdict`; a number that is not what it must be has that in the entry
    for the bytes of the block.
    """
    i64 = ir.IntegerType.get_signless(64)
    kind = ir.FunctionType.get([ir.MemRefType.get([entries], i64)], [i64])
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), location:
        function = func.FuncOp(segment_function(number), kind, visibility="private")
        block = function.add_entry_block([location])
    with ir.InsertionPoint(block), location:
        table = block.arguments[0]
        loaded: dict[int, ir.Value] = {}

        def entry(place: int) -> ir.Value:
            if place not in loaded:
                loaded[place] = memref.LoadOp(table, [index_constant(place)]).result
            return loaded[place]

        sizes = SizeArithmetic(lambda name: entry(places[name]))
        numbers = [entry(segment.start + place) for place in range(len(segment.sizes))]
        expected = [sizes.value(size) for size in segment.sizes]
        negative = [compare(_CMP.slt, value, constant(0)) for value in numbers]
        differs = [compare(_CMP.ne, value, meant) for value, meant in zip(numbers, expected, strict=True)]
        broken = [sizes.is_broken(assumption) for assumption in assumptions]
        of_one = [_is_of_one(sizes, assumption, flag) for assumption, flag in zip(assumptions, broken, strict=True)]
        alone = [slot for slot, _ in (*segment.outputs, *segment.boxes)]
        offsets, bytes_, total = sizes.placed(segment.slots, alone)
        told = [*(bytes_[slot] for slot in alone), *map(sizes.value, segment.reported)]
        block_bytes = total
        for meant, differing in reversed(list(zip(expected, differs, strict=True))):
            block_bytes = arith.SelectOp(differing, meant, block_bytes).result
        places_of_slots = {segment.first_slot + slot: offset for slot, offset in enumerate(offsets) if slot not in alone}
        rest = enumerate([block_bytes, *told], segment.first_slot + len(offsets))
        for place, value in (*places_of_slots.items(), *rest):
            memref.StoreOp(value, table, [index_constant(place)])
        most = constant(MOST_TOTAL)
        too_large = [compare(_CMP.uge, value, most) for value in (total, *(bytes_[slot] for slot in alone))]
        verdicts: list[tuple[Verdict, ir.Value | None]] = [
            *each(Status.NEGATIVE, negative), *each(Status.MISMATCH, differs),
            *(pair for pairs in zip(each(Status.BROADCAST, of_one), each(Status.ASSUMPTION, broken), strict=True) for pair in pairs),
            (Verdict(Status.DIVISION), any_of(*sizes.divides_by_zero)), (Verdict(Status.OVERFLOW), any_of(*too_large, *sizes.overflows)),
        ]  # fmt: skip
        result = first_of([(verdict._replace(segment=number), condition) for verdict, condition in verdicts], constant(0))
        func.ReturnOp([result])
    return function.sym_name.value


def add_checks_function(
    module: ir.Operation, checks: Sequence[IndexCheck], hidden: Sequence[ir.MemRefType], entries: int, places: Mapping[str, int],
    location: ir.Location,
) -> str:  # fmt: skip
    """Build `@checks(%hidden…, %table: memref<…xi64>) -> i64`; returns its name.

    It takes the hidden results of @main, and the table of `entries` numbers where there is one, which holds each symbol in the entry that `places`
    says. The result is a `Verdict`: the number of the first check that finds an index out of range.
    """
    i64 = ir.IntegerType.get_signless(64)
    kinds = [*hidden, *([ir.MemRefType.get([entries], i64)] if entries else [])]
    with ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]), location:
        function = func.FuncOp(CHECKS_FUNCTION, ir.FunctionType.get(kinds, [i64]), visibility="private")
        block = function.add_entry_block([location] * len(kinds))
    with ir.InsertionPoint(block), location:
        arguments = list(block.arguments)
        sizes = SizeArithmetic(lambda name: memref.LoadOp(arguments[-1], [index_constant(places[name])]).result)
        wrong = []
        for check in checks:
            codes = [_element(arguments[check.result], column) for column in range(len(check.sizes))]
            limits = [_limit(sizes, check, size) for size in check.sizes]
            wrong.append(any_of(*(compare(_CMP.uge, code, limit) for code, limit in zip(codes, limits, strict=True))))
        func.ReturnOp([first_of(each(Status.INDEX, wrong), constant(0))])
    return CHECKS_FUNCTION


def _element(memory: ir.Value, number: int) -> ir.Value:
    """An element of a hidden result, which may be a scalar."""
    return memref.LoadOp(memory, [index_constant(number)] * len(memory.type.shape)).result


def _limit(sizes: SizeArithmetic, check: IndexCheck, size: int | Size) -> ir.Value:
    """The code from which on something is wrong, as `IndexCheck.limits` says."""
    if check.compared or check.exact:
        return constant(1)
    limit = sizes.value(size if check.from_start else 2 * size)
    if isinstance(check.count, int) and check.count:
        return limit
    least = arith.SelectOp(compare(_CMP.eq, sizes.value(check.count), constant(0)), constant(1), constant(0)).result
    return arith.MaxSIOp(limit, least).result


def each(status: Status, conditions: Sequence[ir.Value | None]) -> list[tuple[Verdict, ir.Value | None]]:
    """The verdicts of one kind, with the conditions for them by number."""
    return [(Verdict(status, number), condition) for number, condition in enumerate(conditions)]


def first_of(verdicts: Sequence[tuple[Verdict, ir.Value | None]], otherwise: ir.Value) -> ir.Value:
    """The code of the first verdict whose condition holds; None is a condition that never does."""
    result = otherwise
    for verdict, condition in reversed(verdicts):
        if condition is not None:
            result = arith.SelectOp(condition, constant(verdict.code), result).result
    return result


def _is_of_one(sizes: SizeArithmetic, assumption: Assumption, broken: ir.Value) -> ir.Value | None:
    """Whether an assumption is broken by two sizes that should be equal and one of which is 1; None for other assumptions."""
    if assumption.relation != "==":
        return None
    ones = any_of(*(compare(_CMP.eq, sizes.number(size).value, constant(1)) for size in (assumption.left, assumption.right)))
    return arith.AndIOp(broken, ones).result


def derived_sizes(info: ModuleInfo) -> tuple[Size, ...]:
    """The expressions of symbols of inputs that a caller of `@main` asks for: sizes of inputs and outputs."""
    shapes = [kind.shape for _, kind in (*info.inputs, *info.outputs)] if info.has_signature else []
    sizes = (size for shape in shapes for size in shape if isinstance(size, Size) and not size.is_symbol)
    return tuple(dict.fromkeys(size for size in sizes if set(info.symbols).issuperset(size.symbols)))


def _where_joined(sizes: SizeArithmetic, joined: Joined, offsets: Sequence[ir.Value], total: ir.Value) -> tuple[list[ir.Value], ir.Value]:
    """The offsets and the total size of the second layout if its size is 1, otherwise the given ones."""
    is_one = compare(_CMP.eq, sizes.value(joined.one), constant(1))
    own = SizeArithmetic(lambda name: sizes.value(symbol(name)))
    places, _, whole = own.placed([slot if slot.inside is None else Slot(0, ()) for slot in joined.slots])
    for number, slot in enumerate(joined.slots):
        if slot.inside is not None:
            holder, inside = slot.inside
            places[number] = arith.AddIOp(places[holder], own.value(inside)).result
    for flags, found in ((sizes.overflows, own.overflows), (sizes.divides_by_zero, own.divides_by_zero)):
        flags += [arith.AndIOp(is_one, flag).result for flag in found]
    chosen = [arith.SelectOp(is_one, ours, usual).result for ours, usual in zip([*places, whole], [*offsets, total], strict=True)]
    return chosen[:-1], chosen[-1]


def _is_large(sizes: SizeArithmetic, kind: TensorType, symbols: Sequence[str], limits: Limits) -> ir.Value | None:
    """Whether a result exceeds the limit of a value's bytes, as far as its sizes are known before a run; None if they are static."""
    early = (size for size in kind.shape if isinstance(size, int) or (size is not None and set(symbols).issuperset(size.symbols)))
    size = product([*early, to_numpy(kind.dtype).itemsize])
    if not isinstance(size, Size):
        return None
    number = sizes.number(size)
    return any_of(compare(_CMP.sgt, number.value, constant(min(limits.value_bytes, MOST_TOTAL))), number.overflows)


def _longest(values: Sequence[ir.Value], most: int) -> ir.Value:
    """The code of the symbol that is the largest one, the first of several, if it is above `most`; 0 if it is not."""
    longest, code = values[0], constant(Verdict(Status.DIMENSION, 0).code)
    for number, value in enumerate(values[1:], 1):
        longer = compare(_CMP.sgt, value, longest)
        longest = arith.SelectOp(longer, value, longest).result
        code = arith.SelectOp(longer, constant(Verdict(Status.DIMENSION, number).code), code).result
    return arith.SelectOp(compare(_CMP.sgt, longest, constant(most)), code, constant(0)).result
