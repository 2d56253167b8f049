// RUN: stepwell-opt %s --target x86-64-v3 --convert-graph-to-linalg --split-input-file | FileCheck %s

// Loops: image, filter, positions; then channel, taps. Strides and dilations are in the map of the image.
// CHECK-DAG: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 * 2 + d5, d3 + d6 * 3)>
// CHECK-DAG: #[[W:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
// CHECK-DAG: #[[O:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func.func private @conv
// CHECK: %[[ZERO:[a-z_0-9]+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[FILL:[0-9]+]] = linalg.fill ins(%[[ZERO]] : f32)
// CHECK: linalg.generic {indexing_maps = [#[[X]], #[[W]], #[[O]]],
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
// CHECK-SAME: ins(%arg0, %arg1 : tensor<1x6x9x8xf32>, tensor<4x6x3x2xf32>) outs(%[[FILL]] : tensor<1x4x4x5xf32>)
// CHECK: ^bb0(%[[A:[a-z]+]]: f32, %[[B:[a-z_0-9]+]]: f32, %[[ACC:[a-z_0-9]+]]: f32):
// CHECK-NEXT: %[[P:[0-9]+]] = arith.mulf %[[A]], %[[B]] fastmath<contract> : f32
// CHECK-NEXT: %[[S:[0-9]+]] = arith.addf %[[ACC]], %[[P]] fastmath<contract> : f32
// CHECK-NEXT: linalg.yield %[[S]] : f32
func.func private @conv(%x: tensor<1x6x9x8xf32>, %w: tensor<4x6x3x2xf32>, %o: tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xf32> attributes {stepwell.kernel} {
  %r = "graph.conv"(%x, %w) {strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 3>, group = 1 : i64}
     : (tensor<1x6x9x8xf32>, tensor<4x6x3x2xf32>) -> tensor<1x4x4x5xf32>
  return %r : tensor<1x4x4x5xf32>
}

// -----

// Groups: channels and filters are split, and the filters merged again at the end.
// CHECK-DAG: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4, d3 + d5)>
// CHECK-DAG: #[[W:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, d4, d5)>
// CHECK-DAG: #[[O:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func.func private @grouped
// CHECK-DAG: %[[XG:[a-z_0-9]+]] = tensor.expand_shape %arg0 {{\[\[}}0], [1, 2], [3]] output_shape [1, 2, 3, 9]
// CHECK-DAG: %[[WG:[a-z_0-9]+]] = tensor.expand_shape %arg1 {{\[\[}}0, 1], [2], [3]] output_shape [2, 5, 3, 4]
// CHECK: %[[R:[0-9]+]] = linalg.generic {indexing_maps = [#[[X]], #[[W]], #[[O]]],
// CHECK-SAME: ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK-SAME: ins(%[[XG]], %[[WG]] : {{.*}}) outs(%{{.*}} : tensor<1x2x5x6xf32>)
// CHECK: tensor.collapse_shape %[[R]] {{\[\[}}0], [1, 2], [3]] : tensor<1x2x5x6xf32> into tensor<1x10x6xf32>
func.func private @grouped(%x: tensor<1x6x9xf32>, %w: tensor<10x3x4xf32>, %o: tensor<1x10x6xf32>) -> tensor<1x10x6xf32> attributes {stepwell.kernel} {
  %r = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 2 : i64}
     : (tensor<1x6x9xf32>, tensor<10x3x4xf32>) -> tensor<1x10x6xf32>
  return %r : tensor<1x10x6xf32>
}

// -----

// Depthwise: no loops for the one channel and the one filter of a group, and no views of image and result.
// CHECK-DAG: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 + d3)>
// CHECK-DAG: #[[W:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d1, d3)>
// CHECK-LABEL: func.func private @depthwise
// CHECK: %[[W1:[a-z_0-9]+]] = tensor.collapse_shape %arg1 {{.*}} : tensor<6x1x4xf32> into tensor<6x4xf32>
// CHECK: %[[R:[0-9]+]] = linalg.generic {indexing_maps = [#[[X]], #[[W]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-SAME: ins(%arg0, %[[W1]] : tensor<1x6x9xf32>, tensor<6x4xf32>)
// CHECK: return %[[R]] : tensor<1x6x6xf32>
func.func private @depthwise(%x: tensor<1x6x9xf32>, %w: tensor<6x1x4xf32>, %o: tensor<1x6x6xf32>) -> tensor<1x6x6xf32> attributes {stepwell.kernel} {
  %r = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 6 : i64}
     : (tensor<1x6x9xf32>, tensor<6x1x4xf32>) -> tensor<1x6x6xf32>
  return %r : tensor<1x6x6xf32>
}

// -----

// What follows a grouped convolution stays with its groups apart; the dimensions are merged once, at the end.
// CHECK-LABEL: func.func private @epilogue
// CHECK: %[[C:[0-9]+]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[B:[a-z_0-9]+]] = tensor.expand_shape %arg2 {{.*}} tensor<1x4x1xf32> into tensor<1x2x2x1xf32>
// CHECK: %[[A:[0-9]+]] = linalg.generic {{.*}} ins(%[[C]], %[[B]] : tensor<1x2x2x6xf32>, tensor<1x2x2x1xf32>)
// CHECK: %[[R:[0-9]+]] = linalg.generic {{.*}} ins(%[[A]] : tensor<1x2x2x6xf32>)
// CHECK: %[[M:[a-z_0-9]+]] = tensor.collapse_shape %[[R]]
// CHECK: return %[[M]]
func.func private @epilogue(%x: tensor<1x4x6xf32>, %w: tensor<4x2x1xf32>, %b: tensor<1x4x1xf32>, %o: tensor<1x4x6xf32>) -> tensor<1x4x6xf32> attributes {stepwell.kernel} {
  %c = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 2 : i64}
     : (tensor<1x4x6xf32>, tensor<4x2x1xf32>) -> tensor<1x4x6xf32>
  %a = "graph.add"(%c, %b) : (tensor<1x4x6xf32>, tensor<1x4x1xf32>) -> tensor<1x4x6xf32>
  %r = "graph.relu"(%a) : (tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  return %r : tensor<1x4x6xf32>
}

// -----

// Batch dimensions broadcast; rows and columns are parallel, what is summed comes last.
// CHECK-DAG: #[[L:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, 0, d2, d4)>
// CHECK-DAG: #[[R:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4, d3)>
// CHECK-DAG: #[[O:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-LABEL: func.func private @matmul
// CHECK: linalg.generic {indexing_maps = [#[[L]], #[[R]], #[[O]]], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
func.func private @matmul(%a: tensor<2x1x3x4xf32>, %b: tensor<6x4x5xf32>, %o: tensor<2x6x3x5xf32>) -> tensor<2x6x3x5xf32> attributes {stepwell.kernel} {
  %r = "graph.matmul"(%a, %b) : (tensor<2x1x3x4xf32>, tensor<6x4x5xf32>) -> tensor<2x6x3x5xf32>
  return %r : tensor<2x6x3x5xf32>
}

// -----

// Narrow floats are multiplied and summed in f32, and rounded in a generic of their own.
// CHECK-LABEL: func.func private @half
// CHECK: linalg.fill {{.*}} -> tensor<3x5xf32>
// CHECK: ^bb0(%[[A:[a-z]+]]: f16, %[[B:[a-z_0-9]+]]: f16, %[[ACC:[a-z_0-9]+]]: f32):
// CHECK-DAG: arith.extf %[[A]] : f16 to f32
// CHECK-DAG: arith.extf %[[B]] : f16 to f32
// CHECK: ^bb0(%[[S:[a-z]+]]: f32, %{{.*}}: f16):
// CHECK-NEXT: arith.truncf %[[S]] : f32 to f16
func.func private @half(%a: tensor<3x4xf16>, %b: tensor<4x5xf16>, %o: tensor<3x5xf16>) -> tensor<3x5xf16> attributes {stepwell.kernel} {
  %r = "graph.matmul"(%a, %b) : (tensor<3x4xf16>, tensor<4x5xf16>) -> tensor<3x5xf16>
  return %r : tensor<3x5xf16>
}

// -----

// What is read 32 times or more is widened once; the other side, read three times, where it is read.
// CHECK-LABEL: func.func private @often
// CHECK: %[[W:[0-9]+]] = linalg.generic {{.*}} ins(%arg0 : tensor<3x4xf16>) outs(%{{.*}} : tensor<3x4xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %arg1 : tensor<3x4xf32>, tensor<4x32xf16>) outs(%{{.*}} : tensor<3x32xf32>)
// CHECK-NEXT: ^bb0(%{{[a-z]+}}: f32, %[[B:[a-z_0-9]+]]: f16, %{{[a-z_0-9]+}}: f32):
// CHECK-NEXT: arith.extf %[[B]] : f16 to f32
func.func private @often(%a: tensor<3x4xf16>, %b: tensor<4x32xf16>, %o: tensor<3x32xf16>) -> tensor<3x32xf16> attributes {stepwell.kernel} {
  %r = "graph.matmul"(%a, %b) : (tensor<3x4xf16>, tensor<4x32xf16>) -> tensor<3x32xf16>
  return %r : tensor<3x32xf16>
}

// -----

// A transposed convolution reads the image spread out by its strides, with the taps running backwards.
// CHECK-DAG: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2 - d4 + 2)>
// CHECK-DAG: #[[W:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4) -> (d3, d1, d4)>
// CHECK-LABEL: func.func private @transposed
// CHECK: %[[ZERO:[0-9]+]] = linalg.fill {{.*}} -> tensor<1x2x13xf32>
// CHECK: %[[SPREAD:[a-z_0-9]+]] = tensor.insert_slice %arg0 into %[[ZERO]][0, 0, 2] [1, 2, 5] [1, 1, 2]
// CHECK: linalg.generic {indexing_maps = [#[[X]], #[[W]], #{{.*}}], {{.*}} ins(%[[SPREAD]], %arg1
func.func private @transposed(%x: tensor<1x2x5xf32>, %w: tensor<2x3x3xf32>, %o: tensor<1x3x11xf32>) -> tensor<1x3x11xf32> attributes {stepwell.kernel} {
  %r = "graph.conv_transpose"(%x, %w) {strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>}
     : (tensor<1x2x5xf32>, tensor<2x3x3xf32>) -> tensor<1x3x11xf32>
  return %r : tensor<1x3x11xf32>
}

// -----

// Windows added up: what no window has at a place is left out, not multiplied by zero.
// CHECK-LABEL: func.func private @windows
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// CHECK-NOT: arith.mulf
// CHECK: %[[E:[a-z_0-9]+]] = tensor.extract %arg0
// CHECK: %[[S:[a-z_0-9]+]] = arith.select %{{.*}}, %[[E]], %{{.*}} : f32
// CHECK: arith.addf %{{.*}}, %[[S]]
func.func private @windows(%x: tensor<1x6x5xf32>, %o: tensor<1x2x11xf32>) -> tensor<1x2x11xf32> attributes {stepwell.kernel} {
  %r = "graph.col2im"(%x) {image = array<i64: 11>, kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>}
     : (tensor<1x6x5xf32>) -> tensor<1x2x11xf32>
  return %r : tensor<1x2x11xf32>
}

// -----

// In two dimensions rows are the innermost loop: vectors along columns are the same for the windows of neighbouring rows.
// CHECK-DAG: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2 + d5, d3 + d4)>
// CHECK-DAG: #[[W:map[0-9]*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d5, d4)>
// CHECK-LABEL: func.func private @rows_inside
// CHECK: linalg.generic {indexing_maps = [#[[X]], #[[W]], #{{.*}}]
func.func private @rows_inside(%x: tensor<1x6x9x8xf32>, %w: tensor<6x1x4x3xf32>, %o: tensor<1x6x6x6xf32>) -> tensor<1x6x6x6xf32> attributes {stepwell.kernel} {
  %r = "graph.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 6 : i64} : (tensor<1x6x9x8xf32>, tensor<6x1x4x3xf32>) -> tensor<1x6x6x6xf32>
  return %r : tensor<1x6x6x6xf32>
}

// -----

// A single column is a vector, along which vectors run, and so is what comes out.
// CHECK: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK: #[[V:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-LABEL: func.func private @column
// CHECK: %[[COLUMN:.*]] = tensor.collapse_shape %arg1 {{.*}} : tensor<4x1xf32> into tensor<4xf32>
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[X]], #[[V]], #{{.*}}]{{.*}} ins(%arg0, %[[COLUMN]] : tensor<2x3x4xf32>, tensor<4xf32>)
// CHECK: tensor.expand_shape %[[Y]] {{.*}} : tensor<2x3xf32> into tensor<2x3x1xf32>
func.func private @column(%x: tensor<2x3x4xf32>, %w: tensor<4x1xf32>, %o: tensor<2x3x1xf32>) -> tensor<2x3x1xf32> attributes {stepwell.kernel} {
  %r = "graph.matmul"(%x, %w) : (tensor<2x3x4xf32>, tensor<4x1xf32>) -> tensor<2x3x1xf32>
  return %r : tensor<2x3x1xf32>
}
