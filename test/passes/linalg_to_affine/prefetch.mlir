// RUN: stepwell-opt %s --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

// The vectors of the right side, of two lines each, are asked for eight rounds of the sum ahead, once for both rows that use them.

// CHECK-LABEL: func.func private @product
// CHECK: affine.for %[[I:arg[0-9]+]] = 0 to 8 step 2
// CHECK: affine.for %[[J:arg[0-9]+]] = 0 to 64 step 32
// CHECK: affine.for %[[K:arg[0-9]+]] = 0 to 100
// CHECK: affine.vector_load %arg1[%[[K]], %[[J]]] : memref<100x64xf32>, vector<32xf32>
// CHECK-NEXT: affine.prefetch %arg1[%[[K]] + 8, %[[J]]], read, locality<3>, data
// CHECK-NEXT: affine.prefetch %arg1[%[[K]] + 8, %[[J]] + 16], read, locality<3>, data
// CHECK-NOT: affine.prefetch
func.func private @product(%x: memref<8x100xf32>, %w: memref<100x64xf32>, %o: memref<8x64xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8x64xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 2, 1, 1>, vector = 1 : i64, width = 32 : i64, prefetch = 8 : i64}>}
    ins(%x, %w : memref<8x100xf32>, memref<100x64xf32>) outs(%o : memref<8x64xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}
