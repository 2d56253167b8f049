"""The pass that gives every weight its offset in the arena."""


from stepwell.dialects.core.attributes import to_python
from stepwell.dialects.core.mlir import arith, bufferization, ir, memref
from stepwell.dialects.core.module_info import ModuleInfo
from stepwell.dialects.core.types import from_numpy, type_of
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import program_functions, reinterpreted
from stepwell.passes.graph_to_linalg.plain_types import plain_type


@register_pass("pack-weights", level="graph-opt")
class PackWeights(Pass):
    """Lay out the weights that the program uses in one arena, in order of first use, and read them from it.

    rewrite: graph.parameter {id}     -> bufferization.to_tensor (memref.view %weights[offset][])
    rewrite: graph.constant in @main  -> a weight of its own, likewise

    `%weights: memref<?xi8>` becomes the last argument of `@main` and of the functions of its regions; the module gets `stepwell.arena`, the byte
    offset of each weight, and `stepwell.weights_bytes`.
    """

    alignment: int = 64  # of each weight, in bytes

    def run(self, op: ir.Operation, state: PassState) -> None:
        offsets: dict[str, int] = {}
        end = 0
        for function in program_functions(op):
            end = self._pack(function, offsets, end, state)
        info = ModuleInfo(op)
        info.arena, info.weights_bytes = offsets, end
        state.count("weights", len(offsets))
        state.count("weight bytes", end)

    def _pack(self, function: ir.OpView, offsets: dict[str, int], end: int, state: PassState) -> int:
        """Assign `offsets` from `end` on to the new weights of a function; returns the new end."""
        block = function.regions[0].blocks[0]
        found = [o.operation for o in block.operations if o.operation.name in ("graph.parameter", "graph.constant")]
        with function.location:
            weights = block.add_argument(ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(8)), function.location)
        views: dict[tuple[str, ir.Type], ir.Value] = {}
        for inner in found:
            entry, kind = self._entry(inner, state), inner.results[0].type
            if entry not in offsets:
                start = -(-end // self.alignment) * self.alignment
                offsets[entry] = start
                end = start + type_of(inner.results[0]).bytes
            if (entry, kind) not in views:
                with ir.InsertionPoint(inner), inner.location:
                    views[entry, kind] = _read(weights, offsets[entry], kind)
            inner.results[0].replace_all_uses_with(views[entry, kind])
            inner.erase()
        _add_argument(function, weights.type)
        return end

    def _entry(self, op: ir.Operation, state: PassState) -> str:
        """The entry of the weight table that a parameter names, or a new one for a constant. Raises PassError if it does not fit."""
        if op.name == "graph.constant":
            return state.weights.add("constant", to_python(op.attributes["value"]))
        entry, kind = str(op.attributes["id"].value), type_of(op.results[0])
        array = state.weights.entry(entry) if entry in state.weights else None
        if array is not None and (from_numpy(array.dtype), array.shape) != (kind.dtype, kind.shape):
            raise PassError(f"parameter at {op.location}: its type is {kind}, but weight '{entry}' is {array.dtype} of shape {list(array.shape)}")
        return entry


def _read(weights: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
    """The weight at `offset` bytes as a tensor of type `kind`."""
    plain = plain_type(kind)
    at = arith.ConstantOp(ir.IndexType.get(), offset).result
    view = memref.ViewOp(ir.MemRefType.get(plain.shape, plain.element_type), weights, at, []).result
    value: ir.Value = bufferization.ToTensorOp(plain, view, restrict=True).result
    return value if plain == kind else reinterpreted(value, kind)


def _add_argument(function: ir.OpView, kind: ir.Type) -> None:
    """Append an argument of type `kind` to a function's signature (its block has it already)."""
    signature = function.type
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*signature.inputs, kind], signature.results))
    if "arg_attrs" in function.attributes:
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*function.attributes["arg_attrs"], ir.DictAttr.get({})])
