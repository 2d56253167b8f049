// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(fuse-loops{slots=2})' --target x86-64-v3 --split-input-file | FileCheck %s

// Four rows of four tiles: everything fits a cache, so the five stages share one round of two rows, and the transforms channels and filters.
// CHECK-LABEL: func.func private @small
// CHECK: sched.shared = #sched.shared<[{dim = 3 : i64, loop = "rows", slots = 2 : i64, step = 2 : i64}, {dim = 4 : i64, loop = "columns", slots = 1 : i64, step = 4 : i64}, {dim = 2 : i64, loop = "channels", slots = 1 : i64, step = 1 : i64}]>
// CHECK: sched.shared = #sched.shared<[{dim = 4 : i64, loop = "rows"{{.*}}{dim = 3 : i64, loop = "channels"
// CHECK: sched.shared = #sched.shared<[{dim = 4 : i64, loop = "rows", slots = 2 : i64, step = 2 : i64}, {dim = 5 : i64, loop = "columns", slots = 1 : i64, step = 4 : i64}]>
// CHECK: sched.shared = #sched.shared<[{dim = 3 : i64, loop = "rows"{{.*}}{dim = 2 : i64, loop = "filters"
// CHECK: sched.shared = #sched.shared<[{dim = 2 : i64, loop = "rows"{{.*}}{dim = 1 : i64, loop = "filters"
// CHECK-NOT: axes
func.func private @small(%x: tensor<1x4x18x18x8xf32>, %u: tensor<6x6x8x4x8x8xf32>, %out: tensor<1x8x16x16x8xf32>) -> tensor<1x8x16x16x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x4x18x18x8xf32>, tensor<6x6x8x4x8x8xf32>) -> tensor<1x8x16x16x8xf32>
  return %0 : tensor<1x8x16x16x8xf32>
}

// -----

// With 9 MB of filters it is cheaper to transform the whole image: only the transforms share loops, over channels and over filters.
// CHECK-LABEL: func.func private @many_filters
// CHECK: sched.shared = #sched.shared<[{dim = 2 : i64, loop = "channels", slots = 2 : i64, step = 1 : i64}]>
// CHECK: sched.shared = #sched.shared<[{dim = 3 : i64, loop = "channels"
// CHECK: iterator_types = [{{.*}}, "reduction", "reduction"]}
// CHECK-NOT: #sched
// CHECK: iterator_types = [{{.*}}, "parallel", "reduction"]}
// CHECK-SAME: sched.shared = #sched.shared<[{dim = 2 : i64, loop = "filters"
// CHECK: sched.shared = #sched.shared<[{dim = 1 : i64, loop = "filters"
func.func private @many_filters(%x: tensor<1x32x58x58x8xf32>, %u: tensor<6x6x32x32x8x8xf32>, %out: tensor<1x32x56x56x8xf32>) -> tensor<1x32x56x56x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x32x58x58x8xf32>, tensor<6x6x32x32x8x8xf32>) -> tensor<1x32x56x56x8xf32>
  return %0 : tensor<1x32x56x56x8xf32>
}

// -----

// 2 MB of filters are read again for each row of tiles, from the last cache: that takes less than to write and read 8 MB, which go to memory.
// CHECK-LABEL: func.func private @filters_from_the_last_cache
// CHECK-COUNT-5: sched.shared = #sched.shared<[{{.*}}loop = "rows"
func.func private @filters_from_the_last_cache(%x: tensor<1x14x66x66x8xf32>, %u: tensor<6x6x14x14x8x8xf32>, %out: tensor<1x14x64x64x8xf32>) -> tensor<1x14x64x64x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x14x66x66x8xf32>, tensor<6x6x14x14x8x8xf32>) -> tensor<1x14x64x64x8xf32>
  return %0 : tensor<1x14x64x64x8xf32>
}

// -----

// Two groups: only the products have a loop over these, and share the same rows and columns of tiles.
// CHECK-LABEL: func.func private @groups
// CHECK: sched.shared = #sched.shared<[{dim = 3 : i64, loop = "rows", slots = 2 : i64, step = 2 : i64}, {dim = 4 : i64, loop = "columns", slots = 1 : i64, step = 4 : i64}, {dim = 2 : i64, loop = "channels"
// CHECK: sched.shared = #sched.shared<[{dim = 4 : i64, loop = "rows"{{.*}}{dim = 3 : i64, loop = "channels"
// CHECK: tensor.expand_shape {{.*}} into tensor<6x6x1x2x2x4x4x8xf32>
// CHECK: sched.shared = #sched.shared<[{dim = 5 : i64, loop = "rows", slots = 2 : i64, step = 2 : i64}, {dim = 6 : i64, loop = "columns", slots = 1 : i64, step = 4 : i64}]>
// CHECK: tensor.collapse_shape {{.*}} into tensor<6x6x1x8x4x4x8xf32>
// CHECK: sched.shared = #sched.shared<[{dim = 3 : i64, loop = "rows"{{.*}}{dim = 2 : i64, loop = "filters"
// CHECK: sched.shared = #sched.shared<[{dim = 2 : i64, loop = "rows"{{.*}}{dim = 1 : i64, loop = "filters"
func.func private @groups(%x: tensor<1x4x18x18x8xf32>, %u: tensor<6x6x8x2x8x8xf32>, %out: tensor<1x8x16x16x8xf32>) -> tensor<1x8x16x16x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.winograd_conv"(%x, %u) {tile = 4 : i64, group = 2 : i64, transformed = true} : (tensor<1x4x18x18x8xf32>, tensor<6x6x8x2x8x8xf32>) -> tensor<1x8x16x16x8xf32>
  return %0 : tensor<1x8x16x16x8xf32>
}

// -----

// Plain filters: what is made of a block of them, of the products with it and of their way back is done block by block.
// CHECK-LABEL: func.func private @plain
// CHECK: sched.shared = #sched.shared<[{dim = 2 : i64, loop = "channels", slots = 2 : i64, step = 1 : i64}]>
// CHECK: sched.shared = #sched.shared<[{dim = 3 : i64, loop = "channels"
// CHECK: sched.shared = #sched.shared<[{dim = 1 : i64, loop = "filters", slots = 2 : i64, step = 1 : i64}, {dim = 2 : i64, loop = "channels", slots = 1 : i64, step = 1 : i64}]>
// CHECK: sched.shared = #sched.shared<[{dim = 2 : i64, loop = "filters", slots = 2 : i64, step = 1 : i64}, {dim = 3 : i64, loop = "channels"
// CHECK: sched.shared = #sched.shared<[{dim = 3 : i64, loop = "filters", slots = 2 : i64, step = 1 : i64}]>
// CHECK: sched.shared = #sched.shared<[{dim = 2 : i64, loop = "filters"
// CHECK: sched.shared = #sched.shared<[{dim = 1 : i64, loop = "filters"
func.func private @plain(%x: tensor<1x4x18x18x8xf32>, %w: tensor<8x4x3x3x8x8xf32>, %out: tensor<1x8x16x16x8xf32>) -> tensor<1x8x16x16x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.winograd_conv"(%x, %w) {tile = 4 : i64, group = 1 : i64, transformed = false} : (tensor<1x4x18x18x8xf32>, tensor<8x4x3x3x8x8xf32>) -> tensor<1x8x16x16x8xf32>
  return %0 : tensor<1x8x16x16x8xf32>
}
