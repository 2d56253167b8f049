// RUN: stepwell-opt %s --skip-padding --split-input-file | FileCheck %s

// Windows much larger than what padding leaves of the image.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = "graph.pad"
// CHECK: "packed.bordered_conv"(%[[P]], %{{.*}}) {dilations = array<i64: 6, 1>, group = 1 : i64, strides = array<i64: 1, 1>, zeros = array<i64: 6, 1, 6, 0>}
func.func @main(%x: tensor<1x2x8x8x8xf32>) -> tensor<1x3x8x8x8xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x2x8x8xf32>} : () -> tensor<3x2x3x2x8x8xf32>
  %0 = "graph.pad"(%x) {high = array<i64: 0, 0, 6, 0, 0>, low = array<i64: 0, 0, 6, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x8x8x8xf32>) -> tensor<1x2x20x9x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 6, 1>, group = 1 : i64} : (tensor<1x2x20x9x8xf32>, tensor<3x2x3x2x8x8xf32>) -> tensor<1x3x8x8x8xf32>
  return %1 : tensor<1x3x8x8x8xf32>
}

// -----

// Not for a border of one element, one that is not of zeros, no border, nor filters that make something else of a zero.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: "packed.conv"
// CHECK-NOT: bordered
func.func @main(%x: tensor<1x2x8x8xf32>, %y: tensor<1x2x24x8xf32>) -> (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) {
  %w = "graph.constant"() {value = dense<0.5> : tensor<3x2x3x8x8xf32>} : () -> tensor<3x2x3x8x8xf32>
  %v = "graph.constant"() {value = dense<0x7F800000> : tensor<3x2x3x8x8xf32>} : () -> tensor<3x2x3x8x8xf32>
  %0 = "graph.pad"(%x) {high = array<i64: 0, 0, 1, 0>, low = array<i64: 0, 0, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x10x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x2x10x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %2 = "graph.pad"(%x) {high = array<i64: 0, 0, 8, 0>, low = array<i64: 0, 0, 8, 0>, mode = "constant", value = 1.0 : f64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x24x8xf32>
  %3 = "packed.conv"(%2, %w) {strides = array<i64: 1>, dilations = array<i64: 8>, group = 1 : i64} : (tensor<1x2x24x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %4 = "packed.conv"(%y, %w) {strides = array<i64: 1>, dilations = array<i64: 8>, group = 1 : i64} : (tensor<1x2x24x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  %5 = "graph.pad"(%x) {high = array<i64: 0, 0, 8, 0>, low = array<i64: 0, 0, 8, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x24x8xf32>
  %6 = "packed.conv"(%5, %v) {strides = array<i64: 1>, dilations = array<i64: 8>, group = 1 : i64} : (tensor<1x2x24x8xf32>, tensor<3x2x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  return %1, %3, %4, %6 : tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>
}

// -----

// A pooling of plain images keeps its padding where that would be a copy.
// CHECK-LABEL: func.func @main
// CHECK-NOT: "graph.pad"
// CHECK: "graph.max_pool"(%arg0) {{.*}}pads = array<i64: 1, 1, 2, 1>
func.func @main(%x: tensor<1x4x8x8xf32>) -> tensor<1x4x5x4xf32> {
  %0 = "graph.pad"(%x) {high = array<i64: 0, 0, 2, 1>, low = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0xFFF0000000000000 : f64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x11x10xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x11x10xf32>) -> tensor<1x4x5x4xf32>
  return %1 : tensor<1x4x5x4xf32>
}

// -----

// Not one whose image is made by an op that can write inside of the padding, one in blocks, nor one that is padded with something else.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: "graph.max_pool"{{.*}}pads = array<i64: 0, 0, 0, 0>
func.func @main(%x: tensor<1x4x8x8xf32>, %y: tensor<1x4x8x8x8xf32>) -> (tensor<1x4x4x4xf32>, tensor<1x4x4x4x8xf32>, tensor<1x4x4x4xf32>) {
  %r = "graph.relu"(%x) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %0 = "graph.pad"(%r) {high = array<i64: 0, 0, 1, 1>, low = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0xFFF0000000000000 : f64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x10x10xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x10x10xf32>) -> tensor<1x4x4x4xf32>
  %2 = "graph.pad"(%y) {high = array<i64: 0, 0, 1, 1, 0>, low = array<i64: 0, 0, 1, 1, 0>, mode = "constant", value = 0xFFF0000000000000 : f64} : (tensor<1x4x8x8x8xf32>) -> tensor<1x4x10x10x8xf32>
  %3 = "graph.max_pool"(%2) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x10x10x8xf32>) -> tensor<1x4x4x4x8xf32>
  %4 = "graph.pad"(%x) {high = array<i64: 0, 0, 1, 1>, low = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0.0 : f64} : (tensor<1x4x8x8xf32>) -> tensor<1x4x10x10xf32>
  %5 = "graph.max_pool"(%4) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x10x10xf32>) -> tensor<1x4x4x4xf32>
  return %1, %3, %5 : tensor<1x4x4x4xf32>, tensor<1x4x4x4x8xf32>, tensor<1x4x4x4xf32>
}
