// RUN: stepwell-opt %s --convert-graph-to-linalg --split-input-file | FileCheck %s

// The channels' factors are computed once; each element takes a subtraction and a multiply-add.
// CHECK: #[[CHANNEL:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-LABEL: func.func private @batch_norm
// CHECK: math.sqrt
// CHECK-NEXT: arith.divf
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[CHANNEL]], #[[CHANNEL]], #[[CHANNEL]], #{{.*}}]
// CHECK: %[[D:[0-9]+]] = arith.subf
// CHECK-NEXT: %[[P:[0-9]+]] = arith.mulf %[[D]], %{{.*}} fastmath<contract>
// CHECK-NEXT: arith.addf %{{.*}}, %[[P]] fastmath<contract>
func.func private @batch_norm(%x: tensor<2x5x3xf32>, %s: tensor<5xf32>, %b: tensor<5xf32>, %m: tensor<5xf32>, %v: tensor<5xf32>, %o: tensor<2x5x3xf32>) -> tensor<2x5x3xf32> attributes {stepwell.kernel} {
  %r = "graph.batch_norm"(%x, %s, %b, %m, %v) {epsilon = 1.0e-5 : f64}
     : (tensor<2x5x3xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<2x5x3xf32>
  return %r : tensor<2x5x3xf32>
}

// -----

// Squares with zero channels around them, summed over the neighbours; the power 3/4 by square roots.
// CHECK: #[[AROUND:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1 + d3, d2)>
// CHECK-LABEL: func.func private @lrn
// CHECK: %[[SQUARES:[0-9]+]] = linalg.generic
// CHECK: arith.mulf
// CHECK: %[[ZERO:[0-9]+]] = linalg.fill {{.*}} -> tensor<1x10x4xf32>
// CHECK: %[[PADDED:[a-z_0-9]+]] = tensor.insert_slice %[[SQUARES]] into %[[ZERO]][0, 1, 0] [1, 7, 4] [1, 1, 1]
// CHECK: %[[WINDOW:[0-9]+]] = tensor.empty() : tensor<4xf32>
// CHECK: linalg.generic {indexing_maps = [#[[AROUND]], {{.*}} ins(%[[PADDED]], %[[WINDOW]]
// CHECK: arith.addf {{.*}} fastmath<contract>
// CHECK: %[[ROOT:[0-9]+]] = math.sqrt
// CHECK-NEXT: %[[FOURTH:[0-9]+]] = math.sqrt %[[ROOT]]
// CHECK-NEXT: arith.mulf %[[ROOT]], %[[FOURTH]]
// CHECK-NOT: math.powf
func.func private @lrn(%x: tensor<1x7x4xf32>, %o: tensor<1x7x4xf32>) -> tensor<1x7x4xf32> attributes {stepwell.kernel} {
  %r = "graph.lrn"(%x) {size = 4 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64} : (tensor<1x7x4xf32>) -> tensor<1x7x4xf32>
  return %r : tensor<1x7x4xf32>
}

// -----

// A power of 1 is what it is of.
// CHECK-LABEL: func.func private @lrn_without_power
// CHECK-NOT: math.
// CHECK: arith.divf
// CHECK-NOT: math.
func.func private @lrn_without_power(%x: tensor<1x7x4xf32>, %o: tensor<1x7x4xf32>) -> tensor<1x7x4xf32> attributes {stepwell.kernel} {
  %r = "graph.lrn"(%x) {size = 3 : i64, alpha = 1.0e-4 : f64, beta = 1.0 : f64, bias = 1.0 : f64} : (tensor<1x7x4xf32>) -> tensor<1x7x4xf32>
  return %r : tensor<1x7x4xf32>
}

// -----

// Squares of the channels of a position side by side, two zeros at either end; neighbours are then read across blocks. The loop over
// blocks goes inside of those over positions, in the order in which the squares lie. Two lanes hold no channel.
// CHECK: #[[IMAGE:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
// CHECK: #[[FILLED:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK: #[[AROUND:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2 * 4 + d3 + d4)>
// CHECK-LABEL: func.func private @packed_lrn
// CHECK: %[[SQUARES:[0-9]+]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[FILLED]], #{{.*}}]{{.*}} outs(%{{.*}} : tensor<1x7x3x4xf32>)
// CHECK: arith.select
// CHECK: %[[SIDE:[a-z_0-9]+]] = tensor.collapse_shape %[[SQUARES]] {{.*}} into tensor<1x7x12xf32>
// CHECK: %[[PADDED:[a-z_0-9]+]] = tensor.insert_slice %[[SIDE]] into %{{.*}}[0, 0, 2] [1, 7, 12] [1, 1, 1] : tensor<1x7x12xf32> into tensor<1x7x16xf32>
// CHECK: linalg.generic {indexing_maps = [#[[AROUND]], {{.*}} ins(%[[PADDED]],
// CHECK: arith.divf
// CHECK-NEXT: arith.cmpf
// CHECK-NEXT: arith.select
func.func private @packed_lrn(%x: tensor<1x3x7x4xf32>, %o: tensor<1x3x7x4xf32>) -> tensor<1x3x7x4xf32> attributes {stepwell.kernel} {
  %r = "packed.lrn"(%x) {channels = 10 : i64, size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64} : (tensor<1x3x7x4xf32>) -> tensor<1x3x7x4xf32>
  return %r : tensor<1x3x7x4xf32>
}

// -----

// Where every lane holds a channel, nothing is selected.
// CHECK-LABEL: func.func private @full_blocks
// CHECK-NOT: arith.select
func.func private @full_blocks(%x: tensor<1x3x7x4xf32>, %o: tensor<1x3x7x4xf32>) -> tensor<1x3x7x4xf32> attributes {stepwell.kernel} {
  %r = "packed.lrn"(%x) {channels = 12 : i64, size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64} : (tensor<1x3x7x4xf32>) -> tensor<1x3x7x4xf32>
  return %r : tensor<1x3x7x4xf32>
}
