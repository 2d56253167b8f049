"""The driver: pipelines, lowering, compilation, snapshots, and the artifacts of a compiled model."""
