// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f(%x: tensor<2x3xf32>, %y: tensor<?x1x3xf32>, %p: tensor<2x3xi1>, %u: tensor<2x3xui8>) {
  "graph.less"(%x, %y) : (tensor<2x3xf32>, tensor<?x1x3xf32>) -> tensor<?x2x3xi1>
  "graph.equal"(%p, %p) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  "graph.xor"(%p, %p) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  "graph.not"(%p) : (tensor<2x3xi1>) -> tensor<2x3xi1>
  "graph.bitwise_and"(%u, %u) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
  "graph.shift_left"(%u, %u) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
  "graph.select"(%p, %x, %x) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  "graph.is_inf"(%x) {detect_negative = true, detect_positive = false} : (tensor<2x3xf32>) -> tensor<2x3xi1>
  "graph.is_nan"(%x) : (tensor<2x3xf32>) -> tensor<2x3xi1>
  "graph.cast"(%u) {saturate = false, to = bf16} : (tensor<2x3xui8>) -> tensor<2x3xbf16>
  "graph.cast"(%p) {saturate = true, to = i32} : (tensor<2x3xi1>) -> tensor<2x3xi32>
  "graph.bit_cast"(%x) {to = ui32} : (tensor<2x3xf32>) -> tensor<2x3xui32>
  "graph.bit_cast"(%u) {to = f8E5M2} : (tensor<2x3xui8>) -> tensor<2x3xf8E5M2>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.less' result 'result' is tensor<2x3xf32>, but its operands and attributes give tensor<2x3xi1>}}
  "graph.less"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi1>) {
  // expected-error @below {{'graph.greater_equal' the element type of operand 'lhs' must be numeric, got tensor<2x3xi1>}}
  "graph.greater_equal"(%x, %x) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xi32>) {
  // expected-error @below {{'graph.equal' operands 'lhs' and 'rhs' must have one element type, got tensor<2x3xf32> and tensor<2x3xi32>}}
  "graph.equal"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3xi1>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.and' the element type of operand 'lhs' must be i1, got tensor<2x3xi32>}}
  "graph.and"(%x, %x) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.not' the element type of operand 'x' must be i1, got tensor<2x3xi32>}}
  "graph.not"(%x) : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.bitwise_xor' the element type of operand 'lhs' must be an integer, got tensor<2x3xf32>}}
  "graph.bitwise_xor"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.shift_right' the element type of operand 'lhs' must be an unsigned integer, got tensor<2x3xi32>}}
  "graph.shift_right"(%x, %x) : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xi32>) {
  // expected-error @below {{'graph.is_nan' the element type of operand 'x' must be a float, got tensor<2x3xi32>}}
  "graph.is_nan"(%x) : (tensor<2x3xi32>) -> tensor<2x3xi1>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.select' the element type of operand 'cond' must be i1, got tensor<2x3xf32>}}
  "graph.select"(%x, %x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%p: tensor<2x3xi1>, %x: tensor<2x3xf32>, %y: tensor<2x3xi32>) {
  // expected-error @below {{'graph.select' operands 'a' and 'b' must have one element type, got tensor<2x3xf32> and tensor<2x3xi32>}}
  "graph.select"(%p, %x, %y) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%p: tensor<4xi1>, %x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.select' shapes tensor<4xi1> and tensor<2x3xf32> and tensor<2x3xf32> do not broadcast}}
  "graph.select"(%p, %x, %x) : (tensor<4xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.cast' result 'result' is tensor<2x3xi32>, but its operands and attributes give tensor<2x3xf16>}}
  "graph.cast"(%x) {saturate = false, to = f16} : (tensor<2x3xf32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.cast' element type f6E2M3FN is not supported; supported: i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, f4E2M1FN, i4, ui4, i2, ui2}}
  "graph.cast"(%x) {saturate = false, to = f6E2M3FN} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.bit_cast' attribute 'to' must be one of i32, ui32, f32 for tensor<2x3xf32>, got i64}}
  "graph.bit_cast"(%x) {to = i64} : (tensor<2x3xf32>) -> tensor<2x3xi64>
  return
}

// -----

func.func @f(%x: tensor<2x3xi4>) {
  // expected-error @below {{'graph.cast' the element type of operand 'x' must be one of i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f4E2M1FN, got tensor<2x3xi4>}}
  "graph.cast"(%x) {saturate = false, to = i8} : (tensor<2x3xi4>) -> tensor<2x3xi8>
  return
}
