"""Which operators are not covered, and why; the light networks that ONNX ships, imported. test_onnx_suite.py runs its operator tests."""

from pathlib import Path

import onnx
import pytest
from importing import context
from onnx import defs
from onnx.backend.test import loader

from stepwell.frontends.onnx import find_rule, import_model
from stepwell.frontends.onnx.functions import has_schema_function

LIGHT = Path(loader.DATA_DIR) / "light"

# Operators that have neither a rule nor a definition by ONNX that helps, in any opset, each with the reason.
UNCOVERED = {
    **dict.fromkeys(["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"], "strings, which run in Python at the border of a model"),
    "ImageDecoder": "images",
}


def test_every_version_of_every_operator_is_covered_or_listed() -> None:
    """Each opset that gave an operator a new version counts: from 1 on."""
    versions = [(s.name, s.since_version) for s in defs.get_all_schemas_with_history() if s.domain == "" and not s.deprecated]
    without = {(op, since) for op, since in versions if find_rule("", op, since) is None and not has_schema_function("", op, since)}
    assert without == {(op, since) for op, since in versions if op in UNCOVERED}


@pytest.mark.parametrize("path", sorted(LIGHT.glob("light_*.onnx")), ids=lambda p: p.stem)
def test_the_networks_that_onnx_ships(path: Path) -> None:
    proto = onnx.load(path)
    imported = import_model(path, context())
    assert imported.module.operation.verify()
    weights = {i.name for i in proto.graph.initializer}
    assert [name for name, _ in imported.inputs] == [i.name for i in proto.graph.input if i.name not in weights]
    assert [name for name, _ in imported.outputs] == [o.name for o in proto.graph.output]
    assert len(imported.nodes) == len(set(imported.nodes)) == len(proto.graph.node)
    shapes = {o.name: tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in proto.graph.output}
    assert {name: tensor.shape for name, tensor in imported.outputs} == shapes
