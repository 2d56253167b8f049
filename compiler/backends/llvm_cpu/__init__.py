"""Machine code for CPUs by LLVM: phases of passes, emitters of objects, processes that compile, listings."""
