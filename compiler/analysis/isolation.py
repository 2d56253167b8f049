"""A module of one kernel, with a `@main` that passes the kernel's operands in and its results out."""

from stepwell.dialects.core.mlir import func, ir, tensor
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.target.dialect import TargetInfo
from stepwell.passes.framework.rewriting import find_function
from stepwell.passes.linalg.use_destinations import destinations

_KEPT = (TargetInfo.target.name, ModuleInfo.nodes.name)


def isolated(module: ir.Module, name: str) -> str:
    """The text of a module with the kernel `name` of a module at level linalg or scheduled, and a `@main` that calls it once.

    Operands of the kernel, including weights, become the inputs `operand0`, `operand1`, …, its results the outputs `result0`, ….
    """
    source = find_function(module.operation, name)
    own = ir.Module.create(source.location)
    for attribute in _KEPT:
        if attribute in module.operation.attributes:
            own.operation.attributes[attribute] = module.operation.attributes[attribute]
    with ir.InsertionPoint(own.body):
        kernel = source.operation.clone().opview
    outs = destinations(kernel.operation)
    types = [a.type for a in list(kernel.arguments)[: len(kernel.arguments) - len(outs)]]
    results = list(kernel.type.results)
    arena = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(8))
    with ir.InsertionPoint.at_block_begin(own.body), kernel.location:
        main = func.FuncOp("main", ir.FunctionType.get([*types, arena], results))
        with ir.InsertionPoint(main.add_entry_block()):
            empty = [tensor.EmptyOp(list(r.shape), r.element_type).result for r in map(ir.RankedTensorType, results)]
            call = func.CallOp(results, name, [*list(main.arguments)[: len(types)], *empty])
            func.ReturnOp(list(call.results))
    info = ModuleInfo(own)
    info.inputs = [(f"operand{i}", TensorType.from_mlir(t)) for i, t in enumerate(types)]
    info.outputs = [(f"result{i}", TensorType.from_mlir(t)) for i, t in enumerate(results)]
    return str(own.operation.get_asm(enable_debug_info=True))
