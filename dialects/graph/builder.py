"""GraphBuilder: builds graph operations with inferred types, and evaluates constant values."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import TensorType, from_numpy, is_compact, type_of
from stepwell.dialects.core.weights import Deferred, WeightTable
from stepwell.dialects.graph.base import GraphOp, make_op, map_groups, op_class
from stepwell.dialects.graph.callbacks import inferred_types
from stepwell.dialects.graph.known import constant_value
from stepwell.dialects.support.errors import StepwellError

LITERAL_ELEMENTS = 64  # elements; larger arrays are stored in the weight table rather than in the IR's text


class GraphBuilder:
    """Builds graph ops at the current insertion point and location: `b.add(x, y)`, `b.concat([x, y], axis=1)`, `b.build(MyOp, x, n=4)`.

    Every op of the dialect `graph` is a method; ops of other dialects are built by their class. Operands are passed by field (None for an absent
    optional one, a list for a variadic one), attributes by keyword as Python values. A call returns the result value, or a tuple if the op has
    several. Result types come from the op's `infer`; an op without `infer` (or whose result depends on data) takes `result_types=[TensorType, …]`.
    Raises InferenceError if the operands do not fit.
    """

    def __init__(self, weights: WeightTable) -> None:
        self.weights = weights

    def __getattr__(self, mnemonic: str) -> Callable[..., Any]:
        if mnemonic.startswith("__"):
            raise AttributeError(mnemonic)
        return partial(self.build, op_class(mnemonic.rstrip("_")))  # `and_`, `not_`, `if_` avoid Python's keywords

    def build(self, cls: type[GraphOp], /, *operands: Any, result_types: list[TensorType] | None = None, **attributes: Any) -> Any:
        """Build one op of class `cls`, in any dialect; see the class's docstring."""
        results = tuple(self.create(cls, operands, attributes, result_types).operation.results)
        return results[0] if len(results) == 1 else results

    def create(self, cls: type[GraphOp], operands: Any, attributes: dict[str, Any], result_types: list[TensorType] | None = None) -> GraphOp:
        """Like `build`, but takes all operands and all attributes in one argument each, and returns the op."""
        if result_types is None:
            if cls.infer is None:
                raise StepwellError(f"{cls.OPERATION_NAME} infers no types: pass result_types=")
            types = map_groups(type_of, [list(o) if isinstance(o, (list, tuple)) else o for o in operands])
            result_types = list(inferred_types(cls, types, attributes))
        return make_op(cls, operands, attributes, result_types)

    def literal(self, array: Any, dtype: Any = None) -> ir.Value:
        """Build a constant: in the IR if it is small, else as an entry of the weight table. Elements of compact types are stored as bytes."""
        data = np.asarray(array, dtype=dtype)
        if is_compact(from_numpy(data.dtype)):
            return self.bit_cast(self.literal(data.view(np.uint8)), to=from_numpy(data.dtype))
        if data.size <= LITERAL_ELEMENTS:
            return self.constant(value=data)
        return self.weight("constant", data)

    def weight(self, name: str, array: np.ndarray | Deferred) -> ir.Value:
        """Add an entry to the weight table (under an unused name like `name`) and build a parameter that refers to it."""
        if isinstance(array, np.ndarray) and is_compact(from_numpy(array.dtype)):
            return self.bit_cast(self.weight(name, array.view(np.uint8)), to=from_numpy(array.dtype))
        return self.parameter(id=self.weights.add(name, array), result_types=[TensorType(from_numpy(array.dtype), array.shape)])

    def constant_value(self, value: ir.Value) -> np.ndarray | None:
        """The array of a value that is known at compile time, or None.

        Looks through constants, parameters, shapes of statically shaped tensors, and small pure ops on these (evaluated by their reference), so that
        the results of shape arithmetic are known without a rewrite.
        """
        return constant_value(value, self.weights)
