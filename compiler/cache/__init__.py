"""What is kept of compiled models on disk, and the keys it is found by."""
