"""The step from linalg to affine loops with vector ops: bufferisation, buffer assignment, the generic lowering."""
