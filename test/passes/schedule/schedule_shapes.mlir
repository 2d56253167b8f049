// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(assign-schedules)' | FileCheck %s --check-prefix=V3
// RUN: stepwell-opt %s --target x86-64-v4 --pass-pipeline='func.func(assign-schedules)' | FileCheck %s --check-prefix=V4
// RUN: stepwell-opt %s --target aarch64-neon --pass-pipeline='func.func(assign-schedules)' | FileCheck %s --check-prefix=NEON

// The shapes of schedules follow the target: vectors of 8, 16 and 4 elements of 32 bits, 16 registers with AVX2 and 32 with the others.
// No tile needs more accumulators than there are registers, less those for what goes in: `accumulators` below.

#row = affine_map<(i, j, k) -> (i, k)>
#column = affine_map<(i, j, k) -> (k, j)>
#ij = affine_map<(i, j, k) -> (i, j)>

// accumulators: 6 x 2, 12 x 2, 12 x 2
// V3-LABEL: @contraction
// V3: unroll = array<i64: 5, 1, 1>, vector = 1 : i64, width = 16 : i64
// V4-LABEL: @contraction
// V4: unroll = array<i64: 10, 1, 1>, vector = 1 : i64, width = 32 : i64
// NEON-LABEL: @contraction
// NEON: unroll = array<i64: 10, 1, 1>, vector = 1 : i64, width = 8 : i64
func.func private @contraction(%a: tensor<60x128xf32>, %b: tensor<128x64xf32>, %out: tensor<60x64xf32>) -> tensor<60x64xf32> {
  %0 = linalg.generic {indexing_maps = [#row, #column, #ij], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : tensor<60x128xf32>, tensor<128x64xf32>) outs(%out : tensor<60x64xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<60x64xf32>
  return %0 : tensor<60x64xf32>
}

// A row alone reuses nothing: eight vectors hide the latency of each sum behind the others.
// V3-LABEL: @vector_matrix
// V3: unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 64 : i64
// V4-LABEL: @vector_matrix
// V4: unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 128 : i64
// NEON-LABEL: @vector_matrix
// NEON: unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 32 : i64
func.func private @vector_matrix(%a: tensor<1x60xf32>, %b: tensor<60x1024xf32>, %out: tensor<1x1024xf32>) -> tensor<1x1024xf32> {
  %0 = linalg.generic {indexing_maps = [#row, #column, #ij], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%a, %b : tensor<1x60xf32>, tensor<60x1024xf32>) outs(%out : tensor<1x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x1024xf32>
  return %0 : tensor<1x1024xf32>
}

// accumulators: 8 positions, 8, 3 x 4 x 2
// V3-LABEL: @depthwise
// V3: unroll = array<i64: 1, 1, 8, 1, 1, 1>, vector = 3 : i64, width = 8 : i64
// V4-LABEL: @depthwise
// V4: unroll = array<i64: 1, 1, 8, 1, 1, 1>, vector = 3 : i64, width = 8 : i64
// NEON-LABEL: @depthwise
// NEON: unroll = array<i64: 1, 1, 4, 1, 1, 1>, vector = 3 : i64, width = 8 : i64
func.func private @depthwise(%x: tensor<4x34x34x8xf32>, %w: tensor<4x3x3x8xf32>, %out: tensor<4x32x32x8xf32>) -> tensor<4x32x32x8xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(b, h, w, c, y, z) -> (b, h + y, w + z, c)>, affine_map<(b, h, w, c, y, z) -> (b, y, z, c)>,
    affine_map<(b, h, w, c, y, z) -> (b, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : tensor<4x34x34x8xf32>, tensor<4x3x3x8xf32>) outs(%out : tensor<4x32x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %acc: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x32x32x8xf32>
  return %0 : tensor<4x32x32x8xf32>
}

// Sums along what is contiguous: in lanes, folded together at the end.
// V3-LABEL: @reduction
// V3: vector = 1 : i64, width = 32 : i64
// V4-LABEL: @reduction
// V4: vector = 1 : i64, width = 64 : i64
// NEON-LABEL: @reduction
// NEON: vector = 1 : i64, width = 16 : i64
func.func private @reduction(%x: tensor<64x512xf32>, %out: tensor<64xf32>) -> tensor<64xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<64x512xf32>) outs(%out : tensor<64xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %s = arith.addf %acc, %i : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Two vectors at a time; elements of 16 bits are twice as many.
// V3-LABEL: @elementwise
// V3: vector = 0 : i64, width = 16 : i64
// V3: vector = 0 : i64, width = 32 : i64
// V4-LABEL: @elementwise
// V4: vector = 0 : i64, width = 32 : i64
// V4: vector = 0 : i64, width = 64 : i64
// NEON-LABEL: @elementwise
// NEON: vector = 0 : i64, width = 8 : i64
// NEON: vector = 0 : i64, width = 16 : i64
func.func private @elementwise(%x: tensor<5000xf32>, %h: tensor<5000xi16>, %out: tensor<5000xf32>, %o: tensor<5000xi16>) -> (tensor<5000xf32>, tensor<5000xi16>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<5000xf32>) outs(%out : tensor<5000xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<5000xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%h : tensor<5000xi16>) outs(%o : tensor<5000xi16>) {
  ^bb0(%a: i16, %b: i16):
    %s = arith.addi %a, %a : i16
    linalg.yield %s : i16
  } -> tensor<5000xi16>
  return %0, %1 : tensor<5000xf32>, tensor<5000xi16>
}

// A running sum takes as much of each row as half the registers hold, here a quarter and a sixteenth of it; each core gets columns of its own.
// V3-LABEL: @running_sum
// V3: unroll = array<i64: 1, 1>, vector = 0 : i64, width = 64 : i64
// V4-LABEL: @running_sum
// V4: unroll = array<i64: 1, 1>, vector = 0 : i64, width = 256 : i64
// NEON-LABEL: @running_sum
// NEON: unroll = array<i64: 1, 1>, vector = 0 : i64, width = 64 : i64
#state = affine_map<(j, i) -> (j)>
#place = affine_map<(j, i) -> (i, j)>
func.func private @running_sum(%x: tensor<60x1024xf32>, %state: tensor<1024xf32>, %out: tensor<60x1024xf32>) -> tensor<60x1024xf32> {
  %0:2 = linalg.generic {indexing_maps = [#place, #state, #place], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<60x1024xf32>) outs(%state, %out : tensor<1024xf32>, tensor<60x1024xf32>) {
  ^bb0(%in: f32, %sum: f32, %old: f32):
    %s = arith.addf %sum, %in : f32
    linalg.yield %s, %s : f32, f32
  } -> (tensor<1024xf32>, tensor<60x1024xf32>)
  return %0#1 : tensor<60x1024xf32>
}
