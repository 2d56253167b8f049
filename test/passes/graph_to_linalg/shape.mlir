// RUN: stepwell-opt %s --convert-graph-to-linalg --split-input-file | FileCheck %s

// CHECK: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
// CHECK-LABEL: func.func private @transpose
// CHECK: linalg.generic {indexing_maps = [#[[X]], #{{.*}}], {{.*}} outs(%{{.*}} : tensor<4x2x3xf32>)
func.func private @transpose(%x: tensor<2x3x4xf32>, %o: tensor<4x2x3xf32>) -> tensor<4x2x3xf32> attributes {stepwell.kernel} {
  %r = "graph.transpose"(%x) {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  return %r : tensor<4x2x3xf32>
}

// -----

// A slice is read through its map; a dimension cut at its end is cut before.
// CHECK: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2) -> (-d0 + 4, d1 * 3 + 1, d2)>
// CHECK-LABEL: func.func private @slice
// CHECK: %[[CUT:[a-z_0-9]+]] = tensor.extract_slice %arg0[0, 0, 0] [5, 6, 2] [1, 1, 1]
// CHECK: linalg.generic {indexing_maps = [#[[X]], #{{.*}}], {{.*}} ins(%[[CUT]]
// CHECK-SAME: outs(%{{.*}} : tensor<3x2x2xf32>)
func.func private @slice(%x: tensor<5x6x7xf32>, %o: tensor<3x2x2xf32>) -> tensor<3x2x2xf32> attributes {stepwell.kernel} {
  %r = "graph.slice"(%x) {starts = array<i64: 4, 1, 0>, sizes = array<i64: 3, 2, 2>, steps = array<i64: -1, 3, 1>} : (tensor<5x6x7xf32>) -> tensor<3x2x2xf32>
  return %r : tensor<3x2x2xf32>
}

// -----

// A constant pad: filled, then the operand put into its place.
// CHECK-LABEL: func.func private @pad
// CHECK: %[[FILL:[0-9]+]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<5x6xf32>)
// CHECK: %[[R:[a-z_0-9]+]] = tensor.insert_slice %arg0 into %[[FILL]][0, 2] [4, 3] [1, 1]
// CHECK: return %[[R]]
func.func private @pad(%x: tensor<4x3xf32>, %o: tensor<5x6xf32>) -> tensor<5x6xf32> attributes {stepwell.kernel} {
  %r = "graph.pad"(%x) {low = array<i64: 0, 2>, high = array<i64: 1, 1>, mode = "constant", value = 1.5 : f64} : (tensor<4x3xf32>) -> tensor<5x6xf32>
  return %r : tensor<5x6xf32>
}

// -----

// A pad that mirrors: the elements of the operand are a stretch of their own, beside it each computes where it comes from; a dimension without
// padding is read straight. A division only where padding is longer than the operand.
// CHECK-LABEL: func.func private @reflect
// CHECK: linalg.generic
// CHECK: %[[I:[0-9]+]] = linalg.index 0
// CHECK: %[[J:[0-9]+]] = linalg.index 1
// CHECK-NOT: arith.remui
// CHECK: arith.minui
// CHECK: tensor.extract %arg0[%[[I]], %{{.*}}]
// CHECK: tensor.insert_slice {{.*}}[0, 0] [4, 2] [1, 1]
// CHECK: linalg.generic
// CHECK: %[[K:[0-9]+]] = linalg.index 0
// CHECK: %[[L:[0-9]+]] = linalg.index 1
// CHECK-NEXT: %[[P:[0-9]+]] = arith.addi %[[L]], %c0
// CHECK-NEXT: tensor.extract %arg0[%[[K]], %[[P]]]
// CHECK: tensor.insert_slice {{.*}}[0, 2] [4, 3] [1, 1]
// CHECK: tensor.insert_slice {{.*}}[0, 5] [4, 1] [1, 1]
func.func private @reflect(%x: tensor<4x3xf32>, %o: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {stepwell.kernel} {
  %r = "graph.pad"(%x) {low = array<i64: 0, 2>, high = array<i64: 0, 1>, mode = "reflect", value = 0.0 : f64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}

// -----

// In a kernel, a concatenation puts each operand into its slice.
// CHECK-LABEL: func.func private @concat
// CHECK: %[[E:[0-9]+]] = tensor.empty() : tensor<2x5xf32>
// CHECK: %[[A:[a-z_0-9]+]] = tensor.insert_slice %arg0 into %[[E]][0, 0] [2, 2]
// CHECK: %[[B:[a-z_0-9]+]] = tensor.insert_slice %arg1 into %[[A]][0, 2] [2, 3]
// CHECK: return %[[B]]
func.func private @concat(%x: tensor<2x2xf32>, %y: tensor<2x3xf32>, %o: tensor<2x5xf32>) -> tensor<2x5xf32> attributes {stepwell.kernel} {
  %r = "graph.concat"(%x, %y) {axis = 1 : i64} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>
  return %r : tensor<2x5xf32>
}

// -----

// In @main it stays one op, for buffer assignment; a reshape is views.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[a-z_0-9]+]] = tensor.concat dim(0) %arg0, %arg1
// CHECK: %[[F:[a-z_0-9]+]] = tensor.collapse_shape %[[C]] {{\[\[}}0, 1]] : tensor<4x6xf32> into tensor<24xf32>
// CHECK: tensor.expand_shape %[[F]] {{\[\[}}0, 1]] output_shape [3, 8] : tensor<24xf32> into tensor<3x8xf32>
func.func @main(%x: tensor<1x6xf32>, %y: tensor<3x6xf32>) -> tensor<3x8xf32> {
  %c = "graph.concat"(%x, %y) {axis = 0 : i64} : (tensor<1x6xf32>, tensor<3x6xf32>) -> tensor<4x6xf32>
  %r = "graph.reshape"(%c) {shape = array<i64: 3, 8>} : (tensor<4x6xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// -----

// A reshape merges and splits no more than it must.
// CHECK-LABEL: func.func private @reshape
// CHECK: %[[M:[a-z_0-9]+]] = tensor.collapse_shape %{{[0-9]+}} {{\[\[}}0], [1, 2], [3]] : tensor<2x3x4x5xf32> into tensor<2x12x5xf32>
// CHECK: tensor.expand_shape %[[M]] {{\[\[}}0], [1, 2], [3]] output_shape [2, 6, 2, 5]
func.func private @reshape(%x: tensor<2x3x4x5xf32>, %o: tensor<2x6x2x5xf32>) -> tensor<2x6x2x5xf32> attributes {stepwell.kernel} {
  %a = "graph.relu"(%x) : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %r = "graph.reshape"(%a) {shape = array<i64: 2, 6, 2, 5>} : (tensor<2x3x4x5xf32>) -> tensor<2x6x2x5xf32>
  return %r : tensor<2x6x2x5xf32>
}

// -----

// What a kernel returns is its own: a view of an argument is copied, a constant too.
// CHECK-LABEL: func.func private @borrowed
// CHECK: %[[V:[a-z_0-9]+]] = tensor.collapse_shape %arg0
// CHECK: %[[COPY:[0-9]+]] = linalg.generic {{.*}} ins(%[[V]] : tensor<6xf32>)
// CHECK: return %[[COPY]]
// CHECK-LABEL: func.func private @constant
// CHECK: %[[COPY:[0-9]+]] = linalg.generic
// CHECK: return %[[COPY]]
func.func private @borrowed(%x: tensor<2x3xf32>, %o: tensor<6xf32>) -> tensor<6xf32> attributes {stepwell.kernel} {
  %r = "graph.reshape"(%x) {shape = array<i64: 6>} : (tensor<2x3xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}
func.func private @constant(%o: tensor<2xf32>) -> tensor<2xf32> attributes {stepwell.kernel} {
  %r = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// A tile has a loop for the repeats and one for the elements.
// CHECK: #[[X:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-LABEL: func.func private @tile
// CHECK: %[[R:[0-9]+]] = linalg.generic {indexing_maps = [#[[X]], #{{.*}}], {{.*}} outs(%{{.*}} : tensor<2x4x3xf32>)
// CHECK: tensor.collapse_shape %[[R]] {{\[\[}}0], [1, 2]] : tensor<2x4x3xf32> into tensor<2x12xf32>
func.func private @tile(%x: tensor<2x3xf32>, %o: tensor<2x12xf32>) -> tensor<2x12xf32> attributes {stepwell.kernel} {
  %r = "graph.tile"(%x) {repeats = array<i64: 1, 4>} : (tensor<2x3xf32>) -> tensor<2x12xf32>
  return %r : tensor<2x12xf32>
}
