// RUN: stepwell-opt %s --convert-graph-to-linalg --split-input-file | FileCheck %s

// Parallel loops in the result's order, then the reductions.
// CHECK-DAG: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
// CHECK-DAG: #[[O:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d0)>
// CHECK-LABEL: func.func private @sum
// CHECK: %[[FILL:[0-9]+]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<5xf32>)
// CHECK: %[[R:[0-9]+]] = linalg.generic {indexing_maps = [#[[X]], #[[O]]], iterator_types = ["parallel", "reduction", "reduction"]} {{.*}} outs(%[[FILL]]
// CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<contract> : f32
// CHECK: tensor.expand_shape %[[R]] {{\[\[}}0, 1, 2]] output_shape [1, 5, 1] : tensor<5xf32> into tensor<1x5x1xf32>
func.func private @sum(%x: tensor<3x5x4xf32>, %o: tensor<1x5x1xf32>) -> tensor<1x5x1xf32> attributes {stepwell.kernel} {
  %r = "graph.reduce_sum"(%x) {axes = array<i64: 2, 0>, keepdims = true} : (tensor<3x5x4xf32>) -> tensor<1x5x1xf32>
  return %r : tensor<1x5x1xf32>
}

// -----

// To a scalar, in f32 for f16.
// CHECK-LABEL: func.func private @max
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: outs(%{{.*}} : tensor<f32>)
// CHECK: arith.extf
// CHECK-NEXT: arith.maximumf {{.*}} : f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: return %{{.*}} : tensor<f16>
func.func private @max(%x: tensor<3x5xf16>, %o: tensor<f16>) -> tensor<f16> attributes {stepwell.kernel} {
  %r = "graph.reduce_max"(%x) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<3x5xf16>) -> tensor<f16>
  return %r : tensor<f16>
}

// -----

// CHECK-LABEL: func.func private @min
// CHECK: arith.constant -1 : i16
// CHECK: arith.minui
func.func private @min(%x: tensor<3x5xui16>, %o: tensor<3xui16>) -> tensor<3xui16> attributes {stepwell.kernel} {
  %r = "graph.reduce_min"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<3x5xui16>) -> tensor<3xui16>
  return %r : tensor<3xui16>
}

// -----

// CHECK: #[[OTHERS:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-LABEL: func.func private @softmax
// CHECK: arith.maxnumf
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[OTHERS]], #{{.*}}]
// CHECK: arith.subf
// CHECK-NEXT: math.exp
// CHECK: arith.addf {{.*}} fastmath<contract>
// CHECK: arith.divf
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[OTHERS]], #{{.*}}]
// CHECK: arith.mulf
func.func private @softmax(%x: tensor<2x3x4xf32>, %o: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> attributes {stepwell.kernel} {
  %r = "graph.softmax"(%x) {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}
