"""Networks of floats as networks of fewer bits, which all engines take: in Q/DQ format by ONNX Runtime's static quantiser, with data that are drawn;
with weights of 8 or 4 bits alone; or stored in f16."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.jobs import Feed, TensorSpec
from benchmark.models import feeds

if TYPE_CHECKING:
    import onnx

__all__ = ["CALIBRATION", "INT8", "WEIGHTS", "Weights", "at_opset", "halved", "inputs_of", "quantised"]

INT8 = ("squeezenet", "mobilenetv2", "resnet50v1", "densenet121", "bert_layer", "sentence_encoder")
"""The networks that are compared in int8."""
WEIGHTS = ("gemv", "gemv_x8")
"""The networks that are compared with weights of few bits."""
CALIBRATION = 4  # inputs that ranges are taken from
OPSET = 13  # from which on scales may be one for each filter


def quantised(model: Path) -> "onnx.ModelProto":
    """A network whose convolutions and products take bytes: activations in uint8, weights in int8 with a scale for each filter."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    loaded = at_opset(onnx.load(model), OPSET)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[Feed] = iter(feeds(inputs_of(loaded), CALIBRATION, seed=1))

        def get_next(self) -> Feed | None:
            return next(self.left, None)

    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as scratch:
        newer, prepared, made = (Path(scratch) / f"{name}.onnx" for name in ("newer", "prepared", "made"))
        onnx.save(loaded, newer)
        logging.getLogger().setLevel(logging.ERROR)  # it warns of every vector that it leaves as it is
        quant_pre_process(str(newer), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared), str(made), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        )  # fmt: skip
        return onnx.load(made)


@dataclass(frozen=True)
class Weights:
    """How weights of matrix products are stored, and what an engine may do about it."""

    bits: int
    block: int
    zero_points: bool = False
    accuracy: int = 0
    """`accuracy_level` of MatMulNBits: 4 allows to round the other operand to bytes, which only ONNX Runtime does; 0 leaves it to the engine."""

    def __str__(self) -> str:
        """Digits and letters, as part of a file's name."""
        return f"int{self.bits}-block{self.block}{'-zero_points' * self.zero_points}-accuracy{self.accuracy}"

    def stored(self, model: Path) -> "onnx.ModelProto":
        """A network with its matrices as operands of MatMulNBits."""
        import onnx

        from stepwell.quantizer import quantize_weights

        made = quantize_weights(model, bits=self.bits, block=self.block, zero_points=self.zero_points)
        for node in made.graph.node:
            if node.op_type == "MatMulNBits" and self.accuracy:
                node.attribute.append(onnx.helper.make_attribute("accuracy_level", self.accuracy))
        return made


def halved(model: Path) -> "onnx.ModelProto":
    """A network stored in f16, by ONNX Runtime's converter: inputs and outputs stay f32."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(onnx.load(model), keep_io_types=True)


def at_opset(model: "onnx.ModelProto", least: int) -> "onnx.ModelProto":
    """The model in the opset `least`, unless it is in that or a newer one."""
    import onnx

    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return model if opset >= least else onnx.version_converter.convert_version(model, least)


def inputs_of(model: "onnx.ModelProto") -> Sequence[TensorSpec]:
    """The inputs of a model; dynamic sizes are 0."""
    import onnx

    stored = {tensor.name for tensor in model.graph.initializer}
    taken = [value for value in model.graph.input if value.name not in stored]
    kinds = [(value.name, value.type.tensor_type) for value in taken]
    dtypes = [onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name for _, kind in kinds]
    return [TensorSpec(name, tuple(d.dim_value for d in kind.shape.dim), dtype) for (name, kind), dtype in zip(kinds, dtypes, strict=True)]
