"""What knows nothing of compilers: errors, files, locks, limits, and who has extended us."""
