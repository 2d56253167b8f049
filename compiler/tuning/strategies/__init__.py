"""Search strategies, one file each; a plugin registers its own with the same decorator."""


def built_in() -> None:
    """Import, and so register, the strategies of this folder."""
