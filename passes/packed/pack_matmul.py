"""The pass that packs right-hand sides of matrix products into panels."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from stepwell.dialects.core.dtypes import NARROW, SIGNED
from stepwell.dialects.core.mlir import defining_op, ir, users
from stepwell.dialects.core.sizes import Dim, is_static, static_sizes
from stepwell.dialects.core.symbolic_shapes import hints_around, likely_elements
from stepwell.dialects.core.types import is_float, to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.quantized_recurrence import QuantizedLstmOp
from stepwell.dialects.graph.recurrence import RecurrentOp
from stepwell.dialects.packed import LowBitMatmulOp, PackedMatmulOp
from stepwell.dialects.packed.matmul import GROUP, in_blocks, in_groups, in_panels
from stepwell.dialects.target import llvm_habits
from stepwell.dialects.target.costs import Costs
from stepwell.dialects.target.description import GENERIC
from stepwell.dialects.target.numbers import LINE
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.decisions import NoMatch, expect
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import program_functions, replace_results
from stepwell.passes.graph.integer_products import fastest, holds, kind_of, multiplies_narrow, multiplies_rows, read_as, widened
from stepwell.passes.graph.matching import deferred_weight, erase_unused, is_elementwise, new_weight, source_of, stored
from stepwell.passes.packed.few_bits import Stored, few_bits, stored_numbers

LARGEST_SLICED = 128
"""The largest scale block, in numbers, for which the sliced (byte) method is accurate enough."""


@register_pass("pack-matmul", level="graph", optional=True, switches={"slice-floats": "slices=false"}, relaxed=("slice-floats",))
class PackMatmul(Pass):
    """Pack constant right-hand sides of matrix products into panels, so that a product reads them from end to end.

    rewrite: matmul(x, w)                 -> reshape(packed.matmul(x, w packed now))
    rewrite: matmul(x, y)                 -> reshape(packed.matmul(x, transpose(reshape(pad(y)))))   if no cache of a core holds y
    rewrite: f(reshape(packed.matmul), …) -> reshape(f(packed.matmul, …))    for element-wise ops, so that they still fuse
    rewrite: matmul(x, w)                 -> reshape(packed.matmul(pad(x), w packed now, with rows of zeros))
                                             if the rows of x that are read together fall on too few sets of the first cache
    rewrite: matmul(x, dequantize(w))     -> reshape(packed.low_bit_matmul(x, w packed now))   if w is constant, with few rows of x
    rewrite: lstm(x, r, …)                -> lstm(x, r packed now, …)        and so for the other recurrent layers

    The same holds for any op whose traits say that rows of its first operand are multiplied by one matrix, whichever way that is stored.

    Columns that fill up the last panel are zeros in the weights, and are cut off after the element-wise ops. A large matrix that is not
    a constant is packed at run time if enough rows are multiplied by it: unpacked, each row of a strip of its columns lies in another page,
    and all of them map to a few sets of a cache (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). So do rows of the
    left-hand side whose length is a multiple of a page, for example 1024 floats. They are padded instead of packed, which costs nothing if their
    producer is another product or its epilogue: it writes to the padded place. Numbers of 4 bits are stored in groups of bytes if slices of rows are
    multiplied by them (docs/quantization.md).
    """

    width: int = 0  # columns of a panel; 0 to choose it by the target's registers and the number of columns
    slices: bool = True  # multiply few rows by 4-bit weights in slices of a byte, which rounds them to 22 bits of the largest in a block
    integers: ClassVar[bool] = False

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in program_functions(op):
            self._run_on(function, state)

    def _run_on(self, main: Any, state: PassState) -> None:
        replaced: list[ir.Operation] = []
        layout = _PackedMatmuls(state, self.width, self.integers, self.slices)
        for operation in [o.operation for o in main.regions[0].blocks[0].operations]:
            view = operation.opview
            if isinstance(view, RecurrentOp):
                if isinstance(view, QuantizedLstmOp) == self.integers:
                    self._pack_recurrent(view, layout, state)
                continue
            if len(operation.results) != 1:
                continue
            is_product = multiplies_rows(view)
            rule = layout.matmul if is_product else layout.elementwise if is_elementwise(view) else None
            if rule is None:
                continue
            try:
                with ir.InsertionPoint(operation), operation.location:
                    result = rule(view)
            except NoMatch as why:
                state.decline(self.name, operation, why)
                if is_product and not self.integers:
                    layout.make_floats(view)
                continue
            packed, maker = type_of(layout.packed[result]), defining_op(layout.packed[result])
            reads_padded = maker is not None and maker.operands[0] in layout.padded.values()
            apart = "; rows that would meet in few sets of a cache are padded" if reads_padded else ""
            slices = "; rows are multiplied in slices of a byte" if maker is not None and is_sliced(maker) else ""
            state.did(self.name, operation, f"computed in {packed.shape[-2]} panels of {packed.shape[-1]} columns{apart}{slices}")
            replace_results(operation, [result], GraphBuilder(state.weights))
            replaced.append(operation)
            state.count(self.name)
        erase_unused([*replaced, *(maker for value in layout.packed if (maker := defining_op(value)) is not None)])

    def _pack_recurrent(self, op: RecurrentOp, layout: "_PackedMatmuls", state: PassState) -> None:
        """Replace the weights of a recurrent layer by packed ones."""
        with state.attempt(self.name, op.operation):
            with ir.InsertionPoint(op), op.location:
                weights = layout.recurrent_numbers(op) if self.integers else layout.recurrent_weights(op)
            _, _, panels, _, width, *_ = type_of(weights).static_shape
            state.did(self.name, op.operation, f"the weights of each gate lie in {panels} panel{'s' * (panels != 1)} of {width} columns")
            op.operation.operands[1] = weights
            state.count(self.name)


@register_pass("pack-integer-products", level="graph", optional=True)
class PackIntegerProducts(PackMatmul):
    """Pack constant right-hand sides of products of narrow integers into panels, in the groups that the target's dot products read.

    rewrite: matmul(cast(x), cast(w))     -> reshape(packed.matmul(cast(x), cast(w packed now)))
    rewrite: quantized_lstm(x, r, …)      -> quantized_lstm(x, r packed now, …)
    rewrite: f(reshape(packed.matmul), …) -> reshape(f(packed.matmul, …))    for element-wise ops, so that they still fuse

    It runs after `narrow-products`, which decides on the types, and is otherwise like `pack-matmul`.
    """

    integers: ClassVar[bool] = True


class _PackedMatmuls(GraphBuilder):
    """Builds packed matmuls, and element-wise ops on their results."""

    def __init__(self, state: PassState, width: int, integers: bool, slices: bool) -> None:
        super().__init__(state.weights)
        self.state = state
        self.width, self.integers = width, integers
        self.target = None if state.target is None else state.machine
        self.slices = slices and not state.machine.reproducible  # only some targets have an instruction for it
        self.costs = state.machine.costs
        self.packed: dict[ir.Value, ir.Value] = {}  # values in panels, by the plain value that replaces them
        self.padded: dict[ir.Value, ir.Value] = {}  # values whose rows are padded, by the value without padding

    def panels(self, op: Any, columns: int, lanes: int, registers: int) -> int:
        """Columns of a panel of the weights of `op`: chosen among powers of two of registers. Each column is summed alike in all of them."""
        costs = panel_costs(columns, lanes, registers, self.costs)

        def candidates() -> list[Candidate]:
            arithmetic = 2.0 * type_of(op.operation.operands[1]).elements / max(columns, 1)
            seconds = {width: self.state.machine.seconds(arithmetic * cost) for width, cost in costs.items()}
            return [Candidate(str(width), time, {"columns": columns, "width": width}, "by columns") for width, time in seconds.items()]

        return int(self.state.choose("panels", op, candidates, str(min(costs, key=costs.__getitem__))))

    def matmul(self, op: Any) -> ir.Value:
        """The result of the packed matmul as a plain value. Raises NoMatch if there is none."""
        lhs, rhs = op.operation.operands
        w, axis = type_of(rhs), op.sum_of_products().column_axis
        if self.integers:
            return self.of_narrow(op)
        if axis is None or not is_float(w.dtype) or not w.is_static or not is_static(type_of(lhs).shape[-1:]):
            raise NoMatch("its right-hand side is not one matrix of floats, or sizes but the number of rows are no numbers")
        bits = 8 * to_numpy(w.dtype).itemsize
        lanes = (self.target or GENERIC).lanes(bits)
        rows, depth, columns = rows_of(op), w.static_shape[1 - axis], w.static_shape[axis]
        if not rows or columns < lanes // 2:
            raise NoMatch(f"{rows} rows by {columns} columns do not fill a vector of {lanes}")
        if multiplies_narrow(op):
            raise NoMatch("it multiplies bf16 (see pack-integer-products)")
        width = self.width or self.panels(op, columns, lanes, self.costs.panel_registers)
        quantised = stored_numbers(rhs, self.weights)
        if quantised is not None and axis == 0:
            quantised = quantised.transposed()
        few = rows <= self.costs.arithmetic_rows or not is_static(type_of(lhs).shape)
        if quantised is not None and few and (kept := self.of_few_bits(op, quantised, lanes)) is not None:
            return kept
        matrix = self.by_rows(rhs, axis) if quantised is None else quantised.floats
        caches = None if self.target is None else self.target.caches
        if matrix is not None:
            if columns >= self.costs.padding_columns:
                lhs = self.rows_apart(lhs, rows)
            filling = static_sizes(type_of(lhs).shape[-1:])[0] - depth
            shape = (-(-columns // width), depth + filling, width)
            panels = deferred_weight(self, rhs, shape, lambda: in_panels(matrix(), width, filling))
        elif axis == 1 and rows >= self.costs.packing_rows and caches is not None and w.elements * bits // 8 > caches.l2:
            panels = self.pack_at_run_time(rhs, width)
        else:
            raise NoMatch(f"its right-hand side, {w}, is not a constant, and for {rows} rows it does not pay to pack it at run time")
        return self.plain(self.build(PackedMatmulOp, lhs, panels), columns)

    def by_rows(self, rhs: ir.Value, axis: int) -> Callable[[], np.ndarray] | None:
        """A function that returns the constant matrix `rhs`, whose columns lie along `axis`, as (depth, columns); None if it is not constant."""
        found = source_of(rhs, self.weights)
        return found if found is None or axis == 1 else lambda: found().T

    def rows_apart(self, x: ir.Value, rows: int) -> ir.Value:
        """`x` (…, K), padded to (…, K + filling) if the first cache holds fewer lines K elements apart than a product reads together.

        A product reads one line of each row of a register tile, or of `rows` if these are fewer. Each line serves several iterations, and would
        otherwise come from the second cache for each of them: products of 128 rows took a sixth longer if K was a multiple of 1024, with AVX-512.
        """
        if x in self.padded:
            return self.padded[x]
        kind, target = type_of(x), self.target or GENERIC
        size, [columns] = max(4, to_numpy(kind.dtype).itemsize), static_sizes(kind.shape[-1:])  # narrow floats are widened before the product
        inner = self.packed.get(x)
        if inner is not None and prod(static_sizes(type_of(inner).shape[-2:])) != columns:
            inner = None  # columns are cut off after it
        filling = LINE // size if inner is None else static_sizes(type_of(inner).shape[-1:])[0]
        kept, then = (target.caches.lines_kept(n * size) for n in (columns, columns + filling))
        if min(rows, int(llvm_habits.ROOM * target.vector_registers) // target.costs.panel_registers) <= kept or then <= kept:
            return x
        if inner is None:
            result = self.pad_end(x, [0] * (kind.rank - 1) + [filling])
        else:
            with inner.location:  # the location of its producer, which writes to the padded place
                result = self.pad_end(inner, [0] * (kind.rank - 1) + [1, 0])
                result = self.reshape(result, shape=[*kind.shape[:-1], columns + filling])
        self.padded[x] = result
        return result

    def pad_end(self, x: ir.Value, high: Sequence[int]) -> ir.Value:
        """`x` with `high[i]` zeros behind dimension i."""
        return self.pad(x, low=[0] * len(high), high=list(high), mode="constant", value=0.0)

    def make_floats(self, op: Any) -> None:
        """Convert constant numbers that a product would dequantise in each run to floats."""
        source = stored_numbers(op.operation.operands[1], self.weights)
        if source is not None:
            with ir.InsertionPoint(op.operation), op.location:
                op.operation.operands[1] = self.weight(source.name, source.floats())

    def of_few_bits(self, op: Any, source: Stored, lanes: int) -> ir.Value | None:
        """The result of the product with low-bit weights, as a plain value; None if converting them to floats now is better."""
        found = few_bits(source)
        if found is None or type_of(op.operation.operands[1]).dtype != "f32":
            return None
        name, columns = source.name, found.numbers.shape[1]
        width = self.width or panel_width_of_bits(columns, lanes, self.costs)
        grouped = found.bits == 4 and self.sliced(op, found.block)
        w = self.weight(name, in_blocks(found.numbers, found.block, width, found.bits, grouped=grouped))
        scale = self.weight(name, np.stack(list(in_panels(found.scale, width))))
        zero = self.weight(name, np.stack(list(in_panels(found.zero, width)))) if found.zero.ndim else self.literal(found.zero)
        return self.plain(self.build(LowBitMatmulOp, op.operation.operands[0], w, scale, zero, bits=found.bits), columns)

    def sliced(self, op: Any, block: int) -> bool:
        """Whether rows are multiplied by 4-bit numbers in slices of a byte: only few rows, with dot products of bytes."""
        chosen = fastest("s8", "u4", self.target, "i32")
        few = is_static(type_of(op.operation.operands[0]).shape) and rows_of(op) <= self.costs.conversion_rows
        return self.slices and few and block <= LARGEST_SLICED and chosen is not None and chosen.depth == GROUP[-1]

    def of_narrow(self, op: Any) -> ir.Value:
        """The result of the packed product of narrow integers, or of bf16, as a plain value. Raises NoMatch if there is none."""
        lhs, rhs = op.operation.operands
        w, [result], axis = type_of(rhs), op.result_types(), op.sum_of_products().column_axis
        casts = [widened(value) for value in (lhs, rhs)]
        if any(cast is None for cast in casts) or axis is None or not (w.is_static and is_static(type_of(lhs).shape[-1:])):
            raise NoMatch("it does not sum products of narrower numbers, or its right-hand side is not one matrix of known sizes")
        matrix, left, right = self.by_rows(casts[1].x, axis), *(kind_of(type_of(cast.x).dtype) for cast in casts)
        chosen = fastest(left, right, self.target, result.dtype)
        if matrix is None or chosen is None:
            raise NoMatch("its right-hand side is not a constant, or the target has no instruction for products of its types")
        rows, depth, columns = rows_of(op), w.static_shape[1 - axis], w.static_shape[axis]
        if not rows or columns < chosen.lanes // 2 or depth % chosen.depth:
            raise NoMatch(f"{rows} rows by {columns} columns of {depth} do not divide into blocks of {chosen.lanes} columns of {chosen.depth}")
        width = self.width or self.panels(op, columns, chosen.lanes, self.costs.panel_registers)
        panels = new_weight(self, casts[1].x, in_groups(matrix(), chosen.depth, width))
        return self.plain(self.build(PackedMatmulOp, lhs, self.cast(panels, to=result.dtype, saturate=True)), columns)

    def recurrent_weights(self, op: Any) -> ir.Value:
        """The weights of a recurrent layer in panels. Raises NoMatch if they stay."""
        x, w = type_of(op.projected), type_of(op.weights)
        if not w.is_static or not w.elements:
            raise NoMatch("sizes of the weights are unknown, or nothing is multiplied")
        directions, gates, panels, depth, columns = w.static_shape
        rows, lanes = likely_elements(x.shape[1:2], hints_around(op.operation)), (self.target or GENERIC).lanes(8 * to_numpy(w.dtype).itemsize)
        if panels != 1 or not rows or depth < lanes // 2:
            raise NoMatch(f"its weights are in panels already, or {rows} rows by {depth} columns do not fill a vector of {lanes}")
        width = self.width or self.panels(op, depth, lanes, self.costs.accumulators if rows == 1 else self.costs.panel_registers)
        matrices = expect(source_of(op.weights, self.weights), f"its weights, {w}, are not a constant")
        if width == columns:
            raise NoMatch(f"its {columns} columns are one panel")

        def packed() -> Iterator[np.ndarray]:
            for matrix in matrices().reshape(-1, depth, columns):
                yield from in_panels(matrix[:, :depth], width)

        return deferred_weight(self, op.weights, (directions, gates, -(-depth // width), depth, width), packed)

    def recurrent_numbers(self, op: Any) -> ir.Value:
        """The integer weights of a recurrent layer in panels and groups, as bytes if they fit. Raises NoMatch if they stay."""
        numbers, rows = stored(op.weights, self.weights), likely_elements(type_of(op.projected).shape[1:2], hints_around(op.operation))
        if numbers is None or not numbers.size:
            raise NoMatch(f"its weights, {type_of(op.weights)}, are not a constant, or nothing is multiplied")
        directions, gates, panels, hidden, columns, depth = numbers.shape
        dtype = next(d for d in NARROW if d in SIGNED and holds(d, numbers.min().item(), numbers.max().item()))
        kind = kind_of(read_as(dtype, self.target)[0])
        chosen = expect(fastest(kind, kind_of(dtype), self.target), f"the target has no instruction for products of bytes and {dtype}")
        if panels * depth != 1 or not rows or hidden < chosen.lanes // 2:
            raise NoMatch(f"its weights are in panels already, or {rows} rows by {hidden} columns do not fill a vector of {chosen.lanes}")
        width = self.width or self.panels(op, hidden, chosen.lanes, self.costs.accumulators if rows == 1 else self.costs.panel_registers)
        filled = np.pad(numbers.astype(to_numpy(dtype)).reshape(-1, hidden, columns), ((0, 0), (0, -hidden % chosen.depth), (0, 0)))
        packed = np.stack([in_groups(matrix, chosen.depth, width) for matrix in filled])
        return new_weight(self, op.weights, packed.reshape(directions, gates, *packed.shape[1:]))

    def pack_at_run_time(self, matrix: ir.Value, width: int) -> ir.Value:
        """A matrix (K, N) as (panels, K, width), with zeros after its last column; see `in_panels`."""
        depth, columns = type_of(matrix).static_shape
        filling = -columns % width
        if filling:
            matrix = self.pad_end(matrix, [0, filling])
        apart = self.reshape(matrix, shape=[depth, (columns + filling) // width, width])
        return self.transpose(apart, perm=[1, 0, 2])

    def plain(self, value: ir.Value, columns: int) -> ir.Value:
        """A value (…, P, b) as (…, columns)."""
        *rows, panels, width = type_of(value).shape
        filled = prod(static_sizes([panels, width]))
        flat: ir.Value = self.reshape(value, shape=[*rows, filled])
        if columns < filled:
            sizes = [*(n if isinstance(n, int) else -1 for n in rows), columns]
            flat = self.slice(flat, starts=[0] * len(sizes), sizes=sizes, steps=[1] * len(sizes))
        self.packed[flat] = value
        return flat

    def elementwise(self, op: Any) -> ir.Value:
        """The result of an element-wise op on values in panels, as a plain value. Raises NoMatch if there is none."""
        result = type_of(op.operation.results[0])
        operands = list(op.operation.operands)
        whole = [self.packed[v] for v in operands if v in self.packed and type_of(v).shape == result.shape]
        if not whole:
            raise NoMatch("none of its operands comes from a packed matmul")
        if widened(op.operation.results[0]) is not None and any(multiplies_narrow(user.opview) for user in users(op.operation.results[0])):
            raise NoMatch("it widens what a product reads, in whose kernel it is to be")
        panels = static_sizes(type_of(whole[0]).shape[-2:])
        fitted = [self._operand(v, result.shape, panels) for v in operands]
        if any(operand is None for operand in fitted):
            raise NoMatch(f"an operand does not fit {panels[0]} panels of {panels[1]} columns")
        inner: ir.Value = self.build(type(op), *fitted, **op.attribute_values())
        return self.plain(inner, static_sizes(result.shape[-1:])[0])

    def _operand(self, value: ir.Value, shape: tuple[Dim, ...], panels: Sequence[int]) -> ir.Value | None:
        """`value`, an operand of an element-wise op with result shape `shape`, for the same op on panels; None if that would move data."""
        own = type_of(value)
        in_panels = self.packed.get(value) if own.shape == shape else None
        if in_panels is not None and list(type_of(in_panels).shape[-2:]) == list(panels):
            return in_panels
        if own.size == 1:
            return value
        columns = own.shape[-1] if own.rank else None
        if None in own.shape or not isinstance(columns, int):
            return None
        if columns == 1:
            return self.reshape(value, shape=[*own.shape, 1])
        split = [*own.shape[:-1], *panels]
        array = stored(value, self.weights)
        if array is not None:
            filling = [(0, 0)] * (array.ndim - 1) + [(0, panels[0] * panels[1] - columns)]
            return new_weight(self, value, np.pad(array, filling).reshape([*array.shape[:-1], *panels]))
        if columns != panels[0] * panels[1]:
            return None
        return self.reshape(value, shape=split)


def rows_of(op: Any) -> int:
    """The number of rows of a product's left-hand side; the typical number if it is dynamic."""
    x = type_of(op.operation.operands[0])
    return likely_elements(x.shape[:-1], hints_around(op.operation)) if 0 not in x.shape else 0


def is_sliced(op: ir.Operation) -> bool:
    """Whether an op multiplies rows in slices of a byte: its 4-bit numbers are stored in groups of bytes."""
    return isinstance(op.opview, LowBitMatmulOp) and type_of(op.operands[1]).rank == 5


def panel_costs(columns: int, lanes: int, registers: int, costs: Costs) -> dict[int, float]:
    """The cost of a row of the product for each width of a panel, a power of two of registers: columns with those that fill up, and the halvings."""
    widths = {lanes * registers >> halvings: halvings for halvings in range(registers.bit_length())}
    return {width: -(-columns // width) * width * (1 + costs.halved_panel * halvings) for width, halvings in widths.items()}


def panel_width_of_bits(columns: int, lanes: int, costs: Costs) -> int:
    """Columns of a panel of low-bit weights: a power of two of registers, at most the target's `low_bit_registers`, and no more than needed."""
    needed = -(-columns // lanes)
    return lanes * min(costs.low_bit_registers, 1 << (needed - 1).bit_length())
