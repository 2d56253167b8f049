"""The properties of operators in domains other than ONNX's: a plugin's operator is imported alone, and its op is queried."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph import GraphOp
from stepwell.dialects.graph.base import Trait
from stepwell.dialects.graph.products import SumOfProducts
from stepwell.dialects.support.errors import ModelWarning, StepwellError
from stepwell.driver.lowering import lower
from stepwell.frontends.onnx.tensors import DTYPES

SMALL = 64
"""Elements up to which a stored operand is given as it is: what an operator does may depend on its numbers."""


_NUMBER = {dtype: number for number, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Stated:
    """An operator that is imported as one op of the graph dialect, whose operands are those of the node in order."""

    op: type[GraphOp]
    products: SumOfProducts | None
    """The products that this node sums; None if it sums none."""
    results: tuple[TensorType, ...]

    def states(self, *traits: type[Trait]) -> bool:
        """Whether the op states one of these traits."""
        return any(map(self.op.has_trait, traits))

    def values(self, node: NodeProto) -> list[ValueInfoProto]:
        """The types of the node's results, as ONNX says them."""
        shapes = [[_dimension(size) for size in kind.shape] for kind in self.results]
        pairs = zip(filter(None, node.output), self.results, shapes, strict=True)
        return [helper.make_tensor_value_info(name, _NUMBER[kind.dtype], shape) for name, kind, shape in pairs]

    @property
    def weight_axis(self) -> int | None:
        """The dimension of the second operand that alone runs along the result, so that it may have a scale for each index; None if none does."""
        along = [] if self.products is None else [axis for axis, dim in enumerate(self.products.rhs) if dim is not None]
        return along[0] if len(along) == 1 else None


def _dimension(size: Dim) -> int | str | None:
    """A size as ONNX says it: a number or the name of a symbol; None for an expression of symbols, which ONNX has no form of."""
    return size if isinstance(size, int) else str(size) if size is not None and size.is_symbol else None


def stated(model: ModelProto, node: NodeProto, types: Mapping[str, ValueInfoProto]) -> Stated | None:
    """The properties of a node of another domain; None if it is imported as more than one op, or its operands are unknown."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    alone, inputs, arrays = NodeProto(), [], []
    alone.CopyFrom(node)
    for place, name in enumerate(node.input):
        tensor, own = stored.get(name), f"operand{place}" if name else ""
        alone.input[place] = own
        if tensor is not None and prod(tensor.dims) <= SMALL:
            arrays.append(TensorProto())
            arrays[-1].CopyFrom(tensor)
            arrays[-1].name = own
        elif tensor is not None:
            inputs.append(helper.make_tensor_value_info(own, tensor.data_type, tensor.dims))
        elif name in types:
            inputs.append(ValueInfoProto(name=own, type=types[name].type))
        elif name:
            return None
    graph = helper.make_graph([alone], "alone", inputs, [ValueInfoProto(name=name) for name in node.output if name], arrays)
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)  # the results have no types yet
            lowered = lower(made, "graph", specialise="never")
    except StepwellError:
        return None  # whoever compiles the network says why
    main = lowered.module.body.operations[0].operation
    block = main.regions[0].blocks[0]
    *ops, end = [op.operation for op in block.operations if op.operation.name not in ("graph.parameter", "graph.constant")]
    if len(ops) != 1 or not isinstance(view := ops[0].opview, GraphOp) or list(end.operands) != list(ops[0].results):
        return None
    computed = [v for v in ops[0].operands if isinstance(v.owner, ir.Block)]
    return Stated(type(view), view.sum_of_products(), view.result_types()) if computed == list(block.arguments) else None
