// RUN: stepwell-opt %s --pass-pipeline='fuse-operators' --split-input-file | FileCheck %s

// Four rows read each element of the matrix four times: they read it where it lies, so the transposition is in the product's kernel.
// CHECK-LABEL: func.func @main
// CHECK: "graph.fused"
// CHECK: "graph.transpose"
// CHECK-NEXT: "graph.matmul"
func.func @main(%x: tensor<2x4x16xf32>, %y: tensor<2x33x16xf32>) -> tensor<2x4x33xf32> {
  %0 = "graph.transpose"(%y) {perm = array<i64: 0, 2, 1>} : (tensor<2x33x16xf32>) -> tensor<2x16x33xf32>
  %1 = "graph.matmul"(%x, %0) : (tensor<2x4x16xf32>, tensor<2x16x33xf32>) -> tensor<2x4x33xf32>
  return %1 : tensor<2x4x33xf32>
}

// -----

// Five rows pay for a copy.
// CHECK-LABEL: func.func @main
// CHECK: "graph.fused"
// CHECK: "graph.transpose"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.matmul"
func.func @main(%x: tensor<2x5x16xf32>, %y: tensor<2x33x16xf32>) -> tensor<2x5x33xf32> {
  %0 = "graph.transpose"(%y) {perm = array<i64: 0, 2, 1>} : (tensor<2x33x16xf32>) -> tensor<2x16x33xf32>
  %1 = "graph.matmul"(%x, %0) : (tensor<2x5x16xf32>, tensor<2x16x33xf32>) -> tensor<2x5x33xf32>
  return %1 : tensor<2x5x33xf32>
}

// -----

// One query of two heads that share keys: attention reads these where they lie, too.
// CHECK-LABEL: func.func @main
// CHECK: "graph.fused"
// CHECK: "graph.transpose"
// CHECK-NEXT: "graph.attention"
func.func @main(%q: tensor<2x1x16xf32>, %k: tensor<1x9x16xf32>, %v: tensor<1x9x16xf32>) -> tensor<2x1x16xf32> {
  %0 = "graph.transpose"(%k) {perm = array<i64: 0, 2, 1>} : (tensor<1x9x16xf32>) -> tensor<1x16x9xf32>
  %1 = "graph.attention"(%q, %0, %v) {scale = 0.25 : f64} : (tensor<2x1x16xf32>, tensor<1x16x9xf32>, tensor<1x9x16xf32>) -> tensor<2x1x16xf32>
  return %1 : tensor<2x1x16xf32>
}

// -----

// Memory that is kept from call to call is read where it lies, its first part too, however many rows read it.
// CHECK-LABEL: func.func @main
// CHECK: "graph.fused"
// CHECK: "graph.overwrite"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.first"
// CHECK-NEXT: "graph.first"
// CHECK-NEXT: "graph.transpose"
// CHECK-NEXT: "graph.attention"
// CHECK-NEXT: "graph.yield"
// CHECK-NOT: "graph.fused"
func.func @main(%q: tensor<2x9x16xf32>, %kept: tensor<2x?x16xf32, "c">, %new: tensor<2x9x16xf32>) -> (tensor<2x9x16xf32>, tensor<2x?x16xf32, "c">) {
  %0 = "graph.overwrite"(%kept, %new) {starts = array<i64: 0, 24, 0>} : (tensor<2x?x16xf32, "c">, tensor<2x9x16xf32>) -> tensor<2x?x16xf32, "c">
  %1 = "graph.first"(%0) {sizes = array<i64: -1, 33, -1>} : (tensor<2x?x16xf32, "c">) -> tensor<2x33x16xf32>
  %2 = "graph.first"(%0) {sizes = array<i64: -1, 33, -1>} : (tensor<2x?x16xf32, "c">) -> tensor<2x33x16xf32>
  %3 = "graph.transpose"(%1) {perm = array<i64: 0, 2, 1>} : (tensor<2x33x16xf32>) -> tensor<2x16x33xf32>
  %4 = "graph.attention"(%q, %3, %2) {scale = 1.0 : f64} : (tensor<2x9x16xf32>, tensor<2x16x33xf32>, tensor<2x33x16xf32>) -> tensor<2x9x16xf32>
  return %4, %0 : tensor<2x9x16xf32>, tensor<2x?x16xf32, "c">
}
