"""Stepwell as a backend of ONNX: `onnx.backend.base.Backend`, and its functions in this module itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, shape_inference
from onnx.backend.base import Backend, BackendRep, Device as OnnxDevice, DeviceType, namedtupledict

from stepwell.border.model import BorderModel
from stepwell.dialects.support.errors import InputError
from stepwell.driver.compilation import compile as compile_model
from stepwell.driver.dynamic import DynamicModel
from stepwell.runtime.model import CompiledModel


class StepwellRep(BackendRep):
    """A prepared model."""

    def __init__(self, model: CompiledModel | DynamicModel | BorderModel) -> None:
        self.model = model
        self._outputs = namedtupledict("Outputs", [info.name for info in model.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on `inputs`: one array, a sequence of arrays in the model's order, or a dict by name.

        Returns the outputs in order, also accessible by name.
        """
        if kwargs:
            raise InputError(f"run: unknown options {', '.join(kwargs)}")
        if isinstance(inputs, Mapping):
            return self._outputs(*self.model.run(inputs).values())
        arrays = inputs if isinstance(inputs, Sequence) else [inputs]
        return self._outputs(*self.model(*arrays))


class StepwellBackend(Backend):
    """Compiles ONNX models for the CPU. Keyword arguments of `prepare` are options of `stepwell.compile`."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> StepwellRep:
        """Compile `model`. Raises InputError for a device that is not a CPU, and the errors of `stepwell.compile`."""
        if not cls.supports_device(device):
            raise InputError(f"device: expected 'CPU', got '{device}'")
        return StepwellRep(compile_model(model, **kwargs))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile and run a model of this one node on its inputs in order. `opset_version` in `kwargs` sets the opset."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        given = [name for name in node.input if name]
        arrays = [np.asarray(array) for array in (inputs if isinstance(inputs, Sequence) else [inputs])]
        if len(given) != len(arrays):
            raise InputError(f"expected {len(given)} inputs ({', '.join(given)}), got {len(arrays)}")
        by_name = dict(zip(given, arrays, strict=True))  # a node may use one value twice
        sources = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in by_name.items()
        ]
        names = [name for name in node.output if name]
        if outputs_info is None:
            results = [helper.make_empty_tensor_value_info(name) for name in names]
        else:
            results = [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for name, (dtype, shape) in zip(names, outputs_info, strict=True)
            ]
        graph = helper.make_graph([node], node.op_type, sources, results)
        opsets = [helper.make_opsetid(node.domain, opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets, ignore_unknown=True))
        return cls.run_model(shape_inference.infer_shapes(model, strict_mode=True), by_name, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is a CPU."""
        try:
            return bool(OnnxDevice(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False  # not a device that ONNX knows


is_compatible = StepwellBackend.is_compatible
prepare = StepwellBackend.prepare
run_model = StepwellBackend.run_model
run_node = StepwellBackend.run_node
supports_device = StepwellBackend.supports_device
