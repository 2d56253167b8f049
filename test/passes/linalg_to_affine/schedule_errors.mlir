// RUN: not stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine)' 2>&1 | FileCheck %s

// CHECK: SW009
// CHECK-SAME: dimension 1 cannot be vectorised: the output is not contiguous along it
func.func private @transposed(%x: memref<5x8xf32>, %o: memref<8x5xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 4 : i64}>}
    ins(%x : memref<5x8xf32>) outs(%o : memref<8x5xf32>) {
  ^bb0(%i: f32, %out: f32):
    linalg.yield %i : f32
  }
  return
}
