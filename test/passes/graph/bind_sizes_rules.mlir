// RUN: stepwell-opt %s --bind-sizes --split-input-file | FileCheck %s

// Slices along an axis are put in order as rows; those that begin a group are the different ones. Each element has the number of its group, which
// counts how many there are of it.
// CHECK: %[[T:.*]] = "graph.transpose"(%arg0) {perm = array<i64: 1, 0>}
// CHECK: %[[ROWS:.*]] = "graph.reshape"(%[[T]]) {shape = ["n", 4]}
// CHECK: %[[O:.*]]:2 = "graph.order_rows"(%[[ROWS]])
// CHECK: %[[P:.*]]:2 = "graph.non_zero_places"(%[[O]]#1)
// CHECK: %[[C:.*]] = "graph.concat"(%[[P]]#1, %[[P]]#1, %[[P]]#1)
// CHECK: "graph.bind_sizes"(%[[C]]) {sizes = ["u", "v", "w"]}
// CHECK: "graph.first"(%[[P]]#0) {sizes = [-1, "u"]}
// CHECK: %[[U:.*]] = "graph.gather"(%[[O]]#0, %{{.*}}) {axis = 0 : i64} {{.*}} -> tensor<?xi64, "u">
// CHECK: %[[V:.*]] = "graph.gather"(%[[O]]#0, %{{.*}}) {axis = 0 : i64} {{.*}} -> tensor<?xi64, "v">
// CHECK: %[[F:.*]] = "graph.cast"(%[[O]]#1) {saturate = true, to = i64}
// CHECK: %[[S:.*]] = "graph.cumsum"(%[[F]]) {axis = 0 : i64, exclusive = false, reverse = false}
// CHECK: %[[ONE:.*]] = "graph.constant"() {value = dense<1>
// CHECK: %[[G:.*]] = "graph.sub"(%[[S]], %[[ONE]])
// CHECK: %[[I:.*]] = "graph.scatter_elements"(%[[G]], %[[O]]#0, %[[G]]) {axis = 0 : i64, from_start = true, reduction = "none"}
// CHECK: %[[ZEROS:.*]] = "graph.expand"(%{{.*}}) {shape = ["w"]}
// CHECK: %[[ONES:.*]] = "graph.expand"(%{{.*}}) {shape = ["n"]}
// CHECK: %[[N:.*]] = "graph.scatter_elements"(%[[ZEROS]], %[[I]], %[[ONES]]) {axis = 0 : i64, from_start = true, reduction = "add"}
// CHECK: %[[Y:.*]] = "graph.gather"(%arg0, %[[U]]) {axis = 1 : i64}
// CHECK: return %[[Y]], %[[V]], %[[I]], %[[N]]
func.func @main(%x: tensor<4x?xf32, "n">) -> (tensor<4x?xf32, "u">, tensor<?xi64, "v">, tensor<?xi64, "n">, tensor<?xi64, "w">) {
  %0:4 = "graph.unique"(%x) {axis = 1 : i64, sorted = true}
    : (tensor<4x?xf32, "n">) -> (tensor<4x?xf32, "u">, tensor<?xi64, "v">, tensor<?xi64, "n">, tensor<?xi64, "w">)
  return %0#0, %0#1, %0#2, %0#3 : tensor<4x?xf32, "u">, tensor<?xi64, "v">, tensor<?xi64, "n">, tensor<?xi64, "w">
}

// -----

// As many rows as there are scores, of which those count that are kept.
// CHECK: %[[K:.*]]:2 = "graph.kept_boxes"(%arg0, %arg1, %arg2, %arg3, %arg4) {{.*}} -> (tensor<36x3xi64>, tensor<1xi64>)
// CHECK: "graph.bind_sizes"(%[[K]]#1) {sizes = ["kept"]}
// CHECK: "graph.first"(%[[K]]#0) {sizes = ["kept", -1]}
func.func @main(%boxes: tensor<1x12x4xf32>, %scores: tensor<1x3x12xf32>, %most: tensor<i64>, %overlap: tensor<f32>, %least: tensor<f32>)
    -> tensor<?x3xi64, "kept"> {
  %0 = "graph.non_max_suppression"(%boxes, %scores, %most, %overlap, %least) {centred = false}
    : (tensor<1x12x4xf32>, tensor<1x3x12xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<?x3xi64, "kept">
  return %0 : tensor<?x3xi64, "kept">
}

// -----

// A reshape knows its shape then; an expansion stays. What is bound inside a branch is not known outside.
// CHECK: "graph.bind_sizes"(%{{.*}}) {sizes = ["p", "q"]}
// CHECK-NEXT: "graph.reshape"(%arg1) {shape = ["p", "q"]}
// CHECK: "graph.bind_sizes"(%{{.*}}) {sizes = ["p", "n"]}
// CHECK-NEXT: "graph.dynamic_expand"(%arg1, %arg2)
func.func @main(%c: tensor<i1>, %x: tensor<?xf32, "n">, %s: tensor<2xi64>) -> (tensor<f32>, tensor<?x?xf32, "p, n">) {
  %0 = "graph.if"(%c) ({
    %1 = "graph.dynamic_reshape"(%x, %s) : (tensor<?xf32, "n">, tensor<2xi64>) -> tensor<?x?xf32, "p, q">
    %2 = "graph.reduce_sum"(%1) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<?x?xf32, "p, q">) -> tensor<f32>
    "graph.yield"(%2) : (tensor<f32>) -> ()
  }, {
    %2 = "graph.reduce_sum"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<?xf32, "n">) -> tensor<f32>
    "graph.yield"(%2) : (tensor<f32>) -> ()
  }) : (tensor<i1>) -> tensor<f32>
  %3 = "graph.dynamic_expand"(%x, %s) : (tensor<?xf32, "n">, tensor<2xi64>) -> tensor<?x?xf32, "p, n">
  return %0, %3 : tensor<f32>, tensor<?x?xf32, "p, n">
}
