"""A level of IR, and a backend with its own path: from `linalg` to a level where sums of products are ops, as libraries compute them.

    stepwell run model.onnx --load examples/plugins/own_level.py --backend einsum --check levels
    stepwell compile model.onnx --load examples/plugins/own_level.py --backend einsum --emit einsum

The path of the backend is `graph`, `graph-opt`, `linalg`, `einsum`: no schedules, no loops, no machine code. Code is the text of the IR at the last
level; numpy computes the products, the interpreter all other ops.
"""

from collections.abc import Callable, Sequence

import numpy as np

from stepwell.plugin import (
    COMMON,
    FLOATS,
    Artifact,
    Backend,
    Cache,
    Code,
    Dialect,
    Executable,
    GraphOp,
    IndexChecks,
    InferredTypes,
    Interpreter,
    Level,
    LevelPath,
    Lowered,
    NoMatch,
    Operand,
    PatternPass,
    Phase,
    Pure,
    Result,
    Rewriter,
    Structured,
    Target,
    TensorType,
    expect_dtype,
    functions,
    ir,
    linalg,
    make_context,
    parse_module,
    pattern,
    register_backend,
    register_dialect,
    register_level,
    register_pass,
    signless,
    widened,
)  # fmt: skip

# As at the level linalg, kernels are functions on tensors and weights lie in an arena; kernels may also contain ops of this dialect.
register_level(Level("einsum", outlined=True, arena=True, interpretable=True, dialects=("algebra",)))


@register_dialect
class Algebra(Dialect, name="algebra"):
    """Operations of linear algebra that libraries have."""


class EinsumOp(GraphOp, name="einsum", dialect=Algebra, traits=[Pure]):
    """`start` plus the sum of products of elements of `x` and `y`; in `subscripts`, such as "ik,kj->ij", each letter is an index."""

    x: Operand
    y: Operand
    start: Operand
    subscripts: ir.StringAttr
    result: Result

    @staticmethod
    def infer(x: TensorType, y: TensorType, start: TensorType, *, subscripts: str) -> InferredTypes:
        expect_dtype("x", x, FLOATS)
        return start

    @staticmethod
    @widened
    def reference(x: np.ndarray, y: np.ndarray, start: np.ndarray, *, subscripts: str) -> np.ndarray:
        total: np.ndarray = start + np.einsum(subscripts, x, y, optimize=True)
        return total


@pattern(linalg.GenericOp)
def as_einsum(op: linalg.GenericOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: linalg.generic(x, y, start) {start + x * y} -> algebra.einsum(x, y, start)"""
    nest = Structured(op)
    if [inner.operation.name for inner in nest.body.operations] != ["arith.mulf", "arith.addf", "linalg.yield"]:
        return NoMatch("it does not sum products of two floats")
    product, total = list(nest.body.operations)[:2]
    factors, start = list(nest.body.arguments)[:-1], list(nest.body.arguments)[-1]
    if set(product.operands) != set(factors) or len(factors) != 2 or set(total.operands) != {product.results[0], start}:
        return NoMatch("it sums something else than the products of its two inputs")
    indices = [list(access.map.results) for access in nest.accesses]
    if not all(isinstance(index, ir.AffineDimExpr) for operand in indices for index in operand):
        return NoMatch("an operand has an index that is more than a loop")
    x, y, result = ("".join(chr(ord("a") + ir.AffineDimExpr(index).position) for index in operand) for operand in indices)
    made: ir.Value = rw.build(EinsumOp, *op.operands, subscripts=f"{x},{y}->{result}")
    return made


@register_pass("use-einsum", level="linalg", anchor="func.func")
class UseEinsum(PatternPass):
    """Replace structured ops that sum products by `algebra.einsum`."""

    patterns = (as_einsum,)


@register_backend("einsum")
class EinsumBackend(Backend):
    """IR is code: stored as text, loaded by MLIR's parser."""

    path = LevelPath("graph", "graph-opt", "linalg", "einsum")
    description = "products by numpy, other ops one by one"

    def phases(self, target: str | Target) -> Sequence[Phase]:
        """The phases that all backends share, without layouts for a CPU, and one that leads to the new level."""
        return (*COMMON, Phase("sums of products", "einsum", "func.func(use-einsum)"))

    def generate(self, lowered: Lowered, store: Cache | None, reached: Callable[[], None]) -> Code:
        """The text of the model, with locations, so that errors name ONNX nodes."""
        return Code({"main": lowered.text().encode()}, kernels=len(functions(lowered.module.operation)) - 1)

    def load(self, artifact: Artifact, weights: np.ndarray, threads: int) -> Executable:
        """The model, parsed once."""
        return Program(artifact.objects["main"].decode(), weights, threads, IndexChecks(artifact.checks))


class Program:
    """A model in memory. Each run has its own interpreter, so that runs may overlap."""

    def __init__(self, text: str, weights: np.ndarray, threads: int, checks: IndexChecks) -> None:
        self.weights, self.checks, self.threads = weights, checks, threads  # numpy chooses its threads itself
        self.module = parse_module(text, make_context(), "model")
        self.functions = {function.sym_name.value: function.operation for function in functions(self.module.operation)}

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """See `Executable`. `@main` takes the inputs and the arena of weights, and returns the outputs, then how far indices
        reach."""
        with self.module.context:
            results = Interpreter(self.functions).call("main", [*map(signless, inputs), self.weights])
        self.checks.raise_any(results[len(outputs) :])
        for result, out in zip(results, outputs, strict=False):
            out[...] = np.ascontiguousarray(result).view(out.dtype).reshape(out.shape)


if __name__ == "__main__":
    import small_models

    import stepwell

    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape, np.float32) for shape in ((5, 24), (24, 40), (40,)))
    model = small_models.chain([("MatMul", ["x", "w"], {}), ("Add", ["@", "b"], {}), ("Tanh", ["@"], {})], x, np.empty((5, 40), np.float32), w=w, b=b)
    small_models.check(model, x, np.tanh(x.astype(np.float64) @ w + b), backend="einsum")
    assert '"algebra.einsum"' in stepwell.lower(model, "einsum", backend="einsum").text()
