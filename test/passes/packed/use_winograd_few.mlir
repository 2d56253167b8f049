// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=use-winograd --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline="use-winograd{most-bytes=65536}" --split-input-file | FileCheck %s --check-prefix=LARGE
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline="use-winograd{tile=4}" --split-input-file | FileCheck %s --check-prefix=ONLY

// Four images of 7x7 positions pay for the filters of F(4, 3), one does not: it gets those of F(2, 3), of the same image, which is filled up to 8x8.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:[0-9]+]] = "graph.pad"({{.*}} -> tensor<?x16x10x10x8xf32, "n">
// CHECK: %[[Y:[0-9]+]] = "packed.versioned_winograd_conv"(%[[X]], %{{.*}}, %{{.*}}) {few_tile = 2 : i64, group = 1 : i64, most = 1 : i64, tile = 4 : i64}
// CHECK-SAME: (tensor<?x16x10x10x8xf32, "n">, tensor<6x6x16x16x8x8xf32>, tensor<4x4x16x16x8x8xf32>) -> tensor<?x16x8x8x8xf32, "n">
// CHECK: "graph.slice"(%[[Y]])
//
// Filters of F(2, 3) that are large are not stored beside the others, and without F(2, 3) there are none.
// LARGE-LABEL: func.func @main
// LARGE-NOT: versioned
// ONLY-LABEL: func.func @main
// ONLY: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 4 : i64, transformed = true}
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func @main(%x: tensor<?x16x9x9x8xf32, "n">) -> tensor<?x16x7x7x8xf32, "n"> {
    %w = "graph.constant"() {value = dense<0.5> : tensor<16x16x3x3x8x8xf32>} : () -> tensor<16x16x3x3x8x8xf32>
    %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x16x9x9x8xf32, "n">, tensor<16x16x3x3x8x8xf32>) -> tensor<?x16x7x7x8xf32, "n">
    return %0 : tensor<?x16x7x7x8xf32, "n">
  }
}

// -----

// A larger image has enough to do with them, also when it is one; and how many images there are may be known.
// CHECK-LABEL: func.func @main
// CHECK: "packed.winograd_conv"{{.*}} {group = 1 : i64, tile = 4 : i64, transformed = true} : (tensor<?x16x30x30x8xf32, "n">
// CHECK: "packed.winograd_conv"{{.*}} : (tensor<4x16x10x10x8xf32>
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func @main(%x: tensor<?x16x30x30x8xf32, "n">, %y: tensor<4x16x10x10x8xf32>) -> (tensor<?x16x28x28x8xf32, "n">, tensor<4x16x8x8x8xf32>) {
    %w = "graph.constant"() {value = dense<0.5> : tensor<16x16x3x3x8x8xf32>} : () -> tensor<16x16x3x3x8x8xf32>
    %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x16x30x30x8xf32, "n">, tensor<16x16x3x3x8x8xf32>) -> tensor<?x16x28x28x8xf32, "n">
    %1 = "packed.conv"(%y, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<4x16x10x10x8xf32>, tensor<16x16x3x3x8x8xf32>) -> tensor<4x16x8x8x8xf32>
    return %0, %1 : tensor<?x16x28x28x8xf32, "n">, tensor<4x16x8x8x8xf32>
  }
}
