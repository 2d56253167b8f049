// RUN: not stepwell-opt %s --convert-graph-to-linalg 2>&1 | FileCheck %s

// All that cannot be lowered is reported, each with its node and the reason.
// CHECK: 'graph.conv' at loc("first"
// CHECK-SAME: its pads [1, 0] are not zero; run make-padding-explicit before
func.func private @k(%x: tensor<1x2x5xf32>, %w: tensor<2x2x3xf32>, %o: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> attributes {stepwell.kernel} {
  %r = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 1, 0>, dilations = array<i64: 1>, group = 1 : i64}
     : (tensor<1x2x5xf32>, tensor<2x2x3xf32>) -> tensor<1x2x4xf32> loc(#first)
  return %r : tensor<1x2x4xf32>
}
#first = loc("first"("model.onnx":1:0))
