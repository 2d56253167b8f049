// RUN: stepwell-opt %s --fuse-operators --outline-kernels | FileCheck %s

// A transposition that a concatenation reads by way of a product, and a slice by itself, is a kernel of its own, not an op beside the kernels.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: graph.transpose
// CHECK: call @transpose_
// CHECK: call @concat_
// CHECK-NOT: graph.transpose
// CHECK: return
func.func @main(%x: tensor<2x5x4x8xf32>, %c: tensor<5x8xf32>, %p: tensor<2x4x3x8xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x5x4xf32>) {
  %t = "graph.transpose"(%x) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x8xf32>) -> tensor<2x4x5x8xf32>
  %m = "graph.mul"(%t, %c) : (tensor<2x4x5x8xf32>, tensor<5x8xf32>) -> tensor<2x4x5x8xf32>
  %j = "graph.concat"(%p, %m) {axis = 2 : i64} : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x8x8xf32>
  %s = "graph.slice"(%t) {starts = array<i64: 0, 0, 0, 4>, sizes = [2, 4, 5, 4], steps = array<i64: 1, 1, 1, 1>} : (tensor<2x4x5x8xf32>) -> tensor<2x4x5x4xf32>
  return %j, %s : tensor<2x4x8x8xf32>, tensor<2x4x5x4xf32>
}
