"""The operators of the border, found by name: the built-in ones, which take time to load, and those of plugins."""

from stepwell.border import operators as _operators  # noqa: F401  (registers them)
from stepwell.border.registry import Operator, registered


def find_operator(domain: str, name: str, opset: int) -> Operator | None:
    """The Python implementation of that operator at an opset version; None if it cannot run there."""
    entries = [entry for entry in registered().get((domain, name), ()) if entry.since <= opset]
    return max(entries, key=lambda entry: entry.since, default=None)


def all_operators() -> list[Operator]:
    """All operators of the border, by domain, name and version."""
    return sorted((entry for entries in registered().values() for entry in entries), key=lambda entry: (entry.domain, entry.name, entry.since))
