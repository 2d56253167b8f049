"""A pass with options: sums are rounded to a given number of bits, to test the effect on a network.

    stepwell run model.onnx --load examples/plugins/own_pass.py --insert-after 'pack-matmul=round-sums{bits=8}' --check onnxruntime

It has no place in the default pipeline: `after=` and `before=` of `register_pass` would add it. `stepwell pipeline` shows its options.
"""


import numpy as np

from stepwell.plugin import GraphBuilder, Pass, PassError, PassState, ir, ops_below, register_pass, type_of


@register_pass("round-sums", level="graph")
class RoundSums(Pass):
    """Round the result of each addition of f32 to a multiple of a power of two."""

    bits: int = 8  # after the binary point

    def run(self, op: ir.Operation, state: PassState) -> None:
        """Put `round(x * 2**bits) / 2**bits` after each addition."""
        if not 0 <= self.bits < 24:
            raise PassError(f"option 'bits' must be from 0 to 23, got {self.bits}")
        builder = GraphBuilder(state.weights)
        for add in ops_below(op, "graph.add"):
            if type_of(add.results[0]).dtype != "f32":
                continue
            with ir.InsertionPoint(add), add.location:
                total, scale = builder.add(*add.operands), np.array(2.0**self.bits, np.float32)
                rounded = builder.div(builder.round(builder.mul(total, builder.constant(value=scale))), builder.constant(value=scale))
            add.results[0].replace_all_uses_with(rounded)
            add.erase()
            state.count(self.name)


if __name__ == "__main__":
    import small_models

    import stepwell

    x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
    y = np.round((x + np.float32(0.3)) * 4) / 4
    model = small_models.chain([("Add", ["x", "c"], {})], x, y, c=np.float32(0.3))
    small_models.check(model, x, y, pipeline=stepwell.Pipeline.default().insert_after("pack-matmul", "round-sums{bits=2}"))
