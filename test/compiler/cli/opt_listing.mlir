// RUN: stepwell-opt --list-passes --load %S/Inputs/plugin.py | FileCheck %s
// RUN: stepwell-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS

// CHECK: --tag (graph; on func.func)
// CHECK-NEXT: Append to the attribute
// CHECK-NEXT: text=<str> (default: tagged)
// CHECK-NEXT: only-public=<bool> (default: false)
// CHECK: Passes and pipelines of upstream
// CHECK: --canonicalize (on builtin.module)
// CHECK-NEXT: Apply each op's own simplifications
// CHECK-NEXT: max-iterations=10
// CHECK: --promote-buffers-to-stack (on func.func)

// DIALECTS: graph: Pure operations
// DIALECTS: graph.concat(inputs…) {axis: IntegerAttr} -> result
// DIALECTS: graph.leaky_relu(x) {alpha: FloatAttr} -> result
// DIALECTS-NEXT: alpha
// DIALECTS: sched: Schedules
// DIALECTS: #sched.nest
// DIALECTS: target: The machine
// DIALECTS: #target.description
// DIALECTS: Dialects of upstream:
// DIALECTS: linalg
