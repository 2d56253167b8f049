// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='attach-target,func.func(lower-to-affine),canonicalize,cse' | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v2 --pass-pipeline='attach-target,func.func(lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=PLAIN

memref.global "private" constant @b_t : memref<4x3xf32> = dense<[[1.0, 0.0, -2.5], [6.0, 3.0, 2.0], [6.0, -3.0, 2.0], [0.0, 0.0, 0.0]]> {alignment = 64 : i64}
memref.global "private" constant @a_t : memref<3x3xf32> = dense<[[1.0, 1.0, 1.0], [0.0, 2.0, -2.0], [1.0, 4.0, 4.0]]> {alignment = 64 : i64}

// Two rows are the sum and the difference of what they have in common, 6x + 2z = 2(3x + z), and of 3y. A row of zeros is zero.

// CHECK-LABEL: func.func private @pair_of_rows
// CHECK-DAG: %[[X:.*]] = affine.vector_load %arg0[0, 0]
// CHECK-DAG: %[[Y:.*]] = affine.vector_load %arg0[1, 0]
// CHECK-DAG: %[[Z:.*]] = affine.vector_load %arg0[2, 0]
// CHECK: %[[FIRST:.*]] = math.fma %[[Z]], %{{.*}}, %[[X]]
// CHECK: %[[EVEN:.*]] = math.fma %[[X]], %{{.*}}, %[[Z]]
// CHECK: %[[TWICE:.*]] = arith.mulf %[[EVEN]]
// CHECK: %[[SUM:.*]] = math.fma %[[Y]], %[[THREE:.*]], %[[TWICE]]
// CHECK: %[[DIFFERENCE:.*]] = math.fma %[[Y]], %[[MINUS:.*]], %[[TWICE]]
// CHECK: affine.vector_store %[[FIRST]], %arg1[0, 0]
// CHECK: affine.vector_store %[[SUM]], %arg1[1, 0]
// CHECK: affine.vector_store %[[DIFFERENCE]], %arg1[2, 0]
// CHECK: affine.vector_store %{{.*}}, %arg1[3, 0]
//
// PLAIN-LABEL: func.func private @pair_of_rows
// PLAIN-NOT: math.fma
// PLAIN: affine.vector_store
func.func private @pair_of_rows(%x: memref<3x8xf32>, %o: memref<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = memref.get_global @b_t : memref<4x3xf32>
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 8 : i64}>}
    ins(%zero : f32) outs(%o : memref<4x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 4, 1, 1>, vector = 1 : i64, width = 8 : i64}>}
    ins(%c, %x : memref<4x3xf32>, memref<3x8xf32>) outs(%o : memref<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %p = arith.mulf %i, %j fastmath<contract> : f32
    %s = arith.addf %out, %p fastmath<contract> : f32
    linalg.yield %s : f32
  }
  return
}

// Two columns count as their sum and their difference.

// CHECK-LABEL: func.func private @pair_of_columns
// CHECK-DAG: %[[X:.*]] = affine.vector_load %arg0[0, 0]
// CHECK-DAG: %[[Y:.*]] = affine.vector_load %arg0[1, 0]
// CHECK-DAG: %[[Z:.*]] = affine.vector_load %arg0[2, 0]
// CHECK: %[[SUM:.*]] = arith.addf %[[Y]], %[[Z]]
// CHECK: %[[DIFFERENCE:.*]] = arith.subf %[[Y]], %[[Z]]
// CHECK: %[[FIRST:.*]] = arith.addf %[[X]], %[[SUM]]
// CHECK: %[[SECOND:.*]] = arith.mulf %[[DIFFERENCE]]
// CHECK: %[[THIRD:.*]] = math.fma %[[SUM]], %{{.*}}, %[[X]]
// CHECK: affine.vector_store %[[FIRST]], %arg1[0, 0]
// CHECK: affine.vector_store %[[SECOND]], %arg1[1, 0]
// CHECK: affine.vector_store %[[THIRD]], %arg1[2, 0]
func.func private @pair_of_columns(%x: memref<3x8xf32>, %o: memref<3x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = memref.get_global @a_t : memref<3x3xf32>
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 8 : i64}>}
    ins(%zero : f32) outs(%o : memref<3x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 3, 1, 1>, vector = 1 : i64, width = 8 : i64}>}
    ins(%c, %x : memref<3x3xf32>, memref<3x8xf32>) outs(%o : memref<3x8xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %p = arith.mulf %i, %j fastmath<contract> : f32
    %s = arith.addf %out, %p fastmath<contract> : f32
    linalg.yield %s : f32
  }
  return
}

// Each column is asked for a round of the fused loop ahead, once, and only where it is multiplied by more than zeros: the second is not.

memref.global "private" constant @c_t : memref<2x3xf32> = dense<[[1.0, 0.0, 2.0], [1.0, 0.0, -2.0]]> {alignment = 64 : i64}

// CHECK-LABEL: func.func private @in_a_fused_loop
// CHECK: affine.for %[[R:.*]] = 0 to 7
// CHECK: affine.prefetch %arg0[%[[R]] + 1, 0, 0]
// CHECK: affine.vector_load %arg0[%[[R]], 0, 0]
// CHECK-NEXT: affine.prefetch %arg0[%[[R]] + 1, 2, 0]
// CHECK-NEXT: affine.vector_load %arg0[%[[R]], 2, 0]
// CHECK-NOT: affine.prefetch
// CHECK: return
func.func private @in_a_fused_loop(%x: memref<7x3x8xf32>, %o: memref<7x2x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = memref.get_global @c_t : memref<2x3xf32>
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0, 1, 2>, parallel = 0 : i64, unroll = array<i64: 1, 1, 1>, vector = 2 : i64, width = 8 : i64}>,
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 1 : i64}]>} ins(%zero : f32) outs(%o : memref<7x2x8xf32>)
  linalg.generic {indexing_maps = [affine_map<(r, i, j, k) -> (i, k)>, affine_map<(r, i, j, k) -> (r, k, j)>, affine_map<(r, i, j, k) -> (r, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1, 2>, parallel = 0 : i64, unroll = array<i64: 1, 2, 1, 1>, vector = 2 : i64, width = 8 : i64}>,
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 1 : i64, prefetch = 1 : i64}]>}
    ins(%c, %x : memref<2x3xf32>, memref<7x3x8xf32>) outs(%o : memref<7x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %p = arith.mulf %i, %j fastmath<contract> : f32
    %s = arith.addf %out, %p fastmath<contract> : f32
    linalg.yield %s : f32
  }
  return
}
