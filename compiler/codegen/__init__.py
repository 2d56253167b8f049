"""Machine code: compiles llvm-dialect modules to objects in separate processes, and disassembles them."""
