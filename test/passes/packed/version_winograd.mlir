// RUN: stepwell-opt %s --version-winograd | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='version-winograd,convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize,remove-boundaries,use-destinations),version-kernels' --target x86-64-v3 | FileCheck %s --check-prefix=LINALG

// Each of two kernels has a tile and filters of its own; both take the same arguments. `version-kernels` adds no third one.
// CHECK-LABEL: func.func private @conv.few(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x16x10x10x8xf32, "n">, %[[U:[a-z0-9]+]]: tensor<6x6x16x16x8x8xf32>, %[[FEW:[a-z0-9]+]]: tensor<4x4x16x16x8x8xf32>
// CHECK-SAME: stepwell.kernel_hints = {n = 1 : i64}
// CHECK-SAME: stepwell.version = {most = 2 : i64, of = "conv", size = "n"}
// CHECK: "packed.winograd_conv"(%[[X]], %[[FEW]]) {group = 1 : i64, tile = 2 : i64, transformed = true}
// CHECK: "graph.relu"
// CHECK-LABEL: func.func private @conv(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x16x10x10x8xf32, "n">, %[[U:[a-z0-9]+]]: tensor<6x6x16x16x8x8xf32>, %[[FEW:[a-z0-9]+]]: tensor<4x4x16x16x8x8xf32>
// CHECK-NOT: stepwell.version
// CHECK: "packed.winograd_conv"(%[[X]], %[[U]]) {group = 1 : i64, tile = 4 : i64, transformed = true}
// CHECK: "graph.relu"
// CHECK-NOT: func.func
//
// LINALG-LABEL: func.func private @conv.few(
// LINALG: tensor<4x4x?x16x4x4x8xf32>
// LINALG-LABEL: func.func private @conv(
// LINALG: tensor<6x6x?x16x2x2x8xf32>
// LINALG-NOT: func.func
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func private @conv(%x: tensor<?x16x10x10x8xf32, "n">, %u: tensor<6x6x16x16x8x8xf32>, %few: tensor<4x4x16x16x8x8xf32>, %out: tensor<?x16x8x8x8xf32, "n">) -> tensor<?x16x8x8x8xf32, "n"> attributes {stepwell.kernel} {
    %0 = "packed.versioned_winograd_conv"(%x, %u, %few) {tile = 4 : i64, few_tile = 2 : i64, most = 2 : i64, group = 1 : i64} : (tensor<?x16x10x10x8xf32, "n">, tensor<6x6x16x16x8x8xf32>, tensor<4x4x16x16x8x8xf32>) -> tensor<?x16x8x8x8xf32, "n">
    %1 = "graph.relu"(%0) : (tensor<?x16x8x8x8xf32, "n">) -> tensor<?x16x8x8x8xf32, "n">
    return %1 : tensor<?x16x8x8x8xf32, "n">
  }
}
