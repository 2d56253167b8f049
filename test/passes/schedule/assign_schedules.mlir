// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(assign-schedules)' | FileCheck %s

// A matrix product: vectors along the columns, a register tile over the rows that divides them evenly.
// CHECK-LABEL: func.func private @product
// CHECK: linalg.generic
// CHECK-SAME: sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = {{[0-9]}} : i64, unroll = array<i64: {{[3-6]}}, 1, 1>, vector = 1 : i64, width = {{[0-9]+}} : i64}>
func.func private @product(%a: tensor<60x30xf32>, %b: tensor<30x64xf32>, %out: tensor<60x64xf32>) -> tensor<60x64xf32> {
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<60x30xf32>, tensor<30x64xf32>) outs(%out : tensor<60x64xf32>) {
  ^bb0(%i: f32, %j: f32, %acc: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<60x64xf32>
  return %1 : tensor<60x64xf32>
}

// Rows of two: vectors across them, one for each place.
// CHECK-LABEL: func.func private @pairs
// CHECK: sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 2>, vector = 0 : i64, width = 8 : i64}>
func.func private @pairs(%x: tensor<64x2xf32>, %s: tensor<64xf32>, %out: tensor<64x2xf32>) -> tensor<64x2xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 1 - j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x2xf32>, tensor<64xf32>) outs(%out : tensor<64x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<64x2xf32>
  return %0 : tensor<64x2xf32>
}

// A schedule that is there stays.
// CHECK-LABEL: func.func private @kept
// CHECK: sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 1 : i64, unroll = array<i64: 3>, vector = -1 : i64, width = 1 : i64}>
func.func private @kept(%out: tensor<9xf32>) -> tensor<9xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 1 : i64, unroll = array<i64: 3>, vector = -1 : i64, width = 1 : i64}>}
    ins(%zero : f32) outs(%out : tensor<9xf32>) -> tensor<9xf32>
  return %f : tensor<9xf32>
}

// Booleans are bytes in memory, little work needs no threads.
// CHECK-LABEL: func.func private @booleans
// CHECK: parallel = 0 : i64
// CHECK-SAME: vector = 0 : i64
func.func private @booleans(%x: tensor<8xi1>, %out: tensor<8xi1>) -> tensor<8xi1> {
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xi1>) outs(%out : tensor<8xi1>) {
  ^bb0(%i: i1, %o: i1):
    linalg.yield %i : i1
  } -> tensor<8xi1>
  return %1 : tensor<8xi1>
}

// Rows of more than the first cache holds are asked for a page ahead: four vectors of eight 32 rounds before, as rounds are counted by vectors.
// CHECK-LABEL: func.func private @rows_from_memory
// CHECK: sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 1 : i64, prefetch = 32 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 32 : i64}>
func.func private @rows_from_memory(%x: tensor<2048x1024xf32>, %out: tensor<2048xf32>) -> tensor<2048xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<2048x1024xf32>) outs(%out : tensor<2048xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.maximumf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<2048xf32>
  return %0 : tensor<2048xf32>
}

// Those that fit it are not.
// CHECK-LABEL: func.func private @rows_from_a_cache
// CHECK: sched.nest = #sched.nest<{order = array<i64: 0>, parallel = {{[01]}} : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 32 : i64}>
func.func private @rows_from_a_cache(%x: tensor<8x1024xf32>, %out: tensor<8xf32>) -> tensor<8xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<8x1024xf32>) outs(%out : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.maximumf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
