"""Native code: objects out of llvm-dialect modules, their loading, OpenMP, disassembly."""
