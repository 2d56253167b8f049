"""Support code that knows nothing of compilers: errors, files, locks, limits, extensions."""
