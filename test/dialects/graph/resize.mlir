// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<1x?x4x6xf32>) {
  "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0, 1.0, 2.0, 0.5], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x8x3xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' result 'result' is tensor<1x?x8x4xf32>, but its operands and attributes give tensor<1x?x8x3xf32>}}
  "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0, 1.0, 2.0, 0.5], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' attribute 'sizes' must have 4 entries, one for each dimension; got [8, 3]}}
  "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0, 1.0, 2.0, 0.5], sizes = array<i64: 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' attribute 'scales' must have 4 floats, one for each dimension; got [1.0, 2.0]}}
  "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0, 2.0], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' attribute 'scales' must have 4 floats, one for each dimension; got [1, 1, 2, 2]}}
  "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1, 1, 2, 2], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' the entries of attribute 'scales' must be positive, got [1.0, 1.0, 0.0, 2.0]}}
  "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0, 1.0, 0.0, 2.0], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' attribute 'mode' must be one of nearest, linear, cubic; got 'lanczos'}}
  "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "lanczos", roi = [], rounding = "floor", scales = [1.0, 1.0, 2.0, 0.5], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' attribute 'coordinates' must be one of half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize; got 'corners'}}
  "graph.resize"(%x) {antialias = false, coordinates = "corners", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0, 1.0, 2.0, 0.5], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x4x6xf32>
  return
}

// -----

func.func @f(%x: tensor<1x?x4x6xf32>) {
  // expected-error @below {{'graph.resize' attribute 'roi' must have 8 floats, the start of each dimension, then the end of each; got []}}
  "graph.resize"(%x) {antialias = false, coordinates = "tf_crop_and_resize", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0, 1.0, 2.0, 0.5], sizes = array<i64: -1, -1, 8, 3>} : (tensor<1x?x4x6xf32>) -> tensor<1x?x4x6xf32>
  return
}
