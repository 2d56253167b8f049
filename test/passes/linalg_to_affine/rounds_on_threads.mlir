// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine)' | FileCheck %s

// The rounds become those of a parallel loop, what they compute and the loops inside them as it is.

// CHECK-LABEL: func.func private @rows
// CHECK: affine.parallel (%[[I:.*]]) = (0) to (4) {
// CHECK: %[[OWN:.*]] = memref.subview %{{.*}}[%[[I]], 0] [1, 16] [1, 1]
// CHECK: scf.for
// CHECK: affine.for
// CHECK-NOT: scf.for
// CHECK-NOT: sched.parallel
func.func private @rows(%zero: f32, %o: memref<4x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %own = memref.subview %o[%i, 0] [1, 16] [1, 1] : memref<4x16xf32> to memref<1x16xf32, strided<[16, 1], offset: ?>>
    scf.for %k = %c0 to %c3 step %c1 {
      linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 8 : i64}>}
        ins(%zero : f32) outs(%own : memref<1x16xf32, strided<[16, 1], offset: ?>>)
    }
  } {sched.parallel}
  return
}
