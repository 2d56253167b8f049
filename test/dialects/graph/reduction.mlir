// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x?x4xf32>, %k: tensor<i64>) {
  "graph.reduce_sum"(%x) {axes = array<i64: 1, 2>, keepdims = false} : (tensor<2x?x4xf32>) -> tensor<2xf32>
  "graph.reduce_max"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<2x?x4xf32>) -> tensor<2x1x4xf32>
  "graph.reduce_prod"(%x) {axes = array<i64>, keepdims = false} : (tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  "graph.arg_max"(%x) {axis = 2 : i64, keepdims = false, select_last = true} : (tensor<2x?x4xf32>) -> tensor<2x?xi64>
  "graph.cumsum"(%x) {axis = 1 : i64, exclusive = false, reverse = true} : (tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  "graph.softmax"(%x) {axis = 2 : i64} : (tensor<2x?x4xf32>) -> tensor<2x?x4xf32>
  "graph.top_k"(%x, %k) {axis = 2 : i64, largest = true} : (tensor<2x?x4xf32>, tensor<i64>) -> (tensor<2x?x3xf32>, tensor<2x?x3xi64>)
  return
}

// -----

func.func @f(%x: tensor<2x?x4xf32>) {
  // expected-error @below {{'graph.reduce_sum' attribute 'axes' must be an axis from 0 to 2 of a tensor of rank 3, got 3}}
  "graph.reduce_sum"(%x) {axes = array<i64: 1, 3>, keepdims = false} : (tensor<2x?x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// Axes in the IR count from the front.
func.func @f(%x: tensor<2x?x4xf32>) {
  // expected-error @below {{'graph.reduce_min' attribute 'axes' must be an axis from 0 to 2 of a tensor of rank 3, got -1}}
  "graph.reduce_min"(%x) {axes = array<i64: -1>, keepdims = false} : (tensor<2x?x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x?x4xf32>) {
  // expected-error @below {{'graph.reduce_prod' attribute 'axes' names an axis twice: [1, 1]}}
  "graph.reduce_prod"(%x) {axes = array<i64: 1, 1>, keepdims = false} : (tensor<2x?x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x?x4xf32>) {
  // expected-error @below {{'graph.reduce_sum' result 'result' is tensor<2x4xf32>, but its operands and attributes give tensor<2x1x4xf32>}}
  "graph.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<2x?x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi1>) {
  // expected-error @below {{'graph.reduce_sum' the element type of operand 'x' must be numeric, got tensor<2x3xi1>}}
  "graph.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @f(%x: tensor<2x?x4xf32>) {
  // expected-error @below {{'graph.arg_min' result 'result' is tensor<2x?xf32>, but its operands and attributes give tensor<2x?xi64>}}
  "graph.arg_min"(%x) {axis = 2 : i64, keepdims = false, select_last = false} : (tensor<2x?x4xf32>) -> tensor<2x?xf32>
  return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @below {{'graph.arg_max' attribute 'axis' must be an axis, but the tensor has rank 0; got 0}}
  "graph.arg_max"(%x) {axis = 0 : i64, keepdims = false, select_last = false} : (tensor<f32>) -> tensor<i64>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.softmax' the element type of operand 'x' must be a float, got tensor<2x3xi32>}}
  "graph.softmax"(%x) {axis = 1 : i64} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.cumsum' attribute 'axis' must be an axis from 0 to 1 of a tensor of rank 2, got 2}}
  "graph.cumsum"(%x) {axis = 2 : i64, exclusive = false, reverse = false} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %k: tensor<1xi64>) {
  // expected-error @below {{'graph.top_k' operand 'k' must have rank 0, got tensor<1xi64>}}
  "graph.top_k"(%x, %k) {axis = 1 : i64, largest = true} : (tensor<2x3xf32>, tensor<1xi64>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %k: tensor<i64>) {
  // expected-error @below {{'graph.top_k' has 1 results, expected 2}}
  "graph.top_k"(%x, %k) {axis = 1 : i64, largest = true} : (tensor<2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
  return
}
