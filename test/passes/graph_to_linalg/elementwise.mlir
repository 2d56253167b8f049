// RUN: stepwell-opt %s --convert-graph-to-linalg --split-input-file | FileCheck %s

// One generic; the operand of lower rank is read along the dimensions it has.
// CHECK: #[[ID:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK: #[[ROW:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-LABEL: func.func private @rank
// CHECK: %[[E:[0-9]+]] = tensor.empty() : tensor<2x3x4xf32>
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[ROW]], #[[ID]]], iterator_types = ["parallel", "parallel", "parallel"]}
// CHECK-SAME: outs(%[[E]] : tensor<2x3x4xf32>)
// CHECK: ^bb0(%[[A:[a-z]+]]: f32, %[[B:[a-z_0-9]+]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[R:[0-9]+]] = arith.subf %[[A]], %[[B]] : f32
// CHECK-NEXT: linalg.yield %[[R]] : f32
// CHECK-NOT: graph.
func.func private @rank(%x: tensor<2x3x4xf32>, %y: tensor<4xf32>, %o: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> attributes {stepwell.kernel} {
  %r = "graph.sub"(%x, %y) : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %r : tensor<2x3x4xf32>
}

// -----

// Along a dimension of size 1 that is broadcast, index 0 is read; one that is not keeps its loop.
// CHECK: #[[CHANNEL:map[0-9]*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, 0)>
// CHECK-LABEL: func.func private @channel
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[CHANNEL]], #{{.*}}]
// CHECK-SAME: ins(%arg0, %arg1 : tensor<1x8x6x6xf32>, tensor<1x8x1x1xf32>)
func.func private @channel(%x: tensor<1x8x6x6xf32>, %b: tensor<1x8x1x1xf32>, %o: tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32> attributes {stepwell.kernel} {
  %r = "graph.add"(%x, %b) : (tensor<1x8x6x6xf32>, tensor<1x8x1x1xf32>) -> tensor<1x8x6x6xf32>
  return %r : tensor<1x8x6x6xf32>
}

// -----

// A constant with one value is a scalar of the body; one with several stays an operand.
// CHECK-LABEL: func.func private @constants
// CHECK: %[[TABLE:[a-z_0-9]+]] = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK: %[[C:[a-z_0-9]+]] = arith.constant 3.000000e+00 : f32
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<2xf32>)
// CHECK: arith.mulf %{{.*}}, %[[C]] : f32
// CHECK: linalg.generic {{.*}} ins(%{{[0-9]+}}, %[[TABLE]] : tensor<2xf32>, tensor<2xf32>)
func.func private @constants(%x: tensor<2xf32>, %o: tensor<2xf32>) -> tensor<2xf32> attributes {stepwell.kernel} {
  %t = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %c = "graph.constant"() {value = dense<3.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %s = "graph.mul"(%x, %c) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %r = "graph.add"(%s, %t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// Narrow floats are computed in f32 and rounded once.
// CHECK-LABEL: func.func private @narrow
// CHECK: ^bb0(%[[A:[a-z]+]]: bf16, %{{.*}}: bf16):
// CHECK-NEXT: %[[W:[0-9]+]] = arith.extf %[[A]] : bf16 to f32
// CHECK-NEXT: %[[E:[0-9]+]] = math.exp %[[W]] : f32
// CHECK-NEXT: %[[N:[0-9]+]] = arith.truncf %[[E]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[N]] : bf16
func.func private @narrow(%x: tensor<4xbf16>, %o: tensor<4xbf16>) -> tensor<4xbf16> attributes {stepwell.kernel} {
  %r = "graph.exp"(%x) : (tensor<4xbf16>) -> tensor<4xbf16>
  return %r : tensor<4xbf16>
}

// -----

// A selection moves elements as they are, narrow ones too.
// CHECK-LABEL: func.func private @select
// CHECK-NOT: arith.extf
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : bf16
func.func private @select(%c: tensor<4xi1>, %x: tensor<4xbf16>, %o: tensor<4xbf16>) -> tensor<4xbf16> attributes {stepwell.kernel} {
  %r = "graph.select"(%c, %x, %x) : (tensor<4xi1>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  return %r : tensor<4xbf16>
}

// -----

// The bounds of a clamp that bound nothing leave no trace.
// CHECK-LABEL: func.func private @clamp
// CHECK: %[[ZERO:[a-z_0-9]+]] = arith.constant 0.000000e+00 : f32
// CHECK: arith.maximumf %{{.*}}, %[[ZERO]] : f32
// CHECK-NOT: arith.minimumf
// CHECK: return
func.func private @clamp(%x: tensor<4xf32>, %o: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel} {
  %r = "graph.clamp"(%x) {min = 0.0 : f64, max = 0x7FF0000000000000 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Dynamic dimensions: the result's sizes are taken from the argument that has them.
// CHECK-LABEL: func.func private @dynamic
// CHECK: %[[C0:[a-z_0-9]+]] = arith.constant 0 : index
// CHECK: %[[D:[a-z_0-9]+]] = tensor.dim %arg1, %[[C0]] : tensor<?x4xf32>
// CHECK: tensor.empty(%[[D]]) : tensor<?x4xf32>
func.func private @dynamic(%x: tensor<1x4xf32>, %y: tensor<?x4xf32, "n">, %o: tensor<?x4xf32, "n">) -> tensor<?x4xf32, "n">
    attributes {stepwell.kernel} {
  %r = "graph.add"(%x, %y) : (tensor<1x4xf32>, tensor<?x4xf32, "n">) -> tensor<?x4xf32, "n">
  return %r : tensor<?x4xf32, "n">
}
