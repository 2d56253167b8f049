// RUN: stepwell-opt %s --fuse-operators='max-ops=2' | FileCheck %s

// CHECK-LABEL: func.func @chain
// CHECK: "graph.fused"
// CHECK: "graph.exp"
// CHECK-NEXT: "graph.neg"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.relu"
// CHECK-NEXT: "graph.yield"
func.func @chain(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "graph.neg"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.relu"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
