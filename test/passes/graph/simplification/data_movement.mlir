// RUN: stepwell-opt %s --simplify-algebra --remove-identities --split-input-file | FileCheck %s

// A channels-last island: the transpositions meet and go, the constant by channel is turned instead.
// CHECK-LABEL: func.func @transposes_meet
// CHECK-DAG: %[[C:.*]] = "graph.constant"() {value = dense<{{\[\[\[\[}}1.000000e+00{{\]\], \[\[}}2.000000e+00{{\]\], \[\[}}3.000000e+00]]]]> : tensor<1x3x1x1xf32>}
// CHECK: %[[A:.*]] = "graph.add"(%arg0, %[[C]])
// CHECK-NEXT: %[[R:.*]] = "graph.relu"(%[[A]])
// CHECK-NEXT: return %[[R]]
func.func @transposes_meet(%x: tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32> {
  %c = "graph.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %0 = "graph.transpose"(%x) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
  %1 = "graph.add"(%0, %c) : (tensor<1x4x5x3xf32>, tensor<3xf32>) -> tensor<1x4x5x3xf32>
  %2 = "graph.relu"(%1) : (tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32>
  %3 = "graph.transpose"(%2) {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
  return %3 : tensor<1x3x4x5xf32>
}

// -----

// Two operands in the same order take one transposition afterwards.
// CHECK-LABEL: func.func @one_for_two
// CHECK: %[[A:.*]] = "graph.add"(%arg0, %arg1) : (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK-NEXT: "graph.transpose"(%[[A]])
func.func @one_for_two(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "graph.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "graph.transpose"(%y) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = "graph.add"(%0, %1) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// -----

// It stays where it is used elsewhere too, where the other operand is in another order, where the result is larger or its elements wider.
// CHECK-LABEL: func.func @stays
// CHECK: %[[T:.*]] = "graph.transpose"(%arg0)
// CHECK: "graph.relu"(%[[T]])
// CHECK: "graph.add"(%[[T]], %arg1)
// CHECK: %[[U:.*]] = "graph.transpose"
// CHECK: "graph.mul"(%[[U]]
// CHECK: %[[V:.*]] = "graph.transpose"
// CHECK: "graph.cast"(%[[V]])
func.func @stays(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<4x3x2xf32>, tensor<3x2xf64>) {
  %c = "graph.constant"() {value = dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32>} : () -> tensor<4x1x1xf32>
  %0 = "graph.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "graph.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "graph.add"(%0, %y) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %z = "graph.neg"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %t = "graph.transpose"(%z) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %3 = "graph.mul"(%t, %c) : (tensor<3x2xf32>, tensor<4x1x1xf32>) -> tensor<4x3x2xf32>
  %w = "graph.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %u = "graph.transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %4 = "graph.cast"(%u) {to = f64, saturate = false} : (tensor<3x2xf32>) -> tensor<3x2xf64>
  return %0, %1, %2, %3, %4 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<4x3x2xf32>, tensor<3x2xf64>
}

// -----

// Element-wise ops move up through reshapes to what computes their operand; not to an argument.
// CHECK-LABEL: func.func @reshapes
// CHECK: %[[M:.*]] = "graph.matmul"
// CHECK-NEXT: %[[R:.*]] = "graph.relu"(%[[M]])
// CHECK-NEXT: %[[T:.*]] = "graph.reshape"(%[[R]])
// CHECK: %[[U:.*]] = "graph.reshape"(%arg0)
// CHECK-NEXT: %[[V:.*]] = "graph.relu"(%[[U]])
// CHECK: return %[[T]], %[[V]]
func.func @reshapes(%x: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "graph.matmul"(%x, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "graph.reshape"(%0) {shape = array<i64: 4>} : (tensor<2x2xf32>) -> tensor<4xf32>
  %2 = "graph.relu"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "graph.reshape"(%x) {shape = array<i64: 4>} : (tensor<2x2xf32>) -> tensor<4xf32>
  %4 = "graph.relu"(%3) : (tensor<4xf32>) -> tensor<4xf32>
  return %2, %4 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Broadcasting does what expansions say; what is left of them comes after the arithmetic.
// CHECK-LABEL: func.func @expansions
// CHECK: %[[A:.*]] = "graph.add"(%arg0, %arg1) : (tensor<3xf32>, tensor<2x3xf32>)
// CHECK: %[[E:.*]] = "graph.exp"(%arg0) : (tensor<3xf32>)
// CHECK-NEXT: %[[X:.*]] = "graph.expand"(%[[E]])
// CHECK: return %[[A]], %[[X]]
func.func @expansions(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "graph.expand"(%x) {shape = array<i64: 2, 3>} : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "graph.add"(%0, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "graph.expand"(%x) {shape = array<i64: 2, 3>} : (tensor<3xf32>) -> tensor<2x3xf32>
  %3 = "graph.exp"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1, %3 : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// A constant of one value needs no dimensions, unless it gives the result its shape.
// CHECK-LABEL: func.func @constants
// CHECK-DAG: %[[S:.*]] = "graph.constant"() {value = dense<5.000000e-01> : tensor<f32>}
// CHECK-DAG: "graph.sub"(%[[S]], %arg0) : (tensor<f32>, tensor<2x3xf32>)
// CHECK-DAG: "graph.sub"(%{{.*}}, %arg0) : (tensor<4x2x3xf32>, tensor<2x3xf32>)
func.func @constants(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<4x2x3xf32>) {
  %a = "graph.constant"() {value = dense<0.5> : tensor<2x1xf32>} : () -> tensor<2x1xf32>
  %b = "graph.constant"() {value = dense<0.5> : tensor<4x2x3xf32>} : () -> tensor<4x2x3xf32>
  %0 = "graph.sub"(%a, %x) : (tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "graph.sub"(%b, %x) : (tensor<4x2x3xf32>, tensor<2x3xf32>) -> tensor<4x2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<4x2x3xf32>
}

// -----

// Not past a constant of several values, nor with two reshapes from different shapes.
// CHECK-LABEL: func.func @reshapes_stay
// CHECK: %[[M:.*]] = "graph.matmul"
// CHECK: %[[R:.*]] = "graph.reshape"(%[[M]])
// CHECK-NEXT: %[[A:.*]] = "graph.add"(%[[R]], %{{.*}})
// CHECK: %[[N:.*]] = "graph.matmul"
// CHECK-NEXT: %[[S:.*]] = "graph.reshape"(%[[N]])
// CHECK-NEXT: %[[T:.*]] = "graph.reshape"(%arg1)
// CHECK-NEXT: %[[B:.*]] = "graph.add"(%[[S]], %[[T]])
// CHECK: return %[[A]], %[[B]]
func.func @reshapes_stay(%x: tensor<2x2xf32>, %y: tensor<1x4x1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = "graph.constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %0 = "graph.matmul"(%x, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "graph.reshape"(%0) {shape = array<i64: 4>} : (tensor<2x2xf32>) -> tensor<4xf32>
  %2 = "graph.add"(%1, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "graph.matmul"(%x, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = "graph.reshape"(%3) {shape = array<i64: 4>} : (tensor<2x2xf32>) -> tensor<4xf32>
  %5 = "graph.reshape"(%y) {shape = array<i64: 4>} : (tensor<1x4x1xf32>) -> tensor<4xf32>
  %6 = "graph.add"(%4, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2, %6 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Past a constant of several values where the reshape only moves dimensions of size 1.
// CHECK-LABEL: func.func @reshapes_of_ones
// CHECK-DAG: %[[C:.*]] = "graph.constant"() {value = dense<{{\[\[}}1.000000e+00, 2.000000e+00, 3.000000e+00]]> : tensor<1x3xf32>}
// CHECK-DAG: %[[M:.*]] = "graph.matmul"
// CHECK: %[[A:.*]] = "graph.mul"(%[[M]], %[[C]]) : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %[[R:.*]] = "graph.reshape"(%[[A]]) {shape = array<i64: 1, 2, 1, 3, 1>}
// CHECK-NEXT: return %[[R]]
func.func @reshapes_of_ones(%x: tensor<2x2xf32>, %y: tensor<2x3xf32>) -> tensor<1x2x1x3x1xf32> {
  %c = "graph.constant"() {value = dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>} : () -> tensor<3x1xf32>
  %0 = "graph.matmul"(%x, %y) : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "graph.reshape"(%0) {shape = array<i64: 1, 2, 1, 3, 1>} : (tensor<2x3xf32>) -> tensor<1x2x1x3x1xf32>
  %2 = "graph.mul"(%1, %c) : (tensor<1x2x1x3x1xf32>, tensor<3x1xf32>) -> tensor<1x2x1x3x1xf32>
  return %2 : tensor<1x2x1x3x1xf32>
}

// -----

// The scale and the zero point of a dequantisation must fit its numbers, so these keep their shape though all are the same.
// CHECK-LABEL: func.func @main
// CHECK: "graph.dequantize"({{.*}} : (tensor<2x3xui8>, tensor<2x1xf32>, tensor<2x1xui8>)
func.func @main(%s: tensor<2x1xf32>, %z: tensor<2x1xui8>) -> tensor<2x3xf32> {
  %x = "graph.constant"() {value = dense<7> : tensor<2x3xui8>} : () -> tensor<2x3xui8>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<2x3xui8>, tensor<2x1xf32>, tensor<2x1xui8>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
