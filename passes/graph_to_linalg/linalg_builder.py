"""LinalgBuilder: builds linalg.generic, fills and tensor ops on signless tensors at the current insertion point and location."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from stepwell.dialects.core.attributes import dense, dense_value
from stepwell.dialects.core.dtypes import FLOATS, dtype_info, is_small_float
from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import arith, constant_attribute, create_operation, defining_op, ir, linalg, scf, tensor
from stepwell.dialects.core.sizes import Dim, sizes_text
from stepwell.dialects.core.slices import operands_of
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, elements_of
from stepwell.dialects.core.types import compute_dtype, dtype_of, type_of
from stepwell.dialects.sched.dialect import BoundaryOp
from stepwell.dialects.sched.schedule_info import LoopInfo
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState

OpFoldResult: TypeAlias = "int | ir.Value"


def element(dtype: str) -> ir.Type:
    """The signless MLIR type of elements of `dtype` (spelled as in the graph dialect); a byte for the compact ones."""
    return ir.Type.parse(dtype_info(dtype).storage)


def dims(*positions: int) -> list[Any]:
    """Affine expressions for these loops."""
    return [ir.AffineExpr.get_dim(p) for p in positions]


class LinalgBuilder:
    """Builds the ops of lowerings. Element types are given as the graph's dtype strings; values are signless tensors.

    Sizes of dimensions are ints if they are static, else values of type index; MLIR calls this an OpFoldResult.
    """

    def __init__(self, state: PassState) -> None:
        self.state = state
        self._outside: ir.InsertionPoint | None = None  # before the op whose body is being built
        self.has_elements: ir.Value | None = None  # whether there are elements that indices can address; None if there are

    # -- scalars and sizes

    def scalar(self, value: Any, dtype: str) -> ir.Value:
        """A scalar constant, kept out of the body that is being built."""
        kind = element(dtype)
        if is_small_float(dtype):  # the code of the number
            value = np.array(value, np.float32).astype(dtype_info(dtype).numpy).view(np.uint8)
        if dtype in FLOATS:
            attribute: ir.Attribute = ir.FloatAttr.get(kind, float(value))
        else:  # as the signed number with the same bits, which a signless attribute needs
            width = kind.width
            bits = int(value) & ((1 << width) - 1)
            signed = bits if width == 1 or bits < 1 << (width - 1) else bits - (1 << width)
            attribute = ir.IntegerAttr.get(kind, signed)
        return self._hoisted(kind, attribute)

    def index(self, value: int) -> ir.Value:
        """A constant of type index, kept out of the body that is being built."""
        kind = ir.IndexType.get()
        return self._hoisted(kind, ir.IntegerAttr.get(kind, value))

    def _hoisted(self, kind: ir.Type, attribute: ir.Attribute) -> ir.Value:
        return arith.ConstantOp(kind, attribute, ip=self._outside).result

    def splat(self, value: ir.Value) -> ir.Value | None:
        """The scalar that every element of `value` is known to be, as a constant; None if it is not known."""
        attribute = constant_attribute(value)
        if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
            return None
        return self._hoisted(value.type.element_type, attribute.get_splat_value())

    def known(self, value: ir.Value) -> np.ndarray | None:
        """The known array in a signless tensor, or None."""
        attribute = constant_attribute(value)
        if not isinstance(attribute, ir.DenseElementsAttr):
            return None
        return dense_value(attribute)

    def size(self, value: ir.Value, dim: int) -> OpFoldResult:
        """The size of one dimension of a tensor."""
        if not value.type.is_dynamic_dim(dim):
            return value.type.get_dim_size(dim)
        return self.dim(value, dim)

    def dim(self, value: ir.Value, dim: int) -> ir.Value:
        """The size of one dimension as a value of type index, static or not.

        For the result of an op of this kernel it is the size of its destination: reading a size from the result would count as another user of it,
        and prevent its fusion with its reader.
        """
        while (op := defining_op(value)) is not None and value.type.is_dynamic_dim(dim):
            if op.name == "tensor.empty":
                return op.operands[[i for i, size in enumerate(value.type.shape) if size < 0].index(dim)]
            if not op.name.startswith("linalg."):
                break
            value = op.operands[len(op.operands) - len(op.results) + ir.OpResult(value).result_number]
        return tensor.DimOp(value, self.index(dim), ip=self._outside).result

    def sizes(self, value: ir.Value) -> list[OpFoldResult]:
        """The sizes of all dimensions of a tensor."""
        return [self.size(value, i) for i in range(value.type.rank)]

    def given(self, size: Dim) -> OpFoldResult:
        """A size of a type: a number, or the value of an expression of symbols. Raises NoMatch if it is unknown."""
        if isinstance(size, int):
            return size
        if size is None:
            raise NoMatch("its sizes must be numbers or have names, got ?")
        outside = self._outside
        function: Any = function_around((outside or ir.InsertionPoint.current).block.owner.operation)
        arguments = [type_of(a).shape if isinstance(a.type, ir.RankedTensorType) else () for a in function.regions[0].blocks[0].arguments]
        elements = elements_of(function, function.parent.operation)
        return SymbolicShapes(function, arguments, KernelInfo(function).symbols, elements).value(size, outside)

    def given_all(self, sizes: Sequence[Dim]) -> list[OpFoldResult]:
        """Like `given`, for all sizes of a type."""
        if None in sizes:
            raise NoMatch(f"its sizes must be numbers or have names, got {sizes_text(sizes)}")
        return [self.given(size) for size in sizes]

    def sum_of_sizes(self, x: OpFoldResult, y: OpFoldResult) -> OpFoldResult:
        """The sum of two sizes."""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        return x if y == 0 and isinstance(y, int) else arith.AddIOp(self.index_of(x), self.index_of(y)).result

    def index_of(self, size: OpFoldResult) -> ir.Value:
        """A size as a value of type index."""
        return self.index(size) if isinstance(size, int) else size

    # -- tensors

    def constant(self, array: np.ndarray) -> ir.Value:
        """A constant tensor; unsigned integers as the signless ones with the same bits."""
        data = array.view(array.dtype.str.replace("u", "i")) if array.dtype.kind == "u" and array.ndim else array
        if data.dtype.kind == "u":
            data = data.astype(data.dtype.str.replace("u", "i"))
        attribute = dense(data)
        return arith.ConstantOp(attribute.type, attribute).result

    def empty(self, dtype: str, sizes: Sequence[OpFoldResult]) -> ir.Value:
        """A tensor of that type and shape with undefined elements."""
        return tensor.EmptyOp(list(sizes), element(dtype)).result

    def empty_like(self, value: ir.Value, sizes: Sequence[OpFoldResult]) -> ir.Value:
        """Like `empty`, with the element type of another tensor."""
        return tensor.EmptyOp(list(sizes), value.type.element_type).result

    def fill(self, value: ir.Value, out: ir.Value) -> ir.Value:
        """`out` with every element replaced by a scalar."""
        sizes = ir.DenseI32ArrayAttr.get([1, 1])
        op = ir.Operation.create("linalg.fill", results=[out.type], operands=[value, out], attributes={"operandSegmentSizes": sizes}, regions=1)
        block = op.regions[0].blocks.append(value.type, out.type.element_type)
        with ir.InsertionPoint(block):
            linalg.YieldOp([block.arguments[0]])
        return op.results[0]

    def filled(self, value: Any, dtype: str, sizes: Sequence[OpFoldResult]) -> ir.Value:
        """A new tensor with every element `value`, a Python number."""
        return self.fill(self.scalar(value, dtype), self.empty(dtype, sizes))

    def reshape(self, value: ir.Value, groups: Sequence[Sequence[int]], sizes: Sequence[OpFoldResult]) -> ir.Value:
        """`value` with dimensions merged (fewer `sizes` than it has) or split (more), by the groups of the longer shape."""
        rank = value.type.rank
        if len(sizes) == rank:
            return value
        dynamic, static = operands_of(sizes)
        kind = ir.RankedTensorType.get(static, value.type.element_type)
        if len(sizes) < rank:
            return tensor.CollapseShapeOp(kind, value, [list(g) for g in groups]).result
        return tensor.ExpandShapeOp(kind, value, [list(g) for g in groups], dynamic, static).result

    def with_unit_dims(self, value: ir.Value, at: Sequence[int]) -> ir.Value:
        """`value` with dimensions of size 1 inserted, so that they are dimensions `at` of the result."""
        sizes, rank = self.sizes(value), value.type.rank + len(at)
        kept = [i for i in range(rank) if i not in at]
        for i in sorted(at):
            sizes.insert(i, 1)
        groups = [list(range(first, end)) for first, end in pairwise([0, *kept[1:], rank])] if kept else []
        return self.reshape(value, groups, sizes)

    def insert(self, source: ir.Value, into: ir.Value, offsets: Sequence[OpFoldResult]) -> ir.Value:
        """`into` with `source` in place of the slice that begins at `offsets`; leading dimensions that `source` lacks have one index each."""
        sizes = [*[1] * (len(offsets) - source.type.rank), *self.sizes(source)]
        (at, static_at), (dynamic, static) = operands_of(offsets), operands_of(sizes)
        return tensor.InsertSliceOp(source, into, at, dynamic, [], static_at, static, [1] * len(sizes)).result

    def part(self, value: ir.Value, offsets: Sequence[OpFoldResult], sizes: Sequence[OpFoldResult]) -> ir.Value:
        """The slice of `value` of these sizes from `offsets` on; leading dimensions that `sizes` lacks have one index each."""
        lacking = len(offsets) - len(sizes)
        (at, static_at), (dynamic, static) = operands_of(offsets), operands_of([*[1] * lacking, *sizes])
        kind = ir.RankedTensorType.get(static[lacking:], value.type.element_type)
        return tensor.ExtractSliceOp(kind, value, at, dynamic, [], static_at, static, [1] * len(static)).result

    def line(self, value: ir.Value, at: Sequence[OpFoldResult], axis: int) -> ir.Value:
        """The elements of `value` along one dimension, at the indices `at` of the other ones."""
        size = self.size(value, axis)
        offsets, sizes = [*at[:axis], 0, *at[axis:]], [*[1] * axis, size, *[1] * (len(at) - axis)]
        (where, static_at), (dynamic, static) = operands_of(offsets), operands_of(sizes)
        kind = ir.RankedTensorType.get([static[axis]], value.type.element_type)
        return tensor.ExtractSliceOp(kind, value, where, dynamic, [], static_at, static, [1] * len(static)).result

    def window(self, value: ir.Value, dim: int, offsets: Sequence[int], sizes: Sequence[int]) -> ir.Value:
        """The slice of `value` of these static sizes from `offsets` on along the dimensions from `dim` on, and whole along the others."""
        if list(value.type.shape)[dim : dim + len(sizes)] == list(sizes):
            return value
        have = self.sizes(value)
        after = have[dim + len(sizes) :]
        return self.part(value, [*[0] * dim, *offsets, *[0] * len(after)], [*have[:dim], *sizes, *after])

    def first(self, value: ir.Value, sizes: Sequence[OpFoldResult]) -> ir.Value:
        """The slice of `value` of these sizes at its beginning; `value` itself if it has these sizes."""
        have = self.sizes(value)
        if all(isinstance(h, int) and h == s for h, s in zip(have, sizes, strict=True)):
            return value
        return self.part(value, [0] * len(sizes), sizes)

    def staged(self, value: ir.Value) -> ir.Value:
        """`value` behind a boundary, which keeps it a separate op from its readers in the same kernel (see `remove-boundaries`)."""
        if defining_op(value) is None or self.known(value) is not None:
            return value
        return create_operation(BoundaryOp, [value], [value.type], {}).result

    def after_sums(self, value: ir.Value) -> ir.Value:
        """`value`, behind a boundary if it depends on sums of this kernel: element-wise ops in between become epilogues of the sums."""
        pending, seen = [value], set()
        while pending:
            op = defining_op(pending.pop())
            if op is None or op in seen:
                continue
            if op.name == "linalg.generic" and "reduction" in str(op.attributes["iterator_types"]):
                return self.staged(value)
            seen.add(op)
            pending.extend(op.operands)
        return value

    # -- structured ops

    def generic(
        self, inputs: Sequence[ir.Value], out: ir.Value, maps: Sequence[Any], reductions: int, body: Callable[..., ir.Value]
    ) -> ir.Value:
        """A linalg.generic with one output.

        `maps` has, for each input and for the output, its indices as affine expressions of the loops: first one parallel loop for each dimension of
        the output, in whatever order its map has them, then `reductions` reduction loops. `body` takes one scalar for each input and the output's and
        returns the new one.
        """
        return self.generics(inputs, [out], maps, reductions, lambda *scalars: [body(*scalars)])[0]

    def generics(
        self, inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[Any], reductions: int, body: Callable[..., Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """Like `generic`, with several outputs that each have a map."""
        parallel = len(maps[len(inputs)])
        loops = parallel + reductions
        op = linalg.GenericOp(
            [o.type for o in outs],
            list(inputs),
            list(outs),
            ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, list(results))) for results in maps]),
            ir.ArrayAttr.get([_iterator("parallel")] * parallel + [_iterator("reduction")] * reductions),
        )
        block = op.regions[0].blocks.append(*(v.type.element_type for v in (*inputs, *outs)))
        outer, self._outside = self._outside, self._outside or ir.InsertionPoint(op)
        try:
            with ir.InsertionPoint(block):
                linalg.YieldOp(list(body(*block.arguments)))
        finally:
            self._outside = outer
        return list(op.results)

    def elementwise(
        self,
        inputs: Sequence[ir.Value],
        dtype: str,
        sizes: Sequence[OpFoldResult],
        body: Callable[..., ir.Value],
        *,
        exact: bool = False,
        loops: Mapping[int, Sequence[int]] | None = None,
    ) -> ir.Value:
        """One element-wise generic: inputs broadcast to `sizes` as in numpy, constant splats become scalars of the body.

        Narrow floats reach `body` as f32, and its result is rounded once to `dtype`; with `exact` they are passed unchanged. `loops` maps an input's
        index to the dimensions of the result that its own dimensions follow, if that differs from numpy's rule.
        """
        groups = None if loops else self._split_dims(inputs, sizes)
        if groups is not None:
            split, inner = groups
            result = self.elementwise([self._split(v, split, inner, sizes) for v in inputs], dtype, inner, body, exact=exact)
            return self.reshape(result, split, sizes)
        rank = len(sizes)
        arguments, maps, scalars = [], [], []
        for number, value in enumerate(inputs):
            scalar = self.splat(value)
            scalars.append(scalar)
            if scalar is None:
                arguments.append(value)
                maps.append(dims(*loops[number]) if loops and number in loops else self.broadcast_map(value, sizes))

        def compute(*values: ir.Value) -> ir.Value:
            rest = iter(values)
            operands = [next(rest) if s is None else s for s in scalars]
            if exact:
                return body(*operands)
            return self.narrow(body(*(self.widen(v) for v in operands)), dtype)

        return self.generic(arguments, self.empty(dtype, sizes), [*maps, dims(*range(rank))], 0, compute)

    def _split_dims(self, inputs: Sequence[ir.Value], sizes: Sequence[OpFoldResult]) -> tuple[list[list[int]], list[OpFoldResult]] | None:
        """The groups and sizes of the dimensions that an input of shape `sizes` had before they were merged, or None.

        Ops after a grouped convolution keep groups and filters separate, as it does, so that they can be fused into its loops.
        """
        for value in inputs:
            merge = defining_op(value)
            if merge is None or merge.name != "tensor.collapse_shape" or list(value.type.shape) != operands_of(sizes)[1]:
                continue
            origin = defining_op(merge.operands[0])
            if origin is not None and origin.name == "linalg.generic":
                return [[int(i) for i in group] for group in merge.attributes["reassociation"]], self.sizes(merge.operands[0])
        return None

    def _split(self, value: ir.Value, groups: Sequence[Sequence[int]], inner: Sequence[OpFoldResult], sizes: Sequence[OpFoldResult]) -> ir.Value:
        """An operand that broadcasts to `sizes` with its dimensions split according to `groups` and `inner`."""
        shape = value.type.shape
        if self.splat(value) is not None or all(len(g) == 1 for g in groups[len(groups) - len(shape) :]):
            return value
        merge = defining_op(value)
        if merge is not None and merge.name == "tensor.collapse_shape" and list(merge.operands[0].type.shape) == operands_of(inner)[1]:
            return merge.operands[0]
        parts: list[list[int]] = []
        split: list[OpFoldResult] = []
        for size, group in zip(shape, groups[len(groups) - len(shape) :], strict=True):
            parts.append(list(range(len(split), len(split) + len(group))))
            split += [1] * len(group) if size == 1 else [inner[i] for i in group]
        return self.reshape(value, parts, split)

    @staticmethod
    def broadcast_map(value: ir.Value, sizes: Sequence[OpFoldResult]) -> list[Any]:
        """How an operand that broadcasts to `sizes` is read: at index 0 along its broadcast dimensions of size 1."""
        shape = value.type.shape
        loops = range(len(sizes) - len(shape), len(sizes))
        zero = ir.AffineExpr.get_constant(0)
        return [zero if s == 1 and sizes[loop] != 1 else ir.AffineExpr.get_dim(loop) for s, loop in zip(shape, loops, strict=True)]

    def copy(self, value: ir.Value) -> ir.Value:
        """A copy of the elements of `value` in a new tensor."""
        identity = dims(*range(value.type.rank))
        return self.generic([value], self.empty_like(value, self.sizes(value)), [identity, identity], 0, lambda x, _: x)

    def loops(
        self, sizes: Sequence[OpFoldResult], carried: Sequence[ir.Value], body: Callable[[list[ir.Value], list[ir.Value]], Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """A nest of sequential scf loops over `sizes`; `body` takes their indices and the carried values and returns the next ones."""

        def nest(ivs: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
            if len(ivs) == len(sizes):
                return list(body(ivs, values))
            return self.loop(self.index(0), self.index_of(sizes[len(ivs)]), values, lambda iv, inner: nest([*ivs, iv], inner))

        return nest([], list(carried))

    def loop(
        self, low: ir.Value, high: ir.Value, carried: Sequence[ir.Value], body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """One sequential scf loop from `low` up to below `high`, like `loops`."""
        loop = scf.ForOp(low, high, self.index(1), list(carried))
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(list(body(loop.induction_variable, list(loop.inner_iter_args))))
        return list(loop.results)

    def independent(
        self, rounds: int, carried: Sequence[ir.Value], body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """A loop of `rounds` iterations that run on threads: each writes its own parts of the carried values, and reads none that another writes."""
        results = self.loop(self.index(0), self.index(rounds), carried, body)
        LoopInfo(results[0].owner).is_parallel = True
        return results

    def branch(
        self, condition: ir.Value, otherwise: Sequence[ir.Value], then: Callable[[], Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """The result of `then` if the condition holds, computed only in that case; otherwise the values `otherwise`."""
        made = scf.IfOp(condition, [v.type for v in otherwise], has_else=True)
        with ir.InsertionPoint(made.then_block):
            scf.YieldOp(list(then()))
        with ir.InsertionPoint(made.else_block):
            scf.YieldOp(list(otherwise))
        return list(made.results)

    # -- elements and places

    def extract(self, value: ir.Value, places: Sequence[ir.Value]) -> ir.Value:
        """One element of a tensor."""
        return tensor.ExtractOp(value, list(places)).result

    def read(self, value: ir.Value, places: Sequence[ir.Value]) -> ir.Value:
        """One element of a tensor at the given indices; 0 if the tensor has none."""
        if self.has_elements is None:
            return self.extract(value, places)
        kind = value.type.element_type
        none = ir.FloatAttr.get(kind, 0.0) if isinstance(kind, ir.FloatType) else ir.IntegerAttr.get(kind, 0)
        return self.branch(self.has_elements, [self._hoisted(kind, none)], lambda: [self.extract(value, places)])[0]

    def insert_element(self, element_: ir.Value, into: ir.Value, places: Sequence[ir.Value]) -> ir.Value:
        """A tensor with one element replaced."""
        return tensor.InsertOp(element_, into, list(places)).result

    def loop_index(self, loop: int) -> ir.Value:
        """The index of a loop of the generic whose body is being built."""
        return linalg.IndexOp(loop).result

    def as_index(self, value: ir.Value) -> ir.Value:
        """A signed integer scalar as an index."""
        return arith.IndexCastOp(ir.IndexType.get(), value).result

    def from_index(self, value: ir.Value, dtype: str = "i64") -> ir.Value:
        """An index as an integer scalar."""
        return arith.IndexCastOp(element(dtype), value).result

    def place(self, value: ir.Value, size: OpFoldResult, *, from_start: bool = False) -> ir.Value:
        """An integer scalar as an index of a dimension of `size`: negative ones count from the end by default; out-of-range ones are clamped."""
        at, whole, zero = self.as_index(value), self.index_of(size), self.index(0)
        if not from_start:
            negative = arith.CmpIOp(arith.CmpIPredicate.slt, at, zero).result
            at = arith.SelectOp(negative, arith.AddIOp(at, whole).result, at).result
        if isinstance(size, int):
            return arith.MinUIOp(at, self.index(size - 1)).result  # a remaining negative number is a large unsigned one
        return arith.MaxSIOp(arith.MinSIOp(at, arith.SubIOp(whole, self.index(1)).result).result, zero).result

    def unflattened(self, place: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
        """The indices of the element at a row-major position."""
        out: list[ir.Value] = []
        for size in reversed(sizes[1:]):
            out.append(arith.RemUIOp(place, self.index(size)).result)
            place = arith.DivUIOp(place, self.index(size)).result
        return [place, *reversed(out)]

    # -- types of scalars

    def widen(self, value: ir.Value) -> ir.Value:
        """A scalar in the type it is computed in."""
        if not isinstance(value.type, ir.FloatType) or (dtype := dtype_of(value.type)) == compute_dtype(dtype):
            return value
        return arith.ExtFOp(element(compute_dtype(dtype)), value).result

    def narrow(self, value: ir.Value, dtype: str) -> ir.Value:
        """A scalar of the compute type of `dtype` as one of `dtype`."""
        kind = element(dtype)
        if value.type == kind:
            return value
        return arith.TruncFOp(kind, value).result


def _iterator(kind: str) -> ir.Attribute:
    return ir.Attribute.parse(f"#linalg.iterator_type<{kind}>")
