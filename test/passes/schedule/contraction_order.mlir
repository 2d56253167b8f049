// RUN: stepwell-opt %s --pass-pipeline='func.func(assign-schedules)' --target x86-64-v3 | FileCheck %s

#x = affine_map<(m, p, f, k) -> (m, k)>
#w = affine_map<(m, p, f, k) -> (p, k, f)>
#y = affine_map<(m, p, f, k) -> (m, p, f)>

// A product in panels takes panel by panel, so that each is read from memory once, and all rows go by it: four of them in a register tile.
// CHECK-LABEL: func.func @rows
// CHECK: order = array<i64: 1, 0, 2>{{.*}} unroll = array<i64: 4, 1, 1, 1>, vector = 2 : i64, width = 16
func.func @rows(%x: tensor<48x30xf32>, %w: tensor<8x30x16xf32>, %y: tensor<48x8x16xf32>) -> tensor<48x8x16xf32> {
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<48x30xf32>, tensor<8x30x16xf32>) outs(%y : tensor<48x8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<48x8x16xf32>
  return %0 : tensor<48x8x16xf32>
}

// With one row there is nothing to share: enough sums side by side to hide the latency of each.
// CHECK-LABEL: func.func @one_row
// CHECK: unroll = array<i64: 1, 1, 1, 1>, vector = 2 : i64, width = 64
func.func @one_row(%x: tensor<1x30xf32>, %w: tensor<8x30x64xf32>, %y: tensor<1x8x64xf32>) -> tensor<1x8x64xf32> {
  %0 = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x30xf32>, tensor<8x30x64xf32>) outs(%y : tensor<1x8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64xf32>
  return %0 : tensor<1x8x64xf32>
}

#v = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// A large plain matrix that one row goes by is read eight rows at a time, along all of them, not in strips of columns down all rows.
// CHECK-LABEL: func.func @large_matrix
// CHECK: block = array<i64: 0, {{[1-9][0-9]*}}, 8>, {{.*}} vector = 1 : i64, width = 32 : i64
func.func @large_matrix(%x: tensor<1x2000xf32>, %w: tensor<2000x4000xf32>, %y: tensor<1x4000xf32>) -> tensor<1x4000xf32> {
  %0 = linalg.generic {indexing_maps = [#v, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x2000xf32>, tensor<2000x4000xf32>) outs(%y : tensor<1x4000xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x4000xf32>
  return %0 : tensor<1x4000xf32>
}

// One that the second cache holds needs no blocks.
// CHECK-LABEL: func.func @small_matrix
// CHECK-NOT: block =
// CHECK: return
func.func @small_matrix(%x: tensor<1x100xf32>, %w: tensor<100x400xf32>, %y: tensor<1x400xf32>) -> tensor<1x400xf32> {
  %0 = linalg.generic {indexing_maps = [#v, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x100xf32>, tensor<100x400xf32>) outs(%y : tensor<1x400xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x400xf32>
  return %0 : tensor<1x400xf32>
}

// -----

// One row times a panel of bytes, block after block: 32 sums, and what is asked for early lies a page, four blocks, behind. Blocks of more than a page
// are streams of their own, of which several are read at once.
// CHECK-LABEL: func.func private @end_to_end
// CHECK: linalg.generic
// CHECK-SAME: sched.nest = #sched.nest<{along = 0 : i64, order = array<i64: 0, 1>, parallel = 1 : i64, prefetch = 4 : i64, unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 32 : i64}>
func.func private @end_to_end(%x: tensor<128x32xf32>, %w: tensor<128x32x32xi8>, %o: tensor<128x32xf32>) -> tensor<128x32xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(b, n, k) -> (b, k)>, affine_map<(b, n, k) -> (b, k, n)>, affine_map<(b, n, k) -> (b, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<128x32xf32>, tensor<128x32x32xi8>) outs(%o : tensor<128x32xf32>) {
  ^bb0(%a: f32, %byte: i8, %sum: f32):
    %f = arith.uitofp %byte : i8 to f32
    %p = arith.mulf %a, %f fastmath<contract> : f32
    %s = arith.addf %sum, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<128x32xf32>
  return %0 : tensor<128x32xf32>
}

// CHECK-LABEL: func.func private @apart
// CHECK: linalg.generic
// CHECK-SAME: sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = {{.*}}, unroll = array<i64: 2, 1, 1>, vector = 1 : i64, width = 32 : i64}>
func.func private @apart(%x: tensor<128x160xf32>, %w: tensor<128x160x32xi8>, %o: tensor<128x32xf32>) -> tensor<128x32xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(b, n, k) -> (b, k)>, affine_map<(b, n, k) -> (b, k, n)>, affine_map<(b, n, k) -> (b, n)>],
    iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<128x160xf32>, tensor<128x160x32xi8>) outs(%o : tensor<128x32xf32>) {
  ^bb0(%a: f32, %byte: i8, %sum: f32):
    %f = arith.uitofp %byte : i8 to f32
    %p = arith.mulf %a, %f fastmath<contract> : f32
    %s = arith.addf %sum, %p fastmath<contract> : f32
    linalg.yield %s : f32
  } -> tensor<128x32xf32>
  return %0 : tensor<128x32xf32>
}
