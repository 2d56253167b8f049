// RUN: stepwell-opt %s --pass-pipeline='emulate-floats' --split-input-file | FileCheck %s

// Each op rounds its result, also where another op widens it again; what only moves elements stays in 8 bits.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:[0-9]+]] = "graph.transpose"(%arg0) {{.*}} -> tensor<3x2xf8E4M3FN>
// CHECK: %[[A:[0-9]+]] = "graph.cast"(%[[T]]) {saturate = false, to = f32}
// CHECK: %[[B:[0-9]+]] = "graph.cast"(%arg1) {saturate = false, to = f32}
// CHECK: %[[S:[0-9]+]] = "graph.add"(%[[A]], %[[B]]) : (tensor<3x2xf32>, tensor<3x2xf32>)
// CHECK: %[[R:[0-9]+]] = "graph.cast"(%[[S]]) {saturate = false, to = f8E4M3FN}
// CHECK: %[[W:[0-9]+]] = "graph.cast"(%[[R]]) {saturate = false, to = f32}
// CHECK: %[[E:[0-9]+]] = "graph.exp"(%[[W]])
// CHECK: %[[N:[0-9]+]] = "graph.cast"(%[[E]]) {saturate = false, to = f8E4M3FN}
// CHECK: return %[[N]]
func.func @main(%x: tensor<2x3xf8E4M3FN>, %y: tensor<3x2xf8E4M3FN>) -> tensor<3x2xf8E4M3FN> {
  %0 = "graph.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf8E4M3FN>) -> tensor<3x2xf8E4M3FN>
  %1 = "graph.add"(%0, %y) : (tensor<3x2xf8E4M3FN>, tensor<3x2xf8E4M3FN>) -> tensor<3x2xf8E4M3FN>
  %2 = "graph.exp"(%1) : (tensor<3x2xf8E4M3FN>) -> tensor<3x2xf8E4M3FN>
  return %2 : tensor<3x2xf8E4M3FN>
}

// -----

// Zeros are the same byte in every type, so padding by them is a move; padding by another number is not.
// CHECK-LABEL: func.func @main
// CHECK: "graph.pad"(%arg0) {{.*}} -> tensor<4xf8E5M2>
// CHECK: "graph.pad"({{.*}}) {{.*}} -> tensor<4xf32>
func.func @main(%x: tensor<2xf8E5M2>) -> (tensor<4xf8E5M2>, tensor<4xf8E5M2>) {
  %0 = "graph.pad"(%x) {high = array<i64: 1>, low = array<i64: 1>, mode = "constant", value = 0.0 : f64} : (tensor<2xf8E5M2>) -> tensor<4xf8E5M2>
  %1 = "graph.pad"(%x) {high = array<i64: 1>, low = array<i64: 1>, mode = "constant", value = 1.0 : f64} : (tensor<2xf8E5M2>) -> tensor<4xf8E5M2>
  return %0, %1 : tensor<4xf8E5M2>, tensor<4xf8E5M2>
}

// -----

// Casts, bits, and types with arithmetic of their own are left alone.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: "graph.cast"(%arg0) {saturate = true, to = f8E4M3FN} : (tensor<2xf16>)
// CHECK-NEXT: "graph.bit_cast"
// CHECK-NEXT: "graph.add"(%arg0, %arg0) : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xf16>
// CHECK-NEXT: return
func.func @main(%x: tensor<2xf16>) -> (tensor<2xui8>, tensor<2xf16>) {
  %0 = "graph.cast"(%x) {saturate = true, to = f8E4M3FN} : (tensor<2xf16>) -> tensor<2xf8E4M3FN>
  %1 = "graph.bit_cast"(%0) {to = ui8} : (tensor<2xf8E4M3FN>) -> tensor<2xui8>
  %2 = "graph.add"(%x, %x) : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xf16>
  return %1, %2 : tensor<2xui8>, tensor<2xf16>
}
