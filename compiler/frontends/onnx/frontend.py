"""The built-in front end. It loads onnx when a model is imported, not before."""

from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.dialects.support.processes import uninterrupted
from stepwell.frontends.base import FrontEnd, ImportedModel, ImportOptions, Summary
from stepwell.frontends.onnx.digest import message_digest, serialized
from stepwell.frontends.registry import BUILT_IN, register_frontend

if TYPE_CHECKING:
    from stepwell.dialects.core.mlir import ir


@register_frontend(BUILT_IN)
class OnnxFrontEnd(FrontEnd):
    """ONNX: files, their bytes, and ModelProtos."""

    accepted = "a path, bytes or an onnx.ModelProto"

    def accepts(self, source: object) -> bool:
        """Accepts paths and bytes of any kind: other front ends are asked first, and the importer reports damaged models."""
        return isinstance(source, (Path, bytes, bytearray, memoryview)) or _is_message(source)

    def digest(self, source: object) -> bytes | None:
        return message_digest(source) if _is_message(source) else super().digest(source)

    def portable(self, source: object) -> str | bytes | None:
        """Messages of more than 2 GB cannot be serialised."""
        return serialized(source) if _is_message(source) else super().portable(source)

    def load(self, source: object, context: "ir.Context", options: ImportOptions) -> ImportedModel:
        with uninterrupted():
            from stepwell.frontends.onnx.importing import import_model

        return import_model(
            source, context, shapes=options.shapes, constants=options.values, limits=options.limits, same_names=options.same_names,
            same_data_sizes=options.same_data_sizes,
        )  # fmt: skip

    def summary(self, source: object) -> Summary:
        from stepwell.frontends.onnx.summary import summary

        return summary(source)


def _is_message(source: object) -> bool:
    """Whether a source is a ModelProto, by the name of its class."""
    return type(source).__name__ == "ModelProto"
