// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

// Of 27 columns, 11 are left behind the first vector: one more vector of 16 takes them, and computes 5 columns once more.

// CHECK-LABEL: func.func private @product
// CHECK: affine.vector_store %{{.*}}, %arg2[%{{.*}}, 0] : memref<8x27xf32>, vector<16xf32>
// CHECK: affine.vector_store %{{.*}}, %arg2[%{{.*}}, 11] : memref<8x27xf32>, vector<16xf32>
// CHECK-NOT: store
func.func private @product(%x: memref<8x100xf32>, %w: memref<100x27xf32>, %o: memref<8x27xf32>) attributes {stepwell.kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8x27xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 16 : i64}>}
    ins(%x, %w : memref<8x100xf32>, memref<100x27xf32>) outs(%o : memref<8x27xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// The result may lie where the summand does: what was stored must not be read again.

// CHECK-LABEL: func.func private @in_place
// CHECK: affine.vector_store %{{.*}}, %arg3[%{{.*}}, 16] : memref<8x27xf32>, vector<8xf32>
// CHECK: affine.vector_store %{{.*}}, %arg3[%{{.*}}, 24] : memref<8x27xf32>, vector<2xf32>
// CHECK: affine.store %{{.*}}, %arg3[%{{.*}}, 26] : memref<8x27xf32>
func.func private @in_place(%x: memref<8x100xf32>, %w: memref<100x27xf32>, %y: memref<8x27xf32>, %o: memref<8x27xf32>)
    attributes {stepwell.kernel, stepwell.in_place = array<i64: 2, 0>} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8x27xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 16 : i64}>}
    ins(%x, %w : memref<8x100xf32>, memref<100x27xf32>) outs(%o : memref<8x27xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%y : memref<8x27xf32>) outs(%o : memref<8x27xf32>) {
  ^bb0(%b: f32, %acc: f32):
    %s = arith.addf %acc, %b : f32
    linalg.yield %s : f32
  }
  return
}

// A sum in blocks lies in the result between them.

// CHECK-LABEL: func.func private @blocks
// CHECK-NOT: , 11]
// CHECK: affine.vector_store %{{.*}}, %arg2[%{{.*}}, 16] : memref<8x27xf32>, vector<8xf32>
func.func private @blocks(%x: memref<8x100xf32>, %w: memref<100x27xf32>, %o: memref<8x27xf32>) attributes {stepwell.kernel} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8x27xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 16 : i64, block = array<i64: 0, 0, 50>}>}
    ins(%x, %w : memref<8x100xf32>, memref<100x27xf32>) outs(%o : memref<8x27xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}
