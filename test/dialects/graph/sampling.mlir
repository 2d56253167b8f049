// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x3x?x6xf16>, %p: tensor<2x5x2xf32>, %b: tensor<?x4xf16>, %i: tensor<?xi64>, %w: tensor<?x4x2xi64>) {
  "graph.interpolate"(%x, %p) {last_first = true} : (tensor<2x3x?x6xf16>, tensor<2x5x2xf32>) -> tensor<2x3x5xf16>
  "graph.roi_align"(%x, %b, %i) {half_pixel = true, mode = "avg", samples = 0 : i64, scale = 1.0 : f64, sizes = array<i64: 2, 3>} : (tensor<2x3x?x6xf16>, tensor<?x4xf16>, tensor<?xi64>) -> tensor<?x3x2x3xf16>
  "graph.roi_max_pool"(%x, %i, %w, %w) : (tensor<2x3x?x6xf16>, tensor<?xi64>, tensor<?x4x2xi64>, tensor<?x4x2xi64>) -> tensor<?x3x4x4xf16>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf16>, %p: tensor<2x5x2xf16>) {
  // expected-error @below {{'graph.interpolate' the element type of operand 'places' must be f32 for operand 'x' of tensor<2x3x4x6xf16>, got tensor<2x5x2xf16>}}
  "graph.interpolate"(%x, %p) {last_first = true} : (tensor<2x3x4x6xf16>, tensor<2x5x2xf16>) -> tensor<2x3x5xf16>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %p: tensor<2x5x3xf32>) {
  // expected-error @below {{'graph.interpolate' dimension 2 of operand 'places' must be 2, the spatial rank of operand 'x' (tensor<2x3x4x6xf32>); got tensor<2x5x3xf32>}}
  "graph.interpolate"(%x, %p) {last_first = true} : (tensor<2x3x4x6xf32>, tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %b: tensor<5x4xf32>, %i: tensor<6xi64>) {
  // expected-error @below {{'graph.roi_align' dimension 0 of operand 'batch_indices' must be 5, the number of regions in operand 'boxes' (tensor<5x4xf32>); got tensor<6xi64>}}
  "graph.roi_align"(%x, %b, %i) {half_pixel = true, mode = "avg", samples = 0 : i64, scale = 1.0 : f64, sizes = array<i64: 2, 3>} : (tensor<2x3x4x6xf32>, tensor<5x4xf32>, tensor<6xi64>) -> tensor<5x3x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3x4x6xf32>, %i: tensor<6xi64>, %r: tensor<6x3x2xi64>, %c: tensor<6x3x3xi64>) {
  // expected-error @below {{'graph.roi_max_pool' dimension 2 of operand 'columns' must be 2, where a window begins and ends; got tensor<6x3x3xi64>}}
  "graph.roi_max_pool"(%x, %i, %r, %c) : (tensor<2x3x4x6xf32>, tensor<6xi64>, tensor<6x3x2xi64>, tensor<6x3x3xi64>) -> tensor<6x3x3x3xf32>
  return
}
