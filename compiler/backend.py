"""The ONNX backend under the module name that users know from other frameworks: `stepwell.backend`."""

from stepwell.integration.onnx_backend import StepwellBackend, StepwellRep, is_compatible, prepare, run_model, run_node, supports_device

__all__ = ["StepwellBackend", "StepwellRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]
