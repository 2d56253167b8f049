"""The pass that keeps the shapes of tile registers in a function within the limits of LLVM's register allocator."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stepwell.dialects.core.mlir import arith, ir, memref, ops_below, replace_op, vector, x86
from stepwell.dialects.core.symbolic_shapes import constant
from stepwell.dialects.core.types import dtype_info, dtype_of
from stepwell.dialects.target.capabilities import TileRegisters
from stepwell.dialects.target.numbers import LINE
from stepwell.passes.affine_to_llvm.carry_tiles import is_tile
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions

_TILE_PRODUCTS = ("x86.amx.tile_muli", "x86.amx.tile_mulf")
_TYPE = re.compile(r"!x86\.amx\.tile<(\d+)x(\d+)x(\w+)>")


class Shape(NamedTuple):
    """The configured shape of a tile register."""

    rows: int
    bytes: int


@register_pass("fit-tiles", level="affine")
class FitTiles(Pass):
    """Make tiles whole, by way of memory, in functions with more shapes of tiles than LLVM's register allocator can handle.

    rewrite: tile_load %x : tile<3x64xi8>         ->  three rows copied to a buffer; tile_load %buffer : tile<16x64xi8>
    rewrite: tile_store %t, %x : tile<3x16xi32>   ->  tile_store %t, %buffer : tile<16x16xi32>; three rows copied to %x

    LLVM configures each tile register once per function, so all values in a register have one shape. A function that needs more registers than that
    allows (such as a product with a dynamic number of rows, which has a tile for each possible remainder) gets wrong registers: operands that share
    one, which the processor refuses (#UD). Each shape needs as many registers as values of it are live at once. While the sum exceeds the number of
    registers, the tiles with the fewest rows become whole, then those that sum the fewest products.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        registers = state.machine.capabilities.tile_registers
        if registers is None:
            return
        for function in functions(op):
            tiles = Tiles.from_function(function.operation, registers)
            if tiles is None or not tiles.fit():
                continue
            tiles.rewrite()
            state.count(self.name)


@dataclass
class Tiles:
    """The tile values of a function."""

    function: ir.Operation
    whole: TileRegisters
    """The registers, all of whose rows and bytes a whole tile uses."""
    sums: set[ir.Value]
    left: set[ir.Value]
    right: set[ir.Value]
    few_rows: set[int] = field(default_factory=set)
    """Row counts of sums and left operands that become those of whole tiles."""
    few_steps: set[int] = field(default_factory=set)
    """Row counts of right operands that become those of whole tiles."""

    @staticmethod
    def from_function(function: ir.Operation, registers: TileRegisters) -> "Tiles | None":
        """The tiles of a function; None if it has none."""
        products = [op for op in ops_below(function) if op.name in _TILE_PRODUCTS]
        if not products:
            return None
        left, right = ({op.operands[side] for op in products} for side in (0, 1))
        values = {value for region in function.regions for block in region.blocks for value in _inside(block) if is_tile(value.type)}
        return Tiles(function, registers, values - left - right, left, right)

    def fit(self) -> bool:
        """Choose the tiles that become whole, so that the registers suffice. Returns whether there are any."""
        rows = sorted({_given(value).rows for value in self.sums} - {self.whole.rows})
        steps = sorted({_given(value).rows for value in self.right} - {self.whole.rows})
        while sum(self.needed().values()) > self.whole.count and (rows or steps):
            (self.few_rows if rows else self.few_steps).add((rows or steps).pop(0))
        return bool(self.few_rows or self.few_steps)

    def shape(self, value: ir.Value) -> Shape:
        """The shape that a value gets."""
        given = _given(value)
        if value in self.right:
            return Shape(self.whole.rows if given.rows in self.few_steps else given.rows, given.bytes)
        is_short = value in self.left and given.bytes // self.whole.group in self.few_steps
        return Shape(self.whole.rows if given.rows in self.few_rows else given.rows, self.whole.row_bytes if is_short else given.bytes)

    def needed(self) -> Counter[Shape]:
        """For each shape, the largest number of its values that are live at once."""
        most: Counter[Shape] = Counter()
        for block in _blocks(self.function):
            last = _last_uses(block)
            around = last.keys() - {*_inside(block)}  # live in all iterations of a loop, to the end of each
            alive: set[ir.Value] = {value for value in block.arguments if value in last}
            for place, op in enumerate(block.operations):
                most |= Counter(map(self.shape, alive | around))
                alive = {value for value in alive if last.get(value, -1) > place}  # a product leaves its sums in the same register
                alive |= {result for result in op.operation.results if result in last}
        return most

    def rewrite(self) -> None:
        """Give all values their new shapes."""
        changed = {value for value in self.sums | self.left | self.right if self.shape(value) != _given(value)}
        loads = [(op, _given(op.results[0])) for op in ops_below(self.function, "x86.amx.tile_load") if op.results[0] in changed]
        stores = [(op, _given(op.opview.val)) for op in ops_below(self.function, "x86.amx.tile_store") if op.opview.val in changed]
        for value in changed:
            value.set_type(_type(value, self.shape(value)))
        buffers: dict[tuple[ir.Block, str, Shape], ir.Value] = {}
        for op, given in loads:
            block, kind = _around(op), str(op.results[0].type)
            if (block, kind, given) not in buffers:
                buffers[block, kind, given] = _zeroed_buffer(block, op.results[0])
            with ir.InsertionPoint(op), op.location:
                _load(op, given, buffers[block, kind, given])
        for op, given in stores:
            with ir.InsertionPoint(op), op.location:
                _store(op, given)


def _around(op: ir.Operation) -> ir.Block:
    """The block of the function, or of the innermost parallel loop, around an op: buffers allocated there are freed at its end."""
    block = op.block
    while block.owner.operation.name not in ("func.func", "scf.parallel"):
        block = block.owner.operation.block
    return block


def _zeroed_buffer(block: ir.Block, tile: ir.Value) -> ir.Value:
    """A buffer for a tile, filled with zeros at the beginning of a block."""
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        buffer, element = _tile_buffer(tile)
        rows, columns = ir.MemRefType(buffer.type).shape
        kind = ir.VectorType.get([columns], element)
        number = ir.IntegerAttr.get(element, 0) if isinstance(element, ir.IntegerType) else ir.FloatAttr.get(element, 0.0)
        zeros = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, number))
        for row in range(rows):
            vector.store(zeros, buffer, [constant(row), constant(0)])
    return buffer


def _load(op: ir.Operation, given: Shape, buffer: ir.Value) -> None:
    """Load a tile of shape `given` by way of a buffer that is zero everywhere else."""
    memory = ir.MemRefType(buffer.type)
    kind = ir.VectorType.get([given.bytes // _bytes(memory.element_type)], memory.element_type)
    for row, (source, place) in enumerate(_rows(op.opview, memory.element_type, given)):
        vector.store(vector.load(kind, source, [place]), buffer, [constant(row), constant(0)])
    replace_op(op, [x86.amx_tile_load(op.results[0].type, buffer, [constant(0), constant(0)], stride=constant(memory.shape[1]))])


def _store(op: ir.Operation, given: Shape) -> None:
    """Store the part `given` of a tile, by way of a buffer in the scope around all stores of a register tile's sums."""
    tile = op.opview.val
    buffer, element = _tile_buffer(tile)
    x86.amx_tile_store(buffer, [constant(0), constant(0)], tile, stride=constant(ir.MemRefType(buffer.type).shape[1]))
    kind = ir.VectorType.get([given.bytes // _bytes(element)], element)
    for row, (memory, place) in enumerate(_rows(op.opview, element, given)):
        vector.store(vector.load(kind, buffer, [constant(row), constant(0)]), memory, [place])
    op.erase()


def _tile_buffer(tile: ir.Value) -> tuple[ir.Value, ir.Type]:
    """A buffer for a tile, and the type of its elements."""
    rows, columns, name = _parsed(tile.type)
    element = ir.Type.parse(name)
    return memref.AllocaOp(ir.MemRefType.get([rows, columns], element), [], [], alignment=LINE).result, element


def _rows(view: x86.TileLoadOp | x86.TileStoreOp, element: ir.Type, given: Shape) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The address of each row of the memory that an op accesses: a one-dimensional buffer, and the index in it."""
    source = ir.MemRefType(view.base.type)
    metadata = memref.ExtractStridedMetadataOp(view.base)
    strides = list(metadata.results)[2 + source.rank :]
    first = metadata.results[1]
    for index, stride in zip(view.indices, strides, strict=True):
        first = arith.addi(first, arith.muli(index, stride))
    apart = view.stride if view.stride is not None else strides[-2]
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    columns = given.bytes // _bytes(element)
    layout = ir.StridedLayoutAttr.get(dynamic, [1])
    for row in range(given.rows):
        offset = arith.addi(first, arith.muli(apart, constant(row)))
        kind = ir.MemRefType.get([columns], element, layout, source.memory_space)
        yield memref.reinterpret_cast(kind, metadata.results[0], [offset], [], [], [dynamic], [columns], [1]), constant(0)


def _blocks(function: ir.Operation) -> Iterator[ir.Block]:
    for op in (function, *ops_below(function)):
        for region in op.regions:
            yield from region.blocks


def _inside(block: ir.Block) -> Iterator[ir.Value]:
    """The values defined in a block and in the regions of its ops."""
    yield from block.arguments
    for op in block.operations:
        yield from op.operation.results
        for region in op.operation.regions:
            for inner in region.blocks:
                yield from _inside(inner)


def _last_uses(block: ir.Block) -> dict[ir.Value, int]:
    """Maps each tile that is live into or defined in a block to the position of the last op in the block that uses it, directly or in a region."""
    last: dict[ir.Value, int] = {}
    for place, op in enumerate(block.operations):
        for inner in (op.operation, *ops_below(op.operation)):
            last.update({value: place for value in inner.operands if is_tile(value.type)})
    return last


def _parsed(kind: ir.Type) -> tuple[int, int, str]:
    found = _TYPE.fullmatch(str(kind))
    assert found is not None, kind
    return int(found[1]), int(found[2]), found[3]


def _given(value: ir.Value) -> Shape:
    """The shape given by a value's type."""
    rows, columns, name = _parsed(value.type)
    return Shape(rows, columns * _bytes(ir.Type.parse(name)))


def _type(value: ir.Value, shape: Shape) -> ir.Type:
    name = _parsed(value.type)[2]
    return ir.Type.parse(f"!x86.amx.tile<{shape.rows}x{shape.bytes // _bytes(ir.Type.parse(name))}x{name}>")


def _bytes(element: ir.Type) -> int:
    return dtype_info(dtype_of(element)).bits // 8
