// RUN: stepwell-opt %s --fold-constants='max-bytes=64 max-growth=4 max-operations=100' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --fold-constants='max-bytes=64 max-growth=4 max-operations=100' --split-input-file --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

// A chain of known values becomes one constant, computed as the ops say.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[C:.*]] = "graph.constant"() {value = dense<{{\[}}[5.000000e-01, 2.500000e-01], [1.000000e+00, 2.000000e+00]]> : tensor<2x2xf32>}
// CHECK-NEXT: return %[[C]]
func.func @chain() -> tensor<2x2xf32> {
  %a = "graph.constant"() {value = dense<[[2.0, 1.0], [4.0, 0.5]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %t = "graph.transpose"(%a) {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = "graph.transpose"(%t) {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %r = "graph.reciprocal"(%s) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = "graph.transpose"(%r) {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %u : tensor<2x2xf32>
}

// -----

// Shapes of statically shaped tensors are known, whatever the tensor holds; so is arithmetic on them.
// CHECK-LABEL: func.func @shape_arithmetic
// CHECK-NEXT: "graph.constant"() {value = dense<[6, 10]> : tensor<2xi64>}
// CHECK-NEXT: return
func.func @shape_arithmetic(%x: tensor<3x5xf32>) -> tensor<2xi64> {
  %two = "graph.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %shape = "graph.shape_of"(%x) : (tensor<3x5xf32>) -> tensor<2xi64>
  %r = "graph.mul"(%shape, %two) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  return %r : tensor<2xi64>
}

// -----

// A shape that is not static is computed when it is known.
// CHECK-LABEL: func.func @dynamic_shape
// CHECK: "graph.shape_of"
func.func @dynamic_shape(%x: tensor<?x5xf32>) -> tensor<2xi64> {
  %shape = "graph.shape_of"(%x) : (tensor<?x5xf32>) -> tensor<2xi64>
  return %shape : tensor<2xi64>
}

// -----

// An op with an operand that is not known stays, and what it needs of folded ops stays as a constant.
// CHECK-LABEL: func.func @partly_known
// CHECK-NEXT: %[[C:.*]] = "graph.constant"() {value = dense<[3.000000e+00, 6.000000e+00]>
// CHECK-NEXT: "graph.add"(%{{.*}}, %[[C]])
func.func @partly_known(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %b = "graph.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %c = "graph.mul"(%a, %b) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %r = "graph.add"(%x, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// What would be much larger than it is now stays as it is.
// CHECK-LABEL: func.func @growth
// CHECK: "graph.expand"
// WHY: {{.*}}fold-constants{{.*}}it makes 400 bytes of 4: more than max-growth=4 times as many, and above max-bytes=64
func.func @growth() -> tensor<10x10xf32> {
  %a = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %r = "graph.expand"(%a) {shape = array<i64: 10, 10>} : (tensor<f32>) -> tensor<10x10xf32>
  return %r : tensor<10x10xf32>
}

// -----

// Small growth is no matter.
// CHECK-LABEL: func.func @small_growth
// CHECK-NOT: "graph.expand"
func.func @small_growth() -> tensor<4x4xf32> {
  %a = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %r = "graph.expand"(%a) {shape = array<i64: 4, 4>} : (tensor<f32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func.func @work
// CHECK: "graph.matmul"
// WHY: {{.*}}it takes 128 operations, more than max-operations=100
func.func @work() -> tensor<4x4xf32> {
  %a = "graph.constant"() {value = dense<1.0> : tensor<4x4xf32>} : () -> tensor<4x4xf32>
  %r = "graph.matmul"(%a, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// A parameter whose entry the weight table lacks is not known.
// CHECK-LABEL: func.func @no_weights
// CHECK: "graph.relu"
func.func @no_weights() -> tensor<4xf32> {
  %a = "graph.parameter"() {id = "w"} : () -> tensor<4xf32>
  %r = "graph.relu"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// An evaluation that fails is left to fail at run time, if it is ever reached.
// CHECK-LABEL: func.func @out_of_range
// CHECK: "graph.gather"
// WHY: {{.*}}its evaluation fails: index 7 is out of range for a dimension of size 2
func.func @out_of_range() -> tensor<1xf32> {
  %a = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %i = "graph.constant"() {value = dense<7> : tensor<1xi64>} : () -> tensor<1xi64>
  %r = "graph.gather"(%a, %i) {axis = 0 : i64} : (tensor<2xf32>, tensor<1xi64>) -> tensor<1xf32>
  return %r : tensor<1xf32>
}

// -----

// Inside regions too.
// CHECK-LABEL: func.func @in_a_branch
// CHECK: "graph.if"
// CHECK-NEXT: "graph.constant"() {value = dense<-1.000000e+00>
// CHECK-NEXT: "graph.yield"
func.func @in_a_branch(%c: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  %one = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %r = "graph.if"(%c) ({
    %n = "graph.neg"(%one) : (tensor<f32>) -> tensor<f32>
    "graph.yield"(%n) : (tensor<f32>) -> ()
  }, {
    "graph.yield"(%x) : (tensor<f32>) -> ()
  }) : (tensor<i1>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// What has no elements is known, whatever it is made of; what is summed up of nothing then is, too.
// CHECK-LABEL: func.func @nothing
// CHECK-NOT: graph.conv
// CHECK-DAG: %[[NONE:.*]] = "graph.constant"() {{.*}} -> tensor<0x3x5x5xf32>
// CHECK-DAG: %[[ZERO:.*]] = "graph.constant"() {{.*}} -> tensor<3xf32>
// CHECK: return %[[NONE]], %[[ZERO]]
func.func @nothing(%x: tensor<0x2x5x5xf32>, %w: tensor<3x2x1x1xf32>) -> (tensor<0x3x5x5xf32>, tensor<3xf32>) {
  %y = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<0x2x5x5xf32>, tensor<3x2x1x1xf32>) -> tensor<0x3x5x5xf32>
  %s = "graph.reduce_sum"(%y) {axes = array<i64: 0, 2, 3>, keepdims = false} : (tensor<0x3x5x5xf32>) -> tensor<3xf32>
  return %y, %s : tensor<0x3x5x5xf32>, tensor<3xf32>
}
