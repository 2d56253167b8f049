// RUN: stepwell-opt %s --bind-sizes --split-input-file | FileCheck %s

// A symbol that is new is bound to what the op finds.
// CHECK: %[[P:.*]]:2 = "graph.non_zero_places"(%arg0) : (tensor<3x4xf32>) -> (tensor<2x12xi64>, tensor<1xi64>)
// CHECK: "graph.bind_sizes"(%[[P]]#1) {sizes = ["n"]} : (tensor<1xi64>) -> ()
// CHECK: %[[F:.*]] = "graph.first"(%[[P]]#0) {{.*}} -> tensor<2x?xi64, "n">
// CHECK: return %[[F]]
func.func @main(%x: tensor<3x4xf32>) -> tensor<2x?xi64, "n"> {
  %0 = "graph.non_zero"(%x) : (tensor<3x4xf32>) -> tensor<2x?xi64, "n">
  return %0 : tensor<2x?xi64, "n">
}

// -----

// So is a size that is known, which must be what the op finds.
// CHECK: %[[P:.*]]:2 = "graph.non_zero_places"
// CHECK: "graph.bind_sizes"(%[[P]]#1) {sizes = array<i64: 5>}
// CHECK: "graph.first"(%[[P]]#0) {sizes = array<i64: -1, 5>}
func.func @main(%x: tensor<3x4xf32>) -> tensor<2x5xi64> {
  %0 = "graph.non_zero"(%x) : (tensor<3x4xf32>) -> tensor<2x5xi64>
  return %0 : tensor<2x5xi64>
}

// -----

// And one that an input has already.
// CHECK: %[[P:.*]]:2 = "graph.non_zero_places"
// CHECK: "graph.bind_sizes"(%[[P]]#1)
// CHECK: "graph.first"(%[[P]]#0) {{.*}} -> tensor<1x?xi64, "n">
func.func @main(%x: tensor<?xf32, "n">) -> tensor<1x?xi64, "n"> {
  %0 = "graph.non_zero"(%x) : (tensor<?xf32, "n">) -> tensor<1x?xi64, "n">
  return %0 : tensor<1x?xi64, "n">
}

// -----

// Of what has no name nothing is known; an op of the named size of an input stays as it is.
// CHECK-NOT: graph.bind_sizes
// CHECK: "graph.non_zero"
// CHECK: "graph.range"
func.func @main(%x: tensor<5xf32>, %n: tensor<?xi64, "n">, %a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>) -> (tensor<1x?xi64>, tensor<?xi64, "n">) {
  %0 = "graph.non_zero"(%x) : (tensor<5xf32>) -> tensor<1x?xi64>
  %1 = "graph.range"(%a, %b, %c) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64, "n">
  return %0, %1 : tensor<1x?xi64>, tensor<?xi64, "n">
}
