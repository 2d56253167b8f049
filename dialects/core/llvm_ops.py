"""The ops of the llvm dialect that passes build, without the Python classes of all its ops, which take an eighth of a second to load."""

from collections.abc import Mapping, Sequence

from stepwell.dialects.core.mlir import ir


def llvm_functions(module: ir.Operation) -> list[ir.Operation]:
    """The functions of a module in the llvm dialect, in order."""
    return [op.operation for op in module.regions[0].blocks[0].operations if op.operation.name == "llvm.func"]


def call_intrinsic(kind: ir.Type, name: str, operands: Sequence[ir.Value]) -> ir.Value:
    """`llvm.call_intrinsic` of an LLVM intrinsic with one result of type `kind`."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
    }
    return _created("llvm.call_intrinsic", kind, operands, attributes)


def inline_asm(kind: ir.Type, operands: Sequence[ir.Value], text: str, constraints: str) -> ir.Value:
    """`llvm.inline_asm` with one result of type `kind`."""
    return _created("llvm.inline_asm", kind, operands, {"asm_string": ir.StringAttr.get(text), "constraints": ir.StringAttr.get(constraints)})


def element_address(pointer: ir.Value, element: ir.Type, index: int) -> ir.Value:
    """`llvm.getelementptr`: the address of element `index` of an array of `element` at `pointer`."""
    attributes = {
        "elem_type": ir.TypeAttr.get(element),
        "rawConstantIndices": ir.DenseI32ArrayAttr.get([index]),
    }
    return _created("llvm.getelementptr", pointer.type, [pointer], attributes)


def load(kind: ir.Type, address: ir.Value) -> ir.Value:
    """`llvm.load` of a value of type `kind`."""
    return _created("llvm.load", kind, [address], {})


def integer(value: int) -> ir.Value:
    """`llvm.mlir.constant` of type i64."""
    i64 = ir.IntegerType.get_signless(64)
    return _created("llvm.mlir.constant", i64, [], {"value": ir.IntegerAttr.get(i64, value)})


def pointer(address: ir.Value) -> ir.Value:
    """`llvm.inttoptr`: the pointer to an address."""
    return _created("llvm.inttoptr", ir.Type.parse("!llvm.ptr"), [address], {})


def call_address(function: ir.Value, operands: Sequence[ir.Value]) -> None:
    """`llvm.call` of the function, without results, at a pointer."""
    sizes: dict[str, ir.Attribute] = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1 + len(operands), 0])}
    sizes["op_bundle_sizes"] = ir.DenseI32ArrayAttr.get([])
    ir.Operation.create("llvm.call", operands=[function, *operands], attributes=sizes)


def _created(name: str, kind: ir.Type, operands: Sequence[ir.Value], attributes: Mapping[str, ir.Attribute]) -> ir.Value:
    return ir.Operation.create(name, results=[kind], operands=list(operands), attributes=dict(attributes)).results[0]
