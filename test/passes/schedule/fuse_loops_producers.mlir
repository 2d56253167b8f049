// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize,remove-boundaries,use-destinations,fuse-loops{chunks=2})' --target x86-64-v3 --split-input-file | FileCheck %s

// A depthwise convolution and the pointwise one that reads it: rows of 56 positions of 64 channels, as many at a time as a quarter of the
// second cache holds.
// CHECK-LABEL: func.func private @depthwise
// CHECK: linalg.generic {{.*}}"reduction", "reduction"]{{.*}}sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop2", step = 14 : i64}]>
// CHECK: arith.maximumf
// CHECK: linalg.generic {{.*}}"reduction", "reduction"]{{.*}}sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop2", step = 14 : i64}]>
func.func private @depthwise(%x: tensor<1x8x58x58x8xf32>, %k: tensor<8x3x3x8xf32>, %w: tensor<4x8x1x1x8x8xf32>, %out: tensor<1x4x56x56x8xf32>) -> tensor<1x4x56x56x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.depthwise_conv"(%x, %k) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x8x58x58x8xf32>, tensor<8x3x3x8xf32>) -> tensor<1x8x56x56x8xf32>
  %1 = "graph.relu"(%0) : (tensor<1x8x56x56x8xf32>) -> tensor<1x8x56x56x8xf32>
  %2 = "packed.conv"(%1, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x8x56x56x8xf32>, tensor<4x8x1x1x8x8xf32>) -> tensor<1x4x56x56x8xf32>
  return %2 : tensor<1x4x56x56x8xf32>
}

// -----

// Several images are gone over one by one: what is handed on of one fits.
// CHECK-LABEL: func.func private @images
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", step = 1 : i64}]>
func.func private @images(%x: tensor<2x1x56x56x8xf32>, %w: tensor<4x1x1x1x8x8xf32>, %out: tensor<2x4x56x56x8xf32>) -> tensor<2x4x56x56x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.relu"(%x) : (tensor<2x1x56x56x8xf32>) -> tensor<2x1x56x56x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<2x1x56x56x8xf32>, tensor<4x1x1x1x8x8xf32>) -> tensor<2x4x56x56x8xf32>
  return %1 : tensor<2x4x56x56x8xf32>
}

// -----

// A single position cannot be dealt out, and few of them not without reading 4 MB of filters for each few: two nests remain.
// CHECK-LABEL: func.func private @one_position
// CHECK-NOT: #sched.fused
// CHECK-LABEL: func.func private @many_products
// CHECK-NOT: #sched.fused
func.func private @one_position(%x: tensor<1x64x1x1x8xf32>, %w: tensor<64x64x1x1x8x8xf32>, %out: tensor<1x64x1x1x8xf32>) -> tensor<1x64x1x1x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.relu"(%x) : (tensor<1x64x1x1x8xf32>) -> tensor<1x64x1x1x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x64x1x1x8xf32>, tensor<64x64x1x1x8x8xf32>) -> tensor<1x64x1x1x8xf32>
  return %1 : tensor<1x64x1x1x8xf32>
}
func.func private @many_products(%x: tensor<1x128x7x7x8xf32>, %w: tensor<128x128x1x1x8x8xf32>, %out: tensor<1x128x7x7x8xf32>) -> tensor<1x128x7x7x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.relu"(%x) : (tensor<1x128x7x7x8xf32>) -> tensor<1x128x7x7x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x128x7x7x8xf32>, tensor<128x128x1x1x8x8xf32>) -> tensor<1x128x7x7x8xf32>
  return %1 : tensor<1x128x7x7x8xf32>
}

// -----

// A convolution and the pooling that reads it, two rows for each of its own. The activation is the convolution's.
// CHECK-LABEL: func.func private @pooling
// CHECK: linalg.generic {{.*}}"reduction"]{{.*}}sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop2", step = 16 : i64}]>
// CHECK: linalg.generic
// CHECK: arith.maximumf
// CHECK: linalg.generic {{.*}}"reduction", "reduction"]{{.*}}sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop2", step = 8 : i64}]>
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf
// CHECK-NEXT: linalg.yield
func.func private @pooling(%x: tensor<1x4x68x68x8xf32>, %w: tensor<8x4x5x5x8x8xf32>, %out: tensor<1x8x32x32x8xf32>) -> tensor<1x8x32x32x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x68x68x8xf32>, tensor<8x4x5x5x8x8xf32>) -> tensor<1x8x64x64x8xf32>
  %1 = "graph.relu"(%0) : (tensor<1x8x64x64x8xf32>) -> tensor<1x8x64x64x8xf32>
  %2 = "graph.avg_pool"(%1) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false, count_include_pad = true} : (tensor<1x8x64x64x8xf32>) -> tensor<1x8x32x32x8xf32>
  return %2 : tensor<1x8x32x32x8xf32>
}

// -----

// Winograd's tiles of four rows and columns are two windows each way, in all loops that the stages before share.
// CHECK-LABEL: func.func private @tiles
// CHECK-COUNT-4: sched.fused = #sched.fused
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop4", step = 1 : i64}, {chunks = 1 : i64, dim = 4 : i64, loop = "loop5", step = 8 : i64}, {chunks = 1 : i64, dim = 1 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop4", step = 2 : i64}, {chunks = 1 : i64, dim = 3 : i64, loop = "loop5", step = 16 : i64}, {chunks = 1 : i64, dim = 1 : i64, loop = "inner2", step = 1 : i64}]>
func.func private @tiles(%x: tensor<1x8x66x66x8xf32>, %u: tensor<6x6x8x8x8x8xf32>, %out: tensor<1x8x32x32x8xf32>) -> tensor<1x8x32x32x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x8x66x66x8xf32>, tensor<6x6x8x8x8x8xf32>) -> tensor<1x8x64x64x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x8x64x64x8xf32>) -> tensor<1x8x32x32x8xf32>
  return %1 : tensor<1x8x32x32x8xf32>
}

// -----

// A window of three rows is no whole number of tiles, but three tiles are four windows.
// CHECK-LABEL: func.func private @windows_across_tiles
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop4", step = 3 : i64}, {chunks = 1 : i64, dim = 4 : i64, loop = "loop5", step = 3 : i64}, {chunks = 1 : i64, dim = 2 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK-COUNT-4: sched.fused = #sched.fused
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop4", step = 4 : i64}, {chunks = 1 : i64, dim = 3 : i64, loop = "loop5", step = 4 : i64}, {chunks = 1 : i64, dim = 1 : i64, loop = "inner2", step = 1 : i64}]>
func.func private @windows_across_tiles(%x: tensor<1x8x62x62x8xf32>, %u: tensor<6x6x8x8x8x8xf32>, %out: tensor<1x8x20x20x8xf32>) -> tensor<1x8x20x20x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x8x62x62x8xf32>, tensor<6x6x8x8x8x8xf32>) -> tensor<1x8x60x60x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x8x60x60x8xf32>) -> tensor<1x8x20x20x8xf32>
  return %1 : tensor<1x8x20x20x8xf32>
}

// -----

// Seven rows at a time would be as many as fit, but a window is two: two rows at a time, one window.
// CHECK-LABEL: func.func private @whole_windows
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop2", step = 2 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop2", step = 1 : i64}]>
func.func private @whole_windows(%x: tensor<1x4x102x132x8xf32>, %w: tensor<8x4x5x5x8x8xf32>, %out: tensor<1x8x49x64x8xf32>) -> tensor<1x8x49x64x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x102x132x8xf32>, tensor<8x4x5x5x8x8xf32>) -> tensor<1x8x98x128x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x8x98x128x8xf32>) -> tensor<1x8x49x64x8xf32>
  return %1 : tensor<1x8x49x64x8xf32>
}

// -----

// Rows that no window reads are in no round of the pooling, but columns are; windows that share rows and columns have none in common.
// CHECK-LABEL: func.func private @row_left_out
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop3", step = 8 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop3", step = 4 : i64}]>
// CHECK-LABEL: func.func private @overlapping
// CHECK-NOT: sched.fused = #sched.fused
func.func private @row_left_out(%x: tensor<1x4x69x68x8xf32>, %w: tensor<8x4x5x5x8x8xf32>, %out: tensor<1x8x32x32x8xf32>) -> tensor<1x8x32x32x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x69x68x8xf32>, tensor<8x4x5x5x8x8xf32>) -> tensor<1x8x65x64x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x8x65x64x8xf32>) -> tensor<1x8x32x32x8xf32>
  return %1 : tensor<1x8x32x32x8xf32>
}
func.func private @overlapping(%x: tensor<1x4x69x69x8xf32>, %w: tensor<8x4x5x5x8x8xf32>, %out: tensor<1x8x32x32x8xf32>) -> tensor<1x8x32x32x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x69x69x8xf32>, tensor<8x4x5x5x8x8xf32>) -> tensor<1x8x65x65x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x8x65x65x8xf32>) -> tensor<1x8x32x32x8xf32>
  return %1 : tensor<1x8x32x32x8xf32>
}
