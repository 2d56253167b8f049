// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

memref.global "private" constant @one_to_four : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]> {alignment = 64 : i64}
memref.global "private" constant @places : memref<2xi64> = dense<[0, 2]> {alignment = 64 : i64}
memref.global "private" constant @factors : memref<2xf32> = dense<[0.0, 5.0]> {alignment = 64 : i64}
memref.global "private" constant @many_factors : memref<48xf32> = dense<[0.5, 0.0, 2.5, 0.0, 4.5, 0.0, 6.5, 0.0, 8.5, 0.0, 10.5, 0.0, 12.5, 0.0, 14.5, 0.0, 16.5, 0.0, 18.5, 0.0, 20.5, 0.0, 22.5, 0.0, 24.5, 0.0, 26.5, 0.0, 28.5, 0.0, 30.5, 0.0, 32.5, 0.0, 34.5, 0.0, 36.5, 0.0, 38.5, 0.0, 40.5, 0.0, 42.5, 0.0, 44.5, 0.0, 46.5, 0.0]>
memref.global "private" constant @too_many_factors : memref<65xf32> = dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0, 37.0, 38.0, 39.0, 40.0, 41.0, 42.0, 43.0, 44.0, 45.0, 46.0, 47.0, 48.0, 49.0, 50.0, 51.0, 52.0, 53.0, 54.0, 55.0, 56.0, 57.0, 58.0, 59.0, 60.0, 61.0, 62.0, 63.0, 64.0, 65.0]>

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

// So are as many as a small matrix has, 64, and no more.

// CHECK-LABEL: func.func private @a_small_matrix
// CHECK-DAG: arith.constant dense<4.650000e+01>
// CHECK-NOT: %arg0[1, 0]
// CHECK-NOT: memref.get_global
// CHECK: return
// CHECK-LABEL: func.func private @a_large_matrix
// CHECK: memref.get_global @too_many_factors
// CHECK: return
func.func private @a_small_matrix(%x: memref<48x4xf32>, %o: memref<4xf32>) {
  %c = memref.get_global @many_factors : memref<48xf32>
  linalg.generic {indexing_maps = [affine_map<(i, k) -> (k, i)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x, %c : memref<48x4xf32>, memref<48xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %out, %p : f32
    linalg.yield %s : f32
  }
  return
}
func.func private @a_large_matrix(%x: memref<65x4xf32>, %o: memref<4xf32>) {
  %c = memref.get_global @too_many_factors : memref<65xf32>
  linalg.generic {indexing_maps = [affine_map<(i, k) -> (k, i)>, affine_map<(i, k) -> (k)>, affine_map<(i, k) -> (i)>],
    iterator_types = ["parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x, %c : memref<65x4xf32>, memref<65xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %out, %p : f32
    linalg.yield %s : f32
  }
  return
}
