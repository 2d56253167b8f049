// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// Operands broadcast as numpy's do; an unknown size can be anything.
func.func @f(%x: tensor<2x3xf32>, %y: tensor<3xf32>, %n: tensor<?x1xf32>, %s: tensor<f32>) {
  "graph.add"(%x, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  "graph.sub"(%x, %s) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  "graph.mul"(%n, %y) : (tensor<?x1xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  "graph.maximum"(%n, %x) : (tensor<?x1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  "graph.div"(%n, %n) : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xui8>, %h: tensor<2xbf16>) {
  "graph.relu"(%x) : (tensor<2x3xui8>) -> tensor<2x3xui8>
  "graph.clamp"(%x) {max = 0x7FF0000000000000 : f64, min = 3.0 : f64} : (tensor<2x3xui8>) -> tensor<2x3xui8>
  "graph.leaky_relu"(%h) {alpha = 0.1 : f64} : (tensor<2xbf16>) -> tensor<2xbf16>
  "graph.mod"(%x, %x) {fmod = false} : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xi32>) {
  // expected-error @below {{'graph.add' operands 'lhs' and 'rhs' must have one element type, got tensor<2x3xf32> and tensor<2x3xi32>}}
  "graph.add"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2xf32>) {
  // expected-error @below {{'graph.mul' shapes tensor<2x3xf32> and tensor<2xf32> do not broadcast}}
  "graph.mul"(%x, %y) : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi1>) {
  // expected-error @below {{'graph.add' the element type of operand 'lhs' must be numeric, got tensor<2x3xi1>}}
  "graph.add"(%x, %x) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.sub' result 'result' is tensor<3x2xf32>, but its operands and attributes give tensor<2x3xf32>}}
  "graph.sub"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.relu' result 'result' is tensor<2x3xf64>, but its operands and attributes give tensor<2x3xf32>}}
  "graph.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf64>
  return
}

// -----

func.func @f(%x: tensor<2x3xui8>) {
  // expected-error @below {{'graph.neg' the element type of operand 'x' must be one of i8, i16, i32, i64, f16, bf16, f32, f64, got tensor<2x3xui8>}}
  "graph.neg"(%x) : (tensor<2x3xui8>) -> tensor<2x3xui8>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.floor' the element type of operand 'x' must be a float, got tensor<2x3xi32>}}
  "graph.floor"(%x) : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.elu' the element type of operand 'x' must be a float, got tensor<2x3xi32>}}
  "graph.elu"(%x) {alpha = 1.0 : f64} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.clamp' attribute 'max' must be a number, got NaN}}
  "graph.clamp"(%x) {max = 0x7FF8000000000000 : f64, min = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.clamp' attribute 'min' must be whole (or infinite) for tensor<2x3xi32>, got 0.5}}
  "graph.clamp"(%x) {max = 1.0 : f64, min = 0.5 : f64} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}
