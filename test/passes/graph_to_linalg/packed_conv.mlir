// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(canonicalize)' --split-input-file | FileCheck %s

// Two groups with blocks of their own: a loop over them, and each reads its two blocks. Of the blocks of 8 lanes only 6 are read. Taps
// that there is one of have no loop.
// CHECK: #[[X:[a-z0-9]+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1 * 2 + d6, d3, d4 * 2, d7)>
// CHECK: #[[W:[a-z0-9]+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d2, d6, 0, 0, d7, d5)>
// CHECK-LABEL: func.func @sets
// CHECK: %[[PART:[a-z0-9_]+]] = tensor.extract_slice %{{.*}} : tensor<1x4x5x7x8xf32> to tensor<1x4x5x7x6xf32>
// CHECK: linalg.generic {indexing_maps = [#[[X]], #[[W]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%[[PART]],
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1, 2], [3], [4], [5]] : tensor<1x2x3x5x4x8xf32> into tensor<1x6x5x4x8xf32>
func.func @sets(%x: tensor<1x4x5x7x8xf32>, %w: tensor<6x2x1x1x6x8xf32>) -> tensor<1x6x5x4x8xf32> {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x4x5x7x8xf32>, tensor<6x2x1x1x6x8xf32>) -> tensor<1x6x5x4x8xf32>
  return %0 : tensor<1x6x5x4x8xf32>
}

// -----

// Two groups side by side in the lanes of all three blocks, one block of filters each: that loop is the dimension of the result.
// CHECK: #[[X:[a-z0-9]+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d5, d2, d3 + d6, d1 * 4 + d7)>
// CHECK: #[[W:[a-z0-9]+]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1, d5, 0, d6, d7, d4)>
// CHECK-LABEL: func.func @side_by_side
// CHECK-NOT: extract_slice
// CHECK: linalg.generic {indexing_maps = [#[[X]], #[[W]], #{{.*}}]
// CHECK-NOT: collapse_shape
// CHECK: return
func.func @side_by_side(%x: tensor<1x3x5x7x8xf32>, %w: tensor<2x3x1x3x4x8xf32>) -> tensor<1x2x5x5x8xf32> {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x3x5x7x8xf32>, tensor<2x3x1x3x4x8xf32>) -> tensor<1x2x5x5x8xf32>
  return %0 : tensor<1x2x5x5x8xf32>
}

// -----

// Lanes 2 to 7 lie in two blocks of four, the last of them in the second operand; each piece is copied to its place among zeros.
// CHECK-LABEL: func.func @relayout
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x1x5x4xf32>, %[[Y:[a-z0-9]+]]: tensor<1x2x5x4xf32>
// CHECK: linalg.fill
// CHECK: tensor.extract_slice %[[X]][0, 0, 0, 2] [1, 1, 5, 2] [1, 1, 1, 1]
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 0] [1, 1, 5, 2] [1, 1, 1, 1]
// CHECK: tensor.extract_slice %[[Y]][0, 0, 0, 0] [1, 1, 5, 4] [1, 1, 1, 1]
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 2] [1, 1, 5, 4] [1, 1, 1, 1]
// CHECK: tensor.extract_slice %[[Y]][0, 1, 0, 1] [1, 1, 5, 1] [1, 1, 1, 1]
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 1, 0, 2] [1, 1, 5, 1] [1, 1, 1, 1]
func.func @relayout(%x: tensor<1x1x5x4xf32>, %y: tensor<1x2x5x4xf32>) -> tensor<1x2x5x6xf32> {
  %0 = "packed.relayout"(%x, %y) {starts = array<i64: 2, -1, 9, -1>, sizes = array<i64: 6, 2, 1, 3>, block = 6 : i64} : (tensor<1x1x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x5x6xf32>
  return %0 : tensor<1x2x5x6xf32>
}
