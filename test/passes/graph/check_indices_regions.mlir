// RUN: stepwell-opt %s --check-indices --split-input-file | FileCheck %s

// What a branch finds in its indices becomes a result of the conditional: 0 from the branch that does not have them. Each branch has its own.
// CHECK: stepwell.checks = [
// CHECK-SAME: node = "one"{{.*}} result = 0 : i64, sizes = array<i64: 5>}
// CHECK-SAME: node = "two"{{.*}} result = 1 : i64, sizes = array<i64: 4>}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<3xf32>, tensor<ui64> {stepwell.name = "indices of one"}, tensor<ui64> {stepwell.name = "indices of two"})
// CHECK: %[[R:.*]]:3 = "flow.if"(%arg0, %arg1, %arg2, %arg3) {{.*}} -> (tensor<3xf32>, tensor<ui64>, tensor<ui64>)
// CHECK-NEXT: return %[[R]]#0, %[[R]]#1, %[[R]]#2
// CHECK-LABEL: func.func private @main.then(
// CHECK-SAME: -> (tensor<3xf32>, tensor<ui64>, tensor<ui64>)
// CHECK: %[[G:.*]] = "graph.gather"
// CHECK: %[[M:.*]] = "graph.reduce_max"
// CHECK: %[[Z:.*]] = "graph.constant"() {value = dense<0> : tensor<ui64>}
// CHECK: return %[[G]], %[[M]], %[[Z]]
// CHECK-LABEL: func.func private @main.else(
// CHECK: %[[G:.*]] = "graph.gather"
// CHECK: %[[M:.*]] = "graph.reduce_max"
// CHECK: %[[Z:.*]] = "graph.constant"() {value = dense<0> : tensor<ui64>}
// CHECK: return %[[G]], %[[Z]], %[[M]]
func.func @main(%c: tensor<i1>, %x: tensor<5xf32>, %y: tensor<4xf32>, %i: tensor<3xi64>) -> tensor<3xf32> {
  %0 = "flow.if"(%c, %x, %y, %i) {then = "main.then", otherwise = "main.else", destinations = 0 : i64}
    : (tensor<i1>, tensor<5xf32>, tensor<4xf32>, tensor<3xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @main.then(%x: tensor<5xf32>, %y: tensor<4xf32>, %i: tensor<3xi64>) -> tensor<3xf32> attributes {stepwell.region} {
  %0 = "graph.gather"(%x, %i) {axis = 0 : i64} : (tensor<5xf32>, tensor<3xi64>) -> tensor<3xf32> loc("one")
  return %0 : tensor<3xf32>
}
func.func private @main.else(%x: tensor<5xf32>, %y: tensor<4xf32>, %i: tensor<3xi64>) -> tensor<3xf32> attributes {stepwell.region} {
  %0 = "graph.gather"(%y, %i) {axis = 0 : i64} : (tensor<4xf32>, tensor<3xi64>) -> tensor<3xf32> loc("two")
  return %0 : tensor<3xf32>
}

// -----

// A loop carries the greatest that its rounds find, from 0 on, behind its own carried values and in front of what it collects; the body takes
// it in front of what it captures. What is found in @main itself comes first.
// CHECK: stepwell.checks = [
// CHECK-SAME: node = "outside"{{.*}} result = 0 : i64
// CHECK-SAME: node = "inside"{{.*}} result = 1 : i64
// CHECK-LABEL: func.func @main(
// CHECK: %[[Z:.*]] = "graph.constant"() {value = dense<0> : tensor<ui64>}
// CHECK: %[[L:.*]]:4 = "flow.loop"(%arg0, %arg1, %arg3, %[[Z]], %arg2) {body = "main.body", carried = 2 : i64, destinations = 0 : i64}
// CHECK-SAME: -> (tensor<3xf32>, tensor<ui64>, tensor<7x3xf32>, tensor<1xi64>)
// CHECK: %[[M:.*]] = "graph.reduce_max"
// CHECK: return %[[L]]#2, %{{.*}}, %[[M]], %[[L]]#1
// CHECK-LABEL: func.func private @main.body(
// CHECK-SAME: %arg0: tensor<i64>, %arg1: tensor<i1>, %arg2: tensor<3xf32>, %arg3: tensor<ui64>, %arg4: tensor<5xf32>)
// CHECK-SAME: -> (tensor<i1>, tensor<3xf32>, tensor<ui64>, tensor<3xf32>)
// CHECK: %[[G:.*]] = "graph.gather"(%arg4,
// CHECK: %[[M:.*]] = "graph.reduce_max"
// CHECK: %[[N:.*]] = "graph.maximum"(%arg3, %[[M]])
// CHECK: return %arg1, %[[G]], %[[N]], %arg2
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<5xf32>, %y: tensor<3xf32>, %i: tensor<3xi64>) -> (tensor<7x3xf32>, tensor<3xf32>) {
  %0:3 = "flow.loop"(%n, %c, %y, %x) {body = "main.body", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i1>, tensor<3xf32>, tensor<5xf32>) -> (tensor<3xf32>, tensor<7x3xf32>, tensor<1xi64>)
  %1 = "graph.gather"(%x, %i) {axis = 0 : i64} : (tensor<5xf32>, tensor<3xi64>) -> tensor<3xf32> loc("outside")
  return %0#1, %1 : tensor<7x3xf32>, tensor<3xf32>
}
func.func private @main.body(%i: tensor<i64>, %go: tensor<i1>, %y: tensor<3xf32>, %x: tensor<5xf32>) -> (tensor<i1>, tensor<3xf32>, tensor<3xf32>)
    attributes {stepwell.region} {
  %0 = "graph.cast"(%y) {saturate = true, to = i64} : (tensor<3xf32>) -> tensor<3xi64>
  %1 = "graph.gather"(%x, %0) {axis = 0 : i64} : (tensor<5xf32>, tensor<3xi64>) -> tensor<3xf32> loc("inside")
  return %go, %1, %y : tensor<i1>, tensor<3xf32>, tensor<3xf32>
}

// -----

// A conditional in a loop: its result goes on from the body to @main. One whose indices are in range gets none.
// CHECK: stepwell.checks = [{{{.*}}node = "deep"{{.*}} result = 0 : i64, sizes = array<i64: 5>}]
// CHECK-LABEL: func.func @main(
// CHECK: "flow.if"{{.*}} -> tensor<5xf32>
// CHECK: %[[L:.*]]:3 = "flow.loop"
// CHECK: return %[[L]]#0, %[[L]]#1
// CHECK-LABEL: func.func private @main.body(
// CHECK: %[[R:.*]]:2 = "flow.if"{{.*}} -> (tensor<5xf32>, tensor<ui64>)
// CHECK: %[[M:.*]] = "graph.maximum"(%arg3, %[[R]]#1)
// CHECK: return %arg1, %[[R]]#0, %[[M]]
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "flow.if"(%c, %x) {then = "main.then", otherwise = "main.else", destinations = 0 : i64} : (tensor<i1>, tensor<5xf32>) -> tensor<5xf32>
  %1:2 = "flow.loop"(%n, %c, %0) {body = "main.body", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i1>, tensor<5xf32>) -> (tensor<5xf32>, tensor<1xi64>)
  return %1#0 : tensor<5xf32>
}
func.func private @main.then(%x: tensor<5xf32>) -> tensor<5xf32> attributes {stepwell.region} {
  return %x : tensor<5xf32>
}
func.func private @main.else(%x: tensor<5xf32>) -> tensor<5xf32> attributes {stepwell.region} {
  return %x : tensor<5xf32>
}
func.func private @main.body.else(%x: tensor<5xf32>) -> tensor<5xf32> attributes {stepwell.region} {
  return %x : tensor<5xf32>
}
func.func private @main.body(%i: tensor<i64>, %go: tensor<i1>, %x: tensor<5xf32>) -> (tensor<i1>, tensor<5xf32>) attributes {stepwell.region} {
  %0 = "flow.if"(%go, %x) {then = "main.body.then", otherwise = "main.body.else", destinations = 0 : i64} : (tensor<i1>, tensor<5xf32>) -> tensor<5xf32>
  return %go, %0 : tensor<i1>, tensor<5xf32>
}
func.func private @main.body.then(%x: tensor<5xf32>) -> tensor<5xf32> attributes {stepwell.region} {
  %0 = "graph.cast"(%x) {saturate = true, to = i64} : (tensor<5xf32>) -> tensor<5xi64>
  %1 = "graph.gather"(%x, %0) {axis = 0 : i64} : (tensor<5xf32>, tensor<5xi64>) -> tensor<5xf32> loc("deep")
  return %1 : tensor<5xf32>
}
