// RUN: stepwell-opt %s --use-recurrences --split-input-file | FileCheck %s

// A plain recurrent layer that counts by a carried number: the product of the inputs is one for all rounds, and no loop is left.
// CHECK-LABEL: func.func @main(%arg0: tensor<7x2x3xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<4x4xf32>, %arg4: tensor<4xf32>)
// CHECK: %[[ROWS:.*]] = "graph.reshape"(%arg0) {shape = array<i64: 14, 3>}
// CHECK: %[[ALL:.*]] = "graph.matmul"(%[[ROWS]], %arg2)
// CHECK: %[[BIASED:.*]] = "graph.add"(%[[ALL]], %arg4)
// CHECK: %[[X:.*]] = "graph.reshape"(%[[BIASED]]) {shape = array<i64: 7, 2, 4>}
// CHECK: %[[RNN:.*]]:2 = "graph.rnn"(%[[X]], %{{.*}}, %{{.*}}) {activations = ["tanh"]
// CHECK-NOT: graph.loop
// CHECK: %[[LAST:.*]] = "graph.constant"() {value = dense<7> : tensor<i32>}
// CHECK: return %[[LAST]], %{{.*}}, %{{.*}} : tensor<i32>, tensor<2x4xf32>, tensor<7x2x4xf32>
func.func @main(%x: tensor<7x2x3xf32>, %h0: tensor<2x4xf32>, %w: tensor<3x4xf32>, %r: tensor<4x4xf32>, %b: tensor<4xf32>)
    -> (tensor<i32>, tensor<2x4xf32>, tensor<7x2x4xf32>) {
  %n = "graph.constant"() {value = dense<7> : tensor<i64>} : () -> tensor<i64>
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %zero = "graph.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %one = "graph.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %y:3 = "graph.loop"(%n, %yes, %zero, %h0) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %t: tensor<i32>, %h: tensor<2x4xf32>):
    %xt = "graph.gather"(%x, %t) {axis = 0 : i64, from_start = false} : (tensor<7x2x3xf32>, tensor<i32>) -> tensor<2x3xf32>
    %0 = "graph.matmul"(%xt, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %1 = "graph.matmul"(%h, %r) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = "graph.add"(%0, %1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = "graph.add"(%2, %b) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %4 = "graph.tanh"(%3) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = "graph.add"(%t, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "graph.yield"(%go, %5, %4, %4) : (tensor<i1>, tensor<i32>, tensor<2x4xf32>, tensor<2x4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<i32>, tensor<2x4xf32>) -> (tensor<i32>, tensor<2x4xf32>, tensor<7x2x4xf32>)
  return %y#0, %y#1, %y#2 : tensor<i32>, tensor<2x4xf32>, tensor<7x2x4xf32>
}

// -----

// What else the loop does stays, and reads what the layer's steps give. Here only rows 1 to 5 of x are read.
// CHECK-LABEL: func.func @main
// CHECK: %[[READ:.*]] = "graph.slice"(%arg0) {sizes = array<i64: 5, -1, -1>, starts = array<i64: 1, 0, 0>
// CHECK: %[[RNN:.*]]:2 = "graph.rnn"
// CHECK: %[[Y:.*]] = "graph.reshape"(%[[RNN]]#0) {shape = array<i64: 5, 2, 3>}
// CHECK: "graph.loop"(%{{.*}}, %{{.*}}, %arg1)
// CHECK: ^bb0(%[[I:.*]]: tensor<i64>, %{{.*}}: tensor<i1>, %[[S:.*]]: tensor<2x3xf32>):
// CHECK: %[[ROW:.*]] = "graph.at_round"(%[[Y]], %[[I]]) {axis = 0 : i64, backwards = false}
// CHECK-NOT: graph.matmul
// CHECK: %[[NEXT:.*]] = "graph.mul"(%[[S]], %[[ROW]])
// CHECK: "graph.yield"(%{{.*}}, %[[NEXT]])
func.func @main(%x: tensor<7x2x3xf32>, %h0: tensor<2x3xf32>, %r: tensor<3x3xf32>) -> tensor<2x3xf32> {
  %n = "graph.constant"() {value = dense<5> : tensor<i64>} : () -> tensor<i64>
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %one = "graph.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %y:2 = "graph.loop"(%n, %yes, %h0, %h0) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<2x3xf32>, %s: tensor<2x3xf32>):
    %t = "graph.add"(%i, %one) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %xt = "graph.gather"(%x, %t) {axis = 0 : i64, from_start = false} : (tensor<7x2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
    %1 = "graph.matmul"(%h, %r) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %2 = "graph.add"(%xt, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "graph.relu"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %4 = "graph.mul"(%s, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "graph.yield"(%go, %3, %4) : (tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return %y#1 : tensor<2x3xf32>
}

// -----

// The sixth round would read a row that does not exist: the loop stays, and its check with it. So does a loop of which only the run tells how
// many rounds come.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.rnn
// CHECK-COUNT-2: graph.loop
func.func @main(%x: tensor<5x2x3xf32>, %h0: tensor<2x3xf32>, %r: tensor<3x3xf32>, %m: tensor<i64>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %n = "graph.constant"() {value = dense<6> : tensor<i64>} : () -> tensor<i64>
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %y = "graph.loop"(%n, %yes, %h0) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<2x3xf32>):
    %xt = "graph.gather"(%x, %i) {axis = 0 : i64, from_start = false} : (tensor<5x2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
    %1 = "graph.matmul"(%h, %r) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %2 = "graph.add"(%xt, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "graph.relu"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    "graph.yield"(%go, %3) : (tensor<i1>, tensor<2x3xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = "graph.loop"(%m, %yes, %h0) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<2x3xf32>):
    %xt = "graph.gather"(%x, %i) {axis = 0 : i64, from_start = false} : (tensor<5x2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
    %1 = "graph.matmul"(%h, %r) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    %2 = "graph.add"(%xt, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "graph.relu"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    "graph.yield"(%go, %3) : (tensor<i1>, tensor<2x3xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y, %z : tensor<2x3xf32>, tensor<2x3xf32>
}
