// RUN: stepwell-opt %s --use-sub-pixels --split-input-file | FileCheck %s

// Windows that touch: each phase is one tap, and all of them are filters of one convolution, phase by phase.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = "graph.constant"() {value = dense<{{\[\[}}[1.000000e+00]], {{\[\[}}3.000000e+00]], {{\[\[}}2.000000e+00]], {{\[\[}}4.000000e+00]]]> : tensor<4x1x1xf32>}
// CHECK-NEXT: %[[C:.*]] = "graph.conv"(%arg0, %[[W]]) {dilations = array<i64: 1>, group = 1 : i64, pads = array<i64: 0, 0>, strides = array<i64: 1>}
// CHECK-NEXT: %[[S:.*]] = "graph.pixel_shuffle"(%[[C]]) {group = 1 : i64, offsets = array<i64: 0>, sizes = array<i64: 10>, strides = array<i64: 2>} : (tensor<1x4x5xf32>) -> tensor<1x2x10xf32>
// CHECK-NEXT: return %[[S]]
func.func @main(%x: tensor<1x1x5xf32>) -> tensor<1x2x10xf32> {
  %w = "graph.constant"() {value = dense<[[[1.0, 2.0], [3.0, 4.0]]]> : tensor<1x2x2xf32>} : () -> tensor<1x2x2xf32>
  %0 = "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>, pads = array<i64: 0, 0>, strides = array<i64: 2>} : (tensor<1x1x5xf32>, tensor<1x2x2xf32>) -> tensor<1x2x10xf32>
  return %0 : tensor<1x2x10xf32>
}

// -----

// On a long signal one convolution computes all phases of the uncut result: one position more than need be.
// CHECK-LABEL: func.func @main
// CHECK: "graph.conv"({{.*}}) {{.*}}pads = array<i64: 1, 1>{{.*}} : (tensor<1x1x40xf32>, tensor<4x1x2xf32>) -> tensor<1x4x41xf32>
// CHECK: "graph.pixel_shuffle"({{.*}}) {group = 1 : i64, offsets = array<i64: 2>, sizes = array<i64: 160>, strides = array<i64: 4>}
func.func @main(%x: tensor<1x1x40xf32>) -> tensor<1x1x160xf32> {
  %w = "graph.constant"() {value = dense<[[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]]> : tensor<1x1x8xf32>} : () -> tensor<1x1x8xf32>
  %0 = "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>, pads = array<i64: 2, 2>, strides = array<i64: 4>} : (tensor<1x1x40xf32>, tensor<1x1x8xf32>) -> tensor<1x1x160xf32>
  return %0 : tensor<1x1x160xf32>
}

// -----

// Phases with one tap and phases with two are convolutions of their own: nothing is multiplied by a zero that fills up a filter.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = "graph.conv"({{.*}}) {{.*}}pads = array<i64: 0, 0>{{.*}} : (tensor<1x1x5xf32>, tensor<1x1x1xf32>) -> tensor<1x1x5xf32>
// CHECK: %[[V:.*]] = "graph.constant"() {value = dense<{{\[\[\[}}3.000000e+00, 1.000000e+00]]]>
// CHECK: %[[B:.*]] = "graph.conv"(%arg0, %[[V]]) {{.*}}pads = array<i64: 0, 1>{{.*}} -> tensor<1x1x5xf32>
// CHECK: %[[J:.*]] = "graph.concat"(%[[A]], %[[B]]) {axis = 1 : i64}
// CHECK: "graph.pixel_shuffle"(%[[J]]) {group = 1 : i64, offsets = array<i64: 0>, sizes = array<i64: 10>, strides = array<i64: 2>}
func.func @main(%x: tensor<1x1x5xf32>) -> tensor<1x1x10xf32> {
  %w = "graph.constant"() {value = dense<[[[1.0, 2.0, 3.0]]]> : tensor<1x1x3xf32>} : () -> tensor<1x1x3xf32>
  %0 = "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 1>, pads = array<i64: 1, 1>, strides = array<i64: 2>} : (tensor<1x1x5xf32>, tensor<1x1x3xf32>) -> tensor<1x1x10xf32>
  return %0 : tensor<1x1x10xf32>
}

// -----

// Without a stride it is a plain convolution by filters turned around.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = "graph.constant"() {value = dense<{{\[\[\[}}3.000000e+00, 2.000000e+00, 1.000000e+00]]]>
// CHECK: %[[C:.*]] = "graph.conv"(%arg0, %[[W]]) {{.*}}pads = array<i64: 1, 2>{{.*}} -> tensor<1x1x6xf32>
// CHECK-NEXT: return %[[C]]
func.func @main(%x: tensor<1x1x5xf32>) -> tensor<1x1x6xf32> {
  %w = "graph.constant"() {value = dense<[[[1.0, 2.0, 3.0]]]> : tensor<1x1x3xf32>} : () -> tensor<1x1x3xf32>
  %0 = "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>, pads = array<i64: 1, 0>, strides = array<i64: 1>} : (tensor<1x1x5xf32>, tensor<1x1x3xf32>) -> tensor<1x1x6xf32>
  return %0 : tensor<1x1x6xf32>
}

// -----

// Not with filters that are not known, nor where windows leave gaps, nor channel by channel.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: "graph.conv_transpose"
// CHECK-NOT: "graph.conv"
func.func @main(%x: tensor<1x2x5xf32>, %v: tensor<2x1x3xf32>) -> (tensor<1x1x11xf32>, tensor<1x1x14xf32>, tensor<1x2x10xf32>) {
  %0 = "graph.conv_transpose"(%x, %v) {dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>, pads = array<i64: 0, 0>, strides = array<i64: 2>} : (tensor<1x2x5xf32>, tensor<2x1x3xf32>) -> tensor<1x1x11xf32>
  %w = "graph.constant"() {value = dense<0.5> : tensor<2x1x2xf32>} : () -> tensor<2x1x2xf32>
  %1 = "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>, pads = array<i64: 0, 0>, strides = array<i64: 3>} : (tensor<1x2x5xf32>, tensor<2x1x2xf32>) -> tensor<1x1x14xf32>
  %2 = "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1>, group = 2 : i64, output_padding = array<i64: 0>, pads = array<i64: 0, 0>, strides = array<i64: 2>} : (tensor<1x2x5xf32>, tensor<2x1x2xf32>) -> tensor<1x2x10xf32>
  return %0, %1, %2 : tensor<1x1x11xf32>, tensor<1x1x14xf32>, tensor<1x2x10xf32>
}

// -----

// The size of the image may be known only at run time.
// CHECK-LABEL: func.func @free_size
// CHECK: "graph.conv"(%arg0, {{.*}} -> tensor<?x8x?xf32, "n, s + 1">
// CHECK: "graph.pixel_shuffle"({{.*}}) {group = 1 : i64, offsets = array<i64: 1>, sizes = ["2*s"], strides = array<i64: 2>} : (tensor<?x8x?xf32, "n, s + 1">) -> tensor<?x4x?xf32, "n, 2*s">
func.func @free_size(%x: tensor<?x2x?xf32, "n, s">) -> tensor<?x4x?xf32, "n, 2*s"> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<2x4x4xf32>} : () -> tensor<2x4x4xf32>
  %0 = "graph.conv_transpose"(%x, %w) {strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 0>}
    : (tensor<?x2x?xf32, "n, s">, tensor<2x4x4xf32>) -> tensor<?x4x?xf32, "n, 2*s">
  return %0 : tensor<?x4x?xf32, "n, 2*s">
}
