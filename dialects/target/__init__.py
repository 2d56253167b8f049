"""The machines that code is made for: their descriptions, by name, and the one at hand."""
