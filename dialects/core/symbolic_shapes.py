"""Dynamic sizes of tensors and memrefs: read off the IR as expressions of symbols, and materialised as values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from stepwell.dialects.core.attributes import sizes_value
from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import arith, defining_op, ir, known_index, memref, tensor
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.sizes import Dim, Size, maximum, minimum, product, symbol
from stepwell.dialects.core.slices import SlicePlace, operands_of
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.properties import cached_property

LIKELY = 127
"""The assumed value of a dynamic dimension without a hint, in elements: a prime, so that nothing seems to divide it."""
FEWER = 4
"""The factor by which sizes may well be smaller than likely: one image instead of four. A choice for any size should suit these too."""
_DYNAMIC = ir.ShapedType.get_dynamic_size()
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b, "arith.divui": lambda a, b: a // b,
    "arith.divsi": lambda a, b: a // b, "arith.floordivsi": lambda a, b: a // b, "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.ceildivui": lambda a, b: -(-a // b), "arith.remui": lambda a, b: a % b, "arith.maxsi": maximum, "arith.maxui": maximum,
    "arith.minsi": minimum, "arith.minui": minimum,
}  # fmt: skip
_CARRIED = 3  # the operands of scf.for before the carried values: bounds and step
_AS_OPERAND = ("tensor.cast", "memref.cast", "bufferization.materialize_in_destination", "builtin.unrealized_conversion_cast")


class SymbolicShapes:
    """The shapes of a function's values. `arguments` has the shapes of its arguments, with None for unknown dimensions."""

    def __init__(
        self, function: ir.Operation, arguments: Sequence[Sequence[Dim]], symbols: Sequence[str] = (), elements: Sequence[Sequence[Dim]] = (),
        hints: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """`symbols` are those of its index arguments, in order; `elements` the known elements of the others (`ModuleInfo.elements`).

        `hints` has typical values of symbols.
        """
        self.block: ir.Block = function.regions[0].blocks[0]
        self._shapes, self._symbols, self._elements, self.hints = arguments, symbols, elements, hints or {}

    # A query reads few of these, so each is made when it is first needed.

    @cached_property
    def arguments(self) -> dict[ir.Value, Sequence[Dim]]:
        """The shapes of the arguments."""
        return dict(zip(self.block.arguments, self._shapes, strict=False))

    @cached_property
    def symbols(self) -> dict[Size, ir.Value]:
        """The arguments of type index, by the symbols that they are."""
        numbers = [argument for argument in self.block.arguments if isinstance(argument.type, ir.IndexType)]
        return {symbol(name): argument for name, argument in zip(self._symbols, numbers, strict=False)}

    @cached_property
    def elements(self) -> dict[Size, tuple[ir.Value, int]]:
        """The argument and the place in it of each element that is a size."""
        known = zip(self.block.arguments, self._elements, strict=False)
        return {size: (argument, place) for argument, sizes in known for place, size in enumerate(sizes) if isinstance(size, Size)}

    def shape(self, value: ir.Value) -> list[Dim]:
        """The shape of a tensor or memref."""
        return [self.dim(value, i) for i in range(len(value.type.shape))]

    def dim(self, value: ir.Value, dim: int) -> Dim:
        """The size of one dimension."""
        sizes = list(value.type.shape)
        if sizes[dim] != _DYNAMIC:
            return int(sizes[dim])
        if value in self.arguments:
            return self.arguments[value][dim]
        op = defining_op(value)
        return self._carried(value, dim) if op is None else self._made(op, value, sizes, dim)

    def bytes(self, value: ir.Value) -> int | Size:
        """The bytes of a contiguous tensor or memref. Raises PassError if a dimension is unknown."""
        count = product(self.shape(value))
        if count is None:
            raise PassError(f"the size of {value.type} at {value.location} is not known before it runs")
        return count * (element_bits(value.type.element_type) // 8)

    def likely(self, size: Dim) -> int:
        """The typical value of a size (see the function `likely`)."""
        return LIKELY if size is None else likely_size(size, self.hints)

    def same(self, value: ir.Value, other: ir.Value) -> bool:
        """Whether two values have the same type and, as far as it is known, the same shape."""
        if value.type != other.type or value.type.has_static_shape:
            return bool(value.type == other.type)
        shape = self.shape(value)
        return None not in shape and shape == self.shape(other)

    def index(self, value: ir.Value) -> Dim:
        """The size that a value of type index holds."""
        number = known_index(value)
        if number is not None:
            return number
        op = defining_op(value)
        if op is None:
            return next((size for size, argument in self.symbols.items() if argument == value), None)
        if op.name == "flow.size":
            return symbol(ir.StringAttr(op.attributes["size"]).value)
        if op.name == "flow.bind_sizes":
            return sizes_value(op.attributes["sizes"])[ir.OpResult(value).result_number]
        if op.name in ("tensor.dim", "memref.dim"):
            place = known_index(op.operands[1])
            return None if place is None else self.dim(op.operands[0], place)
        if op.name == "arith.index_cast":
            return self._element(defining_op(op.operands[0]))
        if op.name in _ARITHMETIC:
            left, right = (self.index(operand) for operand in op.operands)
            divides = "div" in op.name or "rem" in op.name
            return None if left is None or right is None or (divides and right == 0) else _ARITHMETIC[op.name](left, right)
        return None

    def _element(self, op: ir.Operation | None) -> Dim:
        """The size that an element of an argument holds."""
        if op is None or op.name != "tensor.extract":
            return None
        places = [known_index(index) for index in list(op.operands)[1:]]
        found = (size for size, at in self.elements.items() if at[0] == op.operands[0] and places in ([], [at[1]]))
        return next(found, None)

    def _made(self, op: ir.Operation, value: ir.Value, sizes: list[int], dim: int) -> Dim:
        """A dynamic dimension of an op's result."""
        nth = sizes[:dim].count(_DYNAMIC)
        if op.name in ("tensor.empty", "memref.alloc"):
            return self.index(op.operands[nth])
        if op.name == "memref.view":
            return self.index(op.operands[2 + nth])
        if op.name in _AS_OPERAND:
            return self.dim(op.operands[0], dim)
        if op.name.startswith("linalg.") or op.name in ("func.call", "flow.if", "flow.loop"):  # the last operands are the destinations
            return self.dim(op.operands[len(op.operands) - len(op.results) + ir.OpResult(value).result_number], dim)
        if op.name in ("tensor.insert_slice", "tensor.insert"):
            return self.dim(op.operands[1], dim)
        if op.name == "scf.for":  # carried values keep their shape
            return self.dim(op.operands[_CARRIED + ir.OpResult(value).result_number], dim)
        if op.name == "flow.unbox":
            return sizes_value(op.attributes["sizes"])[dim]
        if op.name in ("tensor.collapse_shape", "memref.collapse_shape"):
            group = [int(i) for i in op.attributes["reassociation"][dim]]
            return product(self.dim(op.operands[0], i) for i in group)
        if op.name in ("tensor.expand_shape", "memref.expand_shape"):
            return self.index(op.operands[1 + nth])
        if op.name in ("tensor.extract_slice", "memref.subview"):
            return self._taken(op, sizes)[dim]
        if op.name == "tensor.concat":
            axis = ir.IntegerAttr(op.attributes["dim"]).value
            parts = [self.dim(operand, dim) for operand in op.operands]
            return parts[0] if dim != axis else None if None in parts else sum(p for p in parts if p is not None)
        return None

    def _carried(self, value: ir.Value, dim: int) -> Dim:
        """A dimension of a carried value at the beginning of a loop body; None for other arguments."""
        owner = value.owner.owner if isinstance(value.owner, ir.Block) else None
        if owner is None or owner.operation.name != "scf.for":
            return None
        return self.dim(owner.operation.operands[_CARRIED - 1 + ir.BlockArgument(value).arg_number], dim)

    def _taken(self, op: ir.Operation, sizes: list[int]) -> list[Dim]:
        """The shape of a slice."""
        taken = SlicePlace.from_op(op).sizes
        gone = dropped(operands_of(taken)[1], sizes)
        return [size if isinstance(size, int) else self.index(size) for i, size in enumerate(taken) if i not in gone]

    @cached_property
    def places(self) -> dict[Size, tuple[ir.Value, int]]:
        """For each expression that is the size of an argument, the argument and the dimension."""
        found: dict[Size, tuple[ir.Value, int]] = {}
        for argument, shape in self.arguments.items():
            for dim, size in enumerate(shape):
                if isinstance(size, Size):
                    found.setdefault(size, (argument, dim))
        return found

    @property
    def bound(self) -> dict[Size, ir.Value]:
        """The index value of each symbol that is an argument of the function or becomes known in it."""
        found: dict[Size, ir.Value] = {}
        for inner in self.block.operations:
            op = inner.operation
            if op.name == "flow.size":
                found[symbol(ir.StringAttr(op.attributes["size"]).value)] = op.results[0]
            elif op.name == "flow.bind_sizes":
                for size, number in zip(sizes_value(op.attributes["sizes"]), op.results, strict=True):
                    if isinstance(size, Size) and size.is_symbol:
                        found.setdefault(size, number)
        return found

    def value(self, size: int | Size, ip: ir.InsertionPoint | None = None) -> ir.Value:
        """A size as a value of type index, computed at `ip` or at the current insertion point.

        Raises PassError if the arguments do not determine a symbol.
        """
        if isinstance(size, int):
            return constant(size, ip)

        def leaf(part: Size) -> ir.Value | None:
            if part in self.symbols:
                return self.symbols[part]
            if part in self.elements:
                argument, place = self.elements[part]
                at = [constant(place, ip)] * len(argument.type.shape)
                return arith.IndexCastOp(ir.IndexType.get(), tensor.ExtractOp(argument, at, ip=ip).result, ip=ip).result
            if part in self.places:
                argument, dim = self.places[part]
                kind = tensor.DimOp if isinstance(argument.type, ir.RankedTensorType) else memref.DimOp
                return kind(argument, constant(dim, ip), ip=ip).result
            if part.is_symbol:
                known = self.bound.get(part)
                if known is not None:
                    return known
                raise PassError(f"no argument of {self.block.owner.operation.attributes['sym_name']} has a dimension {part}")
            return None

        return size.fold(leaf, lambda number: constant(number, ip), index_arithmetic(ip))


def elements_of(function: Any, module: ir.Operation | None) -> Sequence[Sequence[Dim]]:
    """The known elements of the arguments of a module's function. Only the module's record about @main has them."""
    if module is None or ir.StringAttr(function.attributes["sym_name"]).value != "main":
        return ()
    return ModuleInfo(module).elements


class _NamedShapes(SymbolicShapes):
    """The shapes of a function that names the sizes of its arguments itself (`KernelInfo.sizes`)."""

    def __init__(self, function: Any) -> None:
        self.block = function.regions[0].blocks[0]
        self._function = function
        self._module = function.parent.operation if function.attached and function.parent is not None else None  # bufferize detaches it later

    @cached_property
    def _shapes(self) -> Sequence[Sequence[Dim]]:
        shapes: list[list[Dim]] = []
        named = KernelInfo(self._function).sizes
        for index, argument in enumerate(self.block.arguments):
            free = list(named[index]) if index < len(named) else []
            sizes = list(argument.type.shape) if isinstance(argument.type, ir.ShapedType) else []
            shapes.append([(free.pop(0) if free else None) if size == _DYNAMIC else size for size in sizes])
        return shapes

    @cached_property
    def _symbols(self) -> Sequence[str]:
        return KernelInfo(self._function).symbols

    @cached_property
    def _elements(self) -> Sequence[Sequence[Dim]]:
        return elements_of(self._function, self._module)

    @cached_property
    def hints(self) -> Mapping[str, int]:
        """The hints of the module (`ModuleInfo.size_hints`), and those of the function, which replace them (`KernelInfo.hints`)."""
        return {**(ModuleInfo(self._module).size_hints if self._module is not None else {}), **KernelInfo(self._function).hints}


def shapes_around(op: ir.Operation) -> SymbolicShapes:
    """The shapes of the function around an op, which records the sizes of its arguments (`KernelInfo.sizes`)."""
    return _NamedShapes(function_around(op))


def hints_around(op: ir.Operation) -> Mapping[str, int]:
    """Typical values of the symbols of the function around an op."""
    return shapes_around(op).hints


def likely(size: Size, hints: Mapping[str, int] | None = None) -> int:
    """The typical value of a size. It may guide choices of speed, never legality.

    A symbol without a hint stands for a prime number, so that nothing seems to divide what need not be divisible.
    """
    values = {name: (hints or {}).get(name, LIKELY) for name in size.symbols}
    try:
        return max(size.value(values), 0)
    except ZeroDivisionError:
        return LIKELY


def fewer(symbols: Iterable[str], hints: Mapping[str, int]) -> dict[str, int]:
    """Values of symbols `FEWER` times smaller than typical, at least 1."""
    return {name: max(1, likely(symbol(name), hints) // FEWER) for name in sorted(symbols)}


def likely_size(size: int | Size, hints: Mapping[str, int] | None = None) -> int:
    """Like `likely`, also for a number."""
    return size if isinstance(size, int) else likely(size, hints)


def likely_elements(shape: Sequence[Dim], hints: Mapping[str, int] | None = None) -> int:
    """The typical number of elements of a tensor with that shape."""
    return prod(LIKELY if size is None else likely_size(size, hints) for size in shape)


def reshaped_pointer(pointer: ir.Value, kind: ir.MemRefType, free: Sequence["ir.Value | None"]) -> ir.Value:
    """The contiguous memref of type `kind` that begins at `pointer`; `free` has the sizes of its dynamic dimensions."""
    dynamic = ir.ShapedType.get_dynamic_size()
    strides: list[int] = []
    values: list[ir.Value] = []
    step: int | ir.Value = 1
    for place in reversed(range(len(kind.shape))):
        strides.insert(0, step if isinstance(step, int) else dynamic)
        if not isinstance(step, int):
            values.insert(0, step)
        size: int | ir.Value = kind.shape[place]
        if size == dynamic:
            given = free[place]
            assert given is not None
            size = given
        if isinstance(step, int) and isinstance(size, int):
            step *= size
        elif step == 1 and isinstance(step, int):
            step = size
        else:
            step = arith.MulIOp(*(constant(n) if isinstance(n, int) else n for n in (step, size))).result
    sizes = [size for size in free if size is not None]
    return memref.ReinterpretCastOp(kind, pointer, [], sizes, values, [0], list(kind.shape), strides).result


def index_arithmetic(ip: ir.InsertionPoint | None = None) -> dict[str, Callable[[ir.Value, ir.Value], ir.Value]]:
    """The operations with which `Size.fold` builds index values, at `ip` or at the current insertion point."""

    def op(kind: Any) -> Callable[[ir.Value, ir.Value], ir.Value]:
        return lambda a, b: kind(a, b, ip=ip).result

    return {"+": op(arith.AddIOp), "*": op(arith.MulIOp), "//": op(arith.FloorDivSIOp), "max": op(arith.MaxSIOp), "min": op(arith.MinSIOp)}


def constant(number: int, ip: ir.InsertionPoint | None = None) -> ir.Value:
    """A number as a value of type index."""
    kind = ir.IndexType.get()
    return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, number), ip=ip).result


def element_bits(element: ir.Type) -> int:
    """The bits of a scalar type in memory; index counts as 64."""
    if isinstance(element, (ir.IntegerType, ir.FloatType)):
        return max(8, element.width)
    return 64


def dropped(sizes: list[int], shape: list[int]) -> set[int]:
    """The dimensions of size 1 that a slice with these sizes drops to get this shape."""
    out, at = set(), 0
    for i, size in enumerate(sizes):
        if at < len(shape) and shape[at] == size:
            at += 1
        else:
            out.add(i)
    return out
