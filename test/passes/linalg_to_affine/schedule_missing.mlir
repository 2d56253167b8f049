// RUN: not stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine)' 2>&1 | FileCheck %s

// CHECK: SW009
// CHECK-SAME: 'linalg.fill'
// CHECK-SAME: has no attribute 'sched.nest'
func.func private @unscheduled(%o: memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8xf32>)
  return
}
