"""Fixes dynamic dimensions and values of a model's inputs before its shapes are inferred."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto, helper, numpy_helper

from stepwell.dialects.core.types import TensorType, from_numpy, sizes_text
from stepwell.dialects.graph.base import compatible
from stepwell.dialects.support.errors import InputError
from stepwell.frontends.onnx.problems import Notices
from stepwell.frontends.onnx.source import LARGE_BYTES, Source
from stepwell.frontends.onnx.tensors import onnx_tensor_type


def fix_shapes(model: ModelProto, shapes: Mapping[str, Sequence[int | None]], weights: Iterable[str], notices: Notices) -> None:
    """Set the dynamic dimensions of inputs, in place; a symbolic dimension gets the same size everywhere.

    A size of 0 that is given another one counts as dynamic, because some exporters write it so. None leaves a dimension dynamic. Raises InputError,
    naming the input, if it is unknown, has another rank, or if a size conflicts.
    """
    known_weights = set(weights)
    inputs = {value.name: value for value in model.graph.input if value.name not in known_weights}
    symbols: dict[str, tuple[int, str]] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise InputError(f"there is no input '{name}' to give a shape to; the model's inputs: {', '.join(inputs) or 'none'}")
        _fix(inputs[name], list(shape), symbols, notices)
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.WhichOneof("value") == "tensor_type":
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param in symbols:
                    dim.dim_value = symbols[dim.dim_param][0]


def _fix(value: ValueInfoProto, shape: list[int | None], symbols: dict[str, tuple[int, str]], notices: Notices) -> None:
    name = value.name
    if any(size is not None and (isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0) for size in shape):
        raise InputError(f"the shape given for input '{name}' must be sizes from 0 (None leaves one free), got {shape}")
    if value.type.WhichOneof("value") != "tensor_type":
        raise InputError(f"input '{name}' is not a tensor: it has no shape to fix")
    tensor: TypeProto.Tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        tensor.shape.SetInParent()
        for _ in shape:
            tensor.shape.dim.add()
    if len(tensor.shape.dim) != len(shape):
        raise InputError(f"input '{name}' has rank {len(tensor.shape.dim)} in the model, the shape given has rank {len(shape)}: {sizes_text(shape)}")
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
        if size is None:
            continue
        if dim.HasField("dim_value") and dim.dim_value == 0 and size != 0:
            notices.add("size of 0", f"dimension {axis} of input '{name}' is declared as 0, which is taken for a free size: {size} is given")
        elif dim.HasField("dim_value") and dim.dim_value != size:
            raise InputError(f"dimension {axis} of input '{name}' is {dim.dim_value} in the model, the shape given says {size}: {sizes_text(shape)}")
        if dim.dim_param:
            known, where = symbols.setdefault(dim.dim_param, (size, name))
            if known != size:
                raise InputError(
                    f"dimension {axis} of input '{name}' is '{dim.dim_param}', which is {known} in input '{where}', but {size} in {sizes_text(shape)}"
                )
        dim.dim_value = int(size)


def fix_values(source: Source, constants: Mapping[str, np.ndarray]) -> None:
    """Make inputs constants, in place, by input name. Raises InputError, naming the input, if it does not exist or the array does not fit it."""
    inputs = {value.name: value for value in source.model.graph.input if value.name not in source.initializers}
    for name, array in constants.items():
        if name not in inputs:
            raise InputError(f"there is no input '{name}' to give a value to; the model's inputs: {', '.join(inputs) or 'none'}")
        declared, given = onnx_tensor_type(inputs[name].type), TensorType(from_numpy(array.dtype), array.shape)
        if declared is None or not compatible(declared, given):
            raise InputError(f"input '{name}' is {declared or 'not a tensor of a shape that is known'}, the value given is {given}")
        source.initializers[name] = partial(np.asarray, array)
        inputs[name].type.CopyFrom(helper.make_tensor_type_proto(inputs[name].type.tensor_type.elem_type, array.shape))
        if array.nbytes < LARGE_BYTES:
            source.model.graph.initializer.append(numpy_helper.from_array(array, name))
