"""Models in which kernels are computed by several schedules at once, so that one compilation serves to compare their bits."""

from collections.abc import Mapping, Sequence

import numpy as np

from stepwell.dialects.core.mlir import defining_op, func, ir, ops_below
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.driver.build import build
from stepwell.driver.lowering import code_level, descend
from stepwell.passes.framework.rewriting import find_function
from stepwell.passes.linalg.structured import structured_ops
from stepwell.passes.schedule.nest import Nest
from stepwell.pipelines.lowered import Lowered


def results(lowered: Lowered, kernel: str, changes: Sequence[tuple[int, Nest]], inputs: Mapping[str, np.ndarray]) -> list[list[bytes]]:
    """The bits of the results of a kernel's first launch: with its own schedules, then with each change of the nest of one of its ops by index.

    The module is consumed. NaN has one form.
    """
    with lowered.module.context, lowered.module.operation.location:
        main, function = find_function(lowered.module.operation, "main"), find_function(lowered.module.operation, kernel)
        call = next(c for c in ops_below(main.operation, "func.call") if ir.FlatSymbolRefAttr(c.attributes["callee"]).value == kernel)
        made, after = [call], call
        for number, (place, nest) in enumerate(changes):
            copy = function.operation.clone(ir.InsertionPoint(function))
            copy.attributes["sym_name"] = ir.StringAttr.get(f"{kernel}_{number}")
            ScheduleInfo(structured_ops(copy)[place].operation).nest = nest
            after = call.clone(ir.InsertionPoint.after(after))
            after.attributes["callee"] = ir.FlatSymbolRefAttr.get(f"{kernel}_{number}")
            for n, operand in enumerate(after.operands):  # a destination of its own
                made_by = defining_op(operand)
                if made_by is not None and made_by.name == "tensor.empty":
                    after.operands[n] = made_by.clone(ir.InsertionPoint(after)).results[0]
            made.append(after)
        count = _return(lowered, main, made)
    descend(lowered, code_level(lowered.options, lowered.level, watched=False), keep=False)
    outputs = list(build(lowered, threads=1, cache=False).run(inputs).values())[count:]
    each = len(outputs) // len(made)
    return [[_bits(array) for array in outputs[place : place + each]] for place in range(0, len(outputs), each)]


def _return(lowered: Lowered, main: func.FuncOp, calls: Sequence[ir.Operation]) -> int:
    """Let @main return the results of these calls behind its own; returns the number of its own."""
    block = main.regions[0].blocks[0]
    end = block.operations[len(block.operations) - 1]
    kept = list(end.operands)
    values = [result for call in calls for result in call.results]
    with ir.InsertionPoint(end):
        func.ReturnOp([*kept, *values])
    end.operation.erase()
    kinds = ir.FunctionType.get(main.type.inputs, [value.type for value in (*kept, *values)])
    main.operation.attributes["function_type"] = ir.TypeAttr.get(kinds)
    named = list(ir.ArrayAttr(main.operation.attributes["res_attrs"]))
    main.operation.attributes["res_attrs"] = ir.ArrayAttr.get([*named, *[ir.DictAttr.get({})] * len(values)])
    lowered.info.outputs = [*lowered.info.outputs, *((f"variant_{n}", TensorType.from_mlir(value.type)) for n, value in enumerate(values))]
    return len(kept)


def _bits(array: np.ndarray) -> bytes:
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.tobytes()
