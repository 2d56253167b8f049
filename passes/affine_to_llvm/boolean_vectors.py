"""The pass that loads and stores vectors of booleans as bytes, their format in memory; upstream's vectors of i1 are bits there."""


from stepwell.dialects.core.mlir import arith, ir, vector
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, Pattern, PatternPass, Rewriter, reinterpreted


def load_bytes(op: ir.Operation, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: vector.load %m : vector<8xi1> -> cmpi ne, (vector.load %bytes : vector<8xi8>), 0"""
    source, *places = op.operation.operands
    kind = ir.VectorType(op.operation.results[0].type)
    if not is_boolean(kind.element_type):
        return NoMatch("it loads no booleans")
    stored = ir.VectorType.get(kind.shape, byte())
    zero = arith.ConstantOp(stored, ir.DenseElementsAttr.get_splat(stored, ir.IntegerAttr.get(byte(), 0))).result
    loaded = vector.LoadOp(stored, with_elements(source, byte()), places).result
    return arith.CmpIOp(arith.CmpIPredicate.ne, loaded, zero).result


def store_bytes(op: ir.Operation, rw: Rewriter) -> list[ir.Value] | NoMatch:
    """rewrite: vector.store %v, %m : vector<8xi1> -> vector.store (extui %v : vector<8xi8>), %bytes"""
    value, target, *places = op.operation.operands
    kind = ir.VectorType(value.type)
    if not is_boolean(kind.element_type):
        return NoMatch("it stores no booleans")
    vector.StoreOp(arith.ExtUIOp(ir.VectorType.get(kind.shape, byte()), value).result, with_elements(target, byte()), places)
    return []


def with_elements(buffer: ir.Value, element: ir.Type) -> ir.Value:
    """The same memory with elements of another type of the same size."""
    kind = ir.MemRefType(buffer.type)
    return reinterpreted(buffer, ir.MemRefType.get(kind.shape, element, kind.layout, kind.memory_space))


def byte() -> ir.Type:
    """The type of 8-bit integers."""
    return ir.IntegerType.get_signless(8)


def is_boolean(element: ir.Type) -> bool:
    """Whether an element type is i1."""
    return isinstance(element, ir.IntegerType) and element.width == 1


@register_pass("boolean-vectors", level="affine")
class BooleanVectors(PatternPass):
    """Load and store vectors of booleans as vectors of bytes.

    rewrite: vector.load %m : vector<8xi1>  ->  cmpi ne, (vector.load %bytes : vector<8xi8>), 0    and stores by extui; %bytes is %m as bytes

    Any byte other than 0 is true; true is written as 1. Runs once affine accesses are those of `vector`.
    """

    patterns = (Pattern("load-bytes", "vector.load", load_bytes), Pattern("store-bytes", "vector.store", store_bytes))
