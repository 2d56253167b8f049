"""Support code that is independent of compilers: errors, files, locks, limits, extensions."""
