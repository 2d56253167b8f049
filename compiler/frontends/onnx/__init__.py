"""The ONNX front end. Names are loaded when they are first used: `frontend`, which every compilation asks, works without onnx."""

from typing import TYPE_CHECKING

from stepwell.dialects.support.exports import names_on_use

if TYPE_CHECKING:
    from stepwell.frontends.builder import Value as Value
    from stepwell.frontends.onnx.builder import ImportBuilder as ImportBuilder
    from stepwell.frontends.onnx.importing import OnnxModel as OnnxModel, import_model as import_model
    from stepwell.frontends.onnx.registry import Rule as Rule, all_rules as all_rules, find_rule as find_rule, onnx_rule as onnx_rule
else:
    # Every name comes with all rules, so that a plugin's come after them.
    __getattr__, __dir__, __all__ = names_on_use(__name__, first="stepwell.frontends.onnx.importing")
