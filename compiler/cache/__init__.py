"""The cache of compiled models and kernels on disk, and its keys."""
