// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=attach-target,use-winograd --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v4 --pass-pipeline=attach-target,use-winograd --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='attach-target,use-winograd{error=1.9e-5}' --split-input-file | FileCheck %s --check-prefix=EXACT
// RUN: stepwell-opt %s --target x86-64-v4 --pass-pipeline='attach-target,use-winograd{tile=6}' --split-input-file | FileCheck %s --check-prefix=SIX

// 114x114 positions are whole tiles of 6, and there are many for each filter: F(6, 3) costs much less than F(4, 3), unless its error is too large.
// CHECK-LABEL: func.func @main
// CHECK-NOT: "graph.pad"
// CHECK: "packed.winograd_conv"(%arg0, %{{.*}}) {group = 1 : i64, tile = 6 : i64, transformed = true} : (tensor<1x8x116x116x16xf32>, tensor<8x8x8x8x16x16xf32>)
// CHECK-NOT: "graph.slice"
// EXACT-LABEL: func.func @main
// EXACT: %[[P:[0-9]+]] = "graph.pad"(%arg0) {high = array<i64: 0, 0, 2, 2, 0>{{.*}} -> tensor<1x8x118x118x16xf32>
// EXACT: "packed.winograd_conv"(%[[P]], %{{.*}}) {group = 1 : i64, tile = 4 : i64, transformed = true}
// EXACT: "graph.slice"({{.*}} -> tensor<1x8x114x114x16xf32>
func.func @main(%x: tensor<1x8x116x116x16xf32>) -> tensor<1x8x114x114x16xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x16x16xf32>} : () -> tensor<8x8x3x3x16x16xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x116x116x16xf32>, tensor<8x8x3x3x16x16xf32>) -> tensor<1x8x114x114x16xf32>
  return %0 : tensor<1x8x114x114x16xf32>
}

// -----

// 112x112 positions fill tiles of 4, but not of 6: F(6, 3) would have a tenth less products, and its result would be cut.
// CHECK-LABEL: func.func @main
// CHECK-NOT: "graph.pad"
// CHECK: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 4 : i64, transformed = true}
// CHECK-NOT: "graph.slice"
func.func @main(%x: tensor<1x8x114x114x16xf32>) -> tensor<1x8x112x112x16xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x16x16xf32>} : () -> tensor<8x8x3x3x16x16xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x114x114x16xf32>, tensor<8x8x3x3x16x16xf32>) -> tensor<1x8x112x112x16xf32>
  return %0 : tensor<1x8x112x112x16xf32>
}

// -----

// With 28x28 positions, F(6, 3) fills up to 30x30 and reads nearly twice the filters: F(4, 3) costs less.
// CHECK-LABEL: func.func @main
// CHECK: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 4 : i64, transformed = true}
// SIX-LABEL: func.func @main
// SIX-LABEL: func.func @main
// SIX-LABEL: func.func @main
// SIX: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 6 : i64, transformed = true} : (tensor<1x8x32x32x16xf32>
func.func @main(%x: tensor<1x8x30x30x16xf32>) -> tensor<1x8x28x28x16xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x16x16xf32>} : () -> tensor<8x8x3x3x16x16xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x30x30x16xf32>, tensor<8x8x3x3x16x16xf32>) -> tensor<1x8x28x28x16xf32>
  return %0 : tensor<1x8x28x28x16xf32>
}
