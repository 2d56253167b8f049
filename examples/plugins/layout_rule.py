"""An op that keeps the blocked layout of the convolutions around it: `com.example::PixelNorm`, with its own layout rule.

    stepwell run model.onnx --load examples/plugins/layout_rule.py

Element-wise ops need no rule. This one sums over channels, which the layout splits into blocks, so a rule is needed. Its lowering creates
several structured ops: a sum, and a division by its root.
"""

import numpy as np

from stepwell.plugin import (
    FLOATS,
    BlockedValue,
    Fusion,
    GraphOp,
    ImportBuilder,
    InferenceError,
    InferredTypes,
    Layout,
    LinalgBuilder,
    NoMatch,
    Operand,
    Operands,
    OptionalOperand,
    Pure,
    Result,
    Scalars,
    TensorType,
    UnsupportedError,
    Value,
    broadcast,
    expect_axes,
    expect_dtype,
    expect_same_dtype,
    holds,
    ir,
    layout_rule,
    lowering,
    math,
    onnx_rule,
    product,
    reduce,
    type_of,
    widened,
)


class PixelNormOp(GraphOp, name="pixel_norm", traits=[Pure]):
    """`x` divided by the root mean square of the `channels` numbers at each pixel (Karras et al., ICLR 2018), along `axes`.

    If `held`, which broadcasts to `x`, is given, numbers for which it is 0 do not count.
    """

    fusion = Fusion.COMPLEX  # element-wise ops after it become part of its kernel

    x: Operand
    held: OptionalOperand
    result: Result
    axes: ir.DenseI64ArrayAttr
    channels: ir.IntegerAttr
    epsilon: ir.FloatAttr

    @staticmethod
    def infer(x: TensorType, held: TensorType | None, *, axes: tuple[int, ...], channels: int, epsilon: float) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        expect_axes("axes", axes, x.rank)
        if not channels >= 1 or not holds(product(x.shape[axis] for axis in axes), ">=", channels):
            raise InferenceError(f"attribute 'channels' must be from 1 to the number of elements of {x} along {list(axes)}, got {channels}")
        if epsilon < 0:
            raise InferenceError(f"attribute 'epsilon' must be 0 or more, got {epsilon}")
        if held is not None:
            expect_same_dtype(x=x, held=held)
            if broadcast(x, held) != x.shape:
                raise InferenceError(f"operand 'held' must broadcast to the shape of 'x', {x}, got {held}")
        return x

    @staticmethod
    @widened
    def reference(x: np.ndarray, held: np.ndarray | None, *, axes: tuple[int, ...], channels: int, epsilon: float) -> np.ndarray:
        squares = np.square(x) if held is None else np.square(x) * held
        mean = squares.sum(axis=axes, keepdims=True) / x.dtype.type(channels)
        return x / np.sqrt(mean + x.dtype.type(epsilon))


@onnx_rule("PixelNorm", since=1, domain="com.example")
def pixel_norm(b: ImportBuilder, x: Value, *, epsilon: float = 1e-8) -> Value:
    """The importer's rule for pixels of (N, C, height, width); only the number of channels must be static."""
    channels = type_of(x).shape[1] if type_of(x).rank > 1 else None
    if not isinstance(channels, int):
        raise UnsupportedError(f"{type_of(x)} is not supported; supported: tensors of a known number of channels, in dimension 1")
    normed: Value = b.build(PixelNormOp, x, None, axes=(1,), channels=channels, epsilon=epsilon)
    return normed


@layout_rule(PixelNormOp)
def in_blocks(op: PixelNormOp, layout: Layout) -> BlockedValue | NoMatch:
    """rewrite: pixel_norm(unpack(x')) -> unpack(pixel_norm(x')),  summing over blocks and lanes"""
    image = layout.packed(op.x)
    if image is None:
        return NoMatch("`x` is not blocked, and to bring it into blocks for this op would not pay")
    held = None if image.held is None else layout.literal(image.held)  # the last block may have unused lanes
    normed = layout.build(PixelNormOp, image.value, held, **{**op.attribute_values(), "axes": (1, type_of(image.value).rank - 1)})
    return BlockedValue(normed, image.lanes)


@lowering(PixelNormOp)
def lower_pixel_norm(op: PixelNormOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """Two structured ops: the sums of squares at each pixel, and each number divided by the root of its pixel's mean."""
    result, values = op.result_types()[0], op.attribute_values()
    axes, sizes, s = values["axes"], b.sizes(operands[0]), Scalars(b, result.dtype)

    def square(v: ir.Value, *held: ir.Value) -> ir.Value:
        return s.mul(s.mul(v, v), held[0]) if held else s.mul(v, v)

    squares = b.elementwise(operands, s.dtype, sizes, square)  # becomes part of the loops of the sums
    sums = reduce(b, squares, axes, "add", s.dtype)

    def normed(v: ir.Value, total: ir.Value) -> ir.Value:
        return s.div(v, s.call(math.SqrtOp, s.add(s.div(total, s.const(values["channels"])), s.const(values["epsilon"]))))

    return b.elementwise([operands[0], sums], result.dtype, sizes, normed, loops={1: [i for i in range(result.rank) if i not in axes]})


if __name__ == "__main__":
    import small_models

    import stepwell

    random = np.random.default_rng(0)
    x = random.standard_normal((1, 3, 9, 7)).astype(np.float32)
    v, w = (random.standard_normal(shape).astype(np.float32) for shape in ((20, 3, 1, 1), (24, 20, 1, 1)))
    image = np.einsum("nchw,fc->nfhw", x, v[:, :, 0, 0])
    y = np.einsum("nchw,fc->nfhw", image / np.sqrt(np.square(image).mean(axis=1, keepdims=True) + 1e-8), w[:, :, 0, 0])
    model = small_models.chain([("Conv", ["x", "v"], {}), ("com.example::PixelNorm", ["@"], {}), ("Conv", ["@", "w"], {})], x, y, v=v, w=w)
    small_models.check(model, x, y)
    # Only the result is converted to the plain layout, with one transposition.
    assert stepwell.lower(model, "graph-opt").text().count('"graph.transpose"') == 1
