"""Front ends: each turns models of one format into the level `graph`. `onnx` is the built-in one; plugins register others."""
