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

// -----

// A mask and a scale on the left of their ops: the same.
// CHECK-LABEL: func.func @other_way_round
// CHECK-NEXT: %[[Y:.*]] = "graph.attention"(%arg0, %arg1, %arg2, %arg3) {{.*}}scale = 2.500000e-01 : f64
// CHECK-NEXT: return %[[Y]]
func.func @other_way_round(%q: tensor<5x4xf64>, %k: tensor<4x7xf64>, %v: tensor<7x6xf64>, %mask: tensor<7xf64>) -> tensor<5x6xf64> {
  %scale = "graph.constant"() {value = dense<0.25> : tensor<1x1xf64>} : () -> tensor<1x1xf64>
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf64>, tensor<4x7xf64>) -> tensor<5x7xf64>
  %1 = "graph.mul"(%scale, %0) : (tensor<1x1xf64>, tensor<5x7xf64>) -> tensor<5x7xf64>
  %2 = "graph.add"(%mask, %1) : (tensor<7xf64>, tensor<5x7xf64>) -> tensor<5x7xf64>
  %3 = "graph.softmax"(%2) {axis = 1 : i64} : (tensor<5x7xf64>) -> tensor<5x7xf64>
  %4 = "graph.matmul"(%3, %v) : (tensor<5x7xf64>, tensor<7x6xf64>) -> tensor<5x6xf64>
  return %4 : tensor<5x6xf64>
}

// -----

// Each op before the softmax has another user once: it would be computed twice.
// CHECK-LABEL: func.func @products_are_a_result
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @scaled_scores_are_a_result
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @masked_scores_are_a_result
// CHECK-NOT: graph.attention
func.func @products_are_a_result(%q: tensor<5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>, %mask: tensor<5x7xf32>) -> (tensor<5x7xf32>, tensor<5x6xf32>) {
  %scale = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.mul"(%0, %scale) : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %2 = "graph.add"(%1, %mask) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = "graph.softmax"(%2) {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %4 = "graph.matmul"(%3, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %0, %4 : tensor<5x7xf32>, tensor<5x6xf32>
}
func.func @scaled_scores_are_a_result(%q: tensor<5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>, %mask: tensor<5x7xf32>) -> (tensor<5x7xf32>, tensor<5x6xf32>) {
  %scale = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.mul"(%0, %scale) : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %2 = "graph.add"(%1, %mask) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = "graph.softmax"(%2) {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %4 = "graph.matmul"(%3, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %1, %4 : tensor<5x7xf32>, tensor<5x6xf32>
}
func.func @masked_scores_are_a_result(%q: tensor<5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>, %mask: tensor<5x7xf32>) -> (tensor<5x7xf32>, tensor<5x6xf32>) {
  %scale = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.mul"(%0, %scale) : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %2 = "graph.add"(%1, %mask) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = "graph.softmax"(%2) {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %4 = "graph.matmul"(%3, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %2, %4 : tensor<5x7xf32>, tensor<5x6xf32>
}

// -----

// A mask or a factor with more dimensions than the scores makes several of them; f16 is rounded after each op; sizes must be known.
// CHECK-LABEL: func.func @several_masks
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @several_factors
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @rounded
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @unknown_sizes
// CHECK-NOT: graph.attention
func.func @several_masks(%q: tensor<5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>, %masks: tensor<2x5x7xf32>) -> tensor<2x5x6xf32> {
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.add"(%0, %masks) : (tensor<5x7xf32>, tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %2 = "graph.softmax"(%1) {axis = 2 : i64} : (tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %3 = "graph.matmul"(%2, %v) : (tensor<2x5x7xf32>, tensor<7x6xf32>) -> tensor<2x5x6xf32>
  return %3 : tensor<2x5x6xf32>
}
func.func @several_factors(%q: tensor<5x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>) -> tensor<2x5x6xf32> {
  %factors = "graph.constant"() {value = dense<0.5> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf32>, tensor<4x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.mul"(%0, %factors) : (tensor<5x7xf32>, tensor<2x1x1xf32>) -> tensor<2x5x7xf32>
  %2 = "graph.softmax"(%1) {axis = 2 : i64} : (tensor<2x5x7xf32>) -> tensor<2x5x7xf32>
  %3 = "graph.matmul"(%2, %v) : (tensor<2x5x7xf32>, tensor<7x6xf32>) -> tensor<2x5x6xf32>
  return %3 : tensor<2x5x6xf32>
}
func.func @rounded(%q: tensor<5x4xf16>, %k: tensor<4x7xf16>, %v: tensor<7x6xf16>) -> tensor<5x6xf16> {
  %0 = "graph.matmul"(%q, %k) : (tensor<5x4xf16>, tensor<4x7xf16>) -> tensor<5x7xf16>
  %1 = "graph.softmax"(%0) {axis = 1 : i64} : (tensor<5x7xf16>) -> tensor<5x7xf16>
  %2 = "graph.matmul"(%1, %v) : (tensor<5x7xf16>, tensor<7x6xf16>) -> tensor<5x6xf16>
  return %2 : tensor<5x6xf16>
}
func.func @unknown_sizes(%q: tensor<?x4xf32>, %k: tensor<4x7xf32>, %v: tensor<7x6xf32>) -> tensor<?x6xf32> {
  %0 = "graph.matmul"(%q, %k) : (tensor<?x4xf32>, tensor<4x7xf32>) -> tensor<?x7xf32>
  %1 = "graph.softmax"(%0) {axis = 1 : i64} : (tensor<?x7xf32>) -> tensor<?x7xf32>
  %2 = "graph.matmul"(%1, %v) : (tensor<?x7xf32>, tensor<7x6xf32>) -> tensor<?x6xf32>
  return %2 : tensor<?x6xf32>
}

// Two heads of queries for each head of keys and values are rows of one product with it; the mask is for each of them.
// CHECK-LABEL: func.func @grouped
// CHECK: %[[Q:.*]] = "graph.reshape"(%arg0) {shape = array<i64: 1, 3, 10, 4>}
// CHECK: %[[K:.*]] = "graph.transpose"(%arg1) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x3x7x4xf32>) -> tensor<1x3x4x7xf32>
// CHECK: %[[A:.*]] = "graph.attention"(%[[Q]], %[[K]], %arg2, %{{.*}}) {{.*}}tensor<1x1x10x7xf32>) -> tensor<1x3x10x8xf32>
// CHECK: "graph.reshape"(%[[A]]) {shape = array<i64: 1, 6, 5, 8>}
func.func @grouped(%q: tensor<1x6x5x4xf32>, %k: tensor<1x3x7x4xf32>, %v: tensor<1x3x7x8xf32>, %mask: tensor<5x7xf32>) -> tensor<1x6x5x8xf32> {
  %0 = "graph.reshape"(%k) {shape = array<i64: 1, 3, 1, 7, 4>} : (tensor<1x3x7x4xf32>) -> tensor<1x3x1x7x4xf32>
  %1 = "graph.expand"(%0) {shape = array<i64: 1, 3, 2, 7, 4>} : (tensor<1x3x1x7x4xf32>) -> tensor<1x3x2x7x4xf32>
  %2 = "graph.reshape"(%1) {shape = array<i64: 1, 6, 7, 4>} : (tensor<1x3x2x7x4xf32>) -> tensor<1x6x7x4xf32>
  %3 = "graph.reshape"(%v) {shape = array<i64: 1, 3, 1, 7, 8>} : (tensor<1x3x7x8xf32>) -> tensor<1x3x1x7x8xf32>
  %4 = "graph.expand"(%3) {shape = array<i64: 1, 3, 2, 7, 8>} : (tensor<1x3x1x7x8xf32>) -> tensor<1x3x2x7x8xf32>
  %5 = "graph.reshape"(%4) {shape = array<i64: 1, 6, 7, 8>} : (tensor<1x3x2x7x8xf32>) -> tensor<1x6x7x8xf32>
  %6 = "graph.transpose"(%2) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x6x7x4xf32>) -> tensor<1x6x4x7xf32>
  %7 = "graph.matmul"(%q, %6) : (tensor<1x6x5x4xf32>, tensor<1x6x4x7xf32>) -> tensor<1x6x5x7xf32>
  %8 = "graph.add"(%7, %mask) : (tensor<1x6x5x7xf32>, tensor<5x7xf32>) -> tensor<1x6x5x7xf32>
  %9 = "graph.softmax"(%8) {axis = 3 : i64} : (tensor<1x6x5x7xf32>) -> tensor<1x6x5x7xf32>
  %10 = "graph.matmul"(%9, %5) : (tensor<1x6x5x7xf32>, tensor<1x6x7x8xf32>) -> tensor<1x6x5x8xf32>
  return %10 : tensor<1x6x5x8xf32>
}

// Heads that are repeated one after the other as a whole are not those of neighbouring queries.
// CHECK-LABEL: func.func @other_order
// CHECK: "graph.attention"(%arg0, {{.*}}tensor<1x6x5x4xf32>, tensor<1x6x4x7xf32>, tensor<1x6x7x8xf32>)
func.func @other_order(%q: tensor<1x6x5x4xf32>, %k: tensor<1x3x7x4xf32>, %v: tensor<1x3x7x8xf32>) -> tensor<1x6x5x8xf32> {
  %0 = "graph.reshape"(%k) {shape = array<i64: 1, 1, 3, 7, 4>} : (tensor<1x3x7x4xf32>) -> tensor<1x1x3x7x4xf32>
  %1 = "graph.expand"(%0) {shape = array<i64: 1, 2, 3, 7, 4>} : (tensor<1x1x3x7x4xf32>) -> tensor<1x2x3x7x4xf32>
  %2 = "graph.reshape"(%1) {shape = array<i64: 1, 6, 7, 4>} : (tensor<1x2x3x7x4xf32>) -> tensor<1x6x7x4xf32>
  %3 = "graph.reshape"(%v) {shape = array<i64: 1, 1, 3, 7, 8>} : (tensor<1x3x7x8xf32>) -> tensor<1x1x3x7x8xf32>
  %4 = "graph.expand"(%3) {shape = array<i64: 1, 2, 3, 7, 8>} : (tensor<1x1x3x7x8xf32>) -> tensor<1x2x3x7x8xf32>
  %5 = "graph.reshape"(%4) {shape = array<i64: 1, 6, 7, 8>} : (tensor<1x2x3x7x8xf32>) -> tensor<1x6x7x8xf32>
  %6 = "graph.transpose"(%2) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x6x7x4xf32>) -> tensor<1x6x4x7xf32>
  %7 = "graph.matmul"(%q, %6) : (tensor<1x6x5x4xf32>, tensor<1x6x4x7xf32>) -> tensor<1x6x5x7xf32>
  %8 = "graph.softmax"(%7) {axis = 3 : i64} : (tensor<1x6x5x7xf32>) -> tensor<1x6x5x7xf32>
  %9 = "graph.matmul"(%8, %5) : (tensor<1x6x5x7xf32>, tensor<1x6x7x8xf32>) -> tensor<1x6x5x8xf32>
  return %9 : tensor<1x6x5x8xf32>
}

// A division by a constant is a product with its reciprocal; one by a number that has none, or by something that is not known, stays.
// CHECK-LABEL: func.func @divided
// CHECK: "graph.attention"(%arg0, %arg1, %arg2, %arg3) {{.*}}scale = 0.17677669{{[0-9]*}} : f64
// CHECK-LABEL: func.func @divided_by_none
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @divided_by_data
// CHECK-NOT: graph.attention
func.func @divided(%q: tensor<5x32xf32>, %k: tensor<32x7xf32>, %v: tensor<7x6xf32>, %mask: tensor<5x7xf32>) -> tensor<5x6xf32> {
  %root = "graph.constant"() {value = dense<5.65685415> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.matmul"(%q, %k) : (tensor<5x32xf32>, tensor<32x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.div"(%0, %root) : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %2 = "graph.add"(%1, %mask) : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = "graph.softmax"(%2) {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %4 = "graph.matmul"(%3, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %4 : tensor<5x6xf32>
}
func.func @divided_by_none(%q: tensor<5x32xf32>, %k: tensor<32x7xf32>, %v: tensor<7x6xf32>) -> tensor<5x6xf32> {
  %zero = "graph.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.matmul"(%q, %k) : (tensor<5x32xf32>, tensor<32x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.div"(%0, %zero) : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %2 = "graph.softmax"(%1) {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = "graph.matmul"(%2, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %3 : tensor<5x6xf32>
}
func.func @divided_by_data(%q: tensor<5x32xf32>, %k: tensor<32x7xf32>, %v: tensor<7x6xf32>, %by: tensor<f32>) -> tensor<5x6xf32> {
  %0 = "graph.matmul"(%q, %k) : (tensor<5x32xf32>, tensor<32x7xf32>) -> tensor<5x7xf32>
  %1 = "graph.div"(%0, %by) : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x7xf32>
  %2 = "graph.softmax"(%1) {axis = 1 : i64} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = "graph.matmul"(%2, %v) : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %3 : tensor<5x6xf32>
}

// Groups of heads as a dimension of their own, along which keys and values are broadcast: the same as above. The mask has a row for each query.
// CHECK-LABEL: func.func @broadcast
// CHECK: %[[Q:.*]] = "graph.reshape"(%arg0) {shape = array<i64: 1, 3, 10, 4>}
// CHECK: %[[K:.*]] = "graph.transpose"(%arg1) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x3x7x4xf32>) -> tensor<1x3x4x7xf32>
// CHECK: %[[A:.*]] = "graph.attention"(%[[Q]], %[[K]], %arg2, %{{.*}}) {{.*}}tensor<1x1x10x7xf32>) -> tensor<1x3x10x8xf32>
// CHECK: "graph.reshape"(%[[A]]) {shape = array<i64: 1, 3, 2, 5, 8>}
// CHECK-LABEL: func.func @broadcast_with_masks
// CHECK: "graph.attention"({{.*}}tensor<1x3x10x7xf32>) -> tensor<1x3x10x8xf32>
// CHECK-LABEL: func.func @broadcast_with_a_mask_for_some
// CHECK: "graph.attention"({{.*}}tensor<1x3x1x5x7xf32>) -> tensor<1x3x2x5x8xf32>
// CHECK-LABEL: func.func @broadcast_queries
// CHECK: "graph.attention"(%arg0, {{.*}}) -> tensor<1x2x4x5x8xf32>
// CHECK-LABEL: func.func @broadcast_batch
// CHECK: "graph.attention"(%arg0, {{.*}}) -> tensor<3x2x4x5x8xf32>
func.func @broadcast(%q: tensor<1x3x2x5x4xf32>, %k: tensor<1x3x7x4xf32>, %v: tensor<1x3x7x8xf32>, %mask: tensor<1x1x1x5x7xf32>) -> tensor<1x3x2x5x8xf32> {
  %0 = "graph.reshape"(%k) {shape = array<i64: 1, 3, 1, 7, 4>} : (tensor<1x3x7x4xf32>) -> tensor<1x3x1x7x4xf32>
  %1 = "graph.reshape"(%v) {shape = array<i64: 1, 3, 1, 7, 8>} : (tensor<1x3x7x8xf32>) -> tensor<1x3x1x7x8xf32>
  %2 = "graph.transpose"(%0) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x3x1x7x4xf32>) -> tensor<1x3x1x4x7xf32>
  %3 = "graph.attention"(%q, %2, %1, %mask) {scale = 0.5 : f64} : (tensor<1x3x2x5x4xf32>, tensor<1x3x1x4x7xf32>, tensor<1x3x1x7x8xf32>, tensor<1x1x1x5x7xf32>) -> tensor<1x3x2x5x8xf32>
  return %3 : tensor<1x3x2x5x8xf32>
}
func.func @broadcast_with_masks(%q: tensor<1x3x2x5x4xf32>, %k: tensor<1x3x1x7x4xf32>, %v: tensor<1x3x1x7x8xf32>, %mask: tensor<3x2x5x7xf32>) -> tensor<1x3x2x5x8xf32> {
  %0 = "graph.transpose"(%k) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x3x1x7x4xf32>) -> tensor<1x3x1x4x7xf32>
  %1 = "graph.attention"(%q, %0, %v, %mask) {scale = 0.5 : f64} : (tensor<1x3x2x5x4xf32>, tensor<1x3x1x4x7xf32>, tensor<1x3x1x7x8xf32>, tensor<3x2x5x7xf32>) -> tensor<1x3x2x5x8xf32>
  return %1 : tensor<1x3x2x5x8xf32>
}
func.func @broadcast_with_a_mask_for_some(%q: tensor<1x3x2x5x4xf32>, %k: tensor<1x3x1x7x4xf32>, %v: tensor<1x3x1x7x8xf32>, %mask: tensor<1x3x1x5x7xf32>) -> tensor<1x3x2x5x8xf32> {
  %0 = "graph.transpose"(%k) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x3x1x7x4xf32>) -> tensor<1x3x1x4x7xf32>
  %1 = "graph.attention"(%q, %0, %v, %mask) {scale = 0.5 : f64} : (tensor<1x3x2x5x4xf32>, tensor<1x3x1x4x7xf32>, tensor<1x3x1x7x8xf32>, tensor<1x3x1x5x7xf32>) -> tensor<1x3x2x5x8xf32>
  return %1 : tensor<1x3x2x5x8xf32>
}
func.func @broadcast_queries(%q: tensor<1x1x4x5x4xf32>, %k: tensor<1x2x1x7x4xf32>, %v: tensor<1x2x1x7x8xf32>) -> tensor<1x2x4x5x8xf32> {
  %0 = "graph.transpose"(%k) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x2x1x7x4xf32>) -> tensor<1x2x1x4x7xf32>
  %1 = "graph.attention"(%q, %0, %v) {scale = 0.5 : f64} : (tensor<1x1x4x5x4xf32>, tensor<1x2x1x4x7xf32>, tensor<1x2x1x7x8xf32>) -> tensor<1x2x4x5x8xf32>
  return %1 : tensor<1x2x4x5x8xf32>
}
func.func @broadcast_batch(%q: tensor<1x2x4x5x4xf32>, %k: tensor<3x2x1x7x4xf32>, %v: tensor<1x2x1x7x8xf32>) -> tensor<3x2x4x5x8xf32> {
  %0 = "graph.transpose"(%k) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<3x2x1x7x4xf32>) -> tensor<3x2x1x4x7xf32>
  %1 = "graph.attention"(%q, %0, %v) {scale = 0.5 : f64} : (tensor<1x2x4x5x4xf32>, tensor<3x2x1x4x7xf32>, tensor<1x2x1x7x8xf32>) -> tensor<3x2x4x5x8xf32>
  return %1 : tensor<3x2x4x5x8xf32>
}
