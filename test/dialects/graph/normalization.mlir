// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x3x5x?xf32>, %c0: tensor<3xf32>, %c1: tensor<3xf32>, %c2: tensor<3xf32>, %c3: tensor<?xf32>) {
  "graph.batch_norm"(%x, %c0, %c1, %c2, %c3) {epsilon = 1.0e-5 : f64} : (tensor<2x3x5x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<?xf32>) -> tensor<2x3x5x?xf32>
  "graph.lrn"(%x) {alpha = 1.0e-4 : f64, beta = 7.5e-1 : f64, bias = 1.0 : f64, size = 5 : i64} : (tensor<2x3x5x?xf32>) -> tensor<2x3x5x?xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x5x?xf32>, %c0: tensor<3xf32>, %c1: tensor<4xf32>, %c2: tensor<3xf32>, %c3: tensor<3xf32>) {
  // expected-error @below {{'graph.batch_norm' dimension 0 of operand 'bias' must be 3, the channels of operand 'x' (tensor<2x3x5x?xf32>); got tensor<4xf32>}}
  "graph.batch_norm"(%x, %c0, %c1, %c2, %c3) {epsilon = 1.0e-5 : f64} : (tensor<2x3x5x?xf32>, tensor<3xf32>, tensor<4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x5x?xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x5x?xf32>, %c0: tensor<3xf32>, %c1: tensor<3xf32>, %c2: tensor<3xf32>, %c3: tensor<3xf64>) {
  // expected-error @below {{'graph.batch_norm' operands 'x' and 'var' must have one element type, got tensor<2x3x5x?xf32> and tensor<3xf64>}}
  "graph.batch_norm"(%x, %c0, %c1, %c2, %c3) {epsilon = 1.0e-5 : f64} : (tensor<2x3x5x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf64>) -> tensor<2x3x5x?xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x5x?xf32>, %c0: tensor<3x1xf32>, %c1: tensor<3xf32>, %c2: tensor<3xf32>, %c3: tensor<3xf32>) {
  // expected-error @below {{'graph.batch_norm' operand 'scale' must have rank 1, got tensor<3x1xf32>}}
  "graph.batch_norm"(%x, %c0, %c1, %c2, %c3) {epsilon = 1.0e-5 : f64} : (tensor<2x3x5x?xf32>, tensor<3x1xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x5x?xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>, %c0: tensor<3xf32>, %c1: tensor<3xf32>, %c2: tensor<3xf32>, %c3: tensor<3xf32>) {
  // expected-error @below {{'graph.batch_norm' operand 'x' must have rank 2 or more, got tensor<3xf32>}}
  "graph.batch_norm"(%x, %c0, %c1, %c2, %c3) {epsilon = 1.0e-5 : f64} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x5x?xf32>, %c0: tensor<3xf32>, %c1: tensor<3xf32>, %c2: tensor<3xf32>, %c3: tensor<3xf32>) {
  // expected-error @below {{'graph.batch_norm' attribute 'epsilon' must be 0 or more, got -1.0}}
  "graph.batch_norm"(%x, %c0, %c1, %c2, %c3) {epsilon = -1.0 : f64} : (tensor<2x3x5x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x5x?xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x5x?xf32>) {
  // expected-error @below {{'graph.lrn' attribute 'size' must be 1 or more, got 0}}
  "graph.lrn"(%x) {alpha = 1.0e-4 : f64, beta = 7.5e-1 : f64, bias = 1.0 : f64, size = 0 : i64} : (tensor<2x3x5x?xf32>) -> tensor<2x3x5x?xf32>
  return
}

// -----

func.func @f(%x: tensor<3xi32>) {
  // expected-error @below {{'graph.lrn' the element type of operand 'x' must be a float, got tensor<3xi32>}}
  "graph.lrn"(%x) {alpha = 1.0e-4 : f64, beta = 7.5e-1 : f64, bias = 1.0 : f64, size = 3 : i64} : (tensor<3xi32>) -> tensor<3xi32>
  return
}
