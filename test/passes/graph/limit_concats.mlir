// RUN: stepwell-opt %s --limit-concats=max-operands=2 | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[A:.*]] = "graph.concat"(%arg0, %arg1) {axis = 1 : i64} : {{.*}} -> tensor<2x3xf32>
// CHECK-NEXT: %[[B:.*]] = "graph.concat"(%arg0, %arg1) {axis = 1 : i64} : {{.*}} -> tensor<2x3xf32>
// CHECK-NEXT: %[[C:.*]] = "graph.concat"(%[[A]], %[[B]]) {axis = 1 : i64} : {{.*}} -> tensor<2x6xf32>
// CHECK-NEXT: %[[D:.*]] = "graph.concat"(%[[C]], %arg0) {axis = 1 : i64} : {{.*}} -> tensor<2x7xf32>
// CHECK-NEXT: %[[E:.*]] = "graph.concat"(%arg0, %arg1) {axis = 1 : i64}
// The rows of these lie one after the other.
// CHECK-NEXT: %[[F:.*]] = "graph.concat"(%arg1, %arg1, %arg1) {axis = 0 : i64}
// CHECK-NEXT: return %[[D]], %[[E]], %[[F]]
func.func @main(%x: tensor<2x1xf32>, %y: tensor<2x2xf32>) -> (tensor<2x7xf32>, tensor<2x3xf32>, tensor<6x2xf32>) {
  %0 = "graph.concat"(%x, %y, %x, %y, %x) {axis = 1 : i64} : (tensor<2x1xf32>, tensor<2x2xf32>, tensor<2x1xf32>, tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x7xf32>
  %1 = "graph.concat"(%x, %y) {axis = 1 : i64} : (tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x3xf32>
  %2 = "graph.concat"(%y, %y, %y) {axis = 0 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<6x2xf32>
  return %0, %1, %2 : tensor<2x7xf32>, tensor<2x3xf32>, tensor<6x2xf32>
}
