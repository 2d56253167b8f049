// RUN: stepwell-opt %s --append-in-place --split-input-file | FileCheck %s

// Input 0 and result 1 become memory with room for more; what reads the whole takes the first elements of it, and the size is an element of a new
// input.
// CHECK: module attributes {stepwell.bound = array<i64: 0, 1>, stepwell.elements = ["", "", "past"], stepwell.inputs = {{\[\[}}"past", tensor<2x?x4xf32, "past_capacity">], ["new", tensor<2x?x4xf32, "n">], ["lengths", tensor<1xi64>]]
// CHECK-SAME: "present", tensor<2x?x4xf32, "past_capacity">
// CHECK: func.func @main(%arg0: tensor<2x?x4xf32, "past_capacity">{{.*}}, %arg1: tensor<2x?x4xf32, "n">{{.*}}, %arg2: tensor<1xi64> {stepwell.name = "lengths"})
// CHECK: %[[W:.*]] = "graph.overwrite"(%arg0, %arg1) {starts = [0, "past", 0]}
// CHECK: %[[F:.*]] = "graph.first"(%[[W]]) {sizes = [-1, "n + past", -1]} : {{.*}} -> tensor<2x?x4xf32, "n + past">
// CHECK: %[[R:.*]] = "graph.relu"(%[[F]])
// CHECK: return %[[R]], %[[W]]
module attributes {stepwell.bound = array<i64: 0, 1>, stepwell.inputs = [["past", tensor<2x?x4xf32, "past">], ["new", tensor<2x?x4xf32, "n">]], stepwell.outputs = [["y", tensor<2x?x4xf32, "n + past">], ["present", tensor<2x?x4xf32, "n + past">]]} {
  func.func @main(%past: tensor<2x?x4xf32, "past"> {stepwell.name = "past"}, %new: tensor<2x?x4xf32, "n"> {stepwell.name = "new"}) -> (tensor<2x?x4xf32, "n + past"> {stepwell.name = "y"}, tensor<2x?x4xf32, "n + past"> {stepwell.name = "present"}) {
    %0 = "graph.concat"(%past, %new) {axis = 1 : i64} : (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %1 = "graph.relu"(%0) : (tensor<2x?x4xf32, "n + past">) -> tensor<2x?x4xf32, "n + past">
    return %1, %0 : tensor<2x?x4xf32, "n + past">, tensor<2x?x4xf32, "n + past">
  }
}

// -----

// Others that read what was there take the first elements of that memory, whose content stays.
// CHECK: %[[B:.*]] = "graph.first"(%arg0) {sizes = [-1, "past", -1]}
// CHECK: %[[P:.*]] = "graph.relu"(%[[B]])
// CHECK: "graph.overwrite"(%arg0, %arg1) {starts = [0, "past", 0]}
// CHECK-NOT: graph.first
// CHECK: return %[[P]],
module attributes {stepwell.bound = array<i64: 0, 1>, stepwell.inputs = [["past", tensor<2x?x4xf32, "past">], ["new", tensor<2x?x4xf32, "n">]], stepwell.outputs = [["y", tensor<2x?x4xf32, "past">], ["present", tensor<2x?x4xf32, "n + past">]]} {
  func.func @main(%past: tensor<2x?x4xf32, "past">, %new: tensor<2x?x4xf32, "n">) -> (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n + past">) {
    %0 = "graph.relu"(%past) : (tensor<2x?x4xf32, "past">) -> tensor<2x?x4xf32, "past">
    %1 = "graph.concat"(%past, %new) {axis = 1 : i64} : (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    return %0, %1 : tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n + past">
  }
}

// -----

// A pair that is no concatenation, or one that does not begin with the input, is not listed any more.
// CHECK-NOT: graph.overwrite
// CHECK: "graph.concat"
// CHECK-NOT: stepwell.bound = array<i64: 0
module attributes {stepwell.bound = array<i64: 0, 0, 1, 1>, stepwell.inputs = [["past", tensor<?x4xf32, "past">], ["state", tensor<4xf32>]], stepwell.outputs = [["present", tensor<?x4xf32, "past + 1">], ["next", tensor<4xf32>]]} {
  func.func @main(%past: tensor<?x4xf32, "past">, %state: tensor<4xf32>) -> (tensor<?x4xf32, "past + 1">, tensor<4xf32>) {
    %0 = "graph.reshape"(%state) {shape = array<i64: 1, 4>} : (tensor<4xf32>) -> tensor<1x4xf32>
    %1 = "graph.concat"(%0, %past) {axis = 0 : i64} : (tensor<1x4xf32>, tensor<?x4xf32, "past">) -> tensor<?x4xf32, "past + 1">
    %2 = "graph.relu"(%state) : (tensor<4xf32>) -> tensor<4xf32>
    return %1, %2 : tensor<?x4xf32, "past + 1">, tensor<4xf32>
  }
}

// -----

// What a scatter then writes to is the same memory, of which the first elements are as large as the result; others do not see what was there.
// CHECK: -----
// CHECK: %[[W:.*]] = "graph.overwrite"(%arg0, %arg1) {starts = [0, "past", 0]}
// CHECK: %[[F:.*]] = "graph.first"(%[[W]]) {sizes = [-1, "t", -1]}
// CHECK: %[[S:.*]] = "graph.scatter_elements"(%[[F]], %arg2, %arg1)
// CHECK: %[[C:.*]] = "graph.overwrite"(%[[W]], %[[S]]) {starts = array<i64: 0, 0, 0>}
// CHECK: %[[V:.*]] = "graph.first"(%[[C]]) {sizes = [-1, "t", -1]}
// CHECK: %[[R:.*]] = "graph.relu"(%[[V]])
// CHECK: return %[[R]], %[[C]]
module attributes {stepwell.bound = array<i64: 0, 1>, stepwell.inputs = [["past", tensor<2x?x4xf32, "past">], ["new", tensor<2x?x4xf32, "n">], ["at", tensor<2x?x4xi64, "n">], ["all", tensor<?xf32, "t">]], stepwell.outputs = [["y", tensor<2x?x4xf32, "t">], ["present", tensor<2x?x4xf32, "t">]]} {
  func.func @main(%past: tensor<2x?x4xf32, "past">, %new: tensor<2x?x4xf32, "n">, %at: tensor<2x?x4xi64, "n">, %all: tensor<?xf32, "t">) -> (tensor<2x?x4xf32, "t">, tensor<2x?x4xf32, "t">) {
    %0 = "graph.concat"(%past, %new) {axis = 1 : i64} : (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %1 = "graph.slice"(%0) {starts = array<i64: 0, 0, 0>, sizes = [-1, "t", -1], steps = array<i64: 1, 1, 1>} : (tensor<2x?x4xf32, "n + past">) -> tensor<2x?x4xf32, "t">
    %2 = "graph.scatter_elements"(%1, %at, %new) {axis = 1 : i64, from_start = false, reduction = "none"} : (tensor<2x?x4xf32, "t">, tensor<2x?x4xi64, "n">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "t">
    %3 = "graph.relu"(%2) : (tensor<2x?x4xf32, "t">) -> tensor<2x?x4xf32, "t">
    return %3, %2 : tensor<2x?x4xf32, "t">, tensor<2x?x4xf32, "t">
  }
}

// -----

// What was there is read by others, too, or what is put together: a scatter would overwrite it.
// CHECK: -----
// CHECK-NOT: graph.overwrite
// CHECK: "graph.scatter_elements"
// CHECK-NOT: stepwell.bound = array<i64: 0
module attributes {stepwell.bound = array<i64: 0, 1>, stepwell.inputs = [["past", tensor<2x?x4xf32, "past">], ["new", tensor<2x?x4xf32, "n">], ["at", tensor<2x?x4xi64, "n">]], stepwell.outputs = [["y", tensor<2x?x4xf32, "past">], ["present", tensor<2x?x4xf32, "n + past">]]} {
  func.func @main(%past: tensor<2x?x4xf32, "past">, %new: tensor<2x?x4xf32, "n">, %at: tensor<2x?x4xi64, "n">) -> (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n + past">) {
    %0 = "graph.concat"(%past, %new) {axis = 1 : i64} : (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %1 = "graph.scatter_elements"(%0, %at, %new) {axis = 1 : i64, from_start = false, reduction = "none"} : (tensor<2x?x4xf32, "n + past">, tensor<2x?x4xi64, "n">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %2 = "graph.relu"(%past) : (tensor<2x?x4xf32, "past">) -> tensor<2x?x4xf32, "past">
    return %2, %1 : tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n + past">
  }
}

// -----

// CHECK-NOT: graph.overwrite
// CHECK: "graph.scatter_elements"
module attributes {stepwell.bound = array<i64: 0, 1>, stepwell.inputs = [["past", tensor<2x?x4xf32, "past">], ["new", tensor<2x?x4xf32, "n">], ["at", tensor<2x?x4xi64, "n">]], stepwell.outputs = [["y", tensor<2x?x4xf32, "n + past">], ["present", tensor<2x?x4xf32, "n + past">]]} {
  func.func @main(%past: tensor<2x?x4xf32, "past">, %new: tensor<2x?x4xf32, "n">, %at: tensor<2x?x4xi64, "n">) -> (tensor<2x?x4xf32, "n + past">, tensor<2x?x4xf32, "n + past">) {
    %0 = "graph.concat"(%past, %new) {axis = 1 : i64} : (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %1 = "graph.scatter_elements"(%0, %at, %new) {axis = 1 : i64, from_start = false, reduction = "none"} : (tensor<2x?x4xf32, "n + past">, tensor<2x?x4xi64, "n">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %2 = "graph.relu"(%0) : (tensor<2x?x4xf32, "n + past">) -> tensor<2x?x4xf32, "n + past">
    return %2, %1 : tensor<2x?x4xf32, "n + past">, tensor<2x?x4xf32, "n + past">
  }
}

// -----

// It adds to what was there, which a failed call may not change; or a part of each row is taken.
// CHECK: -----
// CHECK-NOT: graph.overwrite
// CHECK: "graph.scatter_elements"
module attributes {stepwell.bound = array<i64: 0, 0>, stepwell.inputs = [["past", tensor<2x?x4xf32, "past">], ["new", tensor<2x?x4xf32, "n">], ["at", tensor<2x?x4xi64, "n">]], stepwell.outputs = [["present", tensor<2x?x4xf32, "n + past">]]} {
  func.func @main(%past: tensor<2x?x4xf32, "past">, %new: tensor<2x?x4xf32, "n">, %at: tensor<2x?x4xi64, "n">) -> (tensor<2x?x4xf32, "n + past">) {
    %0 = "graph.concat"(%past, %new) {axis = 1 : i64} : (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %1 = "graph.scatter_elements"(%0, %at, %new) {axis = 1 : i64, from_start = false, reduction = "add"} : (tensor<2x?x4xf32, "n + past">, tensor<2x?x4xi64, "n">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    return %1 : tensor<2x?x4xf32, "n + past">
  }
}

// -----

// CHECK: -----
// CHECK-NOT: graph.overwrite
// CHECK: "graph.scatter_elements"
module attributes {stepwell.bound = array<i64: 0, 0>, stepwell.inputs = [["past", tensor<2x?x4xf32, "past">], ["new", tensor<2x?x4xf32, "n">], ["at", tensor<2x?x4xi64, "n">]], stepwell.outputs = [["present", tensor<2x?x3xf32, "n + past">]]} {
  func.func @main(%past: tensor<2x?x4xf32, "past">, %new: tensor<2x?x4xf32, "n">, %at: tensor<2x?x4xi64, "n">) -> (tensor<2x?x3xf32, "n + past">) {
    %0 = "graph.concat"(%past, %new) {axis = 1 : i64} : (tensor<2x?x4xf32, "past">, tensor<2x?x4xf32, "n">) -> tensor<2x?x4xf32, "n + past">
    %1 = "graph.slice"(%0) {starts = array<i64: 0, 0, 0>, sizes = [-1, -1, 3], steps = array<i64: 1, 1, 1>} : (tensor<2x?x4xf32, "n + past">) -> tensor<2x?x3xf32, "n + past">
    %2 = "graph.slice"(%at) {starts = array<i64: 0, 0, 0>, sizes = [-1, -1, 3], steps = array<i64: 1, 1, 1>} : (tensor<2x?x4xi64, "n">) -> tensor<2x?x3xi64, "n">
    %3 = "graph.slice"(%new) {starts = array<i64: 0, 0, 0>, sizes = [-1, -1, 3], steps = array<i64: 1, 1, 1>} : (tensor<2x?x4xf32, "n">) -> tensor<2x?x3xf32, "n">
    %4 = "graph.scatter_elements"(%1, %2, %3) {axis = 1 : i64, from_start = false, reduction = "none"} : (tensor<2x?x3xf32, "n + past">, tensor<2x?x3xi64, "n">, tensor<2x?x3xf32, "n">) -> tensor<2x?x3xf32, "n + past">
    return %4 : tensor<2x?x3xf32, "n + past">
  }
}
