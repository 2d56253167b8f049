// RUN: stepwell-opt %s --pass-pipeline='fuse-attention' --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @scaled_and_masked
// CHECK-NEXT: %[[Y:.*]] = "graph.attention"(%arg0, %arg1, %arg2, %arg3) {{.*}}scale = 1.250000e-01 : f64
// CHECK-NEXT: return %[[Y]]
func.func @scaled_and_masked(%q: tensor<1x12x9x64xf32>, %k: tensor<1x12x64x17xf32>, %v: tensor<1x12x17x8xf32>, %mask: tensor<1x1x1x17xf32>) -> tensor<1x12x9x8xf32> {
  %scale = "graph.constant"() {value = dense<0.125> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.matmul"(%q, %k) : (tensor<1x12x9x64xf32>, tensor<1x12x64x17xf32>) -> tensor<1x12x9x17xf32>
  %1 = "graph.mul"(%0, %scale) : (tensor<1x12x9x17xf32>, tensor<f32>) -> tensor<1x12x9x17xf32>
  %2 = "graph.add"(%1, %mask) : (tensor<1x12x9x17xf32>, tensor<1x1x1x17xf32>) -> tensor<1x12x9x17xf32>
  %3 = "graph.softmax"(%2) {axis = 3 : i64} : (tensor<1x12x9x17xf32>) -> tensor<1x12x9x17xf32>
  %4 = "graph.matmul"(%3, %v) : (tensor<1x12x9x17xf32>, tensor<1x12x17x8xf32>) -> tensor<1x12x9x8xf32>
  return %4 : tensor<1x12x9x8xf32>
}

// -----

// CHECK-LABEL: func.func @plain
// CHECK: "graph.attention"(%arg0, %arg1, %arg2) {{.*}}scale = 1.000000e+00 : f64
func.func @plain(%q: tensor<3x5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<3x7x6xf32>) -> tensor<3x5x6xf32> {
  %0 = "graph.matmul"(%q, %k) : (tensor<3x5x4xf32>, tensor<4x7xf32>) -> tensor<3x5x7xf32>
  %1 = "graph.softmax"(%0) {axis = 2 : i64} : (tensor<3x5x7xf32>) -> tensor<3x5x7xf32>
  %2 = "graph.matmul"(%1, %v) : (tensor<3x5x7xf32>, tensor<3x7x6xf32>) -> tensor<3x5x6xf32>
  return %2 : tensor<3x5x6xf32>
}

// -----

// The weights are a result too, or a softmax goes along columns: left as they are.
// CHECK-LABEL: func.func @weights_are_a_result
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @along_columns
// CHECK-NOT: graph.attention
func.func @weights_are_a_result(%q: tensor<5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>) -> (tensor<5x7xf32>, tensor<5x6xf32>) {
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.softmax"(%0) {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %2 = "graph.matmul"(%1, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %1, %2 : tensor<5x7xf32>, tensor<5x6xf32>
}
func.func @along_columns(%q: tensor<5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>) -> tensor<5x6xf32> {
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.softmax"(%0) {axis = 0 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %2 = "graph.matmul"(%1, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %2 : tensor<5x6xf32>
}
