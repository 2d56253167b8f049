// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// The bindings verify before they count operands or look for attributes; the dialect's verifier does it first.
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.softmax' takes 1 operand (x), got 2}}
  "graph.softmax"(%x, %x) {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.add' takes 2 operands (lhs, rhs), got 1}}
  "graph.add"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{'graph.loop' takes at least 2 operands (trip_count, condition, carried), got 0}}
  "graph.loop"() ({}) : () -> ()
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.softmax' lacks the attribute 'axis'}}
  "graph.softmax"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.softmax' has 0 results, expected 1}}
  "graph.softmax"(%x) {axis = 1 : i64} : (tensor<2x3xf32>) -> ()
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.softmax' has 2 results, expected 1}}
  "graph.softmax"(%x) {axis = 1 : i64} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

// -----

func.func @f(%x: memref<2xf32>) {
  // expected-error @below {{'graph.relu' operand 'x': expected a ranked tensor, got memref<2xf32>}}
  "graph.relu"(%x) : (memref<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<*xf32>) {
  // expected-error @below {{'graph.relu' operand 'x': expected a ranked tensor, got tensor<*xf32>}}
  "graph.relu"(%x) : (tensor<*xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2xindex>) {
  // expected-error @below {{'graph.relu' operand 'x': element type index is not supported; supported: i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64}}
  "graph.relu"(%x) : (tensor<2xindex>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.relu' a result: expected a ranked tensor, got memref<2x3xf32>}}
  "graph.relu"(%x) : (tensor<2x3xf32>) -> memref<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.softmax' attribute 'axis' must be an integer, got "one"}}
  "graph.softmax"(%x) {axis = "one"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.softmax' attribute 'axis' must be an integer, got [1]}}
  "graph.softmax"(%x) {axis = [1]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.softmax' attribute 'axis' must be an integer, got true}}
  "graph.softmax"(%x) {axis = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.leaky_relu' attribute 'alpha' must be a float such as 1.0 : f64, got 1 : i64}}
  "graph.leaky_relu"(%x) {alpha = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.mod' attribute 'fmod' must be true or false, got 1 : i64}}
  "graph.mod"(%x, %x) {fmod = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.transpose' attribute 'perm' must be integers as array<i64: ...>, got [1, 0]}}
  "graph.transpose"(%x) {perm = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.cast' attribute 'to' must be an element type, got 32 : i64}}
  "graph.cast"(%x) {saturate = false, to = 32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.scatter_nd' attribute 'reduction' must be a string, got 1 : i64}}
  "graph.scatter_nd"(%x, %x, %x) {reduction = 1} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{unregistered operation 'graph.nosuch' found in dialect ('graph') that does not allow unknown operations}}
  "graph.nosuch"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}
