// RUN: stepwell-opt %s --fuse-operators --outline-kernels --split-input-file | FileCheck %s

// A conditional and a loop are given a place for each result, behind what their functions take.
// CHECK-LABEL: func.func @main(
// CHECK: %[[N:.*]] = tensor.dim %arg2
// CHECK: %[[D:.*]] = tensor.empty(%[[N]]) : tensor<?x6xf32, "n">
// CHECK: %[[R:.*]] = "flow.if"(%arg0, %arg2, %[[D]]) {destinations = 1 : i64, otherwise = "main.else", then = "main.then"}
// CHECK: %[[N:.*]] = tensor.dim %arg2
// CHECK: %[[D:.*]] = tensor.empty(%[[N]]) : tensor<?x6xf32, "n">
// CHECK: %[[C:.*]] = tensor.empty() : tensor<1xi64>
// CHECK: %[[L:.*]]:2 = "flow.loop"(%arg1, %arg0, %[[R]], %[[D]], %[[C]]) {body = "main.body", carried = 1 : i64, destinations = 2 : i64}
// CHECK: return %[[L]]#0
// Their functions are lists of calls as @main is.
// CHECK-LABEL: func.func private @main.then(
// CHECK: %[[D:.*]] = tensor.empty(
// CHECK: call @exp_{{.*}}(%arg0, %[[D]])
// CHECK-LABEL: func.func private @main.else(
// CHECK: call @neg_{{.*}}
// CHECK-LABEL: func.func private @main.body(
// CHECK-NOT: flow.size
// CHECK: call @exp_{{.*}}
// CHECK: func.func private @exp_
// CHECK-NOT: func.func private @exp_
func.func @main(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n"> {
  %0 = "flow.if"(%c, %x) {then = "main.then", otherwise = "main.else", destinations = 0 : i64} : (tensor<i1>, tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
  %1:2 = "flow.loop"(%n, %c, %0) {body = "main.body", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i1>, tensor<?x6xf32, "n">) -> (tensor<?x6xf32, "n">, tensor<1xi64>)
  return %1#0 : tensor<?x6xf32, "n">
}
func.func private @main.then(%x: tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n"> attributes {stepwell.region} {
  %0 = "graph.exp"(%x) : (tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
  return %0 : tensor<?x6xf32, "n">
}
func.func private @main.else(%x: tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n"> attributes {stepwell.region} {
  %0 = "graph.neg"(%x) : (tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
  return %0 : tensor<?x6xf32, "n">
}
func.func private @main.body(%i: tensor<i64>, %go: tensor<i1>, %x: tensor<?x6xf32, "n">) -> (tensor<i1>, tensor<?x6xf32, "n">) attributes {stepwell.region} {
  %0 = "graph.exp"(%x) : (tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
  return %go, %0 : tensor<i1>, tensor<?x6xf32, "n">
}

// -----

// What a run finds is the size of what comes behind; a box gets a place, and what is in it has none to be given.
// CHECK-LABEL: func.func @main(
// CHECK: %[[M:.*]]:2 = "flow.bind_sizes"(%arg1) {sizes = ["m", 6]}
// CHECK-NOT: graph.bind_sizes
// CHECK: %[[P:.*]] = tensor.empty() : tensor<9xi64>
// CHECK-NEXT: %[[B:.*]] = "flow.box"(%arg0, %[[P]])
// CHECK-NEXT: %[[U:.*]] = "flow.unbox"(%[[B]])
// CHECK-NEXT: %[[D:.*]] = tensor.empty(%[[M]]#0) : tensor<?x6xf32, "m">
// CHECK-NEXT: call @exp_{{.*}}(%[[U]], %[[D]])
func.func @main(%x: tensor<?x6xf32, "n">, %counts: tensor<2xi64>) -> tensor<?x6xf32, "m"> {
  "graph.bind_sizes"(%counts) {sizes = ["m", 6]} : (tensor<2xi64>) -> ()
  %b = "flow.box"(%x) : (tensor<?x6xf32, "n">) -> tensor<9xi64>
  %u = "flow.unbox"(%b) {sizes = ["m", 6], to = f32} : (tensor<9xi64>) -> tensor<?x6xf32, "m">
  %e = "graph.exp"(%u) : (tensor<?x6xf32, "m">) -> tensor<?x6xf32, "m">
  return %e : tensor<?x6xf32, "m">
}

// -----

// A size that a function of a region knows only from around it is a value of its own; those of arguments and those that it binds are not. One
// that only an attribute of a kernel has is passed on to it.
// CHECK-LABEL: func.func private @main.then(
// CHECK-NEXT: %[[K:.*]] = "flow.size"() {size = "k"} : () -> index
// CHECK-NOT: flow.size
// CHECK: %[[M:.*]] = "flow.bind_sizes"(%arg1) {sizes = ["m"]}
// CHECK: call @expand_{{.*}}(%arg2, %[[K]], %[[M]], %
func.func @main(%c: tensor<i1>, %z: tensor<?xf32, "k">, %x: tensor<?xf32, "n">, %counts: tensor<1xi64>, %one: tensor<1xf32>) -> tensor<?xf32, "n"> {
  %0 = "flow.if"(%c, %x, %counts, %one) {then = "main.then", otherwise = "main.then", destinations = 0 : i64}
    : (tensor<i1>, tensor<?xf32, "n">, tensor<1xi64>, tensor<1xf32>) -> tensor<?xf32, "n">
  return %0 : tensor<?xf32, "n">
}
func.func private @main.then(%x: tensor<?xf32, "n">, %counts: tensor<1xi64>, %one: tensor<1xf32>) -> tensor<?xf32, "n"> attributes {stepwell.region} {
  "graph.bind_sizes"(%counts) {sizes = ["m"]} : (tensor<1xi64>) -> ()
  %1 = "graph.expand"(%one) {shape = ["k*m"]} : (tensor<1xf32>) -> tensor<?xf32, "k*m">
  %2 = "graph.reduce_sum"(%1) {axes = array<i64: 0>, keepdims = false} : (tensor<?xf32, "k*m">) -> tensor<f32>
  %3 = "graph.sub"(%x, %2) : (tensor<?xf32, "n">, tensor<f32>) -> tensor<?xf32, "n">
  return %3 : tensor<?xf32, "n">
}
