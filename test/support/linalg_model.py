"""Run a function on tensors of linalg ops through the rest of the pipeline, as one kernel."""

from collections.abc import Sequence

import numpy as np

import stepwell
from stepwell.dialects.core.types import TensorType, from_numpy
from stepwell.dialects.core.weights import WeightTable


def run_kernel(body: str, inputs: Sequence[np.ndarray], result: TensorType, *, maps: str = "", threads: int = 1) -> np.ndarray:
    """Compile `body`, whose arguments are %x0, %x1, … and which returns a tensor of type `result`, and run it on `inputs`."""
    model = stepwell.compile_ir(kernel_text(body, inputs, result, maps=maps), "linalg", WeightTable(), threads=threads)
    return model.run({f"x{i}": a for i, a in enumerate(inputs)})["y"]


def kernel_text(body: str, inputs: Sequence[np.ndarray], result: TensorType, *, maps: str = "") -> str:
    """A model of one kernel at the level linalg."""
    types = [str(TensorType(from_numpy(a.dtype), a.shape)) for a in inputs]
    arguments = [f"%x{i}: {t}" for i, t in enumerate(types)]
    named = [f'{a} {{stepwell.name = "x{i}"}}' for i, a in enumerate(arguments)]
    return f"""{maps}
      func.func private @kernel({", ".join([*arguments, f"%out: {result}"])}) -> {result} attributes {{stepwell.kernel, llvm.no_inline}} {{
        {body}
      }}
      func.func @main({", ".join([*named, "%weights: memref<?xi8>"])}) -> ({result} {{stepwell.name = "y"}}) {{
        %out = tensor.empty() : {result}
        %y = call @kernel({", ".join([*(f"%x{i}" for i in range(len(inputs))), "%out"])}) : ({", ".join([*types, str(result)])}) -> {result}
        return %y : {result}
      }}"""
