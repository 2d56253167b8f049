// RUN: stepwell-opt %s --pass-pipeline='block-channels{block=8},canonicalize' --split-input-file | FileCheck %s

// Between two convolutions data stays blocked: no transposition is left inside the chain, and the pad and the ReLU work on blocks.
// The image of three colours is read as it is.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<1x3x8x8xf32>
// CHECK: %[[C:[0-9]+]] = "graph.blocked_conv"(%[[X]], %{{.*}}) {{.*}} : (tensor<1x3x8x8xf32>, tensor<2x3x3x3x8xf32>) -> tensor<1x2x6x6x8xf32>
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[C]]) : (tensor<1x2x6x6x8xf32>)
// CHECK-NOT: transpose
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%[[R]]) {high = array<i64: 0, 0, 1, 1, 0>, low = array<i64: 0, 0, 1, 1, 0>
// CHECK-NOT: transpose
// CHECK: "graph.blocked_conv"(%[[P]], %{{.*}}) {{.*}} : (tensor<1x2x8x8x8xf32>, tensor<3x2x3x3x8x8xf32>) -> tensor<1x3x6x6x8xf32>
// CHECK: graph.transpose
// CHECK: graph.reshape
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x24x6x6xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<16x3x3x3xf32>} : () -> tensor<16x3x3x3xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x6x6xf32>
  %1 = "graph.relu"(%0) : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  %2 = "graph.pad"(%1) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0.0 : f64} : (tensor<1x16x6x6xf32>) -> tensor<1x16x8x8xf32>
  %w1 = "graph.constant"() {value = dense<0.25> : tensor<24x16x3x3xf32>} : () -> tensor<24x16x3x3xf32>
  %3 = "graph.conv"(%2, %w1) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<24x16x3x3xf32>) -> tensor<1x24x6x6xf32>
  return %3 : tensor<1x24x6x6xf32>
}

// -----

// Twelve filters fill one block and half of another; the division, which could make infinities of the filling, is done on plain data.
// CHECK-LABEL: func.func @main
// CHECK: graph.blocked_conv{{.*}} -> tensor<1x2x6x6x8xf32>
// CHECK: graph.slice{{.*}} -> tensor<1x12x6x6xf32>
// CHECK: "graph.div"{{.*}} tensor<1x12x6x6xf32>
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x12x6x6xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<12x3x3x3xf32>} : () -> tensor<12x3x3x3xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<12x3x3x3xf32>) -> tensor<1x12x6x6xf32>
  %1 = "graph.div"(%0, %0) : (tensor<1x12x6x6xf32>, tensor<1x12x6x6xf32>) -> tensor<1x12x6x6xf32>
  return %1 : tensor<1x12x6x6xf32>
}

// -----

// Weights that are not known now, filters by group and padded convolutions are left alone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: blocked
// CHECK-COUNT-2: "graph.conv"
func.func @main(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x3x3xf32>) -> tensor<1x16x4x4xf32> {
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x6x6xf32>
  %g = "graph.constant"() {value = dense<0.5> : tensor<16x4x3x3xf32>} : () -> tensor<16x4x3x3xf32>
  %1 = "graph.conv"(%0, %g) {dilations = array<i64: 1, 1>, group = 4 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x6x6xf32>, tensor<16x4x3x3xf32>) -> tensor<1x16x4x4xf32>
  return %1 : tensor<1x16x4x4xf32>
}

// -----

// Sixteen and eight channels are joined block after block; twelve would end in the middle of one, and rows are no channels.
// CHECK-LABEL: func.func @main
// CHECK: "graph.concat"(%{{.*}}) {axis = 1 : i64} : (tensor<1x2x6x6x8xf32>, tensor<1x1x6x6x8xf32>) -> tensor<1x3x6x6x8xf32>
// CHECK: "graph.concat"(%{{.*}}) {axis = 1 : i64} : (tensor<1x12x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x28x6x6xf32>
// CHECK: "graph.concat"(%{{.*}}) {axis = 2 : i64} : (tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x16x12x6xf32>
func.func @main(%x: tensor<1x3x6x6xf32>) -> (tensor<1x24x6x6xf32>, tensor<1x28x6x6xf32>, tensor<1x16x12x6xf32>) {
  %w16 = "graph.constant"() {value = dense<0.5> : tensor<16x3x1x1xf32>} : () -> tensor<16x3x1x1xf32>
  %w12 = "graph.constant"() {value = dense<0.25> : tensor<12x3x1x1xf32>} : () -> tensor<12x3x1x1xf32>
  %w8 = "graph.constant"() {value = dense<0.125> : tensor<8x3x1x1xf32>} : () -> tensor<8x3x1x1xf32>
  %a = "graph.conv"(%x, %w16) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<16x3x1x1xf32>) -> tensor<1x16x6x6xf32>
  %b = "graph.conv"(%x, %w12) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<12x3x1x1xf32>) -> tensor<1x12x6x6xf32>
  %c = "graph.conv"(%x, %w8) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x6x6xf32>
  %0 = "graph.concat"(%a, %c) {axis = 1 : i64} : (tensor<1x16x6x6xf32>, tensor<1x8x6x6xf32>) -> tensor<1x24x6x6xf32>
  %1 = "graph.concat"(%b, %a) {axis = 1 : i64} : (tensor<1x12x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x28x6x6xf32>
  %2 = "graph.concat"(%a, %a) {axis = 2 : i64} : (tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x16x12x6xf32>
  return %0, %1, %2 : tensor<1x24x6x6xf32>, tensor<1x28x6x6xf32>, tensor<1x16x12x6xf32>
}
