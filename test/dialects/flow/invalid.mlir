// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// Of all that can be wrong: what was expected, and what came.
func.func @f(%x: tensor<2xi64>) {
  // expected-error @below {{'flow.bind_sizes' takes a tensor<3xi64>, as attribute 'sizes' says, got tensor<2xi64>}}
  "flow.bind_sizes"(%x) {sizes = ["n", "m", 4]} : (tensor<2xi64>) -> (index, index, index)
  return
}

// -----

func.func @f(%x: tensor<2xi32>) {
  // expected-error @below {{'flow.bind_sizes' takes a tensor<2xi64>, as attribute 'sizes' says, got tensor<2xi32>}}
  "flow.bind_sizes"(%x) {sizes = ["n", "m"]} : (tensor<2xi32>) -> (index, index)
  return
}

// -----

func.func @f(%x: tensor<2xi64>) {
  // expected-error @below {{'flow.bind_sizes' must have 2 results of type index, as attribute 'sizes' says}}
  "flow.bind_sizes"(%x) {sizes = ["n", "m"]} : (tensor<2xi64>) -> index
  return
}

// -----

func.func @f(%x: tensor<1xi64>) {
  // expected-error @below {{'flow.bind_sizes' must have 1 results of type index, as attribute 'sizes' says}}
  "flow.bind_sizes"(%x) {sizes = ["n"]} : (tensor<1xi64>) -> i64
  return
}

// -----

func.func @f(%x: tensor<1xi64>) {
  // expected-error @below {{'flow.bind_sizes' attribute 'sizes' must list sizes: SW004 expected sizes as numbers or text, got "n"}}
  "flow.bind_sizes"(%x) {sizes = "n"} : (tensor<1xi64>) -> index
  return
}

// -----

func.func @f() {
  // expected-error @below {{'flow.size' must have one result of type index}}
  "flow.size"() {size = "n"} : () -> i64
  return
}

// -----

func.func @f(%c: tensor<1xi1>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.if' operand 'condition' must be tensor<i1>, got tensor<1xi1>}}
  "flow.if"(%c, %x) {then = "a", otherwise = "b", destinations = 0 : i64} : (tensor<1xi1>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error @below {{'flow.if' has the results (tensor<4xf32>), but destinations (tensor<5xf32>)}}
  "flow.if"(%c, %x, %y) {then = "a", otherwise = "b", destinations = 1 : i64} : (tensor<i1>, tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

// One destination for each result, or none.
func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.if' has the results (tensor<4xf32>, tensor<4xf32>), but destinations (tensor<4xf32>)}}
  "flow.if"(%c, %x) {then = "a", otherwise = "b", destinations = 1 : i64} : (tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.if' attribute 'destinations' must be from 0 to the number of inputs, 1, got 2}}
  "flow.if"(%c, %x) {then = "a", otherwise = "b", destinations = 2 : i64} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.if' attribute 'destinations' must be from 0 to the number of inputs, 1, got -1}}
  "flow.if"(%c, %x) {then = "a", otherwise = "b", destinations = -1 : i64} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<i1>) {
  // expected-error @below {{'flow.if' lacks the attribute 'otherwise'}}
  "flow.if"(%c) {then = "a", destinations = 0 : i64} : (tensor<i1>) -> ()
  return
}

// -----

func.func @f(%c: tensor<i1>, %n: tensor<1xi64>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.loop' operand 'trip_count' must be tensor<i64>, got tensor<1xi64>}}
  "flow.loop"(%n, %c, %x) {body = "a", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<1xi64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<1xi64>)
  return
}

// -----

func.func @f(%c: tensor<i8>, %n: tensor<i64>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.loop' operand 'condition' must be tensor<i1>, got tensor<i8>}}
  "flow.loop"(%n, %c, %x) {body = "a", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i8>, tensor<4xf32>) -> (tensor<4xf32>, tensor<1xi64>)
  return
}

// -----

func.func @f(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<?x4xf32, "n">) {
  // expected-error @below {{'flow.loop' carries (tensor<?x4xf32, "n">), but its results are (tensor<?x5xf32, "n">, tensor<1xi64>)}}
  "flow.loop"(%n, %c, %x) {body = "a", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i1>, tensor<?x4xf32, "n">) -> (tensor<?x5xf32, "n">, tensor<1xi64>)
  return
}

// -----

// The number of rounds comes after the carried values, always.
func.func @f(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.loop' carries (tensor<4xf32>), but its results are (tensor<4xf32>)}}
  "flow.loop"(%n, %c, %x) {body = "a", carried = 1 : i64, destinations = 0 : i64} : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.loop' must have the number of rounds, tensor<1xi64>, as its last result, got tensor<i64>}}
  "flow.loop"(%n, %c, %x) {body = "a", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>)
  return
}

// -----

func.func @f(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.loop' attribute 'carried' must be from 0 to the number of inputs, 1, got 2}}
  "flow.loop"(%n, %c, %x) {body = "a", carried = 2 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<1xi64>)
  return
}

// -----

func.func @f(%c: tensor<i1>, %n: tensor<i64>) {
  // expected-error @below {{'flow.loop' attribute 'carried' must be from 0 to the number of inputs, 0, got -1}}
  "flow.loop"(%n, %c) {body = "a", carried = -1 : i64, destinations = 0 : i64} : (tensor<i64>, tensor<i1>) -> tensor<1xi64>
  return
}

// -----

func.func @f(%c: tensor<i1>, %n: tensor<i64>, %x: tensor<4xf32>) {
  // expected-error @below {{'flow.loop' has the results (tensor<4xf32>, tensor<1xi64>), but destinations (tensor<4xf32>)}}
  "flow.loop"(%n, %c, %x, %x) {body = "a", carried = 1 : i64, destinations = 1 : i64}
    : (tensor<i64>, tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<1xi64>)
  return
}

// -----

func.func @f(%x: tensor<1x1x1x1x1x1x1x1xf32>, %y: tensor<1x1x1x1x1x1x1x1x1xf32>) {
  "flow.box"(%x) : (tensor<1x1x1x1x1x1x1x1xf32>) -> tensor<9xi64>
  // expected-error @below {{'flow.box' operand 'x' (tensor<1x1x1x1x1x1x1x1x1xf32>) must have at most 8 dimensions}}
  "flow.box"(%y) : (tensor<1x1x1x1x1x1x1x1x1xf32>) -> tensor<9xi64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %b: tensor<8xi64>) {
  // expected-error @below {{'flow.box' operand 'destinations' must be nothing or one tensor<9xi64>, got tensor<8xi64>}}
  "flow.box"(%x, %b) : (tensor<4xf32>, tensor<8xi64>) -> tensor<9xi64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>, %b: tensor<9xi64>) {
  // expected-error @below {{'flow.box' operand 'destinations' must be nothing or one tensor<9xi64>, got tensor<9xi64>, tensor<9xi64>}}
  "flow.box"(%x, %b, %b) : (tensor<4xf32>, tensor<9xi64>, tensor<9xi64>) -> tensor<9xi64>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @below {{'flow.box' result 'result' is tensor<8xi64>, but its operands and attributes give tensor<9xi64>}}
  "flow.box"(%x) : (tensor<4xf32>) -> tensor<8xi64>
  return
}

// -----

func.func @f(%b: tensor<8xi64>) {
  // expected-error @below {{'flow.unbox' operand 'box' must be a tensor<9xi64>, got tensor<8xi64>}}
  "flow.unbox"(%b) {to = f32, sizes = array<i64: 4>} : (tensor<8xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%b: tensor<9xi64>) {
  // expected-error @below {{'flow.unbox' element type i7 is not supported; supported: i1, i8,}}
  "flow.unbox"(%b) {to = i7, sizes = array<i64: 4>} : (tensor<9xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%b: tensor<9xi64>) {
  // expected-error @below {{'flow.unbox' attribute 'sizes' must have at most 8 entries, got 9}}
  "flow.unbox"(%b) {to = f32, sizes = array<i64: 1, 1, 1, 1, 1, 1, 1, 1, 1>} : (tensor<9xi64>) -> tensor<1x1x1x1x1x1x1x1x1xf32>
  return
}

// -----

func.func @f(%b: tensor<9xi64>) {
  // expected-error @below {{'flow.unbox' result 'result' is tensor<4x?xf32, "n">, but its operands and attributes give tensor<?xf32, "n">}}
  "flow.unbox"(%b) {to = f32, sizes = ["n"]} : (tensor<9xi64>) -> tensor<4x?xf32, "n">
  return
}
