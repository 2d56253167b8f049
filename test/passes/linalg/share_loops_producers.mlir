// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize,remove-boundaries,use-destinations,share-loops{slots=2})' --target x86-64-v3 --split-input-file | FileCheck %s

// A depthwise convolution and the pointwise one that reads it: rows of 56 positions of 64 channels, as many at a time as a quarter of the
// second cache holds.
// CHECK-LABEL: func.func private @depthwise
// CHECK: linalg.generic {{.*}}"reduction", "reduction"]{{.*}}shared = #sched.shared<[{dim = 2 : i64, loop = "rows", slots = 2 : i64, step = 14 : i64}]>
// CHECK: arith.maximumf
// CHECK: linalg.generic {{.*}}"reduction", "reduction"]{{.*}}shared = #sched.shared<[{dim = 2 : i64, loop = "rows", slots = 2 : i64, step = 14 : i64}]>
func.func private @depthwise(%x: tensor<1x8x58x58x8xf32>, %k: tensor<8x3x3x8xf32>, %w: tensor<4x8x1x1x8x8xf32>, %out: tensor<1x4x56x56x8xf32>) -> tensor<1x4x56x56x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.blocked_depthwise_conv"(%x, %k) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x8x58x58x8xf32>, tensor<8x3x3x8xf32>) -> tensor<1x8x56x56x8xf32>
  %1 = "graph.relu"(%0) : (tensor<1x8x56x56x8xf32>) -> tensor<1x8x56x56x8xf32>
  %2 = "graph.blocked_conv"(%1, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x56x56x8xf32>, tensor<4x8x1x1x8x8xf32>) -> tensor<1x4x56x56x8xf32>
  return %2 : tensor<1x4x56x56x8xf32>
}

// -----

// Several images are gone over one by one, outside of their rows.
// CHECK-LABEL: func.func private @images
// CHECK: shared = #sched.shared<[{dim = 0 : i64, loop = "images", slots = 2 : i64, step = 1 : i64}, {dim = 2 : i64, loop = "rows", slots = 1 : i64, step = 28 : i64}]>
// CHECK: shared = #sched.shared<[{dim = 0 : i64, loop = "images", slots = 2 : i64, step = 1 : i64}, {dim = 2 : i64, loop = "rows", slots = 1 : i64, step = 28 : i64}]>
func.func private @images(%x: tensor<2x1x56x56x8xf32>, %w: tensor<4x1x1x1x8x8xf32>, %out: tensor<2x4x56x56x8xf32>) -> tensor<2x4x56x56x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.relu"(%x) : (tensor<2x1x56x56x8xf32>) -> tensor<2x1x56x56x8xf32>
  %1 = "graph.blocked_conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<2x1x56x56x8xf32>, tensor<4x1x1x1x8x8xf32>) -> tensor<2x4x56x56x8xf32>
  return %1 : tensor<2x4x56x56x8xf32>
}

// -----

// A single position cannot be dealt out, and few of them not without reading 4 MB of filters for each few: two nests remain.
// CHECK-LABEL: func.func private @one_position
// CHECK-NOT: #sched.shared
// CHECK-LABEL: func.func private @many_products
// CHECK-NOT: #sched.shared
func.func private @one_position(%x: tensor<1x64x1x1x8xf32>, %w: tensor<64x64x1x1x8x8xf32>, %out: tensor<1x64x1x1x8xf32>) -> tensor<1x64x1x1x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.relu"(%x) : (tensor<1x64x1x1x8xf32>) -> tensor<1x64x1x1x8xf32>
  %1 = "graph.blocked_conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x64x1x1x8xf32>, tensor<64x64x1x1x8x8xf32>) -> tensor<1x64x1x1x8xf32>
  return %1 : tensor<1x64x1x1x8xf32>
}
func.func private @many_products(%x: tensor<1x128x7x7x8xf32>, %w: tensor<128x128x1x1x8x8xf32>, %out: tensor<1x128x7x7x8xf32>) -> tensor<1x128x7x7x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.relu"(%x) : (tensor<1x128x7x7x8xf32>) -> tensor<1x128x7x7x8xf32>
  %1 = "graph.blocked_conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x128x7x7x8xf32>, tensor<128x128x1x1x8x8xf32>) -> tensor<1x128x7x7x8xf32>
  return %1 : tensor<1x128x7x7x8xf32>
}
