// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='use-winograd{flops-per-byte=0 tile=4},canonicalize' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='use-winograd{error=5e-7}' --split-input-file | FileCheck %s --check-prefix=EXACT
// Where no tile keeps the error asked for, nothing is changed.
// EXACT-NOT: winograd

// Six rows and seven columns are filled up to eight and eight; the result is cut back.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%arg0) {high = array<i64: 0, 0, 2, 1, 0>{{.*}} -> tensor<1x2x10x10x8xf32>
// CHECK: %[[C:[0-9]+]] = "packed.winograd_conv"(%[[P]], %{{[0-9]+}}) {group = 1 : i64, tile = 4 : i64, transformed = true} : (tensor<1x2x10x10x8xf32>, tensor<6x6x3x2x8x8xf32>) -> tensor<1x3x8x8x8xf32>
// CHECK: "graph.slice"(%[[C]]) {{.*}} -> tensor<1x3x6x7x8xf32>
func.func @main(%x: tensor<1x2x8x9x8xf32>) -> tensor<1x3x6x7x8xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x3x8x8xf32>} : () -> tensor<3x2x3x3x8x8xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x8x9x8xf32>, tensor<3x2x3x3x8x8xf32>) -> tensor<1x3x6x7x8xf32>
  return %0 : tensor<1x3x6x7x8xf32>
}

// -----

// What follows element by element stays with the convolution, but not what needs a number for each place.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.winograd_conv"
// CHECK: %[[A:[0-9]+]] = "graph.add"(%[[C]], %arg1) {{.*}} -> tensor<1x3x8x8x8xf32>
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[A]])
// CHECK: %[[S:[0-9]+]] = "graph.slice"(%[[R]]) {{.*}} -> tensor<1x3x6x7x8xf32>
// CHECK: "graph.add"(%[[S]], %arg2)
func.func @main(%x: tensor<1x2x8x9x8xf32>, %bias: tensor<1x3x1x1x8xf32>, %residual: tensor<1x3x6x7x8xf32>) -> tensor<1x3x6x7x8xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x3x8x8xf32>} : () -> tensor<3x2x3x3x8x8xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x8x9x8xf32>, tensor<3x2x3x3x8x8xf32>) -> tensor<1x3x6x7x8xf32>
  %1 = "graph.add"(%0, %bias) : (tensor<1x3x6x7x8xf32>, tensor<1x3x1x1x8xf32>) -> tensor<1x3x6x7x8xf32>
  %2 = "graph.relu"(%1) : (tensor<1x3x6x7x8xf32>) -> tensor<1x3x6x7x8xf32>
  %3 = "graph.add"(%2, %residual) : (tensor<1x3x6x7x8xf32>, tensor<1x3x6x7x8xf32>) -> tensor<1x3x6x7x8xf32>
  return %3 : tensor<1x3x6x7x8xf32>
}

// -----

// Stride 2 and other element types are left alone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: winograd
func.func @main(%x: tensor<1x2x9x9x8xf32>, %y: tensor<1x2x8x8x8xf64>) -> (tensor<1x3x4x4x8xf32>, tensor<1x3x6x6x8xf64>) {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x3x8x8xf32>} : () -> tensor<3x2x3x3x8x8xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x9x9x8xf32>, tensor<3x2x3x3x8x8xf32>) -> tensor<1x3x4x4x8xf32>
  %v = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x3x8x8xf64>} : () -> tensor<3x2x3x3x8x8xf64>
  %1 = "packed.conv"(%y, %v) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x8x8x8xf64>, tensor<3x2x3x3x8x8xf64>) -> tensor<1x3x6x6x8xf64>
  return %0, %1 : tensor<1x3x4x4x8xf32>, tensor<1x3x6x6x8xf64>
}

// -----

// Groups whose channels are whole blocks; each pads and cuts what all have in common.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.winograd_conv"{{.*}} {group = 2 : i64, tile = 4 : i64, transformed = true} : (tensor<1x8x10x10x8xf32>, tensor<6x6x8x4x8x8xf32>) -> tensor<1x8x8x8x8xf32>
// CHECK: "graph.slice"(%[[C]]) {{.*}} -> tensor<1x8x6x7x8xf32>
func.func @main(%x: tensor<1x8x8x9x8xf32>) -> tensor<1x8x6x7x8xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<8x4x3x3x8x8xf32>} : () -> tensor<8x4x3x3x8x8xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x8x8x9x8xf32>, tensor<8x4x3x3x8x8xf32>) -> tensor<1x8x6x7x8xf32>
  return %0 : tensor<1x8x6x7x8xf32>
}

// -----

// Groups that share a block, and filters that read only some of the lanes, stay as they are.
// CHECK-LABEL: func.func @main
// CHECK-NOT: winograd
// CHECK-COUNT-2: packed.conv
func.func @main(%x: tensor<1x8x8x9x8xf32>) -> (tensor<1x16x6x7x8xf32>, tensor<1x8x6x7x8xf32>) {
  %w = "graph.constant"() {value = dense<0.5> : tensor<16x1x3x3x4x8xf32>} : () -> tensor<16x1x3x3x4x8xf32>
  %v = "graph.constant"() {value = dense<0.5> : tensor<8x8x3x3x6x8xf32>} : () -> tensor<8x8x3x3x6x8xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 16 : i64} : (tensor<1x8x8x9x8xf32>, tensor<16x1x3x3x4x8xf32>) -> tensor<1x16x6x7x8xf32>
  %1 = "packed.conv"(%x, %v) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x8x9x8xf32>, tensor<8x8x3x3x6x8xf32>) -> tensor<1x8x6x7x8xf32>
  return %0, %1 : tensor<1x16x6x7x8xf32>, tensor<1x8x6x7x8xf32>
}

// -----

// An image whose size is known only at run time is filled up by as much as that size asks for.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%arg0) {high = [0, 0, "-h + 4*((h + 3) // 4)", 1, 0]{{.*}} -> tensor<?x2x?x10x8xf32, "n, 4*((h + 3) // 4) + 2">
// CHECK: %[[C:[0-9]+]] = "packed.winograd_conv"(%[[P]], {{.*}} -> tensor<?x3x?x8x8xf32, "n, 4*((h + 3) // 4)">
// CHECK: "graph.slice"(%[[C]]) {sizes = ["n", 3, "h", 7, 8]{{.*}} -> tensor<?x3x?x7x8xf32, "n, h">
func.func @main(%x: tensor<?x2x?x9x8xf32, "n, h + 2">) -> tensor<?x3x?x7x8xf32, "n, h"> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x3x8x8xf32>} : () -> tensor<3x2x3x3x8x8xf32>
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x2x?x9x8xf32, "n, h + 2">, tensor<3x2x3x3x8x8xf32>) -> tensor<?x3x?x7x8xf32, "n, h">
  return %0 : tensor<?x3x?x7x8xf32, "n, h">
}
