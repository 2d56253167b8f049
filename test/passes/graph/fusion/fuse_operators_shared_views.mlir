// RUN: stepwell-opt %s --fuse-operators --outline-kernels | FileCheck %s

// A transposition that a concatenation reads by way of a product, and a scan by itself, is a kernel of its own, not an op beside the kernels.
// CHECK-LABEL: func.func @main(
// CHECK: call @transpose_
// CHECK-NOT: graph.transpose
// CHECK: call @concat_
// CHECK-NOT: graph.transpose
// CHECK: return
func.func @main(%x: tensor<2x5x4x64xf32>, %c: tensor<5x64xf32>, %p: tensor<2x4x3x64xf32>) -> (tensor<2x4x8x64xf32>, tensor<2x4x5x64xf32>) {
  %t = "graph.transpose"(%x) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x64xf32>) -> tensor<2x4x5x64xf32>
  %m = "graph.mul"(%t, %c) : (tensor<2x4x5x64xf32>, tensor<5x64xf32>) -> tensor<2x4x5x64xf32>
  %j = "graph.concat"(%p, %m) {axis = 2 : i64} : (tensor<2x4x3x64xf32>, tensor<2x4x5x64xf32>) -> tensor<2x4x8x64xf32>
  %s = "graph.cumsum"(%t) {axis = 2 : i64, exclusive = false, reverse = false} : (tensor<2x4x5x64xf32>) -> tensor<2x4x5x64xf32>
  return %j, %s : tensor<2x4x8x64xf32>, tensor<2x4x5x64xf32>
}
