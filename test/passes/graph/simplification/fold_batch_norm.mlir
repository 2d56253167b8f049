// RUN: stepwell-opt %s --fold-batch-norm --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --fold-batch-norm --split-input-file --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

// scale / sqrt(variance + epsilon) = [1, 2] / [2, 4]; bias - mean * that = [3 - 1 * 0.5, 4 - 2 * 0.5].
// CHECK-LABEL: func.func @normalisation
// CHECK-DAG: %[[K:.*]] = "graph.constant"() {value = dense<5.000000e-01> : tensor<1x2x1x1xf32>}
// CHECK-DAG: %[[S:.*]] = "graph.constant"() {value = dense<{{.*}}2.500000e+00{{.*}}3.000000e+00{{.*}}> : tensor<1x2x1x1xf32>}
// CHECK-DAG: %[[M:.*]] = "graph.mul"(%arg0, %[[K]])
// CHECK-DAG: %[[A:.*]] = "graph.add"(%[[M]], %[[S]])
// CHECK: return %[[A]]
func.func @normalisation(%x: tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32> {
  %scale = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %bias = "graph.constant"() {value = dense<[3.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %mean = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %var = "graph.constant"() {value = dense<[3.0, 15.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "graph.batch_norm"(%x, %scale, %bias, %mean, %var) {epsilon = 1.0 : f64}
    : (tensor<3x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2x4x4xf32>
  return %0 : tensor<3x2x4x4xf32>
}

// -----

// Into the convolution before it, which loses nothing but its old weights; the bias is scaled with it.
// CHECK-LABEL: func.func @after_conv
// CHECK-DAG: %[[W:.*]] = "graph.constant"() {value = dense<{{.*}}2.000000e+00{{.*}}4.000000e+00{{.*}}9.000000e+00{{.*}}1.200000e+01{{.*}}> : tensor<2x2x1x1xf32>}
// CHECK-DAG: %[[B:.*]] = "graph.constant"() {value = dense<{{.*}}1.000000e+01{{.*}}1.800000e+01{{.*}}> : tensor<2x1x1xf32>}
// CHECK-DAG: %[[C:.*]] = "graph.conv"(%arg0, %[[W]])
// CHECK-DAG: %[[A:.*]] = "graph.add"(%[[C]], %[[B]])
// CHECK: return %[[A]]
func.func @after_conv(%x: tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32> {
  %w = "graph.constant"() {value = dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>} : () -> tensor<2x2x1x1xf32>
  %b = "graph.constant"() {value = dense<[[[5.0]], [[6.0]]]> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %k = "graph.constant"() {value = dense<[[[2.0]], [[3.0]]]> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64}
    : (tensor<1x2x3x3xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %1 = "graph.add"(%0, %b) : (tensor<1x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %2 = "graph.mul"(%1, %k) : (tensor<1x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32>
  return %2 : tensor<1x2x3x3xf32>
}

// -----

// Groups: output channels of a conv_transpose, and input channels of a conv, count within their group.
// CHECK-LABEL: func.func @groups
// CHECK-DAG: %[[T:.*]] = "graph.constant"() {value = dense<{{.*}}2.000000e+00{{.*}}3.000000e+00{{.*}}5.000000e+00{{.*}}7.000000e+00{{.*}}> : tensor<2x2x1xf32>}
// CHECK-DAG: %[[C:.*]] = "graph.constant"() {value = dense<{{.*}}2.000000e+00{{.*}}3.000000e+00{{.*}}1.000000e+01{{.*}}1.400000e+01{{.*}}> : tensor<2x2x1xf32>}
// CHECK-DAG: %[[X:.*]] = "graph.conv_transpose"(%arg0, %[[T]])
// CHECK-DAG: %[[Y:.*]] = "graph.conv"(%arg1, %[[C]])
// CHECK: return %[[X]]
func.func @groups(%x: tensor<1x2x5xf32>, %y: tensor<1x4x5xf32>) -> (tensor<1x4x5xf32>, tensor<1x2x5xf32>) {
  %ones = "graph.constant"() {value = dense<1.0> : tensor<2x2x1xf32>} : () -> tensor<2x2x1xf32>
  %w = "graph.constant"() {value = dense<[[[1.0], [1.0]], [[2.0], [2.0]]]> : tensor<2x2x1xf32>} : () -> tensor<2x2x1xf32>
  %k = "graph.constant"() {value = dense<[[2.0], [3.0], [5.0], [7.0]]> : tensor<4x1xf32>} : () -> tensor<4x1xf32>
  %0 = "graph.conv_transpose"(%x, %ones) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 2 : i64, output_padding = array<i64: 0>}
    : (tensor<1x2x5xf32>, tensor<2x2x1xf32>) -> tensor<1x4x5xf32>
  %1 = "graph.mul"(%0, %k) : (tensor<1x4x5xf32>, tensor<4x1xf32>) -> tensor<1x4x5xf32>
  %2 = "graph.mul"(%y, %k) : (tensor<1x4x5xf32>, tensor<4x1xf32>) -> tensor<1x4x5xf32>
  %3 = "graph.conv"(%2, %w) {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 2 : i64}
    : (tensor<1x4x5xf32>, tensor<2x2x1xf32>) -> tensor<1x2x7xf32>
  %4 = "graph.slice"(%3) {starts = array<i64: 0, 0, 1>, sizes = array<i64: 1, 2, 5>, steps = array<i64: 1, 1, 1>} : (tensor<1x2x7xf32>) -> tensor<1x2x5xf32>
  return %1, %4 : tensor<1x4x5xf32>, tensor<1x2x5xf32>
}

// -----

// Matrix products, weights on either side; what is added before comes out after.
// CHECK-LABEL: func.func @matmul
// CHECK-NOT: "graph.mul"
// CHECK-NOT: "graph.div"
// CHECK-DAG: %[[R:.*]] = "graph.constant"() {value = dense<{{\[\[}}2.000000e+00, 6.000000e+00], [6.000000e+00, 1.200000e+01]]> : tensor<2x2xf32>}
// CHECK-DAG: %[[L:.*]] = "graph.constant"() {value = dense<{{\[\[}}5.000000e-01, 1.000000e+00], [1.000000e+00, 1.33333337]]> : tensor<2x2xf32>}
// CHECK-DAG: %[[B:.*]] = "graph.constant"() {value = dense<{{.*}}1.100000e+01, 1.600000e+01{{.*}}> : tensor<1x2xf32>}
// CHECK-DAG: %[[X:.*]] = "graph.matmul"(%arg0, %[[R]])
// CHECK-DAG: %[[Y:.*]] = "graph.matmul"(%[[L]], %arg0)
// CHECK-DAG: %[[Z:.*]] = "graph.add"(%{{.*}}, %[[B]])
// CHECK: return %[[X]], %[[Y]], %[[Z]]
func.func @matmul(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = "graph.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %row = "graph.constant"() {value = dense<[2.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %column = "graph.constant"() {value = dense<[[2.0], [3.0]]> : tensor<2x1xf32>} : () -> tensor<2x1xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "graph.mul"(%0, %row) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %2 = "graph.matmul"(%w, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = "graph.div"(%2, %column) : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %4 = "graph.add"(%x, %row) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %5 = "graph.matmul"(%4, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1, %3, %5 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A shift before a padded convolution cannot pass it: the padding is not shifted.
// CHECK-LABEL: func.func @padded
// CHECK: %[[A:.*]] = "graph.add"(%arg0
// CHECK: "graph.conv"(%[[A]]
// WHY: {{.*}}shift_inputs{{.*}}the padding would have to be shifted too
func.func @padded(%x: tensor<1x1x4xf32>) -> tensor<1x1x4xf32> {
  %w = "graph.constant"() {value = dense<[[[1.0, 2.0, 3.0]]]> : tensor<1x1x3xf32>} : () -> tensor<1x1x3xf32>
  %b = "graph.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.add"(%x, %b) : (tensor<1x1x4xf32>, tensor<f32>) -> tensor<1x1x4xf32>
  %1 = "graph.conv"(%0, %w) {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x1x4xf32>, tensor<1x1x3xf32>) -> tensor<1x1x4xf32>
  return %1 : tensor<1x1x4xf32>
}

// -----

// Left alone: a convolution with two users, a factor that varies along the image, integers, weights that are not known.
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-4: "graph.mul"
func.func @left_alone(%x: tensor<1x1x2xf32>, %i: tensor<1x1x2xi32>, %v: tensor<1x1x1xf32>)
    -> (tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xi32>, tensor<1x1x2xf32>) {
  %w = "graph.constant"() {value = dense<2.0> : tensor<1x1x1xf32>} : () -> tensor<1x1x1xf32>
  %wi = "graph.constant"() {value = dense<2> : tensor<1x1x1xi32>} : () -> tensor<1x1x1xi32>
  %k = "graph.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %ki = "graph.constant"() {value = dense<3> : tensor<i32>} : () -> tensor<i32>
  %along = "graph.constant"() {value = dense<[2.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x1x2xf32>, tensor<1x1x1xf32>) -> tensor<1x1x2xf32>
  %1 = "graph.mul"(%0, %k) : (tensor<1x1x2xf32>, tensor<f32>) -> tensor<1x1x2xf32>
  %2 = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x1x2xf32>, tensor<1x1x1xf32>) -> tensor<1x1x2xf32>
  %3 = "graph.mul"(%2, %along) : (tensor<1x1x2xf32>, tensor<2xf32>) -> tensor<1x1x2xf32>
  %4 = "graph.conv"(%i, %wi) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x1x2xi32>, tensor<1x1x1xi32>) -> tensor<1x1x2xi32>
  %5 = "graph.mul"(%4, %ki) : (tensor<1x1x2xi32>, tensor<i32>) -> tensor<1x1x2xi32>
  %6 = "graph.conv"(%x, %v) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x1x2xf32>, tensor<1x1x1xf32>) -> tensor<1x1x2xf32>
  %7 = "graph.mul"(%6, %k) : (tensor<1x1x2xf32>, tensor<f32>) -> tensor<1x1x2xf32>
  return %0, %1, %3, %5, %7 : tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xi32>, tensor<1x1x2xf32>
}

// -----

// Before an activation it stays a multiplication and an addition; statistics that are computed take the long form.
// CHECK-LABEL: func.func @computed_statistics
// CHECK-NOT: "graph.batch_norm"
// CHECK: "graph.sqrt"
// CHECK: "graph.div"
// CHECK: "graph.sub"
// CHECK: "graph.mul"
// CHECK: "graph.add"
func.func @computed_statistics(%x: tensor<1x2x3xf32>, %s: tensor<2xf32>, %v: tensor<2xf32>) -> tensor<1x2x3xf32> {
  %0 = "graph.batch_norm"(%x, %s, %s, %s, %v) {epsilon = 1.0e-3 : f64}
    : (tensor<1x2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x3xf32>
  return %0 : tensor<1x2x3xf32>
}

// -----

// CHECK-LABEL: func.func @no_weights
// CHECK: "graph.batch_norm"
// WHY: {{.*}}normalise_by_values{{.*}}its statistics are constants: known, or named in a weight table that is not here
func.func @no_weights(%x: tensor<1x2x3xf32>) -> tensor<1x2x3xf32> {
  %s = "graph.parameter"() {id = "s"} : () -> tensor<2xf32>
  %0 = "graph.batch_norm"(%x, %s, %s, %s, %s) {epsilon = 1.0e-3 : f64}
    : (tensor<1x2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x3xf32>
  return %0 : tensor<1x2x3xf32>
}
