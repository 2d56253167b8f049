// Why data stay plain: each op says why it is not computed on blocks of channels, or on what.
// RUN: stepwell-opt %s --convert-layout=block=16 --explain 2>&1 >/dev/null | FileCheck %s

// CHECK: blocked
// CHECK-NEXT: did convert-layout, graph.conv: computed on 2 blocks of 16 channels, 8 of these lanes filling
// CHECK: reciprocal
// CHECK-NEXT: declined convert-layout, graph.div: lanes are filled up with zeros, of which it may make an infinity or NaN
// CHECK: few
// CHECK-NEXT: declined convert-layout, graph.conv: 3 filters in 1 groups would leave most of 16 lanes empty
// CHECK: plain
// CHECK-NEXT: declined convert-layout, graph.max_pool: what it reads is not channel-blocked
// CHECK: one_position
// CHECK-NEXT: declined convert-layout, graph.conv: its result has one position
// CHECK: unknown
// CHECK-NEXT: declined convert-layout, graph.conv: its filters are not known
// CHECK: reshape
// CHECK-NEXT: declined convert-layout, graph.reshape: it does not end a permutation of channels
func.func @main(%x: tensor<1x24x8x8xf32>, %u: tensor<16x24x1x1xf32>) -> (tensor<1x24x8x8xf32>, tensor<1x3x4x4xf32>, tensor<1x32x1x1xf32>, tensor<1x16x8x8xf32>, tensor<1x1536xf32>) {
  %w = "graph.constant"() {value = dense<1.0> : tensor<24x24x1x1xf32>} : () -> tensor<24x24x1x1xf32>
  %v = "graph.constant"() {value = dense<1.0> : tensor<3x24x1x1xf32>} : () -> tensor<3x24x1x1xf32>
  %t = "graph.constant"() {value = dense<1.0> : tensor<32x24x8x8xf32>} : () -> tensor<32x24x8x8xf32>
  %one = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x24x8x8xf32>, tensor<24x24x1x1xf32>) -> tensor<1x24x8x8xf32> loc("blocked")
  %1 = "graph.div"(%one, %0) : (tensor<f32>, tensor<1x24x8x8xf32>) -> tensor<1x24x8x8xf32> loc("reciprocal")
  %2 = "graph.conv"(%x, %v) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x24x8x8xf32>, tensor<3x24x1x1xf32>) -> tensor<1x3x8x8xf32> loc("few")
  %3 = "graph.max_pool"(%2) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> loc("plain")
  %4 = "graph.conv"(%x, %t) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x24x8x8xf32>, tensor<32x24x8x8xf32>) -> tensor<1x32x1x1xf32> loc("one_position")
  %5 = "graph.conv"(%x, %u) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x24x8x8xf32>, tensor<16x24x1x1xf32>) -> tensor<1x16x8x8xf32> loc("unknown")
  %6 = "graph.reshape"(%0) {shape = array<i64: 1, 1536>} : (tensor<1x24x8x8xf32>) -> tensor<1x1536xf32> loc("reshape")
  return %1, %3, %4, %5, %6 : tensor<1x24x8x8xf32>, tensor<1x3x4x4xf32>, tensor<1x32x1x1xf32>, tensor<1x16x8x8xf32>, tensor<1x1536xf32>
}
