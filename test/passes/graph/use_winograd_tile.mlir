// RUN: stepwell-opt %s --pass-pipeline=use-winograd --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline="use-winograd{slack=0}" --split-input-file | FileCheck %s --check-prefix=BEST

// Few positions and many filters: F(2, 3) reads less than half of the bytes. With fewer positions nothing pays.
// CHECK-LABEL: func.func @main
// CHECK: "graph.winograd_conv"{{.*}} {group = 1 : i64, tile = 2 : i64}
// CHECK: "graph.blocked_conv"
func.func @main(%x: tensor<1x8x8x8x8xf32>, %y: tensor<1x8x4x4x8xf32>) -> (tensor<1x8x6x6x8xf32>, tensor<1x8x2x2x8xf32>) {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x8x8xf32>} : () -> tensor<8x8x3x3x8x8xf32>
  %0 = "graph.blocked_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x8x8x8xf32>, tensor<8x8x3x3x8x8xf32>) -> tensor<1x8x6x6x8xf32>
  %1 = "graph.blocked_conv"(%y, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x4x4x8xf32>, tensor<8x8x3x3x8x8xf32>) -> tensor<1x8x2x2x8xf32>
  return %0, %1 : tensor<1x8x6x6x8xf32>, tensor<1x8x2x2x8xf32>
}

// -----

// F(4, 3) would cost two per cent less: not worth filters of more than twice the size.
// CHECK-LABEL: func.func @main
// CHECK: "graph.winograd_conv"{{.*}} {group = 1 : i64, tile = 2 : i64}
// BEST-LABEL: func.func @main
// BEST-LABEL: func.func @main
// BEST: "graph.winograd_conv"{{.*}} {group = 1 : i64, tile = 4 : i64}
func.func @main(%x: tensor<1x8x16x16x16xf32>) -> tensor<1x8x14x14x16xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x16x16xf32>} : () -> tensor<8x8x3x3x16x16xf32>
  %0 = "graph.blocked_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x16x16x16xf32>, tensor<8x8x3x3x16x16xf32>) -> tensor<1x8x14x14x16xf32>
  return %0 : tensor<1x8x14x14x16xf32>
}
