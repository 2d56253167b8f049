// RUN: stepwell-opt %s --use-products --split-input-file | FileCheck %s

// The filters lie in the columns of the matrix, and what is added to each of them goes before the reshape.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[W:.*]] = "graph.constant"() {value = dense<{{\[\[}}1.000000e+00, 5.000000e+00], [2.000000e+00, 6.000000e+00], [3.000000e+00, 7.000000e+00], [4.000000e+00, 8.000000e+00]]> : tensor<4x2xf32>}
// CHECK-DAG: %[[X:.*]] = "graph.reshape"(%arg0) {shape = array<i64: 3, 4>}
// CHECK: %[[M:.*]] = "graph.matmul"(%[[X]], %[[W]])
// CHECK-NEXT: %[[B:.*]] = "graph.constant"() {value = dense<{{\[\[}}1.000000e+01, 2.000000e+01]]> : tensor<1x2xf32>}
// CHECK-NEXT: %[[A:.*]] = "graph.add"(%[[M]], %[[B]])
// CHECK-NEXT: %[[R:.*]] = "graph.reshape"(%[[A]]) {shape = array<i64: 3, 2, 1, 1>}
// CHECK-NEXT: return %[[R]]
func.func @main(%x: tensor<3x2x1x2xf32>) -> tensor<3x2x1x1xf32> {
  %w = "graph.constant"() {value = dense<[[[[1.0, 2.0]], [[3.0, 4.0]]], [[[5.0, 6.0]], [[7.0, 8.0]]]]> : tensor<2x2x1x2xf32>} : () -> tensor<2x2x1x2xf32>
  %b = "graph.constant"() {value = dense<[[[[10.0]], [[20.0]]]]> : tensor<1x2x1x1xf32>} : () -> tensor<1x2x1x1xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 3>} : (tensor<3x2x1x2xf32>, tensor<2x2x1x2xf32>) -> tensor<3x2x1x1xf32>
  %1 = "graph.add"(%0, %b) : (tensor<3x2x1x1xf32>, tensor<1x2x1x1xf32>) -> tensor<3x2x1x1xf32>
  return %1 : tensor<3x2x1x1xf32>
}

// -----

// Not with groups, with padding, with filters that are not known, nor with filters that leave out a part of the image, even if there is
// one position only.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.matmul
// CHECK-COUNT-4: "graph.conv"
// CHECK-NOT: graph.matmul
func.func @main(%x: tensor<1x2x3x3xf32>, %y: tensor<1x2x3x3xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x2x3x3xf32>, tensor<1x1x1x1xf32>, tensor<1x2x1x1xf32>) {
  %g = "graph.constant"() {value = dense<0.5> : tensor<2x1x3x3xf32>} : () -> tensor<2x1x3x3xf32>
  %0 = "graph.conv"(%x, %g) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x1x1xf32>
  %w = "graph.constant"() {value = dense<0.25> : tensor<2x2x3x3xf32>} : () -> tensor<2x2x3x3xf32>
  %1 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x2x3x3xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %2 = "graph.conv"(%x, %y) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x1x1x1xf32>
  %v = "graph.constant"() {value = dense<0.125> : tensor<2x2x2x2xf32>} : () -> tensor<2x2x2x2xf32>
  %3 = "graph.conv"(%x, %v) {dilations = array<i64: 2, 2>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x3x3xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x1x1xf32>
  return %0, %1, %2, %3 : tensor<1x2x1x1xf32>, tensor<1x2x3x3xf32>, tensor<1x1x1x1xf32>, tensor<1x2x1x1xf32>
}
