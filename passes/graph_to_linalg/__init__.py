"""The step from graph ops to linalg: one lowering a graph op, and the conversion that applies them."""
