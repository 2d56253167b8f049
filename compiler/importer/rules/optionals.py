"""Rules for optionals. Whether one holds a tensor is known where the graph is imported, as no input or loop of a model may be optional."""

import numpy as np

from stepwell.dialects.support.errors import UnsupportedError
from stepwell.importer.builder import ImportBuilder, Value
from stepwell.importer.registry import onnx_rule


@onnx_rule("Optional", since=15)
def optional(b: ImportBuilder, x: Value | None = None) -> Value:
    if x is None:
        raise UnsupportedError("that holds nothing is not supported; supported: one that holds a tensor")
    return x


@onnx_rule("OptionalGetElement", since=15)
def optional_get_element(b: ImportBuilder, x: Value) -> Value:
    return x


@onnx_rule("OptionalHasElement", since=15)
def optional_has_element(b: ImportBuilder, x: Value | None = None) -> Value:
    return b.literal(np.array(x is not None))
