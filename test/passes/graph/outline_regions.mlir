// RUN: stepwell-opt %s --outline-regions --split-input-file | FileCheck %s

// Each branch becomes a function; what either of them uses of what is around them is an argument of both. Constants are repeated, once in each.
// CHECK-LABEL: func.func @main(%arg0: tensor<i1>, %arg1: tensor<4xf32>)
// CHECK: %[[T:.*]] = "graph.tanh"(%arg1)
// CHECK-NEXT: %[[Y:.*]] = "flow.if"(%arg0, %[[T]], %arg1) {destinations = 0 : i64, otherwise = "main.else", then = "main.then"}
// CHECK-NEXT: return %[[Y]]
// CHECK-LABEL: func.func private @main.then(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.region}
// CHECK-NEXT: %[[H:.*]] = "graph.constant"
// CHECK-NEXT: %[[S:.*]] = "graph.sub"(%arg0, %[[H]])
// CHECK-NEXT: %[[M:.*]] = "graph.mul"(%[[S]], %[[H]])
// CHECK-NEXT: return %[[M]]
// CHECK-LABEL: func.func private @main.else(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.region}
// CHECK-NEXT: %[[H:.*]] = "graph.constant"
// CHECK-NEXT: %[[M:.*]] = "graph.maximum"(%arg1, %[[H]])
// CHECK-NEXT: return %[[M]]
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %half = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %t = "graph.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = "graph.if"(%c) ({
    %0 = "graph.sub"(%t, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = "graph.mul"(%0, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    "graph.yield"(%1) : (tensor<4xf32>) -> ()
  }, {
    %0 = "graph.maximum"(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    "graph.yield"(%0) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// The body of a loop takes the round, the condition, the carried values, then what it captures.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %[[L:.*]]:2 = "flow.loop"(%arg0, %arg1, %arg2, %arg3) {body = "main.body", carried = 1 : i64, destinations = 0 : i64}
// CHECK-SAME: -> (tensor<4xf32>, tensor<1xi64>)
// CHECK-NEXT: return %[[L]]#0
// CHECK-LABEL: func.func private @main.body(
// CHECK-SAME: %arg0: tensor<i64>, %arg1: tensor<i1>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) attributes {stepwell.region}
// CHECK-NEXT: %[[S:.*]] = "graph.sub"(%arg2, %arg3)
// CHECK-NEXT: return %arg1, %[[S]]
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %begin: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "graph.loop"(%n, %c, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %0 = "graph.sub"(%v, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "graph.yield"(%go, %0) : (tensor<i1>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A conditional in a loop becomes functions too, named after that of the body; what it captures from outside reaches it by way of the body. A
// name that is taken gets a number.
// CHECK: func.func private @main.body()
// CHECK: func.func @main(
// CHECK: "flow.loop"(%arg0, %arg1, %arg2, %arg1, %arg3) {body = "main.body_2"
// CHECK: func.func private @main.body_2(%arg0: tensor<i64>, %arg1: tensor<i1>, %arg2: tensor<4xf32>, %arg3: tensor<i1>, %arg4: tensor<4xf32>)
// CHECK: %[[R:.*]] = "flow.if"(%arg3, %arg2, %arg4) {destinations = 0 : i64, otherwise = "main.body_2.else", then = "main.body_2.then"}
// CHECK-NEXT: return %arg1, %[[R]]
// CHECK: func.func private @main.body_2.then(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
// CHECK-NEXT: %[[H:.*]] = "graph.constant"
// CHECK-NEXT: %[[A:.*]] = "graph.sub"(%arg0, %arg1)
// CHECK-NEXT: "graph.sub"(%[[A]], %[[H]])
// CHECK: func.func private @main.body_2.else(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
// CHECK-NEXT: return %arg0
func.func private @main.body()
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %begin: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %half = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %y = "graph.loop"(%n, %c, %begin) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<4xf32>):
    %0 = "graph.if"(%c) ({
      %1 = "graph.sub"(%v, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %2 = "graph.sub"(%1, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      "graph.yield"(%2) : (tensor<4xf32>) -> ()
    }, {
      "graph.yield"(%v) : (tensor<4xf32>) -> ()
    }) : (tensor<i1>) -> tensor<4xf32>
    "graph.yield"(%go, %0) : (tensor<i1>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
