"""The pass that loads and stores bf16 as 16-bit integers, because LLVM cannot select all moves of bf16."""


from stepwell.dialects.core.mlir import arith, ir, memref, mentions, vector
from stepwell.passes.affine_to_llvm.boolean_vectors import with_elements
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.rewriting import NoMatch, Pattern, PatternPass, Rewriter


def load_bits(op: ir.Operation, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: memref.load %m : memref<8xbf16> -> bitcast (memref.load %bits : memref<8xi16>)"""
    source, *places = op.operation.operands
    kind = op.operation.results[0].type
    if not is_bf16(source):
        return NoMatch("it loads no bf16")
    bits = with_elements(source, sixteen_bits())
    if isinstance(kind, ir.VectorType):
        loaded = vector.LoadOp(ir.VectorType.get(kind.shape, sixteen_bits()), bits, places).result
    else:
        loaded = memref.LoadOp(bits, places).result
    return arith.BitcastOp(kind, loaded).result


def store_bits(op: ir.Operation, rw: Rewriter) -> list[ir.Value] | NoMatch:
    """rewrite: memref.store %v, %m : memref<8xbf16> -> memref.store (bitcast %v : i16), %bits"""
    value, target, *places = op.operation.operands
    if not is_bf16(target):
        return NoMatch("it stores no bf16")
    bits = with_elements(target, sixteen_bits())
    if isinstance(value.type, ir.VectorType):
        vector.StoreOp(arith.BitcastOp(ir.VectorType.get(value.type.shape, sixteen_bits()), value).result, bits, places)
    else:
        memref.StoreOp(arith.BitcastOp(sixteen_bits(), value).result, bits, places)
    return []


def is_bf16(buffer: ir.Value) -> bool:
    """Whether a buffer has elements of type bf16."""
    return isinstance(ir.MemRefType(buffer.type).element_type, ir.BF16Type)


def sixteen_bits() -> ir.Type:
    """The type of 16-bit integers."""
    return ir.IntegerType.get_signless(16)


@register_pass("bf16-as-integers", level="affine")
class Bf16AsIntegers(PatternPass):
    """Load and store bf16 as 16-bit integers.

    rewrite: memref.load %m : memref<8xbf16>  ->  bitcast (memref.load %bits : memref<8xi16>)    and stores likewise; %bits is %m as integers

    Arithmetic works on these bits anyway (arith-expand), and a value that is only moved needs no other type. If LLVM for x86 merges loads and stores
    of bf16, it makes scalar ones of a type that instruction selection no longer handles: "Cannot select". Runs once affine accesses are those of
    `memref` and `vector`.
    """

    patterns = (
        Pattern("load-bits", "memref.load", load_bits), Pattern("load-vector-of-bits", "vector.load", load_bits),
        Pattern("store-bits", "memref.store", store_bits), Pattern("store-vector-of-bits", "vector.store", store_bits),
    )  # fmt: skip

    def run(self, op: ir.Operation, state: PassState) -> None:
        if mentions(op, "bf16"):
            super().run(op, state)
