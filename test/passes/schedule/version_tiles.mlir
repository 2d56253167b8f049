// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(version-tiles,lower-to-affine),canonicalize,cse' --split-input-file | FileCheck %s

// A product whose number of rows only the run knows. Of one row four panels are computed at once, of two rows two, and without prefetches:
// one panel would have so few sums that each waited for the one before. Nine panels are twice four and one. All other numbers go through tiles of four rows.

// CHECK-LABEL: func.func private @panels(%arg0: memref<?x100xf32>
// CHECK: %[[N:.*]] = memref.dim %arg0
// CHECK: scf.index_switch %[[N]]
// CHECK-NEXT: case 1 {
// CHECK: affine.for %[[P:arg[0-9]+]] = 0 to 8 step 4 {
// CHECK: affine.for %[[K:arg[0-9]+]] = 0 to 100
// CHECK-NOT: prefetch
// CHECK: affine.load %arg0[0, %[[K]]]
// CHECK: affine.vector_load %arg1[%[[P]], %[[K]], 0]
// CHECK: affine.vector_load %arg1[%[[P]] + 1, %[[K]], 0]
// CHECK: affine.vector_load %arg1[%[[P]] + 2, %[[K]], 0]
// CHECK: affine.vector_load %arg1[%[[P]] + 3, %[[K]], 0]
// CHECK: affine.vector_store %{{.*}}, %arg2[0, %[[P]] + 3, 0]
// CHECK: affine.vector_load %arg1[8, %{{.*}}, 0]
// CHECK: affine.vector_store %{{.*}}, %arg2[0, 8, 0]
// CHECK: case 2 {
// CHECK: affine.for %[[P:arg[0-9]+]] = 0 to 8 step 2 {
// CHECK-NOT: prefetch
// CHECK: affine.vector_store %{{.*}}, %arg2[1, %[[P]] + 1, 0]
// CHECK: affine.vector_store %{{.*}}, %arg2[1, 8, 0]
// CHECK: default {
// CHECK: affine.for %[[P:arg[0-9]+]] = 0 to 9 {
// CHECK: affine.for %{{.*}} = 0 to %{{.*}} step 4 {
// CHECK: prefetch
func.func private @panels(%x: memref<?x100xf32>, %w: memref<9x100x32xf32>, %o: memref<?x9x32xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "", "n"]} {
  linalg.generic {indexing_maps = [affine_map<(i, p, j, k) -> (i, k)>, affine_map<(i, p, j, k) -> (p, k, j)>, affine_map<(i, p, j, k) -> (i, p, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 1, 0, 2>, parallel = 0 : i64, unroll = array<i64: 4, 1, 1, 1>, vector = 2 : i64, width = 32 : i64, prefetch = 1 : i64, along = 1 : i64}>}
    ins(%x, %w : memref<?x100xf32>, memref<9x100x32xf32>) outs(%o : memref<?x9x32xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Each matrix has a left side of its own here: there is nothing that they share, and no such code.
// CHECK-LABEL: func.func private @matrices
// CHECK-NOT: case 1 {
// CHECK: affine.for %{{.*}} = 0 to 5 {
// CHECK: affine.for %{{.*}} = 0 to %{{.*}} step 4 {
func.func private @matrices(%x: memref<5x?x100xf32>, %w: memref<5x100x32xf32>, %o: memref<?x5x32xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "", "n"]} {
  linalg.generic {indexing_maps = [affine_map<(i, p, j, k) -> (p, i, k)>, affine_map<(i, p, j, k) -> (p, k, j)>, affine_map<(i, p, j, k) -> (i, p, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 1, 0, 2>, parallel = 0 : i64, unroll = array<i64: 4, 1, 1, 1>, vector = 2 : i64, width = 32 : i64}>}
    ins(%x, %w : memref<5x?x100xf32>, memref<5x100x32xf32>) outs(%o : memref<?x5x32xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}
