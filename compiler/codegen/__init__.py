"""Machine code: objects out of llvm-dialect modules, by processes of their own, and disassembly."""
