// Which ops become one kernel, and why others do not.
// RUN: stepwell-opt %s --fuse-operators=max-ops=3 --explain 2>&1 >/dev/null | FileCheck %s

// CHECK: root
// CHECK: declined fuse-operators, graph.reduce_sum: its kernel ends with it: 'graph.add', which uses it, may give another shape
// CHECK: did fuse-operators, graph.reduce_sum: a kernel of its own
// CHECK: first
// CHECK-NEXT: declined fuse-operators, graph.relu: it is not computed with 'graph.reduce_sum', which reads it: it has another user
// CHECK: declined fuse-operators, graph.relu: its kernel ends with it: 'graph.reduce_sum', which uses it, is not element-wise
// CHECK: did fuse-operators, graph.relu: a kernel of its own
func.func @main(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = "graph.relu"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("first")
  %1 = "graph.reduce_sum"(%0) {axes = array<i64: 1>, keepdims = true} : (tensor<3x4xf32>) -> tensor<3x1xf32> loc("root")
  %2 = "graph.add"(%0, %1) : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32> loc("sum")
  %3 = "graph.exp"(%0) : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("exp")
  return %2, %3 : tensor<3x4xf32>, tensor<3x4xf32>
}
