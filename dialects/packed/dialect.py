"""The `packed` dialect."""

from stepwell.dialects.core.mlir import Dialect, register_dialect


@register_dialect
class Packed(Dialect, name="packed"):
    """How a CPU with vectors computes ops of the dialect `graph`: on blocks of channels, on panels of columns, by Winograd's method."""
