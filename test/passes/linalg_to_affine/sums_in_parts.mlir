// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='attach-target,func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

// Eleven rounds of four products each, in parts of 16 products: four rounds at a time begin at zero and are added up, and so are the three left over.

// CHECK-LABEL: func.func private @parts
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<8xf32>
// CHECK: %[[WHOLE:.*]] = affine.for %{{.*}} = 0 to 8 step 4 iter_args(%[[BEFORE:.*]] = %[[ZERO]])
// CHECK:   %[[PART:.*]] = affine.for %{{.*}} = 0 to 4 iter_args(%{{.*}} = %[[ZERO]])
// CHECK:     affine.for %{{.*}} = 0 to 4
// CHECK:   %[[SUM:.*]] = arith.addf %[[BEFORE]], %[[PART]]
// CHECK:   affine.yield %[[SUM]]
// CHECK: %[[LEFT:.*]] = affine.for %{{.*}} = 0 to 3 iter_args(%{{.*}} = %[[ZERO]])
// CHECK: %[[ALL:.*]] = arith.addf %[[WHOLE]], %[[LEFT]]
// CHECK: affine.vector_store %[[ALL]]
func.func private @parts(%x: memref<11x4xf32>, %w: memref<11x4x8xf32>, %o: memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 8 : i64}>}
    ins(%zero : f32) outs(%o : memref<8xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, k, l) -> (k, l)>, affine_map<(i, k, l) -> (k, l, i)>, affine_map<(i, k, l) -> (i)>],
    iterator_types = ["parallel", "reduction", "reduction"], sched.part = 16 : i64,
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1, 1>, vector = 0 : i64, width = 8 : i64}>}
    ins(%x, %w : memref<11x4xf32>, memref<11x4x8xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %p = arith.mulf %i, %j fastmath<contract> : f32
    %s = arith.addf %out, %p fastmath<contract> : f32
    linalg.yield %s : f32
  }
  return
}
