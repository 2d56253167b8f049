"""From a model to code: the levels and the pipelines between them, lowering, compiling, what is kept of a compiled model."""
