// A pattern that does not apply says why, op by op; what passes count can be printed.
// RUN: stepwell-opt %s --load %S/Inputs/plugin.py --merge-relus --explain --mlir-pass-statistics 2>&1 | FileCheck %s

// CHECK: 1 merge-relus
// CHECK: 4:4{{.*}} pattern 'relu_of_relu' did not apply to 'graph.relu': its operand is no relu
// CHECK-COUNT-1: "graph.relu"
// CHECK-NOT: "graph.relu"
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32> loc("here":4:4)
  %1 = "graph.relu"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
