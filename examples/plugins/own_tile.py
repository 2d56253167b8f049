"""A tile strategy: sums of floats that carry their rounding errors along, as exact as in twice the precision.

    stepwell inspect model.onnx --load examples/plugins/own_tile.py --explain

A strategy computes the values of a register tile; loops, loads, prefetches, epilogues and stores around it stay the same. This one carries two values
for each sum. It is Sum2 of Ogita, Rump and Oishi, "Accurate sum and dot product", SIAM Journal on Scientific Computing 26 (2005).
"""

import numpy as np

from stepwell.plugin import NestContext, NoMatch, PlainTiles, RegisterTile, arith, ir, register_tile_strategy


@register_tile_strategy("compensated-sums", kinds=("contraction", "reduction"))
class CompensatedSums(PlainTiles):
    """Sums of floats, each with the sum of its rounding errors, which is added at the end."""

    @classmethod
    def fits(cls, context: NestContext) -> "CompensatedSums | NoMatch | None":
        """Accepts nests that add floats, whose vectors lie along no reduction dimension, and that store only the final sums."""
        if context.root.combiner != "arith.addf" or any(context.shown):
            return None
        if context.lanes_reduce:
            return NoMatch("vectors lie along a summed dimension, and their lanes are added up without their errors")
        if context.intrinsic is not None:
            return NoMatch(f"its schedule names '{context.nest.intrinsic}', which adds several products at once")
        return cls(context)

    def begin(self, tile: RegisterTile) -> list[ir.Value]:
        """The sums, followed by their errors, which are 0."""
        sums = super().begin(tile)
        return [*sums, *tile.zeros(len(sums))]

    def step(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        """Knuth's exact addition, without a branch: a sum and its error together equal the old sum plus the term."""
        count = len(carried) // 2
        sums, errors = [], []
        terms = super().step(tile, tile.zeros(count))  # the body adds its term to 0
        for old, error, term in zip(carried[:count], carried[count:], terms, strict=True):
            new = arith.addf(old, term)
            added = arith.subf(new, old)
            lost = arith.addf(arith.subf(old, arith.subf(new, added)), arith.subf(term, added))
            sums.append(new)
            errors.append(arith.addf(error, lost))
        return [*sums, *errors]

    def finish(self, tile: RegisterTile, carried: list[ir.Value]) -> list[ir.Value]:
        """Sums with their errors added. If a sum overflows or has infinite terms, its error is no number, and the sum stays unchanged."""
        count = len(carried) // 2
        found = []
        for total, error in zip(carried[:count], carried[count:], strict=True):
            is_number = arith.cmpf(arith.CmpFPredicate.ORD, error, error)
            found.append(arith.select(is_number, arith.addf(total, error), total))
        return found


if __name__ == "__main__":
    import small_models

    import stepwell

    # Each column begins with a number so large that the sum of the others, rounded to f32, would vanish beside it.
    x = np.full((4097, 24), 3e-8, np.float32)
    x[0] = 1
    y = x.sum(axis=0, dtype=np.float64).astype(np.float32)
    model = small_models.chain([("ReduceSum", ["x", "axes"], {"keepdims": 0})], x, y, axes=np.array([0]))
    small_models.check(model, x, y)
    assert "arith.subf" in stepwell.lower(model, "affine").text()
