// RUN: stepwell-opt %s --target x86-64-v3 --convert-graph-to-linalg --split-input-file | FileCheck %s

// The window is an operand that only lends its shape; a NaN wins.
// CHECK-DAG: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2 * 2 + d4, d3 + d5 * 2)>
// CHECK-DAG: #[[K:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d5)>
// CHECK-DAG: #[[O:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func.func private @max
// CHECK: %[[WINDOW:[0-9]+]] = tensor.empty() : tensor<3x2xf32>
// CHECK: %[[LEAST:[a-z_0-9]+]] = arith.constant 0xFF800000 : f32
// CHECK: %[[FILL:[0-9]+]] = linalg.fill ins(%[[LEAST]] : f32)
// CHECK: linalg.generic {indexing_maps = [#[[X]], #[[K]], #[[O]]],
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME: ins(%arg0, %[[WINDOW]] : {{.*}}) outs(%[[FILL]]
// CHECK: ^bb0(%[[A:[a-z]+]]: f32, %{{.*}}: f32, %[[ACC:[a-z_0-9]+]]: f32):
// CHECK-NEXT: arith.maximumf %[[ACC]], %[[A]] : f32
func.func private @max(%x: tensor<1x3x7x6xf32>, %o: tensor<1x3x3x4xf32>) -> tensor<1x3x3x4xf32> attributes {stepwell.kernel} {
  %r = "graph.max_pool"(%x) {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 2>, ceil_mode = false}
     : (tensor<1x3x7x6xf32>) -> tensor<1x3x3x4xf32>
  return %r : tensor<1x3x3x4xf32>
}

// -----

// Integers start from their least value, unsigned ones from 0.
// CHECK-LABEL: func.func private @max_i8
// CHECK: arith.constant -128 : i8
// CHECK: arith.maxsi
// CHECK-LABEL: func.func private @max_ui8
// CHECK: arith.constant 0 : i8
// CHECK: arith.maxui
func.func private @max_i8(%x: tensor<1x1x4xi8>, %o: tensor<1x1x3xi8>) -> tensor<1x1x3xi8> attributes {stepwell.kernel} {
  %r = "graph.max_pool"(%x) {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = false}
     : (tensor<1x1x4xi8>) -> tensor<1x1x3xi8>
  return %r : tensor<1x1x3xi8>
}
func.func private @max_ui8(%x: tensor<1x1x4xui8>, %o: tensor<1x1x3xui8>) -> tensor<1x1x3xui8> attributes {stepwell.kernel} {
  %r = "graph.max_pool"(%x) {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = false}
     : (tensor<1x1x4xui8>) -> tensor<1x1x3xui8>
  return %r : tensor<1x1x3xui8>
}

// -----

// A mean is a sum and a multiplication by what does not change from window to window.
// CHECK-LABEL: func.func private @mean
// CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<contract> : f32
// CHECK: %[[C:[a-z_0-9]+]] = arith.constant 2.500000e-01 : f32
// CHECK: linalg.generic
// CHECK: arith.mulf %{{.*}}, %[[C]] : f32
func.func private @mean(%x: tensor<1x1x5xf32>, %o: tensor<1x1x2xf32>) -> tensor<1x1x2xf32> attributes {stepwell.kernel} {
  %r = "graph.avg_pool"(%x) {kernel = array<i64: 4>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = false, count_include_pad = false}
     : (tensor<1x1x5xf32>) -> tensor<1x1x2xf32>
  return %r : tensor<1x1x2xf32>
}

// -----

// Where windows count differently, the factors are a table along that dimension alone.
// CHECK: #[[ALONG:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-LABEL: func.func private @border
// CHECK: %[[TABLE:[a-z_0-9]+]] = arith.constant dense<[5.000000e-01, 0.333333343, 5.000000e-01]> : tensor<3xf32>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[ALONG]], #{{.*}}], {{.*}} ins(%{{[0-9]+}}, %[[TABLE]]
func.func private @border(%x: tensor<1x1x3xf32>, %o: tensor<1x1x3xf32>) -> tensor<1x1x3xf32> attributes {stepwell.kernel} {
  %r = "graph.avg_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false, count_include_pad = false}
     : (tensor<1x1x3xf32>) -> tensor<1x1x3xf32>
  return %r : tensor<1x1x3xf32>
}

// -----

// Larger windows are folded along columns and then along rows, some planes at a time. Rows at the upper border have fewer taps, so that nothing is
// copied; beside rows is what never wins.
// CHECK-DAG: #[[COLUMNS:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1 * 2 + d3, d2)>
// CHECK-DAG: #[[ROWS:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 * 2 + d3)>
// CHECK-LABEL: func.func private @separable
// CHECK: scf.for
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}, 0, 0] [{{[0-9]+}}, 2, 12] [1, 1, 1]
// CHECK: linalg.generic {indexing_maps = [#[[COLUMNS]], {{.*}} ins({{.*}}tensor<2xf32>)
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}, 1, 0] [{{[0-9]+}}, 11, 12] [1, 1, 1]
// CHECK: linalg.generic {indexing_maps = [#[[COLUMNS]], {{.*}} ins({{.*}}tensor<3xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[ROWS]], {{.*}} ins({{.*}}tensor<3xf32>)
// CHECK: tensor.insert_slice
func.func private @separable(%x: tensor<1x4x12x12xf32>, %o: tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32> attributes {stepwell.kernel} {
  %r = "graph.max_pool"(%x) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false}
     : (tensor<1x4x12x12xf32>) -> tensor<1x4x6x6xf32>
  return %r : tensor<1x4x6x6xf32>
}
