"""Search strategies, one file each; a plugin registers its own with the same decorator."""

from stepwell.dialects.support.exports import load_modules


def built_in() -> None:
    """Import, and so register, the strategies of this folder."""
    load_modules(__name__)
