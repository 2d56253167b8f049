"""What runs in Python before and behind compiled code: nodes of strings and maps at the border of a model."""
