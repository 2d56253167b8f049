"""The `packed` dialect."""

from stepwell.dialects.core.mlir import Dialect, register_dialect


@register_dialect
class Packed(Dialect, name="packed"):
    """How a CPU with vectors computes what the dialect `graph` says: on blocks of channels, on panels of columns, by Winograd's method."""
