// RUN: stepwell-opt %s --fuse-operators --outline-kernels --split-input-file | FileCheck %s

// Equal groups share a function, whatever they work on; the last argument is the destination.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<3x3xf32> {stepwell.name = "x"}, %[[Y:arg[0-9]+]]: tensor<3x3xf32>
// CHECK-NEXT: %[[D0:.*]] = tensor.empty() : tensor<3x3xf32>
// CHECK-NEXT: %[[K0:.*]] = call @[[MATMUL:matmul_[0-9a-f]*]](%[[X]], %[[Y]], %[[D0]]) : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
// CHECK-NEXT: %[[V:.*]] = "graph.reshape"(%[[K0]])
// CHECK-NEXT: %[[W:.*]] = "graph.reshape"(%[[V]])
// CHECK-NEXT: %[[D1:.*]] = tensor.empty() : tensor<3x3xf32>
// CHECK-NEXT: %[[K1:.*]] = call @[[MATMUL]](%[[K0]], %[[W]], %[[D1]])
// CHECK-NEXT: %[[D2:.*]] = tensor.empty() : tensor<3x3xf32>
// CHECK-NEXT: %[[K2:.*]] = call @[[EXP:exp_[0-9a-f]*]](%[[K1]], %[[D2]])
// CHECK-NEXT: return %[[K2]], %[[K1]]

// CHECK: func.func private @[[MATMUL]](%[[A:.*]]: tensor<3x3xf32>, %[[B:.*]]: tensor<3x3xf32>, %{{.*}}: tensor<3x3xf32>) -> tensor<3x3xf32> attributes {llvm.no_inline, stepwell.kernel} {
// CHECK-NEXT: %[[M:.*]] = "graph.matmul"(%[[A]], %[[B]])
// CHECK-NEXT: %[[R:.*]] = "graph.relu"(%[[M]])
// CHECK-NEXT: return %[[R]]

// CHECK: func.func private @[[EXP]]({{.*}} attributes {llvm.no_inline, stepwell.kernel} {
// CHECK-NEXT: "graph.constant"
// CHECK-NEXT: "graph.exp"
// CHECK-NEXT: "graph.add"
func.func @main(%x: tensor<3x3xf32> {stepwell.name = "x"}, %y: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>) {
  %c = "graph.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.matmul"(%x, %y) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "graph.relu"(%0) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %v = "graph.reshape"(%1) {shape = array<i64: 9>} : (tensor<3x3xf32>) -> tensor<9xf32>
  %w = "graph.reshape"(%v) {shape = array<i64: 3, 3>} : (tensor<9xf32>) -> tensor<3x3xf32>
  %2 = "graph.matmul"(%1, %w) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = "graph.relu"(%2) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %4 = "graph.exp"(%3) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %5 = "graph.add"(%4, %c) : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  return %5, %3 : tensor<3x3xf32>, tensor<3x3xf32>
}

// -----

// Groups that differ in an attribute, a type, a number inside, or in which operand goes where, are different kernels.
// CHECK-LABEL: func.func @different
// CHECK: call @[[A:sub_[0-9a-f]*]](%arg0, %arg1
// CHECK: call @[[A]](%arg1, %arg0
// CHECK: call @[[C:leaky_relu_[0-9a-f]*]](
// CHECK: call @[[D:leaky_relu_[0-9a-f]*]](
// CHECK: call @[[E:mul_[0-9a-f]*]](
// CHECK: call @[[F:mul_[0-9a-f]*]](
// CHECK: call @[[G:mul_[0-9a-f]*]](
// CHECK: func.func private @[[A]](
// CHECK: func.func private @[[C]](
// CHECK: func.func private @[[D]](
// CHECK: func.func private @[[E]](
// CHECK: func.func private @[[F]](
// CHECK: func.func private @[[G]](
func.func @different(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<4xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xf32>) {
  %2 = "graph.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "graph.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %a = "graph.sub"(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = "graph.sub"(%y, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %c = "graph.leaky_relu"(%x) {alpha = 0.1 : f64} : (tensor<3xf32>) -> tensor<3xf32>
  %d = "graph.leaky_relu"(%x) {alpha = 0.2 : f64} : (tensor<3xf32>) -> tensor<3xf32>
  %e = "graph.mul"(%x, %2) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %f = "graph.mul"(%x, %3) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %g = "graph.mul"(%z, %2) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %a, %b, %c, %d, %e, %f, %g : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xf32>
}

// -----

// What a kernel does not compute stays: an argument, a view of it, the same value twice; a constant becomes a parameter.
// CHECK-LABEL: func.func @returns
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<4xf32>
// CHECK-NEXT: %[[P:.*]] = "graph.parameter"() {id = "constant"} : () -> tensor<2xf32>
// CHECK-NEXT: %[[V:.*]] = "graph.reshape"(%[[X]])
// CHECK-NEXT: return %[[X]], %[[X]], %[[V]], %[[P]]
func.func @returns(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2xf32>) {
  %c = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %v = "graph.reshape"(%x) {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32>
  return %x, %x, %v, %c : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2xf32>
}

// -----

// One destination for each result.
// CHECK-LABEL: func.func @two_results
// CHECK: %[[A:.*]] = tensor.empty() : tensor<2xf32>
// CHECK: %[[B:.*]] = tensor.empty() : tensor<2xi64>
// CHECK: %[[R:.*]]:2 = call @top_k_{{[0-9a-f]*}}(%arg0, %[[A]], %[[B]])
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @two_results(%x: tensor<5xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
  %k = "graph.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %v, %i = "graph.top_k"(%x, %k) {axis = 0 : i64, largest = true} : (tensor<5xf32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xi64>)
  return %v, %i : tensor<2xf32>, tensor<2xi64>
}

// -----

// A function that is a kernel already stays as it is, wherever it stands; those after it have their turn.
// CHECK-LABEL: func.func private @ready
// CHECK-NEXT: "graph.relu"
// CHECK-LABEL: func.func @after_a_kernel
// CHECK: call @neg_
func.func private @ready(%x: tensor<4xf32>, %d: tensor<4xf32>) -> tensor<4xf32> attributes {llvm.no_inline, stepwell.kernel} {
  %0 = "graph.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @after_a_kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  %d = tensor.empty() : tensor<4xf32>
  %0 = call @ready(%x, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "graph.neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
