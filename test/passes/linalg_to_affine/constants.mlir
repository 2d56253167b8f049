// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

memref.global "private" constant @one_to_four : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]> {alignment = 64 : i64}
memref.global "private" constant @places : memref<2xi64> = dense<[0, 2]> {alignment = 64 : i64}
memref.global "private" constant @factors : memref<2xf32> = dense<[0.0, 5.0]> {alignment = 64 : i64}

// A constant that has another element in each lane is loaded as a vector, although the nest has but one round.

// CHECK-LABEL: func.func private @one_for_each_lane
// CHECK-NOT: arith.constant dense
// CHECK: %[[TABLE:.*]] = memref.get_global @one_to_four
// CHECK: %[[C:.*]] = affine.vector_load %[[TABLE]][{{.*}}] : memref<4xf32>, vector<4xf32>
// CHECK: arith.addf %{{.*}}, %[[C]] : vector<4xf32>
func.func private @one_for_each_lane(%x: memref<4xf32>, %o: memref<4xf32>) {
  %c = memref.get_global @one_to_four : memref<4xf32>
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x, %c : memref<4xf32>, memref<4xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  }
  return
}

// One that is the same in all lanes is a number in the code, for each round of its own loop.

// CHECK-LABEL: func.func private @the_same_in_all_lanes
// CHECK-DAG: arith.constant dense<5.000000e+00>
// CHECK-NOT: %arg0[0, 0]
// CHECK-NOT: memref.get_global @factors
// CHECK: return
func.func private @the_same_in_all_lanes(%x: memref<2x4xf32>, %o: memref<4xf32>) {
  %c = memref.get_global @factors : memref<2xf32>
  linalg.generic {indexing_maps = [affine_map<(i, k) -> (k, i)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x, %c : memref<2x4xf32>, memref<2xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %out, %p : f32
    linalg.yield %s : f32
  }
  return
}

// A factor of zero drops its term; a zero that is an index, as the first of @places, does not.

// CHECK-LABEL: func.func private @a_zero_that_is_an_index
// CHECK: memref.load %{{.*}}[%c0]
// CHECK: memref.load %{{.*}}[%c2]
func.func private @a_zero_that_is_an_index(%x: memref<3xf32>, %w: memref<2xf32>, %o: memref<4xf32>) {
  %p = memref.get_global @places : memref<2xi64>
  linalg.generic {indexing_maps = [affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = -1 : i64, width = 1 : i64}>}
    ins(%p, %w : memref<2xi64>, memref<2xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%place: i64, %factor: f32, %out: f32):
    %i = arith.index_cast %place : i64 to index
    %v = memref.load %x[%i] : memref<3xf32>
    %m = arith.mulf %v, %factor : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}
