// RUN: stepwell-opt %s --outline-regions --split-input-file | FileCheck %s

// What branches give in different sizes comes out in a box; its sizes become known behind. The other result has one size, and needs none.
// CHECK: func.func @main(
// CHECK: %[[R:.*]]:2 = "flow.if"(%arg0, %arg1, %arg2) {{.*}} -> (tensor<6xf32>, tensor<9xi64>)
// CHECK-NEXT: %[[S:.*]] = "graph.slice"(%[[R]]#1) {sizes = array<i64: 2>, starts = array<i64: 1>, steps = array<i64: 1>}
// CHECK-NEXT: "graph.bind_sizes"(%[[S]]) {sizes = ["m", 6]}
// CHECK-NEXT: %[[U:.*]] = "flow.unbox"(%[[R]]#1) {sizes = ["m", 6], to = f32}
// CHECK-NEXT: return %[[R]]#0, %[[U]]
// CHECK: func.func private @main.then({{.*}}) -> (tensor<6xf32>, tensor<9xi64>)
// CHECK: %[[B:.*]] = "flow.box"(%arg0) : (tensor<?x6xf32, "n">) -> tensor<9xi64>
// CHECK-NEXT: return %{{.*}}, %[[B]]
// CHECK: func.func private @main.else({{.*}}) -> (tensor<6xf32>, tensor<9xi64>)
// CHECK: %[[N:.*]] = "graph.neg"(%arg1)
// CHECK-NEXT: %[[B:.*]] = "flow.box"(%[[N]])
// CHECK-NEXT: return %{{.*}}, %[[B]]
func.func @main(%c: tensor<i1>, %x: tensor<?x6xf32, "n">, %y: tensor<?x6xf32, "k">) -> (tensor<6xf32>, tensor<?x6xf32, "m">) {
  %b = "graph.constant"() {value = dense<0.5> : tensor<6xf32>} : () -> tensor<6xf32>
  %0:2 = "graph.if"(%c) ({
    "graph.yield"(%b, %x) : (tensor<6xf32>, tensor<?x6xf32, "n">) -> ()
  }, {
    %1 = "graph.neg"(%y) : (tensor<?x6xf32, "k">) -> tensor<?x6xf32, "k">
    "graph.yield"(%b, %1) : (tensor<6xf32>, tensor<?x6xf32, "k">) -> ()
  }) : (tensor<i1>) -> (tensor<6xf32>, tensor<?x6xf32, "m">)
  return %0#0, %0#1 : tensor<6xf32>, tensor<?x6xf32, "m">
}

// -----

// A carried value of changing sizes goes into a box before, is taken out first thing in a round, and goes into one again at its end.
// CHECK: func.func @main(
// CHECK: %[[B:.*]] = "flow.box"(%arg2) : (tensor<?x6xf32, "n">) -> tensor<9xi64>
// CHECK-NEXT: %[[L:.*]]:3 = "flow.loop"(%arg0, %arg1, %arg3, %[[B]]) {{.*}} -> (tensor<6xf32>, tensor<9xi64>, tensor<1xi64>)
// CHECK: "graph.bind_sizes"(%{{.*}}) {sizes = ["m", 6]}
// CHECK-NEXT: %[[U:.*]] = "flow.unbox"(%[[L]]#1) {sizes = ["m", 6], to = f32}
// CHECK-NEXT: return %[[L]]#0, %[[U]]
// CHECK: func.func private @main.body(%arg0: tensor<i64>, %arg1: tensor<i1>, %arg2: tensor<6xf32>, %arg3: tensor<9xi64>) -> (tensor<i1>, tensor<6xf32>, tensor<9xi64>)
// CHECK-NEXT: %[[S:.*]] = "graph.slice"(%arg3) {sizes = array<i64: 2>, starts = array<i64: 1>
// CHECK-NEXT: "graph.bind_sizes"(%[[S]]) {sizes = ["p", 6]}
// CHECK-NEXT: %[[V:.*]] = "flow.unbox"(%arg3) {sizes = ["p", 6], to = f32}
// CHECK-NEXT: %[[W:.*]] = "graph.concat"(%[[V]], %[[V]])
// CHECK: %[[B:.*]] = "flow.box"(%[[W]]) : (tensor<?x6xf32, "2*p">) -> tensor<9xi64>
// CHECK-NEXT: return %arg1, %{{.*}}, %[[B]]
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<?x6xf32, "n">, %y: tensor<6xf32>) -> (tensor<6xf32>, tensor<?x6xf32, "m">) {
  %0:2 = "graph.loop"(%n, %c, %y, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %w: tensor<6xf32>, %v: tensor<?x6xf32, "p">):
    %1 = "graph.concat"(%v, %v) {axis = 0 : i64} : (tensor<?x6xf32, "p">, tensor<?x6xf32, "p">) -> tensor<?x6xf32, "2*p">
    %2 = "graph.tanh"(%w) : (tensor<6xf32>) -> tensor<6xf32>
    "graph.yield"(%go, %2, %1) : (tensor<i1>, tensor<6xf32>, tensor<?x6xf32, "2*p">) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<6xf32>, tensor<?x6xf32, "n">) -> (tensor<6xf32>, tensor<?x6xf32, "m">)
  return %0#0, %0#1 : tensor<6xf32>, tensor<?x6xf32, "m">
}

// -----

// A free size that stays what it is needs no box.
// CHECK-NOT: flow.box
// CHECK: "flow.loop"(%arg0, %arg1, %arg2) {{.*}} -> (tensor<?x6xf32, "n">, tensor<1xi64>)
// CHECK-NOT: flow.box
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n"> {
  %0 = "graph.loop"(%n, %c, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<?x6xf32, "n">):
    %1 = "graph.tanh"(%v) : (tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
    "graph.yield"(%go, %1) : (tensor<i1>, tensor<?x6xf32, "n">) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
  return %0 : tensor<?x6xf32, "n">
}
