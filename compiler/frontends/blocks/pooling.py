"""Poolings that are composed of several ops."""

from stepwell.frontends.blocks.windows import FreeWindow
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


def mean_of_padded(b: ModelBuilder, x: Value, win: FreeWindow, with_padding: bool) -> Value:
    """The means of windows over padded `x`: of all their elements, or only of those inside.

    The latter is the former divided, for each dimension, by the fraction of a window that lies inside.
    """
    y = mean_with_padding(b, x, win)
    if with_padding:
        return y
    for axis in range(len(win.kernel)):
        own = win.along(axis)
        if any(n != 0 for n in own.around):
            ones = b.expand(b.scalar(1, like=x), shape=[1 if i != 2 + axis else size for i, size in enumerate(dims_of(x))])
            y = b.div(y, mean_with_padding(b, ones, own))
    return y


def mean_with_padding(b: ModelBuilder, x: Value, win: FreeWindow) -> Value:
    """The means of windows over `x` and the zeros around it."""
    image = win.filled(b, x, 0.0)
    return b.avg_pool(
        image, kernel=win.kernel, strides=win.strides, pads=win.pads, dilations=win.dilations, ceil_mode=False, count_include_pad=True
    )


def raised(b: ModelBuilder, x: Value, power: float) -> Value:
    """`x` (nonnegative) to a power, with cheaper ops for the usual powers."""
    if power == 1.0:
        return x
    if power == 2.0:
        return b.mul(x, x)
    return b.sqrt(x) if power == 0.5 else b.pow(x, b.scalar(power, like=x))
