// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%a: tensor<5x1x2x3xf32>, %b: tensor<4x3x7xf32>, %c: tensor<?x3xi8>, %d: tensor<?x?xi8>) {
  "graph.matmul"(%a, %b) : (tensor<5x1x2x3xf32>, tensor<4x3x7xf32>) -> tensor<5x4x2x7xf32>
  "graph.matmul"(%c, %d) : (tensor<?x3xi8>, tensor<?x?xi8>) -> tensor<?x?xi8>
  return
}

// -----

// Convolutions over one, two and three spatial dimensions.
func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>, %x1: tensor<1x2x9xf32>, %w1: tensor<5x2x3xf32>, %x3: tensor<1x2x5x5x?xf32>, %w3: tensor<2x2x1x5x3xf32>) {
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 2>, group = 2 : i64, pads = array<i64: 1, 0, 1, 0>, strides = array<i64: 2, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x5x6xf32>
  "graph.conv"(%x1, %w1) {dilations = array<i64: 1>, group = 1 : i64, pads = array<i64: 1, 1>, strides = array<i64: 4>} : (tensor<1x2x9xf32>, tensor<5x2x3xf32>) -> tensor<1x5x3xf32>
  "graph.conv"(%x3, %w3) {dilations = array<i64: 1, 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<1x2x5x5x?xf32>, tensor<2x2x1x5x3xf32>) -> tensor<1x2x5x1x?xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x3x5xf32>, %w: tensor<4x3x3x2xf32>) {
  "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 1, 0, 0, 1>, strides = array<i64: 2, 1>, output_padding = array<i64: 0, 0>} : (tensor<1x4x3x5xf32>, tensor<4x3x3x2xf32>) -> tensor<1x6x6x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x12x6xf32>, %any: tensor<?x?x6xui8>) {
  "graph.col2im"(%x) {image = array<i64: 4, 5>, kernel = array<i64: 2, 3>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x12x6xf32>) -> tensor<2x2x4x5xf32>
  "graph.col2im"(%any) {image = array<i64: 9>, kernel = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 1, 2>, dilations = array<i64: 1>} : (tensor<?x?x6xui8>) -> tensor<?x?x9xui8>
  return
}

// -----

func.func @f(%a: tensor<5x1x2x3xf32>, %b: tensor<4x2x7xf32>) {
  // expected-error @below {{'graph.matmul' dimension 1 of operand 'rhs' must be 3, as many as the columns of operand 'lhs' (tensor<5x1x2x3xf32>); got tensor<4x2x7xf32>}}
  "graph.matmul"(%a, %b) : (tensor<5x1x2x3xf32>, tensor<4x2x7xf32>) -> tensor<5x4x2x7xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>, %b: tensor<4x3x7xf32>) {
  // expected-error @below {{'graph.matmul' operand 'lhs' must have rank 2 or more, got tensor<3xf32>}}
  "graph.matmul"(%a, %b) : (tensor<3xf32>, tensor<4x3x7xf32>) -> tensor<4x7xf32>
  return
}

// -----

func.func @f(%a: tensor<2x4x3xf32>, %b: tensor<3x3x7xf32>) {
  // expected-error @below {{'graph.matmul' the batch dimensions of operands 'lhs' (tensor<2x4x3xf32>) and 'rhs' (tensor<3x3x7xf32>) do not broadcast}}
  "graph.matmul"(%a, %b) : (tensor<2x4x3xf32>, tensor<3x3x7xf32>) -> tensor<2x4x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x2x3x2xf32>) {
  // expected-error @below {{'graph.conv' dimension 1 of operand 'w' must be 3, the channels of operand 'x' (tensor<?x6x9x8xf32>) by group 2; got tensor<4x2x3x2xf32>}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x2x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' dimension 1 of operand 'x' must be a multiple of group 4, got tensor<?x6x9x8xf32>}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 4 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<5x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' dimension 0 of operand 'w' must be a multiple of group 2, got tensor<5x3x3x2xf32>}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<5x3x3x2xf32>) -> tensor<?x5x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' attribute 'group' must be 1 or more, got 0}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 0 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3xf32>) {
  // expected-error @below {{'graph.conv' operand 'w' must have rank 4, got tensor<4x3x3xf32>}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %w: tensor<2x3xf32>) {
  // expected-error @below {{'graph.conv' operand 'x' must have rank 3 or more, got tensor<2x3xf32>}}
  "graph.conv"(%x, %w) {dilations = array<i64>, group = 1 : i64, pads = array<i64>, strides = array<i64>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' attribute 'pads' must have 4 entries, the begin of each spatial dimension, then the end of each; got [1, 1]}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' attribute 'strides' must have 2 entries, one for each spatial dimension; got [1]}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' the entries of attribute 'strides' must be 1 or more, got [0, 1]}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 0, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' the entries of attribute 'pads' must be 0 or more, got [-1, 0, 0, 0]}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: -1, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' a window of 13 does not fit into spatial dimension 0, which has 9 and padding 1 and 0}}
  "graph.conv"(%x, %w) {dilations = array<i64: 6, 1>, group = 2 : i64, pads = array<i64: 1, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x7x7xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x3x2xf32>) {
  // expected-error @below {{'graph.conv' result 'result' is tensor<?x4x9x8xf32>, but its operands and attributes give tensor<?x4x7x7xf32>}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<?x4x9x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x6x9x8xf32>, %w: tensor<4x3x0x2xf32>) {
  // expected-error @below {{'graph.conv' operand 'w' has a window without elements: tensor<4x3x0x2xf32>}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x6x9x8xf32>, tensor<4x3x0x2xf32>) -> tensor<?x4x9x7xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x3x5xf32>, %w: tensor<3x3x3x2xf32>) {
  // expected-error @below {{'graph.conv_transpose' dimension 0 of operand 'w' must be 4, the channels of operand 'x' (tensor<1x4x3x5xf32>); got tensor<3x3x3x2xf32>}}
  "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, output_padding = array<i64: 0, 0>} : (tensor<1x4x3x5xf32>, tensor<3x3x3x2xf32>) -> tensor<1x6x6x5xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x3x5xf32>, %w: tensor<4x3x1x1xf32>) {
  // expected-error @below {{'graph.conv_transpose' 'pads' cut 4 off spatial dimension 0, which has only 3}}
  "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 2, 0, 2, 0>, strides = array<i64: 1, 1>, output_padding = array<i64: 0, 0>} : (tensor<1x4x3x5xf32>, tensor<4x3x1x1xf32>) -> tensor<1x3x0x5xf32>
  return
}

// -----

func.func @f(%x: tensor<1x4x3x5xf32>, %w: tensor<4x3x1x1xf32>) {
  // expected-error @below {{'graph.conv_transpose' attribute 'output_padding' must have 2 entries, one for each spatial dimension; got []}}
  "graph.conv_transpose"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, output_padding = array<i64>} : (tensor<1x4x3x5xf32>, tensor<4x3x1x1xf32>) -> tensor<1x3x3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x13x6xf32>) {
  // expected-error @below {{'graph.col2im' dimension 1 of operand 'x' must be a multiple of 6, the elements of a window [2, 3]; got tensor<2x13x6xf32>}}
  "graph.col2im"(%x) {image = array<i64: 4, 5>, kernel = array<i64: 2, 3>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x13x6xf32>) -> tensor<2x2x4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x12x7xf32>) {
  // expected-error @below {{'graph.col2im' dimension 2 of operand 'x' must be 6, the positions [2, 3] of the windows; got tensor<2x12x7xf32>}}
  "graph.col2im"(%x) {image = array<i64: 4, 5>, kernel = array<i64: 2, 3>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x12x7xf32>) -> tensor<2x2x4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x12x6xf32>) {
  // expected-error @below {{'graph.col2im' the entries of attribute 'image' must be 0 or more, got [-4, 5]}}
  "graph.col2im"(%x) {image = array<i64: -4, 5>, kernel = array<i64: 2, 3>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x12x6xf32>) -> tensor<2x2x4x5xf32>
  return
}

// -----

func.func @f(%x: tensor<1x2x4x4xi1>, %w: tensor<3x2x1x1xi1>) {
  // expected-error @below {{'graph.conv' the element type of operand 'x' must be numeric, got tensor<1x2x4x4xi1>}}
  "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x4x4xi1>, tensor<3x2x1x1xi1>) -> tensor<1x3x4x4xi1>
  return
}
