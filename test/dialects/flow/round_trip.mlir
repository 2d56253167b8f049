// RUN: stepwell-opt %s --split-input-file | stepwell-opt --split-input-file | FileCheck %s

// What a run finds is a size of the program from here on, or is compared with a number; a function of a region is told sizes by name.
// CHECK: %{{.*}}:2 = "flow.bind_sizes"(%arg0) {sizes = ["n", 5]} : (tensor<2xi64>) -> (index, index)
// CHECK: "flow.bind_sizes"(%arg1) {sizes = array<i64: 3>} : (tensor<1xi64>) -> index
// CHECK: "flow.size"() {size = "m"} : () -> index
func.func @f(%counts: tensor<2xi64>, %count: tensor<1xi64>) -> index {
  %0:2 = "flow.bind_sizes"(%counts) {sizes = ["n", 5]} : (tensor<2xi64>) -> (index, index)
  %1 = "flow.bind_sizes"(%count) {sizes = array<i64: 3>} : (tensor<1xi64>) -> index
  %2 = "flow.size"() {size = "m"} : () -> index
  return %0#0 : index
}

// -----

// A conditional and a loop name functions; the last inputs may be where their results go.
// CHECK: "flow.if"(%arg0, %arg1) {destinations = 0 : i64, otherwise = "main.else", then = "main.then"}
// CHECK-SAME: (tensor<i1>, tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
// CHECK: "flow.if"(%arg0, %arg1, %{{.*}}) {destinations = 1 : i64,
// CHECK: %{{.*}}:3 = "flow.loop"(%arg2, %arg0, %arg1, %arg3) {body = "main.body", carried = 1 : i64, destinations = 0 : i64}
// CHECK-SAME: -> (tensor<?x6xf32, "n">, tensor<?x2xf32, "most">, tensor<1xi64>)
func.func @main(%c: tensor<i1>, %x: tensor<?x6xf32, "n">, %k: tensor<i64>, %b: tensor<6xf32>) -> tensor<?x6xf32, "n"> {
  %0 = "flow.if"(%c, %x) {then = "main.then", otherwise = "main.else", destinations = 0 : i64} : (tensor<i1>, tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
  %1 = "flow.if"(%c, %x, %0) {then = "main.then", otherwise = "main.else", destinations = 1 : i64}
    : (tensor<i1>, tensor<?x6xf32, "n">, tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
  %2:3 = "flow.loop"(%k, %c, %x, %b) {body = "main.body", carried = 1 : i64, destinations = 0 : i64}
    : (tensor<i64>, tensor<i1>, tensor<?x6xf32, "n">, tensor<6xf32>) -> (tensor<?x6xf32, "n">, tensor<?x2xf32, "most">, tensor<1xi64>)
  return %2#0 : tensor<?x6xf32, "n">
}

// -----

// A box says where a tensor lies and how large it is; what is taken out has the sizes that are named then.
// CHECK: %[[B:.*]] = "flow.box"(%arg0) : (tensor<?x6xf32, "n">) -> tensor<9xi64>
// CHECK: "flow.box"(%arg0, %arg1) : (tensor<?x6xf32, "n">, tensor<9xi64>) -> tensor<9xi64>
// CHECK: "flow.unbox"(%[[B]]) {sizes = ["m", 6], to = f32} : (tensor<9xi64>) -> tensor<?x6xf32, "m">
func.func @main(%x: tensor<?x6xf32, "n">, %place: tensor<9xi64>) -> tensor<?x6xf32, "m"> {
  %0 = "flow.box"(%x) : (tensor<?x6xf32, "n">) -> tensor<9xi64>
  %1 = "flow.box"(%x, %place) : (tensor<?x6xf32, "n">, tensor<9xi64>) -> tensor<9xi64>
  %2 = "flow.unbox"(%0) {to = f32, sizes = ["m", 6]} : (tensor<9xi64>) -> tensor<?x6xf32, "m">
  return %2 : tensor<?x6xf32, "m">
}
