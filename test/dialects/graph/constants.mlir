// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

func.func @f() {
  "graph.constant"() {value = dense<[1, 2]> : tensor<2xui8>} : () -> tensor<2xui8>
  "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  "graph.constant"() {value = dense<> : tensor<0x3xbf16>} : () -> tensor<0x3xbf16>
  "graph.parameter"() {id = "fc1.weight"} : () -> tensor<3x4xf16>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'graph.constant' result 'result' is tensor<3xf32>, but its operands and attributes give tensor<2xf32>}}
  "graph.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<3xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'graph.constant' attribute 'value' must be dense<...> of a tensor type, got dense<1.000000e+00> : vector<2xf32>}}
  "graph.constant"() {value = dense<1.0> : vector<2xf32>} : () -> tensor<2xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'graph.constant' a result: element type i3 is not supported; supported: i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, f4E2M1FN, i4, ui4, i2, ui2}}
  "graph.constant"() {value = dense<1> : tensor<2xi8>} : () -> tensor<2xi3>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'graph.parameter' lacks the attribute 'id'}}
  "graph.parameter"() : () -> tensor<3xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'graph.parameter' a result: expected a ranked tensor, got vector<3xf32>}}
  "graph.parameter"() {id = "w"} : () -> vector<3xf32>
  return
}
