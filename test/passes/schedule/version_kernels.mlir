// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize,remove-boundaries,use-destinations),version-kernels,func.func(fuse-loops{chunks=2})' --target x86-64-v3 --split-input-file | FileCheck %s

// 5 MB of plain filters. For four images these are transformed all at once; for one image that would be a good part of the time, and it is better to do
// so a block at a time, whatever comes before and after.
// CHECK-LABEL: func.func private @many.few(
// CHECK-SAME: stepwell.kernel_hints = {n = 1 : i64}
// CHECK-SAME: stepwell.version = {most = 2 : i64, of = "many", size = "n"}
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = {{[0-9]}} : i64, loop = "loop3"
// CHECK-LABEL: func.func private @many(
// CHECK-NOT: stepwell.version
// CHECK-NOT: loop = "loop3"
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func private @many(%x: tensor<?x32x30x30x8xf32, "n">, %w: tensor<64x32x3x3x8x8xf32>, %out: tensor<?x64x28x28x8xf32, "n">) -> tensor<?x64x28x28x8xf32, "n"> attributes {stepwell.kernel} {
    %0 = "packed.winograd_conv"(%x, %w) {tile = 4 : i64, group = 1 : i64, transformed = false} : (tensor<?x32x30x30x8xf32, "n">, tensor<64x32x3x3x8x8xf32>) -> tensor<?x64x28x28x8xf32, "n">
    return %0 : tensor<?x64x28x28x8xf32, "n">
  }
}

// -----

// Few filters: whatever the number of images, slices are computed of some tiles.
// CHECK-LABEL: func.func private @few_filters
// CHECK-NOT: stepwell.version
// CHECK-LABEL: func.func private @one_image
// CHECK-NOT: stepwell.version
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func private @few_filters(%x: tensor<?x4x18x18x8xf32, "n">, %u: tensor<6x6x8x4x8x8xf32>, %out: tensor<?x8x16x16x8xf32, "n">) -> tensor<?x8x16x16x8xf32, "n"> attributes {stepwell.kernel} {
    %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<?x4x18x18x8xf32, "n">, tensor<6x6x8x4x8x8xf32>) -> tensor<?x8x16x16x8xf32, "n">
    return %0 : tensor<?x8x16x16x8xf32, "n">
  }
  func.func private @one_image(%x: tensor<1x8x58x58x8xf32>, %u: tensor<6x6x24x8x8x8xf32>, %out: tensor<1x24x56x56x8xf32>) -> tensor<1x24x56x56x8xf32> attributes {stepwell.kernel} {
    %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x8x58x58x8xf32>, tensor<6x6x24x8x8x8xf32>) -> tensor<1x24x56x56x8xf32>
    return %0 : tensor<1x24x56x56x8xf32>
  }
}
