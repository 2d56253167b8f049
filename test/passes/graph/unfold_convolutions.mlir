// RUN: stepwell-opt %s --pass-pipeline='unfold-convolutions' --target x86-64-v3 | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='unfold-convolutions' --target x86-64-v2 | FileCheck %s --check-prefix=SAME

// Bytes with channels last, padded with the zero point; a column for each channel of each of the two taps; the product, turned back.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x16x5xui8>
// CHECK: %[[T:.*]] = "graph.transpose"(%[[X]]) {perm = array<i64: 0, 2, 1>} : (tensor<2x16x5xui8>) -> tensor<2x5x16xui8>
// CHECK: %[[P:.*]] = "graph.pad"(%[[T]]) {high = array<i64: 0, 2, 0>, low = array<i64: 0, 1, 0>, mode = "constant", value = 1.130000e+02 : f64}
// CHECK: %[[A:.*]] = "graph.slice"(%[[P]]) {sizes = array<i64: 2, 3, 16>, starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 2, 1>}
// CHECK: %[[B:.*]] = "graph.slice"(%[[P]]) {sizes = array<i64: 2, 3, 16>, starts = array<i64: 0, 3, 0>, steps = array<i64: 1, 2, 1>}
// CHECK: %[[C:.*]] = "graph.concat"(%[[A]], %[[B]]) {axis = 2 : i64} : {{.*}} -> tensor<2x3x32xui8>
// CHECK: %[[ROWS:.*]] = "graph.reshape"(%[[C]]) {{.*}} -> tensor<6x32xui8>
// CHECK: %[[WIDE:.*]] = "graph.cast"(%[[ROWS]])
// CHECK: %[[D:.*]] = "graph.sub"(%[[WIDE]],
// CHECK: %[[Y:.*]] = "graph.matmul"(%[[D]], %{{.*}}) : (tensor<6x32xi32>, tensor<32x4xi32>) -> tensor<6x4xi32>
// CHECK: %[[APART:.*]] = "graph.reshape"(%[[Y]]) {{.*}} -> tensor<2x3x4xi32>
// CHECK: %[[R:.*]] = "graph.transpose"(%[[APART]]) {perm = array<i64: 0, 2, 1>}
// CHECK-NOT: graph.conv
// CHECK: return %[[R]]
// SAME-LABEL: func.func @main
// SAME: "graph.conv"
func.func @main(%x: tensor<2x16x5xui8>) -> tensor<2x4x3xi32> {
  %w = "graph.constant"() {value = dense<3> : tensor<4x16x2xi32>} : () -> tensor<4x16x2xi32>
  %z = "graph.constant"() {value = dense<113> : tensor<i32>} : () -> tensor<i32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<2x16x5xui8>) -> tensor<2x16x5xi32>
  %1 = "graph.sub"(%0, %z) : (tensor<2x16x5xi32>, tensor<i32>) -> tensor<2x16x5xi32>
  %2 = "graph.pad"(%1) {low = array<i64: 0, 0, 1>, high = array<i64: 0, 0, 2>, mode = "constant", value = 0.0} : (tensor<2x16x5xi32>) -> tensor<2x16x8xi32>
  %3 = "graph.conv"(%2, %w) {dilations = array<i64: 3>, group = 1 : i64, pads = array<i64: 0, 0>, strides = array<i64: 2>}
    : (tensor<2x16x8xi32>, tensor<4x16x2xi32>) -> tensor<2x4x3xi32>
  return %3 : tensor<2x4x3xi32>
}
