// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<4x?x5xf32>, %i: tensor<2x3xi64>, %v: tensor<2xi64>) {
  "graph.slice"(%x) {sizes = array<i64: 2, -1, 3>, starts = array<i64: 0, 1, 4>, steps = array<i64: 2, 1, -2>} : (tensor<4x?x5xf32>) -> tensor<2x?x3xf32>
  "graph.slice"(%x) {sizes = array<i64: -1, 7, 0>, starts = array<i64: 0, 0, 9>, steps = array<i64: 1, 1, 1>} : (tensor<4x?x5xf32>) -> tensor<4x7x0xf32>
  "graph.dynamic_slice"(%x, %v, %v, %v, %v) : (tensor<4x?x5xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?x?xf32>
  "graph.gather"(%x, %i) {axis = 1 : i64} : (tensor<4x?x5xf32>, tensor<2x3xi64>) -> tensor<4x2x3x5xf32>
  "graph.gather_nd"(%x, %i) {batch_dims = 0 : i64} : (tensor<4x?x5xf32>, tensor<2x3xi64>) -> tensor<2xf32>
  "graph.non_zero"(%x) : (tensor<4x?x5xf32>) -> tensor<3x?xi64>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<3x5xi32>, %u: tensor<3x5xf32>, %n: tensor<?x1xi64>, %w: tensor<?x5xf32>) {
  "graph.gather_elements"(%x, %i) {axis = 1 : i64} : (tensor<4x5xf32>, tensor<3x5xi32>) -> tensor<3x5xf32>
  "graph.gather_nd"(%x, %n) {batch_dims = 1 : i64} : (tensor<4x5xf32>, tensor<?x1xi64>) -> tensor<4xf32>
  "graph.scatter_elements"(%x, %i, %u) {from_start = false, axis = 0 : i64, reduction = "add"} : (tensor<4x5xf32>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  "graph.scatter_nd"(%x, %n, %w) {reduction = "none"} : (tensor<4x5xf32>, tensor<?x1xi64>, tensor<?x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>) {
  // expected-error @below {{'graph.slice' the slice of dimension 0 (start 1, size 4, step 1) leaves operand 'x' (tensor<4x?x5xf32>)}}
  "graph.slice"(%x) {sizes = array<i64: 4, -1, 5>, starts = array<i64: 1, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<4x?x5xf32>) -> tensor<4x?x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>) {
  // expected-error @below {{'graph.slice' the slice of dimension 2 (start 3, size 3, step -2) leaves operand 'x' (tensor<4x?x5xf32>)}}
  "graph.slice"(%x) {sizes = array<i64: 4, -1, 3>, starts = array<i64: 0, 0, 3>, steps = array<i64: 1, 1, -2>} : (tensor<4x?x5xf32>) -> tensor<4x?x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>) {
  // expected-error @below {{'graph.slice' the step along dimension 1 must not be 0, nor negative where the size is -1; got -1}}
  "graph.slice"(%x) {sizes = array<i64: 4, -1, 5>, starts = array<i64: 0, 0, 0>, steps = array<i64: 1, -1, 1>} : (tensor<4x?x5xf32>) -> tensor<4x?x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>) {
  // expected-error @below {{'graph.slice' attribute 'sizes' must have 3 entries, one for each dimension; got [4]}}
  "graph.slice"(%x) {sizes = array<i64: 4>, starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<4x?x5xf32>) -> tensor<4x?x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>) {
  // expected-error @below {{'graph.slice' the entries of attribute 'starts' must be 0 or more, got [-1, 0, 0]}}
  "graph.slice"(%x) {sizes = array<i64: 1, -1, 5>, starts = array<i64: -1, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<4x?x5xf32>) -> tensor<4x?x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>, %v: tensor<2xi64>, %w: tensor<3xi64>) {
  // expected-error @below {{'graph.dynamic_slice' dimension 0 of operand 'axes' must be 2, the length of operand 'starts' (tensor<2xi64>); got tensor<3xi64>}}
  "graph.dynamic_slice"(%x, %v, %v, %w, %v) : (tensor<4x?x5xf32>, tensor<2xi64>, tensor<2xi64>, tensor<3xi64>, tensor<2xi64>) -> tensor<?x?x?xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>, %i: tensor<2x3xf32>) {
  // expected-error @below {{'graph.gather' the element type of operand 'indices' must be one of i32, i64, got tensor<2x3xf32>}}
  "graph.gather"(%x, %i) {axis = 1 : i64} : (tensor<4x?x5xf32>, tensor<2x3xf32>) -> tensor<4x2x3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x?x5xf32>, %i: tensor<2x3xi64>) {
  // expected-error @below {{'graph.gather' result 'result' is tensor<2x3x5xf32>, but its operands and attributes give tensor<4x2x3x5xf32>}}
  "graph.gather"(%x, %i) {axis = 1 : i64} : (tensor<4x?x5xf32>, tensor<2x3xi64>) -> tensor<2x3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<3x6xi64>) {
  // expected-error @below {{'graph.gather_elements' dimension 1 of operand 'indices' must be at most 5, as in operand 'x' (tensor<4x5xf32>); got tensor<3x6xi64>}}
  "graph.gather_elements"(%x, %i) {axis = 0 : i64} : (tensor<4x5xf32>, tensor<3x6xi64>) -> tensor<3x6xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<2x3xi64>) {
  // expected-error @below {{'graph.gather_nd' 0 batch dimensions and index vectors of 3 need as high a rank of operand 'x', got tensor<4x5xf32>}}
  "graph.gather_nd"(%x, %i) {batch_dims = 0 : i64} : (tensor<4x5xf32>, tensor<2x3xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<2x?xi64>) {
  // expected-error @below {{'graph.gather_nd' the last dimension of operand 'indices' must be known, got tensor<2x?xi64>}}
  "graph.gather_nd"(%x, %i) {batch_dims = 0 : i64} : (tensor<4x5xf32>, tensor<2x?xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<2x1xi64>) {
  // expected-error @below {{'graph.gather_nd' dimension 0 of operand 'indices' must be 4, the batch dimension of operand 'x' (tensor<4x5xf32>); got tensor<2x1xi64>}}
  "graph.gather_nd"(%x, %i) {batch_dims = 1 : i64} : (tensor<4x5xf32>, tensor<2x1xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<3x5xi64>, %u: tensor<3x4xf32>) {
  // expected-error @below {{'graph.scatter_elements' dimension 1 of operand 'updates' must be 5, as operands 'indices' and 'x' say; got tensor<3x4xf32>}}
  "graph.scatter_elements"(%x, %i, %u) {from_start = false, axis = 0 : i64, reduction = "none"} : (tensor<4x5xf32>, tensor<3x5xi64>, tensor<3x4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<3x1xi64>, %u: tensor<3x5xf32>) {
  // expected-error @below {{'graph.scatter_nd' attribute 'reduction' must be one of none, add, mul, max, min; got 'mean'}}
  "graph.scatter_nd"(%x, %i, %u) {reduction = "mean"} : (tensor<4x5xf32>, tensor<3x1xi64>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4x5xf32>, %i: tensor<3x1xi64>, %u: tensor<3xf32>) {
  // expected-error @below {{'graph.scatter_nd' operand 'updates' must have rank 2, got tensor<3xf32>}}
  "graph.scatter_nd"(%x, %i, %u) {reduction = "none"} : (tensor<4x5xf32>, tensor<3x1xi64>, tensor<3xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<4xi1>, %i: tensor<3x1xi64>, %u: tensor<3xi1>) {
  // expected-error @below {{'graph.scatter_nd' the element type of operand 'x' must be numeric, got tensor<4xi1>}}
  "graph.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<4xi1>, tensor<3x1xi64>, tensor<3xi1>) -> tensor<4xi1>
  return
}
