// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// What comes out may be known better than inference can tell.
func.func @f(%x: tensor<2x3xf32>, %d: tensor<?x4xf32>, %s: tensor<3xi64>) {
  "graph.reshape"(%x) {shape = array<i64: 3, -1, 2>} : (tensor<2x3xf32>) -> tensor<3x1x2xf32>
  "graph.reshape"(%d) {shape = array<i64: 2, -1>} : (tensor<?x4xf32>) -> tensor<2x?xf32>
  "graph.reshape"(%d) {shape = array<i64: 8>} : (tensor<?x4xf32>) -> tensor<8xf32>
  "graph.dynamic_reshape"(%x, %s) : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  "graph.dynamic_reshape"(%x, %s) : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<1x?x2xf32>
  "graph.transpose"(%d) {perm = array<i64: 1, 0>} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  "graph.expand"(%d) {shape = array<i64: 5, -1, 4>} : (tensor<?x4xf32>) -> tensor<5x?x4xf32>
  "graph.dynamic_expand"(%x, %s) : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<?x2x3xf32>
  "graph.tile"(%d) {repeats = array<i64: 3, 2>} : (tensor<?x4xf32>) -> tensor<?x8xf32>
  "graph.shape_of"(%d) : (tensor<?x4xf32>) -> tensor<2xi64>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %d: tensor<?x3xf32>, %e: tensor<1x3xf32>, %l: tensor<i64>) {
  "graph.concat"(%x, %d, %e) {axis = 0 : i64} : (tensor<2x3xf32>, tensor<?x3xf32>, tensor<1x3xf32>) -> tensor<?x3xf32>
  "graph.concat"(%x, %d) {axis = 1 : i64} : (tensor<2x3xf32>, tensor<?x3xf32>) -> tensor<2x6xf32>
  "graph.concat"(%x) {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  "graph.pad"(%x) {high = array<i64: 2, 0>, low = array<i64: 0, 1>, mode = "constant", value = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<4x4xf32>
  "graph.pad"(%d) {high = array<i64: 2, 0>, low = array<i64: 0, 1>, mode = "reflect", value = 0.0 : f64} : (tensor<?x3xf32>) -> tensor<?x4xf32>
  "graph.range"(%l, %l, %l) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64>
  "graph.range"(%l, %l, %l) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<7xi64>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.reshape' attribute 'shape' [4, 2] has 8 elements, operand 'x' (tensor<2x3xf32>) has 6}}
  "graph.reshape"(%x) {shape = array<i64: 4, 2>} : (tensor<2x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.reshape' attribute 'shape' [4, -1] does not divide the 6 elements of operand 'x' (tensor<2x3xf32>)}}
  "graph.reshape"(%x) {shape = array<i64: 4, -1>} : (tensor<2x3xf32>) -> tensor<4x?xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.reshape' attribute 'shape' may have one -1, got [-1, -1]; use dynamic_reshape where more sizes are unknown}}
  "graph.reshape"(%x) {shape = array<i64: -1, -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.reshape' the entries of attribute 'shape' must be -1 or more, got [-2, 3]}}
  "graph.reshape"(%x) {shape = array<i64: -2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %s: tensor<?xi64>) {
  // expected-error @below {{'graph.dynamic_reshape' operand 'shape' must have a known length, which is the rank of the result; got tensor<?xi64>}}
  "graph.dynamic_reshape"(%x, %s) : (tensor<2x3xf32>, tensor<?xi64>) -> tensor<?xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{'graph.dynamic_expand' the element type of operand 'shape' must be one of i32, i64, got tensor<2xf32>}}
  "graph.dynamic_expand"(%x, %s) : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.transpose' attribute 'perm' must be an order of 0 to 1, the dimensions of operand 'x' (tensor<2x3xf32>); got [0, 0]}}
  "graph.transpose"(%x) {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.expand' operand 'x' (tensor<2x3xf32>) does not broadcast to attribute 'shape' [4, 3]}}
  "graph.expand"(%x) {shape = array<i64: 4, 3>} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.expand' attribute 'shape' must have 2 entries or more, sizes before these; got [3] for operand 'x' (tensor<2x3xf32>)}}
  "graph.expand"(%x) {shape = array<i64: 3>} : (tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.expand' attribute 'shape' must have 2 entries or more, sizes before these; got [-1, 2, 3] for operand 'x' (tensor<2x3xf32>)}}
  "graph.expand"(%x) {shape = array<i64: -1, 2, 3>} : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.tile' the entries of attribute 'repeats' must be 0 or more, got [-1, 1]}}
  "graph.tile"(%x) {repeats = array<i64: -1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'graph.concat' takes at least one operand, got none}}
  "graph.concat"() {axis = 0 : i64} : () -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error @below {{'graph.concat' dimension 1 of operand 1 must be 3, as in the operands before it; got tensor<2x4xf32>}}
  "graph.concat"(%x, %y) {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xi32>) {
  // expected-error @below {{'graph.concat' operand 1 must have the element type of operand 0 (tensor<2x3xf32>), got tensor<2x3xi32>}}
  "graph.concat"(%x, %y) {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.concat' attribute 'axis' must be an axis from 0 to 1 of a tensor of rank 2, got 2}}
  "graph.concat"(%x, %x) {axis = 2 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.pad' attribute 'mode' must be one of constant, edge, reflect, wrap; got 'mirror'}}
  "graph.pad"(%x) {high = array<i64: 2, 0>, low = array<i64: 0, 1>, mode = "mirror", value = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.pad' the entries of attribute 'low' must be 0 or more, got [0, -1]}}
  "graph.pad"(%x) {high = array<i64: 2, 0>, low = array<i64: 0, -1>, mode = "constant", value = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.pad' attribute 'high' must have 2 entries, one for each dimension; got [1]}}
  "graph.pad"(%x) {high = array<i64: 1>, low = array<i64: 0, 1>, mode = "constant", value = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<0x3xf32>) {
  // expected-error @below {{'graph.pad' mode 'edge' has nothing to copy along dimension 0 of operand 'x' (tensor<0x3xf32>)}}
  "graph.pad"(%x) {high = array<i64: 2, 0>, low = array<i64: 0, 1>, mode = "edge", value = 0.0 : f64} : (tensor<0x3xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.shape_of' result 'result' is tensor<3xi64>, but its operands and attributes give tensor<2xi64>}}
  "graph.shape_of"(%x) : (tensor<2x3xf32>) -> tensor<3xi64>
  return
}

// -----

func.func @f(%l: tensor<i64>, %f: tensor<f32>) {
  // expected-error @below {{'graph.range' operands 'start' and 'limit' and 'delta' must have one element type, got tensor<i64> and tensor<i64> and tensor<f32>}}
  "graph.range"(%l, %l, %f) : (tensor<i64>, tensor<i64>, tensor<f32>) -> tensor<?xi64>
  return
}

// -----

func.func @f(%l: tensor<1xi64>) {
  // expected-error @below {{'graph.range' operand 'start' must have rank 0, got tensor<1xi64>}}
  "graph.range"(%l, %l, %l) : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xi64>
  return
}
