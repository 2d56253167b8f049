// RUN: stepwell-opt %s --outline-regions --split-input-file | FileCheck %s

// If the condition may end a loop, there is memory for as many parts as there may be rounds, from 0 on; the number of rounds says how many count.
// CHECK: %[[NONE:.*]] = "graph.constant"() {value = dense<0>
// CHECK: %[[N:.*]] = "graph.maximum"(%arg0, %[[NONE]])
// CHECK: %[[MOST:.*]] = "graph.reshape"(%[[N]]) {shape = array<i64: 1>}
// CHECK: "graph.bind_sizes"(%[[MOST]]) {sizes = ["most_m"]}
// CHECK: %[[L:.*]]:4 = "flow.loop"(%arg0, %arg1, %arg2)
// CHECK-SAME: -> (tensor<4xf32>, tensor<?x4xf32, "most_m">, tensor<?xi64, "most_m">, tensor<1xi64>)
// CHECK: %[[COUNTS:.*]] = "graph.concat"(%[[L]]#3, %[[L]]#3)
// CHECK: "graph.bind_sizes"(%[[COUNTS]]) {sizes = ["m", "k"]}
// CHECK: %[[A:.*]] = "graph.first"(%[[L]]#1) {sizes = ["m", -1]}
// CHECK: %[[B:.*]] = "graph.first"(%[[L]]#2) {sizes = ["k"]}
// CHECK: return %[[A]], %[[B]]
// CHECK: func.func private @main.body(%arg0: tensor<i64>, %arg1: tensor<i1>, %arg2: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<i64>)
// CHECK: return %arg1, %{{.*}}, %arg2, %arg0
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %begin: tensor<4xf32>) -> (tensor<?x4xf32, "m">, tensor<?xi64, "k">) {
  %y:3 = "graph.loop"(%n, %c, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %0 = "graph.tanh"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    "graph.yield"(%go, %0, %v, %i) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<i64>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32, "m">, tensor<?xi64, "k">)
  return %y#1, %y#2 : tensor<?x4xf32, "m">, tensor<?xi64, "k">
}

// -----

// Where all rounds come, their number is bound before the first, and the results are what is collected.
// CHECK: %[[MOST:.*]] = "graph.reshape"(%{{.*}}) {shape = array<i64: 1>}
// CHECK: %[[COUNTS:.*]] = "graph.concat"(%[[MOST]], %[[MOST]])
// CHECK: "graph.bind_sizes"(%[[COUNTS]]) {sizes = ["m", "k"]}
// CHECK: %[[L:.*]]:4 = "flow.loop"(%arg0, %{{.*}}, %arg1)
// CHECK-SAME: -> (tensor<4xf32>, tensor<?x4xf32, "m">, tensor<?xi64, "k">, tensor<1xi64>)
// CHECK-NEXT: return %[[L]]#1, %[[L]]#2
func.func @main(%n: tensor<i64>, %begin: tensor<4xf32>) -> (tensor<?x4xf32, "m">, tensor<?xi64, "k">) {
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %y:3 = "graph.loop"(%n, %yes, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %0 = "graph.tanh"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    "graph.yield"(%go, %0, %v, %i) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>, tensor<i64>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32, "m">, tensor<?xi64, "k">)
  return %y#1, %y#2 : tensor<?x4xf32, "m">, tensor<?xi64, "k">
}

// -----

// Nothing has to be bound where the number is in the type. A condition that the body says is true goes on, too.
// CHECK-NOT: graph.bind_sizes
// CHECK: %[[L:.*]]:3 = "flow.loop"{{.*}} -> (tensor<4xf32>, tensor<7x4xf32>, tensor<1xi64>)
// CHECK-NEXT: return %[[L]]#1
func.func @main(%begin: tensor<4xf32>) -> tensor<7x4xf32> {
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %n = "graph.constant"() {value = dense<7> : tensor<i64>} : () -> tensor<i64>
  %y:2 = "graph.loop"(%n, %yes, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %again = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %0 = "graph.tanh"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    "graph.yield"(%again, %0, %v) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<7x4xf32>)
  return %y#1 : tensor<7x4xf32>
}

// -----

// A number of rounds that is known but that the type does not say is compared; one below 0 is none.
// CHECK: %[[N:.*]] = "graph.constant"() {value = dense<0> : tensor<1xi64>}
// CHECK: "graph.bind_sizes"(%[[N]]) {sizes = ["m"]}
// CHECK: "flow.loop"{{.*}} -> (tensor<4xf32>, tensor<?x4xf32, "m">, tensor<1xi64>)
func.func @main(%begin: tensor<4xf32>) -> tensor<?x4xf32, "m"> {
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %n = "graph.constant"() {value = dense<-3> : tensor<i64>} : () -> tensor<i64>
  %y:2 = "graph.loop"(%n, %yes, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %0 = "graph.tanh"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    "graph.yield"(%go, %0, %v) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32, "m">)
  return %y#1 : tensor<?x4xf32, "m">
}

// -----

// A condition that is true in the body and not known before may mean no round at all; one that the body computes may end the loop.
// CHECK: %[[L:.*]]:3 = "flow.loop"{{.*}} -> (tensor<4xf32>, tensor<7x4xf32>, tensor<1xi64>)
// CHECK: "graph.bind_sizes"(%{{.*}}) {sizes = ["m"]}
// CHECK: "graph.first"(%[[L]]#1) {sizes = ["m", -1]}
// CHECK: %[[K:.*]]:3 = "flow.loop"{{.*}} -> (tensor<4xf32>, tensor<7x4xf32>, tensor<1xi64>)
// CHECK: "graph.bind_sizes"(%{{.*}}) {sizes = ["k"]}
// CHECK: "graph.first"(%[[K]]#1) {sizes = ["k", -1]}
func.func @main(%c: tensor<i1>, %begin: tensor<4xf32>) -> (tensor<?x4xf32, "m">, tensor<?x4xf32, "k">) {
  %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %n = "graph.constant"() {value = dense<7> : tensor<i64>} : () -> tensor<i64>
  %y:2 = "graph.loop"(%n, %c, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %again = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %0 = "graph.tanh"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    "graph.yield"(%again, %0, %v) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32, "m">)
  %z:2 = "graph.loop"(%n, %yes, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %0 = "graph.tanh"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "graph.reduce_max"(%0) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %2 = "graph.constant"() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
    %3 = "graph.less"(%2, %1) : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "graph.yield"(%3, %0, %v) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32, "k">)
  return %y#1, %z#1 : tensor<?x4xf32, "m">, tensor<?x4xf32, "k">
}
