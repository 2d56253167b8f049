// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

// Vectors along a reduction: lanes start at the neutral element, are folded once at the end, and the elements left over follow one by one.

// CHECK-LABEL: func.func private @sum
// CHECK: %[[LANES:[0-9]+]] = affine.for %{{.*}} = 0 to 48 step 16 iter_args(%[[A:arg[0-9]+]] = %{{.*}}) -> (vector<16xf32>)
// CHECK-NEXT: %[[V:[0-9]+]] = affine.vector_load
// CHECK-NEXT: arith.addf %[[A]], %[[V]] : vector<16xf32>
// CHECK: %[[FOLDED:[0-9]+]] = vector.reduction <add>, %[[LANES]] fastmath<reassoc> : vector<16xf32> into f32
// CHECK: affine.load %{{.*}}[%{{.*}}, 48]
// CHECK: affine.store
func.func private @sum(%x: memref<3x49xf32>, %o: memref<3xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<3xf32>)
  linalg.generic {indexing_maps = [affine_map<(c, i) -> (c, i)>, affine_map<(c, i) -> (c)>], iterator_types = ["parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 16 : i64}>}
    ins(%x : memref<3x49xf32>) outs(%o : memref<3xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %s = arith.addf %acc, %i : f32
    linalg.yield %s : f32
  }
  return
}

// The neutral element of a maximum is minus infinity, not zero.
// CHECK-LABEL: func.func private @largest
// CHECK: arith.constant dense<0xFF800000> : vector<4xf32>
// CHECK: vector.reduction <maximumf>
func.func private @largest(%x: memref<8xf32>, %o: memref<f32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"],
    sched.nest = #sched.nest<{order = array<i64>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x : memref<8xf32>) outs(%o : memref<f32>) {
  ^bb0(%i: f32, %acc: f32):
    %s = arith.maximumf %acc, %i : f32
    linalg.yield %s : f32
  }
  return
}
