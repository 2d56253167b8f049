"""Stepwell behind interfaces of others: the backend of ONNX's test suite."""
