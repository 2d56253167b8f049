// RUN: stepwell-opt %s --hoist-from-loops --split-input-file | FileCheck %s

// A product with input and state beside each other becomes two, of which one is made for all rounds. What is the same in each round is computed
// once, and a number that counts is not carried.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = "graph.exp"(%arg2)
// CHECK: %[[UPPER:.*]] = "graph.slice"(%[[W]]) {sizes = array<i64: 3, 4>, starts = array<i64: 0, 0>
// CHECK: %[[LOWER:.*]] = "graph.slice"(%[[W]]) {sizes = array<i64: 4, 4>, starts = array<i64: 3, 0>
// CHECK: %[[ROWS:.*]] = "graph.reshape"(%arg0) {shape = ["2*time", 3]}
// CHECK: %[[FLAT:.*]] = "graph.matmul"(%[[ROWS]], %[[UPPER]])
// CHECK: %[[ALL:.*]] = "graph.reshape"(%[[FLAT]]) {shape = ["time", 2, 4]}
// CHECK: %[[COUNT:.*]] = "graph.cast"(%{{.*}}) {saturate = true, to = i32}
// CHECK: %[[L:.*]] = "graph.loop"(%{{.*}}, %{{.*}}, %arg1)
// CHECK: ^bb0(%[[I:.*]]: tensor<i64>, %{{.*}}: tensor<i1>, %[[H:.*]]: tensor<2x4xf32>):
// CHECK: %[[ROW:.*]] = "graph.at_round"(%[[ALL]], %[[I]])
// CHECK: %[[LATE:.*]] = "graph.matmul"(%[[H]], %[[LOWER]])
// CHECK: %[[SUM:.*]] = "graph.add"(%[[ROW]], %[[LATE]])
// CHECK: %[[NEXT:.*]] = "graph.sin"(%[[SUM]])
// CHECK: "graph.yield"(%{{.*}}, %[[NEXT]]) : (tensor<i1>, tensor<2x4xf32>) -> ()
// CHECK: return %[[COUNT]], %[[L]]
func.func @main(%x: tensor<?x2x3xf32, "time">, %h0: tensor<2x4xf32>, %k: tensor<7x4xf32>) -> (tensor<i32>, tensor<2x4xf32>) {
  %sizes = "graph.sizes"() {values = ["time"]} : () -> tensor<1xi64>
  %n = "graph.reshape"(%sizes) {shape = array<i64>} : (tensor<1xi64>) -> tensor<i64>
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %zero = "graph.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %one = "graph.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %y:2 = "graph.loop"(%n, %yes, %zero, %h0) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %t: tensor<i32>, %h: tensor<2x4xf32>):
    %w = "graph.exp"(%k) : (tensor<7x4xf32>) -> tensor<7x4xf32>
    %xt = "graph.gather"(%x, %t) {axis = 0 : i64, from_start = false} : (tensor<?x2x3xf32, "time">, tensor<i32>) -> tensor<2x3xf32>
    %0 = "graph.concat"(%xt, %h) {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
    %1 = "graph.matmul"(%0, %w) : (tensor<2x7xf32>, tensor<7x4xf32>) -> tensor<2x4xf32>
    %2 = "graph.sin"(%1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = "graph.add"(%t, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "graph.yield"(%go, %3, %2) : (tensor<i1>, tensor<i32>, tensor<2x4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<i32>, tensor<2x4xf32>) -> (tensor<i32>, tensor<2x4xf32>)
  return %y#0, %y#1 : tensor<i32>, tensor<2x4xf32>
}

// -----

// A loop that its condition may end: nothing is computed for rounds that may not come, but what is the same in each is computed once.
// CHECK-LABEL: func.func @main
// CHECK: "graph.exp"(%arg2)
// CHECK-NOT: graph.matmul
// CHECK: graph.loop
// CHECK: "graph.gather"(%arg0, %{{.*}})
// CHECK: graph.matmul
func.func @main(%x: tensor<9x2x3xf32>, %h0: tensor<2x3xf32>, %k: tensor<3x3xf32>) -> tensor<2x3xf32> {
  %n = "graph.constant"() {value = dense<9> : tensor<i64>} : () -> tensor<i64>
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %y = "graph.loop"(%n, %yes, %h0) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<2x3xf32>):
    %w = "graph.exp"(%k) : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %xt = "graph.gather"(%x, %i) {axis = 0 : i64, from_start = false} : (tensor<9x2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
    %0 = "graph.matmul"(%xt, %w) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %1 = "graph.mul"(%0, %h) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = "graph.reduce_sum"(%1) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<f32>
    %3 = "graph.less"(%2, %2) : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "graph.yield"(%3, %1) : (tensor<i1>, tensor<2x3xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
