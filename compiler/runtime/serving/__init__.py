"""Many callers of one model: streams, their queue, and how to share the cores out among them."""
