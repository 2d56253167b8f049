"""The step from affine to the llvm dialect."""
