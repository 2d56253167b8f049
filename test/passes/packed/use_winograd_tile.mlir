// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=use-winograd --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline="use-winograd{slack=0}" --split-input-file | FileCheck %s --check-prefix=BEST
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline="use-winograd{most-bytes=16384 slack=0.3}" --split-input-file | FileCheck %s --check-prefix=LARGE

// Few positions and many filters: F(2, 3) reads less than half of the bytes. With fewer positions nothing pays.
// CHECK-LABEL: func.func @main
// CHECK: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 2 : i64, transformed = true}
// CHECK: "packed.conv"
func.func @main(%x: tensor<1x8x8x8x8xf32>, %y: tensor<1x8x4x4x8xf32>) -> (tensor<1x8x6x6x8xf32>, tensor<1x8x2x2x8xf32>) {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x8x8xf32>} : () -> tensor<8x8x3x3x8x8xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x8x8x8xf32>, tensor<8x8x3x3x8x8xf32>) -> tensor<1x8x6x6x8xf32>
  %1 = "packed.conv"(%y, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x4x4x8xf32>, tensor<8x8x3x3x8x8xf32>) -> tensor<1x8x2x2x8xf32>
  return %0, %1 : tensor<1x8x6x6x8xf32>, tensor<1x8x2x2x8xf32>
}

// -----

// F(4, 3) would cost one per cent less: not worth filters of more than twice the size.
// CHECK-LABEL: func.func @main
// CHECK: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 2 : i64, transformed = true}
// BEST-LABEL: func.func @main
// BEST-LABEL: func.func @main
// BEST: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 4 : i64, transformed = true}
//
// Filters that are large are stored as they are, even those of F(4, 3).
// LARGE-LABEL: func.func @main
// LARGE-LABEL: func.func @main
// LARGE: %[[W:[0-9]+|cst[_0-9]*]] = "graph.constant"() {{.*}} -> tensor<8x8x3x3x16x16xf32>
// LARGE: "packed.winograd_conv"(%arg0, %[[W]]) {group = 1 : i64, tile = 4 : i64, transformed = false}
func.func @main(%x: tensor<1x8x14x10x16xf32>) -> tensor<1x8x12x8x16xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x16x16xf32>} : () -> tensor<8x8x3x3x16x16xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x14x10x16xf32>, tensor<8x8x3x3x16x16xf32>) -> tensor<1x8x12x8x16xf32>
  return %0 : tensor<1x8x12x8x16xf32>
}

// -----

// Those of groups are not: their products and what follows have no loop over filters in common.
// LARGE-LABEL: func.func @main
// LARGE: "packed.winograd_conv"{{.*}} {group = 2 : i64, tile = {{[24]}} : i64, transformed = true}
func.func @main(%x: tensor<1x16x16x16x16xf32>) -> tensor<1x16x14x14x16xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<16x8x3x3x16x16xf32>} : () -> tensor<16x8x3x3x16x16xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x16x16x16x16xf32>, tensor<16x8x3x3x16x16xf32>) -> tensor<1x16x14x14x16xf32>
  return %0 : tensor<1x16x14x14x16xf32>
}
