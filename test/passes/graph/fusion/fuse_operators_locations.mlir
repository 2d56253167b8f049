// RUN: stepwell-opt %s --fuse-operators --mlir-print-debuginfo | FileCheck %s

// A group is at the places of all its members, a group of one at that of its op.
// CHECK-DAG: #[[S:loc[0-9]*]] = loc("first")
// CHECK-DAG: #[[N:loc[0-9]*]] = loc("second")
// CHECK-DAG: #[[T:loc[0-9]*]] = loc("third")
// CHECK-DAG: #[[F:loc[0-9]*]] = loc(fused[#[[S]], #[[N]]])
// CHECK: "graph.softmax"{{.*}} loc(#[[S]])
// CHECK: }) : (tensor<3xf32>) -> tensor<3xf32> loc(#[[F]])
// CHECK: "graph.cumsum"{{.*}} loc(#[[T]])
// CHECK: }) : (tensor<3xf32>) -> tensor<3xf32> loc(#[[T]])
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.softmax"(%x) {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32> loc("first")
  %1 = "graph.neg"(%0) : (tensor<3xf32>) -> tensor<3xf32> loc("second")
  %2 = "graph.cumsum"(%1) {axis = 0 : i64, exclusive = false, reverse = false} : (tensor<3xf32>) -> tensor<3xf32> loc("third")
  return %2 : tensor<3xf32>
}
