"""The quantiser: writes a network of floats as one of integers, in ONNX's Q/DQ format, with ranges of values that our own compiled model saw."""
