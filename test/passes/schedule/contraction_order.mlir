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
