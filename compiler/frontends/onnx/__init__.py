"""The ONNX front end. Names are loaded when they are first used: `frontend`, which every compilation asks, does without onnx."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepwell.dialects.support.processes import uninterrupted

if TYPE_CHECKING:
    from stepwell.frontends.builder import Value
    from stepwell.frontends.onnx.builder import ImportBuilder
    from stepwell.frontends.onnx.importing import OnnxModel, import_model
    from stepwell.frontends.onnx.registry import Rule, all_rules, find_rule, onnx_rule

__all__ = ["ImportBuilder", "OnnxModel", "Rule", "Value", "all_rules", "find_rule", "import_model", "onnx_rule"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    with uninterrupted():
        importing = import_module("stepwell.frontends.onnx.importing")  # with all rules, so that a plugin's come after them
    return getattr(importing, name)
