// RUN: stepwell-opt %s --check-indices --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --check-indices=at-run-time=false --split-input-file | FileCheck %s --check-prefix=TRUST

// Indices that are not known become a hidden result, by columns for index vectors that go along dimensions of several sizes.
// Two ops with the same indices share one; a reshape has the same elements.
// CHECK: stepwell.checks = [
// CHECK-SAME: {dims = array<i64: 0>, node = "first", op = "graph.gather", result = 0 : i64, sizes = array<i64: 5>}
// CHECK-SAME: {dims = array<i64: 1>, node = "second", op = "graph.gather_elements", result = 0 : i64, sizes = array<i64: 4>}
// CHECK-SAME: {dims = array<i64: 0, 1>, node = "third", op = "graph.gather_nd", result = 1 : i64, sizes = array<i64: 5, 4>}
// CHECK-LABEL: func.func @main
// CHECK-SAME: (tensor<3x4xf32>, tensor<3x1xf32>, tensor<2xf32>, tensor<ui64> {stepwell.name = "indices of first"}, tensor<2xui64> {stepwell.name = "indices of third"})
// CHECK: %[[D:.*]] = "graph.add"(%arg1, %arg1)
// CHECK: %[[N:.*]] = "graph.less"(%arg1, %{{.*}})
// CHECK: %[[S:.*]] = "graph.select"(%[[N]]
// CHECK: %[[X:.*]] = "graph.bitwise_xor"(%[[D]], %[[S]])
// CHECK: %[[Z:.*]] = "graph.cast"(%[[X]]) {saturate = false, to = ui64}
// CHECK-NEXT: %[[A:.*]] = "graph.reduce_max"(%[[Z]]) {axes = array<i64: 0>, keepdims = false} : (tensor<3xui64>) -> tensor<ui64>
// CHECK: "graph.cast"(%arg2) {{.*}} -> tensor<2x2xi64>
// CHECK: %[[Y:.*]] = "graph.cast"{{.*}} -> tensor<2x2xui64>
// CHECK-NEXT: %[[B:.*]] = "graph.reduce_max"(%[[Y]]) {axes = array<i64: 0>, keepdims = false} : (tensor<2x2xui64>) -> tensor<2xui64>
// CHECK-NEXT: return %{{.*}}, %{{.*}}, %{{.*}}, %[[A]], %[[B]]
// TRUST: module
// TRUST-NOT: stepwell.checks
// TRUST-NOT: ui64
func.func @main(%x: tensor<5x4xf32>, %i: tensor<3xi64>, %j: tensor<2x2xi32>) -> (tensor<3x4xf32>, tensor<3x1xf32>, tensor<2xf32>) {
  %a = "graph.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32> loc("first")
  %r = "graph.reshape"(%i) {shape = array<i64: 3, 1>} : (tensor<3xi64>) -> tensor<3x1xi64>
  %b = "graph.gather_elements"(%x, %r) {axis = 1 : i64} : (tensor<5x4xf32>, tensor<3x1xi64>) -> tensor<3x1xf32> loc("second")
  %c = "graph.gather_nd"(%x, %j) {batch_dims = 0 : i64} : (tensor<5x4xf32>, tensor<2x2xi32>) -> tensor<2xf32> loc("third")
  return %a, %b, %c : tensor<3x4xf32>, tensor<3x1xf32>, tensor<2xf32>
}

// -----

// What is in range whatever the data are: places of an argmax, remainders, clipped numbers, narrow types, choices between such.
// CHECK-NOT: stepwell.checks
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.reduce_max
func.func @main(%t: tensor<256xf32>, %x: tensor<4x3xf32>, %i: tensor<2xi64>, %b: tensor<2xui8>, %p: tensor<2xi1>)
    -> (tensor<3xf32>, tensor<2x3xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %most = "graph.arg_max"(%x) {axis = 0 : i64, keepdims = false, select_last = false} : (tensor<4x3xf32>) -> tensor<3xi64>
  %a = "graph.gather"(%t, %most) {axis = 0 : i64} : (tensor<256xf32>, tensor<3xi64>) -> tensor<3xf32>
  %four = "graph.constant"() {value = dense<4> : tensor<i64>} : () -> tensor<i64>
  %rest = "graph.mod"(%i, %four) {fmod = true} : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %c = "graph.gather"(%x, %rest) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  %wide = "graph.cast"(%b) {to = i64, saturate = true} : (tensor<2xui8>) -> tensor<2xi64>
  %d = "graph.gather"(%t, %wide) {axis = 0 : i64} : (tensor<256xf32>, tensor<2xi64>) -> tensor<2xf32>
  %clip = "graph.clamp"(%i) {min = -4.0 : f64, max = 3.0 : f64} : (tensor<2xi64>) -> tensor<2xi64>
  %e = "graph.gather"(%x, %clip) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  %either = "graph.select"(%p, %clip, %rest) : (tensor<2xi1>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %f = "graph.gather"(%x, %either) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  return %a, %c, %d, %e, %f : tensor<3xf32>, tensor<2x3xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// One too far is not in range; sums may wrap around.
// CHECK: node = "clipped"
// CHECK-SAME: node = "added"
// CHECK-NOT: node
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4xf32>, %i: tensor<2xi64>, %k: tensor<2xi8>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %clip = "graph.clamp"(%i) {min = -4.0 : f64, max = 4.0 : f64} : (tensor<2xi64>) -> tensor<2xi64>
  %a = "graph.gather"(%x, %clip) {axis = 0 : i64} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32> loc("clipped")
  %much = "graph.constant"() {value = dense<9223372036854775807> : tensor<i64>} : () -> tensor<i64>
  %small = "graph.clamp"(%i) {min = 0.0 : f64, max = 3.0 : f64} : (tensor<2xi64>) -> tensor<2xi64>
  %sum = "graph.add"(%small, %much) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %b = "graph.gather"(%x, %sum) {axis = 0 : i64} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32> loc("added")
  %two = "graph.constant"() {value = dense<-2> : tensor<i64>} : () -> tensor<i64>
  %less = "graph.add"(%small, %two) : (tensor<2xi64>, tensor<i64>) -> tensor<2xi64>
  %c = "graph.gather"(%x, %less) {axis = 0 : i64} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32> loc("proven")
  return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// Index vectors put together from columns are in range if each column is.
// CHECK: module attributes {stepwell.checks = [{{{[^}]*}}node = "swapped"
// CHECK-NOT: proven
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<5x3xf32>, %i: tensor<2x1xi64>) -> (tensor<2xf32>, tensor<2xf32>) {
  %row = "graph.clamp"(%i) {min = 0.0 : f64, max = 4.0 : f64} : (tensor<2x1xi64>) -> tensor<2x1xi64>
  %column = "graph.clamp"(%i) {min = -3.0 : f64, max = 2.0 : f64} : (tensor<2x1xi64>) -> tensor<2x1xi64>
  %v = "graph.concat"(%row, %column) {axis = 1 : i64} : (tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x2xi64>
  %a = "graph.gather_nd"(%x, %v) {batch_dims = 0 : i64} : (tensor<5x3xf32>, tensor<2x2xi64>) -> tensor<2xf32> loc("proven")
  %w = "graph.concat"(%column, %row) {axis = 1 : i64} : (tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x2xi64>
  %b = "graph.gather_nd"(%x, %w) {batch_dims = 0 : i64} : (tensor<5x3xf32>, tensor<2x2xi64>) -> tensor<2xf32> loc("swapped")
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}

// -----

// Sizes that the model declares and operands decide: a hidden result says how many more are asked for.
// CHECK: stepwell.checks = [{dims = array<i64: 0, 1>, exact = true, node = "reshape", op = "graph.dynamic_reshape", result = 0 : i64, sizes = array<i64: 3, 4>}]
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = "graph.select"(%{{.*}}, %{{.*}}, %arg1)
// CHECK: %[[D:.*]] = "graph.constant"() {value = dense<[3, 4]> : tensor<2xi64>}
// CHECK: %[[M:.*]] = "graph.sub"(%[[S]], %[[D]])
// CHECK: "graph.add"(%[[M]], %[[M]])
// CHECK: %[[Z:.*]] = "graph.cast"{{.*}} to = ui64
// CHECK: return %{{.*}}, %[[Z]] : tensor<3x4xf32>, tensor<2xui64>
// TRUST: module
// TRUST-NOT: stepwell.checks
// TRUST-NOT: ui64
func.func @main(%x: tensor<12xf32>, %s: tensor<2xi64>) -> tensor<3x4xf32> {
  %y = "graph.dynamic_reshape"(%x, %s) : (tensor<12xf32>, tensor<2xi64>) -> tensor<3x4xf32> loc("reshape")
  return %y : tensor<3x4xf32>
}

// -----

// Where a size is not known yet, nothing is said of the dimensions beside it either: columns are checked together, once sizes are given.
// CHECK-NOT: stepwell.checks
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.reduce_max
func.func @main(%x: tensor<?x4xf32>, %j: tensor<2x2xi64>) -> tensor<2xf32> {
  %c = "graph.gather_nd"(%x, %j) {batch_dims = 0 : i64} : (tensor<?x4xf32>, tensor<2x2xi64>) -> tensor<2xf32>
  return %c : tensor<2xf32>
}

// -----

// Indices that count from the start: their codes are the numbers themselves, in which one below 0 is greater than any size.
// CHECK: stepwell.checks = [
// CHECK-SAME: {dims = array<i64: 0>, from_start = true, node = "unpool", op = "graph.scatter_elements", result = 0 : i64, sizes = array<i64: 9>}
// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = "graph.cast"(%{{.*}}) {saturate = false, to = ui64} : (tensor<5xi64>) -> tensor<5xui64>
// CHECK-NEXT: %[[M:.*]] = "graph.reduce_max"(%[[C]])
// CHECK-NEXT: return %{{.*}}, %[[M]]
// TRUST-NOT: stepwell.checks
func.func @main(%x: tensor<9xf32>, %i: tensor<5xi64>, %u: tensor<5xf32>) -> tensor<9xf32> {
  %a = "graph.scatter_elements"(%x, %i, %u) {axis = 0 : i64, from_start = true, reduction = "none"} : (tensor<9xf32>, tensor<5xi64>, tensor<5xf32>) -> tensor<9xf32> loc("unpool")
  return %a : tensor<9xf32>
}

// -----

// Along dimensions that are known only at run time, the limits are expressions of symbols. What is expanded may be empty where its operand is not.
// CHECK: stepwell.checks = [
// CHECK-SAME: exact = true, node = "sized"{{.*}} sizes = ["n", 8]}
// CHECK-SAME: node = "of_any"{{.*}} sizes = ["n"]}
// CHECK-SAME: node = "of_two"{{.*}} sizes = ["n", 4]}
// CHECK-SAME: node = "expanded"{{.*}} sizes = ["2*n"]}
// CHECK-LABEL: func.func @main
// CHECK: %[[J:.*]] = "graph.expand"
// CHECK: "graph.sizes"() {values = ["n", 8]}
// CHECK: "graph.add"(%[[J]], %[[J]])
func.func @main(%x: tensor<?x4xf32, "n">, %z: tensor<?xf32, "2*n">, %i: tensor<?xi64, "k">, %v: tensor<?x2xi64, "k">, %one: tensor<1xi64>,
                %s: tensor<2xi64>)
    -> (tensor<?x4xf32, "k">, tensor<?xf32, "k">, tensor<?xf32, "k">, tensor<?x8xf32, "n">) {
  %j = "graph.expand"(%one) {shape = ["k"]} : (tensor<1xi64>) -> tensor<?xi64, "k">
  %a = "graph.gather"(%x, %i) {axis = 0 : i64} : (tensor<?x4xf32, "n">, tensor<?xi64, "k">) -> tensor<?x4xf32, "k"> loc("of_any")
  %b = "graph.gather_nd"(%x, %v) {batch_dims = 0 : i64} : (tensor<?x4xf32, "n">, tensor<?x2xi64, "k">) -> tensor<?xf32, "k"> loc("of_two")
  %c = "graph.gather"(%z, %j) {axis = 0 : i64} : (tensor<?xf32, "2*n">, tensor<?xi64, "k">) -> tensor<?xf32, "k"> loc("expanded")
  %d = "graph.concat"(%x, %x) {axis = 0 : i64} : (tensor<?x4xf32, "n">, tensor<?x4xf32, "n">) -> tensor<?x4xf32, "2*n">
  %e = "graph.dynamic_reshape"(%d, %s) : (tensor<?x4xf32, "2*n">, tensor<2xi64>) -> tensor<?x8xf32, "n"> loc("sized")
  return %a, %b, %c, %e : tensor<?x4xf32, "k">, tensor<?xf32, "k">, tensor<?xf32, "k">, tensor<?x8xf32, "n">
}
