// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x?xf32>, %s: tensor<f32>, %t: tensor<2x1xf32>, %z: tensor<ui8>, %u: tensor<2x1xi16>, %i: tensor<2x3xi32>, %n: tensor<i32>) {
  %0 = "graph.quantize"(%x, %s, %z) : (tensor<2x?xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x?xui8>
  %1 = "graph.quantize"(%x, %t, %u) : (tensor<2x?xf32>, tensor<2x1xf32>, tensor<2x1xi16>) -> tensor<2x?xi16>
  "graph.dequantize"(%0, %t, %z) : (tensor<2x?xui8>, tensor<2x1xf32>, tensor<ui8>) -> tensor<2x?xf32>
  "graph.dequantize"(%i, %s, %n) : (tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %s: tensor<4xf32>, %z: tensor<ui8>) {
  // expected-error @below {{shapes tensor<2x3xf32> and tensor<4xf32> and tensor<ui8> do not broadcast}}
  "graph.quantize"(%x, %s, %z) : (tensor<2x3xf32>, tensor<4xf32>, tensor<ui8>) -> tensor<2x3xui8>
  return
}

// -----

func.func @f(%x: tensor<1x3xui8>, %s: tensor<2x3xf32>, %z: tensor<ui8>) {
  // expected-error @below {{operands 'scale' (tensor<2x3xf32>) and 'zero_point' (tensor<ui8>) must broadcast to operand 'x', got tensor<1x3xui8>}}
  "graph.dequantize"(%x, %s, %z) : (tensor<1x3xui8>, tensor<2x3xf32>, tensor<ui8>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %s: tensor<f32>, %z: tensor<i32>) {
  // expected-error @below {{the element type of operand 'zero_point' must be one of i8, ui8, i16, ui16, got tensor<i32>}}
  "graph.quantize"(%x, %s, %z) : (tensor<2x3xf32>, tensor<f32>, tensor<i32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi8>, %s: tensor<f32>, %z: tensor<ui8>) {
  // expected-error @below {{operands 'x' and 'zero_point' must have one element type, got tensor<2x3xi8> and tensor<ui8>}}
  "graph.dequantize"(%x, %s, %z) : (tensor<2x3xi8>, tensor<f32>, tensor<ui8>) -> tensor<2x3xf32>
  return
}
