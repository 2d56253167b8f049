"""Looking at models: the plan of memory, the calls of kernels, the levels interpreted, results compared."""
