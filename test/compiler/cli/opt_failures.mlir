// A failing pass is named with what it said; the reproducer has the IR before it and what was left to run, and fails again.
// RUN: mkdir -p %t
// RUN: not stepwell-opt %s --load %S/Inputs/plugin.py --tag --fail-here --cse --reproducer %t/again.mlir 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=REPRODUCER < %t/again.mlir
// RUN: not stepwell-opt %t/again.mlir --load %S/Inputs/plugin.py --pass-pipeline='fail-here,cse' 2>&1 | FileCheck %s
// RUN: not stepwell-opt %s --load %S/Inputs/plugin.py --tag --break-ir --dump-ir %t/dump 2>&1 | FileCheck %s --check-prefix=VERIFY
// RUN: FileCheck %s --check-prefix=DUMP < %t/dump/001_tag.mlir
// RUN: FileCheck %s --check-prefix=REST < %t/dump/reproducer.mlir
// RUN: not stepwell-opt %s --load %S/Inputs/plugin.py --raise-error 2>&1 | FileCheck %s --check-prefix=PYTHON
// RUN: not stepwell-opt %s --load %S/Inputs/plugin.py --raise-error --traceback 2>&1 | FileCheck %s --check-prefix=TRACEBACK
// RUN: not stepwell-opt %s --convert-func-to-llvm --finalize-memref-to-llvm --llvm-request-c-wrappers=x 2>&1 | FileCheck %s --check-prefix=OPTION

// CHECK: error: SW005 pass 'fail-here': 'func.func' at loc("{{[^-].*}}.mlir":{{[0-9]+:[0-9]+}}): the second function is too much
// REPRODUCER: // stepwell-opt --pass-pipeline='fail-here,cse' --load {{.*}}plugin.py {{.*}}again.mlir
// REPRODUCER: // fails with: SW005 pass 'fail-here'
// REPRODUCER: @first{{.*}}tags = ["tagged"]
// REPRODUCER: @second
// VERIFY: error: SW005 pass 'break-ir': left IR that does not verify: {{.*}}requires attribute 'function_type'; reproducer: {{.*}}reproducer.mlir; run it with: stepwell-opt --pass-pipeline='break-ir' --load {{.*}}plugin.py {{.*}}reproducer.mlir
// DUMP: @first{{.*}}tags = ["tagged"]
// REST: --pass-pipeline='break-ir'
// PYTHON: error: SW005 pass 'raise-error': KeyError: 'no such thing' ({{.*}}/Inputs/plugin.py, line 62)
// PYTHON-NOT: Traceback
// TRACEBACK: Traceback
// TRACEBACK: Inputs/plugin.py
// OPTION: error: SW006 pass 'llvm-request-c-wrappers' has no option 'x'; it has: none
func.func private @first()
func.func private @second()
