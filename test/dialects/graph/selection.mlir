// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x3xf32>, %b: tensor<?x6x4xf32>, %s: tensor<?x2x6xf32>, %m: tensor<i64>, %t: tensor<f32>, %w: tensor<2x?xi32>, %p: tensor<7x2xi32>, %c: tensor<7xi64>) {
  "graph.unique"(%x) {axis = 1 : i64, sorted = true} : (tensor<2x3xf32>) -> (tensor<2x?xf32>, tensor<?xi64>, tensor<3xi64>, tensor<?xi64>)
  "graph.non_max_suppression"(%b, %s, %m, %t, %t) {centred = false} : (tensor<?x6x4xf32>, tensor<?x2x6xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<?x3xi64>
  "graph.count_ngrams"(%w, %p, %c) {size = 9 : i64, skips = 1 : i64} : (tensor<2x?xi32>, tensor<7x2xi32>, tensor<7xi64>) -> tensor<2x9xi64>
  "graph.random_bits"() {seed = -3 : i64, shape = array<i64: 2, 5>} : () -> tensor<2x5xui64>
  "graph.det"(%b) : (tensor<?x6x4xf32>) -> tensor<?xf32> // expected-error {{'graph.det' operand 'x' must hold square matrices, got tensor<?x6x4xf32>}}
  return
}

// -----

func.func @f(%b: tensor<1x6x4xf32>, %s: tensor<1x2x5xf32>, %m: tensor<i64>, %t: tensor<f32>) {
  // expected-error @below {{'graph.non_max_suppression' dimension 2 of operand 'scores' must be 6, the number of boxes of operand 'boxes' (tensor<1x6x4xf32>); got tensor<1x2x5xf32>}}
  "graph.non_max_suppression"(%b, %s, %m, %t, %t) {centred = false} : (tensor<1x6x4xf32>, tensor<1x2x5xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> tensor<?x3xi64>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.unique' attribute 'axis' must be an axis from 0 to 1 of a tensor of rank 2, got 2}}
  "graph.unique"(%x) {axis = 2 : i64, sorted = true} : (tensor<2x3xf32>) -> (tensor<2x?xf32>, tensor<?xi64>, tensor<3xi64>, tensor<?xi64>)
  return
}

// -----

func.func @f(%w: tensor<2x8xi32>, %p: tensor<7x2xi64>, %c: tensor<7xi64>) {
  // expected-error @below {{'graph.count_ngrams' operands 'x' and 'pool' must have one element type, got tensor<2x8xi32> and tensor<7x2xi64>}}
  "graph.count_ngrams"(%w, %p, %c) {size = 9 : i64, skips = 1 : i64} : (tensor<2x8xi32>, tensor<7x2xi64>, tensor<7xi64>) -> tensor<2x9xi64>
  return
}
