"""The pass that computes an intermediate result in the memory of the result that overwrites it."""


from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import defining_op, ir, ops_below, use_count, users
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.linalg.use_destinations import take_output


@register_pass("share-destinations", level="linalg", anchor="func.func")
class ShareDestinations(Pass):
    """Compute an element-wise op's input in the op's own destination, if the op is the last to read it.

    rewrite: %p = generic … outs(empty); f(%p); generic ins(%p, …) outs(%argument)  ->  %p = generic … outs(%argument); f(%p); generic ins(…) outs(%p)

    An example are the exponentials of a softmax: their sum reads them first, then the division. The memory of the result is written once in any case;
    with memory of its own, the intermediate result would occupy that much of the caches again. `use-destinations` does the same for values with no
    other reader. This pass comes after `fuse-loops`, which would take ops that overwrite one tensor for a single stage.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        if not KernelInfo(op).is_kernel:
            return
        arguments = list(op.regions[0].blocks[0].arguments)
        for operation in ops_below(op, "linalg.generic"):
            found = Structured(operation)
            if not found.is_elementwise or found.outputs[0].used or found.outputs[0].value not in arguments:
                continue
            with state.attempt(self.name, operation):
                shared, producer, empty = _shared(found, arguments)
                producer.operands[len(producer.operands) - 1] = found.outputs[0].value
                take_output(operation, found, shared)
                if not use_count(empty.results[0]):
                    empty.erase()
                state.count(self.name)


def _shared(op: Structured, arguments: list[ir.Value]) -> tuple[int, ir.Operation, ir.Operation]:
    """The index of the input of an element-wise op that may be computed in its destination, the producer of this input, and its `tensor.empty`.

    Raises NoMatch if there is none.
    """
    out = op.outputs[0]
    if use_count(out.value) != 1:
        raise NoMatch("its destination has another user")
    same = [n for n, a in enumerate(op.inputs) if a.is_shaped and a.map == out.map and op.shapes.same(a.value, out.value)]
    if any(op.inputs[n].value in arguments for n in same):
        raise NoMatch("it may overwrite an input of the kernel instead")
    for n in same:
        value = op.inputs[n].value
        producer = defining_op(value)
        if producer is None or producer.name != "linalg.generic" or len(producer.results) != 1 or producer.block != op.operation.block:
            continue
        start = Structured(producer).outputs[0]
        origin = defining_op(start.value)
        others = [user for user in users(value) if user != op.operation]
        if start.used or origin is None or origin.name != "tensor.empty" or sum(a.value == value for a in op.inputs) != 1:
            continue
        if all(user.block == op.operation.block and user.name == "linalg.generic" and user.is_before_in_block(op.operation) for user in others):
            return n, producer, origin
    raise NoMatch("it is not the last to read an operand of the type of its result that is made in this kernel")
