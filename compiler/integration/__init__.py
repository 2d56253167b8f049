"""Stepwell as others expect it: the backend of ONNX's test suite."""
