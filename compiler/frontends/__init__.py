"""Front ends, each of which imports models of one format to the level `graph`. `onnx` is built in; plugins register others."""
