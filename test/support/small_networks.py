"""The networks that Stepwell is compared on, for small images: the same layers and weights at a twelfth of the work."""

from math import prod

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper, shape_inference

import networks

SIDE = 64
"""The height and width of images. Every size that the networks name is a multiple of 7, and becomes one of 2."""
_FULL = 224
_LARGE = 1 << 16  # bytes of weights that the inference of shapes does not need


def small_network(name: str) -> ModelProto:
    """A network by its name, with its weights, for `small_image`; a layer of a transformer as it is."""
    model = networks.build(name)
    graph = model.graph
    if name not in networks.NETWORKS:
        return model
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    del graph.value_info[:]
    (image,) = (value for value in graph.input if value.name not in tensors)
    for dim in image.type.tensor_type.shape.dim[2:]:
        dim.dim_value = SIDE
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[1] in tensors:
            tensors[node.input[1]].CopyFrom(_small_shape(tensors[node.input[1]]))
        if node.op_type == "AveragePool":
            for attribute in node.attribute:
                if attribute.name == "kernel_shape" and attribute.ints[0] == 7:
                    attribute.ints[:] = [2, 2]
    flat = _first_of_rows(model, tensors)
    if flat is not None:
        weights, columns = flat
        tensors[weights].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensors[weights])[:, :columns].copy(), weights))
    return model


def small_image(seed: int) -> np.ndarray:
    """A part of a random image."""
    return np.ascontiguousarray(networks.image(seed)[:, :, :SIDE, :SIDE])


def _small_shape(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """The shape for a small image: its last two sizes, or the only one, depend on the image."""
    shape = numpy_helper.to_array(tensor).copy()
    if len(shape) > 3:
        shape[-2:] = shape[-2:] * SIDE // _FULL
    elif shape[0] == 1:
        shape[-1] = -1
    return numpy_helper.from_array(shape, tensor.name)


def _first_of_rows(model: ModelProto, tensors: "dict[str, onnx.TensorProto]") -> tuple[str, int] | None:
    """The weights of the first fully connected layer, if it takes whole images, and how many columns they have."""
    makers: dict[str, NodeProto] = {output: node for node in model.graph.node for output in node.output}
    gemm = next((node for node in model.graph.node if node.op_type == "Gemm"), None)
    reshape = makers.get(gemm.input[0]) if gemm is not None else None
    if gemm is None or reshape is None or reshape.op_type != "Reshape" or gemm.input[1] not in tensors:
        return None
    skeleton = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    skeleton.graph.node.extend(model.graph.node)
    skeleton.graph.output.extend(model.graph.output)
    skeleton.graph.input.extend(value for value in model.graph.input if value.name not in tensors)
    for tensor in tensors.values():
        if len(tensor.raw_data) < _LARGE:
            skeleton.graph.initializer.append(tensor)
        skeleton.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    inferred = shape_inference.infer_shapes(skeleton)
    shape = next(value for value in inferred.graph.value_info if value.name == reshape.input[0]).type.tensor_type.shape
    return gemm.input[1], prod(dim.dim_value for dim in shape.dim)
