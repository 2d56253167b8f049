// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='use-winograd,fuse-operators,outline-kernels,version-winograd' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='use-winograd,fuse-operators,outline-kernels,version-winograd{most-bytes=65536}' --split-input-file | FileCheck %s --check-prefix=LARGE
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='use-winograd{tile=2},fuse-operators,outline-kernels,version-winograd' --split-input-file | FileCheck %s --check-prefix=LARGE
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='use-winograd,fuse-operators,outline-kernels,version-winograd,pack-weights,convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize,remove-boundaries,use-destinations),version-kernels' --split-input-file | FileCheck %s --check-prefix=LINALG

// Four images of 7x7 positions pay for the filters of F(4, 3), one does not: it gets those of F(2, 3), of the same image, which is filled up to 8x8.
// Both kernels take all filters. The two convolutions share them, and each launch has filters of its own. `version-kernels` adds no third kernel.
// CHECK-LABEL: func.func @main
// CHECK: %[[U:[0-9]+]] = "graph.parameter"() {id = "constant"} : () -> tensor<6x6x16x16x8x8xf32>
// CHECK: %[[FEW:[0-9]+]] = "graph.parameter"() {id = "constant.folded"} : () -> tensor<4x4x16x16x8x8xf32>
// CHECK: call @[[K:packed_winograd_conv_[0-9a-f]+]](%arg0, %[[U]], %[[FEW]], %{{[0-9]+}})
// CHECK: %[[V:[0-9]+]] = "graph.parameter"() {id = "constant.1"} : () -> tensor<6x6x16x16x8x8xf32>
// CHECK: %[[OTHER:[0-9]+]] = "graph.parameter"() {id = "constant.1.folded"} : () -> tensor<4x4x16x16x8x8xf32>
// CHECK: call @[[K]](%arg1, %[[V]], %[[OTHER]], %{{[0-9]+}})
// CHECK: func.func private @[[K]].few(
// CHECK-SAME: stepwell.kernel_hints = {n = 1 : i64}
// CHECK-SAME: stepwell.version = {most = 1 : i64, of = "[[K]]", size = "n"}
// CHECK: "packed.winograd_conv"(%arg0, %arg2) {group = 1 : i64, tile = 2 : i64, transformed = true}
// CHECK: "graph.relu"
// CHECK: func.func private @[[K]](
// CHECK-NOT: stepwell.version
// CHECK: "packed.winograd_conv"(%arg0, %arg1) {group = 1 : i64, tile = 4 : i64, transformed = true}
// CHECK: "graph.relu"
//
// Filters of F(2, 3) that are large are not stored beside the others, and there is no smaller tile than that.
// LARGE-LABEL: func.func @main
// LARGE-NOT: stepwell.version
//
// LINALG-LABEL: func.func @main
// LINALG: func.func private @{{.*}}.few(
// LINALG: tensor<4x4x?x16x4x4x8xf32>
// LINALG: func.func private @packed_winograd_conv
// LINALG: tensor<6x6x?x16x2x2x8xf32>
// LINALG-NOT: stepwell.version
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func @main(%x: tensor<?x16x10x10x8xf32, "n">, %y: tensor<?x16x10x10x8xf32, "n">) -> (tensor<?x16x8x8x8xf32, "n">, tensor<?x16x8x8x8xf32, "n">) {
    %w = "graph.constant"() {value = dense<0.5> : tensor<16x16x3x3x8x8xf32>} : () -> tensor<16x16x3x3x8x8xf32>
    %v = "graph.constant"() {value = dense<0.25> : tensor<16x16x3x3x8x8xf32>} : () -> tensor<16x16x3x3x8x8xf32>
    %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x16x10x10x8xf32, "n">, tensor<16x16x3x3x8x8xf32>) -> tensor<?x16x8x8x8xf32, "n">
    %1 = "graph.relu"(%0) : (tensor<?x16x8x8x8xf32, "n">) -> tensor<?x16x8x8x8xf32, "n">
    %2 = "packed.conv"(%y, %v) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x16x10x10x8xf32, "n">, tensor<16x16x3x3x8x8xf32>) -> tensor<?x16x8x8x8xf32, "n">
    %3 = "graph.relu"(%2) : (tensor<?x16x8x8x8xf32, "n">) -> tensor<?x16x8x8x8xf32, "n">
    return %1, %3 : tensor<?x16x8x8x8xf32, "n">, tensor<?x16x8x8x8xf32, "n">
  }
}

// -----

// A larger image has enough to do with the filters of F(4, 3), also when it is one; and how many images there are may be known.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stepwell.version
// LINALG-LABEL: func.func @main
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func @main(%x: tensor<?x16x30x30x8xf32, "n">, %y: tensor<4x16x10x10x8xf32>) -> (tensor<?x16x28x28x8xf32, "n">, tensor<4x16x8x8x8xf32>) {
    %w = "graph.constant"() {value = dense<0.5> : tensor<16x16x3x3x8x8xf32>} : () -> tensor<16x16x3x3x8x8xf32>
    %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x16x30x30x8xf32, "n">, tensor<16x16x3x3x8x8xf32>) -> tensor<?x16x28x28x8xf32, "n">
    %1 = "packed.conv"(%y, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x16x10x10x8xf32>, tensor<16x16x3x3x8x8xf32>) -> tensor<4x16x8x8x8xf32>
    return %0, %1 : tensor<?x16x28x28x8xf32, "n">, tensor<4x16x8x8x8xf32>
  }
}
