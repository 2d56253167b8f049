// Which type a product reads, and which products are left as they are.
// RUN: stepwell-opt %s --pass-pipeline='narrow-products' --target x86-64-v3 --split-input-file | FileCheck %s

// The smallest type that holds all values: -129 and 200 do not fit i8, -1 not ui8. Where there are no values any type does.
// CHECK-LABEL: func.func @main
// CHECK: "graph.parameter"() {{.*}} -> tensor<2x3xi16>
// CHECK: "graph.parameter"() {{.*}} -> tensor<2x3xi16>
// CHECK: "graph.parameter"() {{.*}} -> tensor<2x3xi8>
// CHECK: "graph.parameter"() {{.*}} -> tensor<0x3xi8>
func.func @main(%x: tensor<4x2xi8>, %y: tensor<4x0xi8>) -> (tensor<4x3xi32>, tensor<4x3xi32>, tensor<4x3xi32>, tensor<4x3xi32>) {
  %u = "graph.constant"() {value = dense<[[-129, 5, 0], [1, 2, 3]]> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
  %v = "graph.constant"() {value = dense<[[-1, 200, 0], [1, 2, 3]]> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
  %w = "graph.constant"() {value = dense<[[-128, 127, 0], [1, 2, 3]]> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
  %none = "graph.constant"() {value = dense<> : tensor<0x3xi32>} : () -> tensor<0x3xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x2xi8>) -> tensor<4x2xi32>
  %1 = "graph.cast"(%y) {to = i32, saturate = true} : (tensor<4x0xi8>) -> tensor<4x0xi32>
  %2 = "graph.matmul"(%0, %u) : (tensor<4x2xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
  %3 = "graph.matmul"(%0, %v) : (tensor<4x2xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
  %4 = "graph.matmul"(%0, %w) : (tensor<4x2xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
  %5 = "graph.matmul"(%1, %none) : (tensor<4x0xi32>, tensor<0x3xi32>) -> tensor<4x3xi32>
  return %2, %3, %4, %5 : tensor<4x3xi32>, tensor<4x3xi32>, tensor<4x3xi32>, tensor<4x3xi32>
}

// -----

// Two products read one difference: it is made narrow once, and each widens it for itself.
// CHECK-LABEL: func.func @main
// CHECK: %[[D:[0-9]+]] = "graph.sub"
// CHECK-NEXT: %[[N:[0-9]+]] = "graph.cast"(%[[D]]) {{.*}} to = i8}
// CHECK: %[[X:[0-9]+]] = "graph.cast"(%[[N]]) {{.*}} to = i32}
// CHECK-NEXT: "graph.matmul"(%[[X]],
// CHECK-NEXT: %[[Y:[0-9]+]] = "graph.cast"(%[[N]]) {{.*}} to = i32}
// CHECK-NEXT: "graph.matmul"(%[[Y]],
func.func @main(%x: tensor<4x2xui8>, %u: tensor<2x3xi8>, %v: tensor<2x3xi8>) -> (tensor<4x3xi32>, tensor<4x3xi32>) {
  %zero = "graph.constant"() {value = dense<128> : tensor<i32>} : () -> tensor<i32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x2xui8>) -> tensor<4x2xi32>
  %1 = "graph.sub"(%0, %zero) : (tensor<4x2xi32>, tensor<i32>) -> tensor<4x2xi32>
  %2 = "graph.cast"(%u) {to = i32, saturate = true} : (tensor<2x3xi8>) -> tensor<2x3xi32>
  %3 = "graph.cast"(%v) {to = i32, saturate = true} : (tensor<2x3xi8>) -> tensor<2x3xi32>
  %4 = "graph.matmul"(%1, %2) : (tensor<4x2xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
  %5 = "graph.matmul"(%1, %3) : (tensor<4x2xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
  return %4, %5 : tensor<4x3xi32>, tensor<4x3xi32>
}

// -----

// Left alone: what is computed for others too, sums of 64 bits, filters of one channel, and kernels.
// CHECK-LABEL: func.func @main
// CHECK-NOT: -> tensor<4x2xi8>
// CHECK-NOT: tensor<2x3xi8>
// CHECK-NOT: tensor<2x1x3x3xi8>
// CHECK: return
// CHECK-LABEL: func.func private @kernel
// CHECK-NOT: tensor<2x3xi8>
// CHECK: return
func.func @main(%x: tensor<4x2xui8>, %y: tensor<4x2xi8>, %z: tensor<1x2x5x5xui8>) -> (tensor<4x3xi32>, tensor<4x2xi32>, tensor<4x3xi64>, tensor<1x2x3x3xi32>) {
  %zero = "graph.constant"() {value = dense<128> : tensor<i32>} : () -> tensor<i32>
  %u = "graph.constant"() {value = dense<7> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
  %v = "graph.constant"() {value = dense<7> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
  %w = "graph.constant"() {value = dense<7> : tensor<2x1x3x3xi32>} : () -> tensor<2x1x3x3xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x2xui8>) -> tensor<4x2xi32>
  %1 = "graph.sub"(%0, %zero) : (tensor<4x2xi32>, tensor<i32>) -> tensor<4x2xi32>
  %2 = "graph.matmul"(%1, %u) : (tensor<4x2xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
  %3 = "graph.cast"(%y) {to = i64, saturate = true} : (tensor<4x2xi8>) -> tensor<4x2xi64>
  %4 = "graph.matmul"(%3, %v) : (tensor<4x2xi64>, tensor<2x3xi64>) -> tensor<4x3xi64>
  %5 = "graph.cast"(%z) {to = i32, saturate = true} : (tensor<1x2x5x5xui8>) -> tensor<1x2x5x5xi32>
  %6 = "graph.conv"(%5, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x5x5xi32>, tensor<2x1x3x3xi32>) -> tensor<1x2x3x3xi32>
  return %2, %1, %4, %6 : tensor<4x3xi32>, tensor<4x2xi32>, tensor<4x3xi64>, tensor<1x2x3x3xi32>
}
func.func private @kernel(%x: tensor<4x2xi8>, %out: tensor<4x3xi32>) -> tensor<4x3xi32> attributes {stepwell.kernel} {
  %w = "graph.constant"() {value = dense<7> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x2xi8>) -> tensor<4x2xi32>
  %1 = "graph.matmul"(%0, %w) : (tensor<4x2xi32>, tensor<2x3xi32>) -> tensor<4x3xi32>
  return %1 : tensor<4x3xi32>
}
