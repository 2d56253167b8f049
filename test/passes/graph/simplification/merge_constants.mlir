// RUN: stepwell-opt %s --simplify-algebra --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @sums_and_products
// CHECK-DAG: %[[S:.*]] = "graph.constant"() {value = dense<[3.000000e+00, 5.000000e+00]>
// CHECK-DAG: %[[P:.*]] = "graph.constant"() {value = dense<[6.000000e+00, 1.200000e+01]>
// CHECK-DAG: %[[A:.*]] = "graph.add"(%arg0, %[[S]])
// CHECK-DAG: %[[M:.*]] = "graph.mul"(%arg0, %[[P]])
// CHECK: return %[[A]], %[[M]]
func.func @sums_and_products(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = "graph.constant"() {value = dense<[2.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %b = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %c = "graph.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.add"(%a, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "graph.add"(%0, %b) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = "graph.mul"(%x, %c) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = "graph.mul"(%2, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1, %3 : tensor<2xf32>, tensor<2xf32>
}

// -----

// Two normalisations in a row: (x * 2 + 3) * 5 + 7 = x * 10 + 22.
// CHECK-LABEL: func.func @affine
// CHECK-DAG: %[[K:.*]] = "graph.constant"() {value = dense<1.000000e+01>
// CHECK-DAG: %[[S:.*]] = "graph.constant"() {value = dense<2.200000e+01>
// CHECK-DAG: %[[M:.*]] = "graph.mul"(%arg0, %[[K]])
// CHECK-DAG: %[[A:.*]] = "graph.add"(%[[M]], %[[S]])
// CHECK: return %[[A]]
func.func @affine(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c2 = "graph.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %c3 = "graph.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %c5 = "graph.constant"() {value = dense<5.0> : tensor<f32>} : () -> tensor<f32>
  %c7 = "graph.constant"() {value = dense<7.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.mul"(%x, %c2) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = "graph.add"(%0, %c3) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = "graph.mul"(%1, %c5) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = "graph.add"(%2, %c7) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

// Not where the first result is used elsewhere, and not where the merged constant would overflow, vanish or grow.
// CHECK-LABEL: func.func @declined
// CHECK-COUNT-8: "graph.{{mul|add}}"
func.func @declined(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %a = "graph.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %large = "graph.constant"() {value = dense<1.0e30> : tensor<f32>} : () -> tensor<f32>
  %small = "graph.constant"() {value = dense<1.0e-30> : tensor<f32>} : () -> tensor<f32>
  %row = "graph.constant"() {value = dense<[2.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %column = "graph.constant"() {value = dense<[[2.0], [3.0], [4.0]]> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %0 = "graph.add"(%x, %a) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %1 = "graph.add"(%0, %a) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %2 = "graph.mul"(%x, %large) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %3 = "graph.mul"(%2, %large) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %4 = "graph.mul"(%x, %small) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %5 = "graph.mul"(%4, %small) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %6 = "graph.mul"(%x, %row) : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %7 = "graph.mul"(%6, %column) : (tensor<3x2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  return %0, %1, %3, %5, %7 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}
