// RUN: stepwell-opt %s --pass-pipeline='func.func(share-destinations)' --split-input-file | FileCheck %s

#both = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// The sum reads the powers first; what divides by it reads them last, and overwrites them. It stays in its fused loop.
// CHECK-LABEL: func.func private @last_reader
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<4x8xf32>, %[[SUM:arg[0-9]+]]: tensor<4xf32>, %[[OUT:arg[0-9]+]]: tensor<4x8xf32>
// CHECK-NOT: tensor.empty
// CHECK: %[[P:[0-9]+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4x8xf32>) outs(%[[OUT]] : tensor<4x8xf32>)
// CHECK: %[[S:[0-9]+]] = linalg.generic {{.*}} ins(%[[P]] : tensor<4x8xf32>) outs(%[[SUM]] : tensor<4xf32>)
// CHECK: %[[R:[0-9]+]] = linalg.generic {{.*}} ins(%[[S]] : tensor<4xf32>) outs(%[[P]] : tensor<4x8xf32>) attrs = {sched.fused =
// CHECK-NEXT: ^bb0(%[[T:.*]]: f32, %[[V:.*]]: f32):
// CHECK-NEXT: arith.divf %[[V]], %[[T]] : f32
// CHECK: return %[[R]]
func.func private @last_reader(%x: tensor<4x8xf32>, %sum: tensor<4xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<4x8xf32>
  %p = linalg.generic {indexing_maps = [#both, #both], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.exp %v : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %t = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<4x8xf32>) outs(%sum : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#both, #row, #both], iterator_types = ["parallel", "parallel"]}
    ins(%p, %t : tensor<4x8xf32>, tensor<4xf32>) outs(%out : tensor<4x8xf32>)
    attrs = {sched.fused = #sched.fused<[{dim = 0 : i64, loop = "l", step = 1 : i64}]>} {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %s = arith.divf %v, %w : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// What is read in another order as well, or once more afterwards, keeps its own memory.
// CHECK-LABEL: func.func private @turned
// CHECK: %[[E:[0-9]+]] = tensor.empty
// CHECK: linalg.generic {{.*}} outs(%[[E]] : tensor<8xf32>)
// CHECK-LABEL: func.func private @read_later
// CHECK: %[[E:[0-9]+]] = tensor.empty
// CHECK: linalg.generic {{.*}} outs(%[[E]] : tensor<8xf32>)
func.func private @turned(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.exp %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, affine_map<(i) -> (-i + 7)>, #id], iterator_types = ["parallel"]}
    ins(%p, %p : tensor<8xf32>, tensor<8xf32>) outs(%out : tensor<8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.mulf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @read_later(%x: tensor<8xf32>, %out: tensor<8xf32>, %other: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.exp %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%p : tensor<8xf32>) outs(%out : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.negf %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 7)>, #id], iterator_types = ["parallel"]}
    ins(%p : tensor<8xf32>) outs(%other : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.absf %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r, %q : tensor<8xf32>, tensor<8xf32>
}
