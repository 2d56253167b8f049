"""A backend that executes models at the level `scheduled`, op by op in Python with numpy. Slow and exact, for any target.

    stepwell run model.onnx --load examples/plugins/numpy_backend.py --backend numpy --check onnxruntime
    stepwell run model.onnx --load examples/plugins/numpy_backend.py --backend numpy --target aarch64-neon --strict

Its pipeline is the default one down to that level; its code is the text of that IR. If results are wrong with native code
but correct with this backend, the fault is below that level.
"""

from collections.abc import Callable, Sequence

import numpy as np

from stepwell.plugin import (
    CPU,
    Artifact,
    Backend,
    Cache,
    Code,
    Executable,
    IndexChecks,
    Interpreter,
    LevelPath,
    Lowered,
    Phase,
    Target,
    func,
    functions,
    make_context,
    parse_module,
    register_backend,
    signless,
)  # fmt: skip


@register_backend("numpy")
class NumpyBackend(Backend):
    """IR is code: stored as text, loaded by MLIR's parser, executed by the meaning of each op."""

    path = LevelPath("graph", "graph-opt", "linalg", "scheduled")
    description = "numpy, op by op: slow and exact"

    def phases(self, target: str | Target) -> Sequence[Phase]:
        """The phases of the built-in backend; those of levels outside the path are omitted."""
        return CPU

    def generate(self, lowered: Lowered, store: Cache | None, reached: Callable[[], None]) -> Code:
        """The text of the model with locations, so that errors can name ONNX nodes."""
        return Code({"main": lowered.text().encode()}, kernels=len(functions(lowered.module.operation)) - 1)

    def load(self, artifact: Artifact, weights: np.ndarray, threads: int) -> Executable:
        """The model, parsed once."""
        return Program(artifact.objects["main"].decode(), weights, threads, IndexChecks(artifact.checks))


class Program:
    """A model in memory. Each run has its own interpreter, so that runs may overlap."""

    def __init__(self, text: str, weights: np.ndarray, threads: int, checks: IndexChecks) -> None:
        self.threads = threads  # numpy ignores it
        self.module = parse_module(text, make_context(), "model")
        self.functions: dict[str, func.FuncOp] = {f.sym_name.value: f for f in functions(self.module.operation)}
        self.weights, self.checks = weights, checks

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """See `Executable`: `@main` takes the inputs and the arena of weights, and returns the outputs, then how far indices reach."""
        with self.module.context:
            results = Interpreter({name: f.operation for name, f in self.functions.items()}).call("main", [*map(signless, inputs), self.weights])
        self.checks.raise_any(results[len(outputs) :])
        for result, out in zip(results, outputs, strict=False):
            out[...] = np.ascontiguousarray(result).view(out.dtype).reshape(out.shape)


if __name__ == "__main__":
    import small_models

    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape, np.float32) for shape in ((5, 24), (24, 40), (40,)))
    model = small_models.chain([("MatMul", ["x", "w"], {}), ("Add", ["@", "b"], {}), ("Tanh", ["@"], {})], x, np.empty((5, 40), np.float32), w=w, b=b)
    small_models.check(model, x, np.tanh(x.astype(np.float64) @ w + b), backend="numpy")
