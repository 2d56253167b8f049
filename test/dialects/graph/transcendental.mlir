// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x?xbf16>, %y: tensor<f64>) {
  "graph.sqrt"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.rsqrt"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.exp"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.log"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.sin"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.cos"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.tan"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.asin"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.acos"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.atan"(%x) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  "graph.sinh"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.cosh"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.tanh"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.asinh"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.acosh"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.atanh"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.erf"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.sigmoid"(%y) : (tensor<f64>) -> tensor<f64>
  "graph.softplus"(%y) : (tensor<f64>) -> tensor<f64>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.exp' the element type of operand 'x' must be a float, got tensor<2x3xi32>}}
  "graph.exp"(%x) : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi1>) {
  // expected-error @below {{'graph.sigmoid' the element type of operand 'x' must be a float, got tensor<2x3xi1>}}
  "graph.sigmoid"(%x) : (tensor<2x3xi1>) -> tensor<2x3xi1>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.sqrt' result 'result' is tensor<2xf32>, but its operands and attributes give tensor<2x3xf32>}}
  "graph.sqrt"(%x) : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}
