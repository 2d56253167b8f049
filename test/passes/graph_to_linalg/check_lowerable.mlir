// RUN: not stepwell-opt %s --check-lowerable 2>&1 | FileCheck %s

// Both problems are reported, the op that can be lowered is not.
// CHECK: SW002
// CHECK-SAME: find: 'graph.non_zero' gives tensor<2x?xi64>, whose size is not known before it runs
// CHECK-SAME: choose: 'graph.if' has no lowering to linalg
// CHECK-NOT: graph.relu
func.func @main(%x: tensor<3x4xf32>, %c: tensor<i1>) -> (tensor<2x?xi64>, tensor<3x4xf32>) {
  %0 = "graph.non_zero"(%x) : (tensor<3x4xf32>) -> tensor<2x?xi64> loc("find")
  %1 = "graph.relu"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("fine")
  %2 = "graph.if"(%c) ({
    "graph.yield"(%x) : (tensor<3x4xf32>) -> ()
  }, {
    "graph.yield"(%1) : (tensor<3x4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<3x4xf32> loc("choose")
  return %0, %2 : tensor<2x?xi64>, tensor<3x4xf32>
}
