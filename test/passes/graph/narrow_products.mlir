// RUN: stepwell-opt %s --pass-pipeline='narrow-products,fuse-operators,outline-kernels' --target x86-64-v3 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='narrow-products,fuse-operators,outline-kernels' --target x86-64-v2 --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: stepwell-opt %s --pass-pipeline='graph-opt,linalg' --target x86-64-v3 --split-input-file | FileCheck %s --check-prefix=LINALG

// One side is widened, the other is known and fits: the product reads both as they are stored. Without an intrinsic nothing changes.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor<6x3xi32>
// CHECK: call @matmul_{{.*}} : (tensor<4x6xi8>, tensor<6x3xi8>, tensor<4x3xi32>) -> tensor<4x3xi32>
// CHECK: func.func private @matmul
// CHECK-DAG: %[[X:[0-9]+]] = "graph.cast"(%arg0) {{.*}} : (tensor<4x6xi8>) -> tensor<4x6xi32>
// CHECK-DAG: %[[W:[0-9]+]] = "graph.cast"(%arg1) {{.*}} : (tensor<6x3xi8>) -> tensor<6x3xi32>
// CHECK: "graph.matmul"(%[[X]], %[[W]])
// NONE-LABEL: func.func @main
// NONE: call @matmul_{{.*}} : (tensor<4x6xi32>, tensor<4x3xi32>) -> tensor<4x3xi32>
// LINALG-LABEL: func.func private @matmul
// LINALG: linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<4x6xi8>, tensor<6x3xi8>)
// LINALG: arith.extsi {{.*}} : i8 to i32
// LINALG: arith.extsi {{.*}} : i8 to i32
// LINALG-NEXT: arith.muli
// LINALG-NEXT: arith.addi
// LINALG-NEXT: linalg.yield
// LINALG-NOT: linalg.generic
// LINALG: return
func.func @main(%x: tensor<4x6xi8>) -> tensor<4x3xi32> {
  %w = "graph.constant"() {value = dense<[[1, -128, 3], [4, 5, 6], [7, 8, 127], [1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<6x3xi32>} : () -> tensor<6x3xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x6xi8>) -> tensor<4x6xi32>
  %1 = "graph.matmul"(%0, %w) : (tensor<4x6xi32>, tensor<6x3xi32>) -> tensor<4x3xi32>
  return %1 : tensor<4x3xi32>
}

// -----

// A zero point: the range of the difference is known. It is cast where it is computed, before padding.
// CHECK-LABEL: func.func @main
// CHECK: call @[[IMAGE:.*]](%arg0, {{.*}}) : (tensor<1x2x4x4xui8>, tensor<1x2x6x6xi8>) -> tensor<1x2x6x6xi8>
// CHECK: call @conv_{{.*}} : (tensor<3x2x3x3xi8>, tensor<1x2x6x6xi8>, tensor<1x3x4x4xi32>) -> tensor<1x3x4x4xi32>
// CHECK: func.func private @[[IMAGE]](
// CHECK: "graph.sub"
// CHECK: "graph.cast"({{.*}} to = i8} : (tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8>
// CHECK: "graph.pad"
func.func @main(%x: tensor<1x2x4x4xui8>, %w: tensor<3x2x3x3xi8>) -> tensor<1x3x4x4xi32> {
  %zero = "graph.constant"() {value = dense<128> : tensor<i32>} : () -> tensor<i32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<1x2x4x4xui8>) -> tensor<1x2x4x4xi32>
  %1 = "graph.sub"(%0, %zero) : (tensor<1x2x4x4xi32>, tensor<i32>) -> tensor<1x2x4x4xi32>
  %2 = "graph.pad"(%1) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0.0} : (tensor<1x2x4x4xi32>) -> tensor<1x2x6x6xi32>
  %3 = "graph.cast"(%w) {to = i32, saturate = true} : (tensor<3x2x3x3xi8>) -> tensor<3x2x3x3xi32>
  %4 = "graph.conv"(%2, %3) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x6x6xi32>, tensor<3x2x3x3xi32>) -> tensor<1x3x4x4xi32>
  return %4 : tensor<1x3x4x4xi32>
}

// -----

// What is widened has another user, which keeps its own; a product keeps what is not known to fit.
// CHECK-LABEL: func.func @main
// CHECK-DAG: call @cast_{{.*}} : (tensor<4x4xi16>, tensor<4x4xi32>) -> tensor<4x4xi32>
// CHECK-DAG: call @matmul_{{.*}} : (tensor<4x4xi8>, tensor<4x4xi16>, tensor<4x4xi32>) -> tensor<4x4xi32>
// CHECK-DAG: call @matmul_{{.*}} : (tensor<4x4xi32>, tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
func.func @main(%x: tensor<4x4xi16>, %y: tensor<4x4xi8>, %z: tensor<4x4xi32>) -> (tensor<4x4xi32>, tensor<4x4xi32>) {
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x4xi16>) -> tensor<4x4xi32>
  %1 = "graph.cast"(%y) {to = i32, saturate = true} : (tensor<4x4xi8>) -> tensor<4x4xi32>
  %2 = "graph.matmul"(%0, %1) : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
  %3 = "graph.matmul"(%0, %z) : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
  return %2, %3 : tensor<4x4xi32>, tensor<4x4xi32>
}

// -----

// Numbers of 17 bits fit none of the types that intrinsics take, an unsigned one of 16 bits no operand with a sign.
// CHECK-LABEL: func.func @main
// CHECK: call @matmul_{{.*}} : (tensor<2x2xi32>, tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
// CHECK: call @matmul_{{.*}} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
func.func @main(%x: tensor<2x2xui16>, %y: tensor<2x2xi8>) -> (tensor<2x2xi32>, tensor<2x2xi32>) {
  %w = "graph.constant"() {value = dense<[[1, 65536], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<2x2xui16>) -> tensor<2x2xi32>
  %1 = "graph.cast"(%y) {to = i32, saturate = true} : (tensor<2x2xi8>) -> tensor<2x2xi32>
  %2 = "graph.matmul"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  %3 = "graph.matmul"(%1, %w) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  return %2, %3 : tensor<2x2xi32>, tensor<2x2xi32>
}
