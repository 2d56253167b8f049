// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// With ceil_mode a last window may hang over the end.
func.func @f(%x: tensor<1x3x7x?xf32>, %y: tensor<2x3x6xi8>, %z: tensor<1x1x6x6xf32>) {
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 2>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x3x?xf32>
  "graph.avg_pool"(%x) {ceil_mode = false, count_include_pad = true, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 2>, pads = array<i64: 1, 0, 1, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x4x?xf32>
  "graph.max_pool"(%y) {ceil_mode = false, dilations = array<i64: 1>, kernel = array<i64: 3>, pads = array<i64: 0, 0>, strides = array<i64: 3>} : (tensor<2x3x6xi8>) -> tensor<2x3x2xi8>
  "graph.max_pool"(%z) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x1x6x6xf32>) -> tensor<1x1x2x2xf32>
  "graph.max_pool"(%z) {ceil_mode = true, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x1x6x6xf32>) -> tensor<1x1x3x3xf32>
  return
}

// -----

// A window larger than its dimension has no place; with ceil_mode it has the one at the beginning.
func.func @f(%x: tensor<1x3x7x?xf32>) {
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 8, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x0x?xf32>
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 9, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x0x?xf32>
  "graph.max_pool"(%x) {ceil_mode = true, dilations = array<i64: 1, 1>, kernel = array<i64: 8, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x1x?xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3xf32>) {
  // expected-error @below {{'graph.max_pool' operand 'x' must have rank 3 or more, got tensor<1x3xf32>}}
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64>, kernel = array<i64>, pads = array<i64>, strides = array<i64>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x7x?xf32>) {
  // expected-error @below {{'graph.max_pool' attribute 'kernel' must have}}
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 2, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x7x?xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x7x?xf32>) {
  // expected-error @below {{'graph.max_pool' the entries of attribute 'kernel' must be 1 or more, got [3, 0]}}
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 0>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x7x?xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x7x?xf32>) {
  // expected-error @below {{'graph.max_pool' attribute 'dilations' must have 2 entries, one for each spatial dimension; got [1]}}
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64: 1>, kernel = array<i64: 3, 2>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x7x?xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x7x?xf32>) {
  // expected-error @below {{'graph.avg_pool' a window of 11 does not fit into spatial dimension 0, which has 7 and padding 0 and 1}}
  "graph.avg_pool"(%x) {ceil_mode = false, count_include_pad = false, dilations = array<i64: 1, 1>, kernel = array<i64: 11, 1>, pads = array<i64: 0, 0, 1, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x7x?xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x7x?xf32>) {
  // expected-error @below {{'graph.max_pool' result 'result' is tensor<1x3x4x?xf32>, but its operands and attributes give tensor<1x3x3x?xf32>}}
  "graph.max_pool"(%x) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 2>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x4x?xf32>
  return
}

// -----

func.func @f(%x: tensor<1x3x7x7xi8>) {
  // expected-error @below {{'graph.avg_pool' the element type of operand 'x' must be a float, got tensor<1x3x7x7xi8>}}
  "graph.avg_pool"(%x) {ceil_mode = false, count_include_pad = false, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 2>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x7xi8>) -> tensor<1x3x3x6xi8>
  return
}

// -----

func.func @f(%x: tensor<1x3x7x?xf32>) {
  // expected-error @below {{'graph.avg_pool' lacks the attribute 'count_include_pad'}}
  "graph.avg_pool"(%x) {ceil_mode = false, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 2>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>} : (tensor<1x3x7x?xf32>) -> tensor<1x3x3x?xf32>
  return
}
