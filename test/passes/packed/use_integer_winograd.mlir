// RUN: stepwell-opt %s --pass-pipeline='use-integer-winograd,canonicalize' --target x86-64-v3 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='use-integer-winograd,canonicalize' --target x86-64-v4-vnni --split-input-file | FileCheck %s --check-prefix=BYTES
// Where bytes have an instruction of their own, 16 bits lose half of what is saved.
// BYTES-NOT: winograd

// 15 rows and 14 columns are filled up to 16; the result is cut back. What follows stays with the convolution, up to what a product reads.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%arg0) {high = array<i64: 0, 0, 1, 2, 0>{{.*}} -> tensor<1x8x18x18x8xui8>
// CHECK: %[[C:[0-9]+]] = "packed.integer_winograd_conv"(%[[P]], %{{.*}}) {group = 1 : i64, tile = 4 : i64, transformed = false} : (tensor<1x8x18x18x8xui8>, tensor<4x8x3x3x4x8x2xi8>) -> tensor<1x4x16x16x8xi32>
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[C]])
// CHECK: %[[N:[0-9]+]] = "graph.cast"(%[[R]]) {{.*}} -> tensor<1x4x16x16x8xi16>
// CHECK: %[[S:[0-9]+]] = "graph.slice"(%[[N]]) {{.*}} -> tensor<1x4x15x14x8xi16>
// CHECK: "graph.cast"(%[[S]])
func.func @main(%x: tensor<1x8x17x16x8xui8>) -> tensor<1x4x15x14x8xi32> {
  %w = "graph.constant"() {value = dense<5> : tensor<4x8x3x3x4x8x2xi8>} : () -> tensor<4x8x3x3x4x8x2xi8>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<1x8x17x16x8xui8>) -> tensor<1x8x17x16x8xi32>
  %1 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<4x8x3x3x4x8x2xi8>) -> tensor<4x8x3x3x4x8x2xi32>
  %2 = "packed.conv"(%0, %1) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x17x16x8xi32>, tensor<4x8x3x3x4x8x2xi32>) -> tensor<1x4x15x14x8xi32>
  %3 = "graph.relu"(%2) : (tensor<1x4x15x14x8xi32>) -> tensor<1x4x15x14x8xi32>
  %4 = "graph.cast"(%3) {to = i16, saturate = true} : (tensor<1x4x15x14x8xi32>) -> tensor<1x4x15x14x8xi16>
  %5 = "graph.cast"(%4) {to = i32, saturate = true} : (tensor<1x4x15x14x8xi16>) -> tensor<1x4x15x14x8xi32>
  return %5 : tensor<1x4x15x14x8xi32>
}

// -----

// The same sums of 64 channels are up to 64 * 9 * 127 * 255: times 64, those of F(4, 3) still fit 32 bits. Twice as many do not, but four times
// their number does. Data of 16 bits that may be anything do not fit 16 when they are transformed.
// CHECK-LABEL: func.func @main
// CHECK: "packed.integer_winograd_conv"({{.*}} {group = 1 : i64, tile = 4 : i64, transformed = false}
// CHECK: "packed.integer_winograd_conv"({{.*}} {group = 1 : i64, tile = 2 : i64, transformed = false}
// CHECK: "packed.conv"
func.func @main(%x: tensor<1x8x18x18x8xui8>, %y: tensor<1x16x18x18x8xui8>, %z: tensor<1x8x18x18x8xi16>) -> (tensor<1x8x16x16x8xi32>, tensor<1x8x16x16x8xi32>, tensor<1x8x16x16x8xi32>) {
  %w = "graph.constant"() {value = dense<127> : tensor<8x8x3x3x4x8x2xi8>} : () -> tensor<8x8x3x3x4x8x2xi8>
  %v = "graph.constant"() {value = dense<127> : tensor<8x16x3x3x4x8x2xi8>} : () -> tensor<8x16x3x3x4x8x2xi8>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<1x8x18x18x8xui8>) -> tensor<1x8x18x18x8xi32>
  %1 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<8x8x3x3x4x8x2xi8>) -> tensor<8x8x3x3x4x8x2xi32>
  %2 = "packed.conv"(%0, %1) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x18x18x8xi32>, tensor<8x8x3x3x4x8x2xi32>) -> tensor<1x8x16x16x8xi32>
  %3 = "graph.cast"(%y) {to = i32, saturate = true} : (tensor<1x16x18x18x8xui8>) -> tensor<1x16x18x18x8xi32>
  %4 = "graph.cast"(%v) {to = i32, saturate = true} : (tensor<8x16x3x3x4x8x2xi8>) -> tensor<8x16x3x3x4x8x2xi32>
  %5 = "packed.conv"(%3, %4) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x16x18x18x8xi32>, tensor<8x16x3x3x4x8x2xi32>) -> tensor<1x8x16x16x8xi32>
  %6 = "graph.cast"(%z) {to = i32, saturate = true} : (tensor<1x8x18x18x8xi16>) -> tensor<1x8x18x18x8xi32>
  %7 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<8x8x3x3x4x8x2xi8>) -> tensor<8x8x3x3x4x8x2xi32>
  %8 = "packed.conv"(%6, %7) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x18x18x8xi32>, tensor<8x8x3x3x4x8x2xi32>) -> tensor<1x8x16x16x8xi32>
  return %2, %5, %8 : tensor<1x8x16x16x8xi32>, tensor<1x8x16x16x8xi32>, tensor<1x8x16x16x8xi32>
}

// -----

// Groups of whole blocks. Strides, filters that only a run knows, and those that are few are left alone.
// CHECK-LABEL: func.func @main
// CHECK: "packed.integer_winograd_conv"({{.*}} {group = 2 : i64, tile = 4 : i64, transformed = true} : (tensor<1x8x18x18x8xui8>, tensor<6x6x8x4x4x8x2xi16>) -> tensor<1x8x16x16x8xi32>
// CHECK-COUNT-3: packed.conv
// CHECK-NOT: winograd
func.func @main(%x: tensor<1x8x18x18x8xui8>, %v: tensor<8x8x3x3x4x8x2xi8>, %y: tensor<1x1x18x18x8xui8>) -> (tensor<1x8x16x16x8xi32>, tensor<1x8x8x8x8xi32>, tensor<1x8x16x16x8xi32>, tensor<1x1x16x16x8xi32>) {
  %w = "graph.constant"() {value = dense<5> : tensor<8x4x3x3x4x8x2xi8>} : () -> tensor<8x4x3x3x4x8x2xi8>
  %u = "graph.constant"() {value = dense<5> : tensor<8x8x3x3x4x8x2xi8>} : () -> tensor<8x8x3x3x4x8x2xi8>
  %t = "graph.constant"() {value = dense<5> : tensor<1x1x3x3x4x8x2xi8>} : () -> tensor<1x1x3x3x4x8x2xi8>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<1x8x18x18x8xui8>) -> tensor<1x8x18x18x8xi32>
  %1 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<8x4x3x3x4x8x2xi8>) -> tensor<8x4x3x3x4x8x2xi32>
  %2 = "packed.conv"(%0, %1) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x8x18x18x8xi32>, tensor<8x4x3x3x4x8x2xi32>) -> tensor<1x8x16x16x8xi32>
  %3 = "graph.cast"(%u) {to = i32, saturate = true} : (tensor<8x8x3x3x4x8x2xi8>) -> tensor<8x8x3x3x4x8x2xi32>
  %4 = "packed.conv"(%0, %3) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x18x18x8xi32>, tensor<8x8x3x3x4x8x2xi32>) -> tensor<1x8x8x8x8xi32>
  %5 = "graph.cast"(%v) {to = i32, saturate = true} : (tensor<8x8x3x3x4x8x2xi8>) -> tensor<8x8x3x3x4x8x2xi32>
  %6 = "packed.conv"(%0, %5) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x18x18x8xi32>, tensor<8x8x3x3x4x8x2xi32>) -> tensor<1x8x16x16x8xi32>
  %7 = "graph.cast"(%y) {to = i32, saturate = true} : (tensor<1x1x18x18x8xui8>) -> tensor<1x1x18x18x8xi32>
  %8 = "graph.cast"(%t) {to = i32, saturate = true} : (tensor<1x1x3x3x4x8x2xi8>) -> tensor<1x1x3x3x4x8x2xi32>
  %9 = "packed.conv"(%7, %8) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x1x18x18x8xi32>, tensor<1x1x3x3x4x8x2xi32>) -> tensor<1x1x16x16x8xi32>
  return %2, %4, %6, %9 : tensor<1x8x16x16x8xi32>, tensor<1x8x8x8x8xi32>, tensor<1x8x16x16x8xi32>, tensor<1x1x16x16x8xi32>
}

// -----

// Neighbours lie as the instruction for 16 bits reads them, and an image whose size only a run tells is filled up by as much as that asks for.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%arg0) {high = [0, 0, "-h + 4*((h + 3) // 4)", 2, 0]
// CHECK: "packed.integer_winograd_conv"(%[[P]], {{.*}}tensor<8x8x3x3x4x8x2xi8>) -> tensor<1x8x?x16x8xi32, "4*((h + 3) // 4)">
func.func @main(%x: tensor<1x8x?x16x8xui8, "h + 2">) -> tensor<1x8x?x14x8xi32, "h"> {
  %w = "graph.constant"() {value = dense<5> : tensor<8x8x3x3x2x8x4xi8>} : () -> tensor<8x8x3x3x2x8x4xi8>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<1x8x?x16x8xui8, "h + 2">) -> tensor<1x8x?x16x8xi32, "h + 2">
  %1 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<8x8x3x3x2x8x4xi8>) -> tensor<8x8x3x3x2x8x4xi32>
  %2 = "packed.conv"(%0, %1) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x?x16x8xi32, "h + 2">, tensor<8x8x3x3x2x8x4xi32>) -> tensor<1x8x?x14x8xi32, "h">
  return %2 : tensor<1x8x?x14x8xi32, "h">
}
