// RUN: stepwell-opt %s --pass-pipeline='pack-integer-products,canonicalize' --target x86-64-v3 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='pack-matmul,canonicalize' --target x86-64-v3 --split-input-file | FileCheck %s --check-prefix=FLOATS

// Pairs of neighbours of a column lie side by side, as the instruction reads them. What follows stays in panels.
// CHECK-LABEL: func.func @main
// CHECK: "graph.parameter"() {{.*}} -> tensor<2x10x16x2xi8>
// CHECK: %[[W:[0-9]+]] = "graph.cast"(%{{[0-9]+}}) {{.*}} (tensor<2x10x16x2xi8>) -> tensor<2x10x16x2xi32>
// CHECK: %[[M:[0-9]+]] = "packed.matmul"(%{{[0-9]+}}, %[[W]]) : (tensor<3x20xi32>, tensor<2x10x16x2xi32>) -> tensor<3x2x16xi32>
// CHECK: "graph.sub"(%[[M]], %{{[0-9]+}}) : (tensor<3x2x16xi32>, tensor<2x16xi32>) -> tensor<3x2x16xi32>
// FLOATS: "graph.matmul"
func.func @main(%x: tensor<3x20xui8>) -> tensor<3x30xi32> {
  %w = "graph.constant"() {value = dense<7> : tensor<20x30xi8>} : () -> tensor<20x30xi8>
  %b = "graph.constant"() {value = dense<9> : tensor<30xi32>} : () -> tensor<30xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<3x20xui8>) -> tensor<3x20xi32>
  %1 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<20x30xi8>) -> tensor<20x30xi32>
  %2 = "graph.matmul"(%0, %1) : (tensor<3x20xi32>, tensor<20x30xi32>) -> tensor<3x30xi32>
  %3 = "graph.sub"(%2, %b) : (tensor<3x30xi32>, tensor<30xi32>) -> tensor<3x30xi32>
  return %3 : tensor<3x30xi32>
}

// -----

// 21 rows are no pairs.
// CHECK-LABEL: func.func @main
// CHECK: "graph.matmul"
func.func @main(%x: tensor<3x21xui8>) -> tensor<3x30xi32> {
  %w = "graph.constant"() {value = dense<7> : tensor<21x30xi8>} : () -> tensor<21x30xi8>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<3x21xui8>) -> tensor<3x21xi32>
  %1 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<21x30xi8>) -> tensor<21x30xi32>
  %2 = "graph.matmul"(%0, %1) : (tensor<3x21xi32>, tensor<21x30xi32>) -> tensor<3x30xi32>
  return %2 : tensor<3x30xi32>
}
