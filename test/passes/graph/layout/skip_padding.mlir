// RUN: stepwell-opt %s --skip-padding --split-input-file | FileCheck %s

// Windows much larger than what padding leaves of the image.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = "graph.pad"
// CHECK: "graph.bordered_conv"(%[[P]], %{{.*}}) {dilations = array<i64: 6, 1>, group = 1 : i64, strides = array<i64: 1, 1>, zeros = array<i64: 6, 1, 6, 0>}
func.func @main(%x: tensor<1x2x8x8x8xf32>) -> tensor<1x3x8x8x8xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x2x8x8xf32>} : () -> tensor<3x2x3x2x8x8xf32>
  %0 = "graph.pad"(%x) {high = array<i64: 0, 0, 6, 0, 0>, low = array<i64: 0, 0, 6, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x8x8x8xf32>) -> tensor<1x2x20x9x8xf32>
  %1 = "graph.blocked_conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 6, 1>, group = 1 : i64} : (tensor<1x2x20x9x8xf32>, tensor<3x2x3x2x8x8xf32>) -> tensor<1x3x8x8x8xf32>
  return %1 : tensor<1x3x8x8x8xf32>
}

// -----

// Not for a border of one element, one that is not of zeros, no border, nor filters that make something else of a zero.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: "graph.blocked_conv"
// CHECK-NOT: bordered
func.func @main(%x: tensor<1x2x8x8xf32>, %y: tensor<1x2x24x8xf32>) -> (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x8x8xf32>} : () -> tensor<3x2x3x8x8xf32>
  %v = "graph.constant"() {value = dense<0x7F800000> : tensor<3x2x3x8x8xf32>} : () -> tensor<3x2x3x8x8xf32>
  %0 = "graph.pad"(%x) {high = array<i64: 0, 0, 1, 0>, low = array<i64: 0, 0, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x10x8xf32>
  %1 = "graph.blocked_conv"(%0, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x2x10x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %2 = "graph.pad"(%x) {high = array<i64: 0, 0, 8, 0>, low = array<i64: 0, 0, 8, 0>, mode = "constant", value = 1.0 : f64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x24x8xf32>
  %3 = "graph.blocked_conv"(%2, %w) {strides = array<i64: 1>, dilations = array<i64: 8>, group = 1 : i64} : (tensor<1x2x24x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %4 = "graph.blocked_conv"(%y, %w) {strides = array<i64: 1>, dilations = array<i64: 8>, group = 1 : i64} : (tensor<1x2x24x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %5 = "graph.pad"(%x) {high = array<i64: 0, 0, 8, 0>, low = array<i64: 0, 0, 8, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x24x8xf32>
  %6 = "graph.blocked_conv"(%5, %v) {strides = array<i64: 1>, dilations = array<i64: 8>, group = 1 : i64} : (tensor<1x2x24x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  return %1, %3, %4, %6 : tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>
}
