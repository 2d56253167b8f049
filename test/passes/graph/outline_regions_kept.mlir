// RUN: stepwell-opt %s --outline-regions --split-input-file | FileCheck %s

// What cannot be functions stays as it is, and says why. Boxes need names for the sizes of what they hold.
// CHECK: "graph.loop"
// CHECK: stepwell.reason = "a loop that carries values of sizes without a name (tensor<?x6xf32, \22n\22>, tensor<?x6xf32, \22p\22>, tensor<?x6xf32, \222*p\22>, tensor<?x6xf32>)"
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<?x6xf32, "n">) -> tensor<?x6xf32> {
  %0 = "graph.loop"(%n, %c, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<?x6xf32, "p">):
    %1 = "graph.concat"(%v, %v) {axis = 0 : i64} : (tensor<?x6xf32, "p">, tensor<?x6xf32, "p">) -> tensor<?x6xf32, "2*p">
    "graph.yield"(%go, %1) : (tensor<i1>, tensor<?x6xf32, "2*p">) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<?x6xf32, "n">) -> tensor<?x6xf32>
  return %0 : tensor<?x6xf32>
}

// -----

// CHECK: "graph.if"
// CHECK: stepwell.reason = "a conditional that gives values of sizes without a name (tensor<?x6xf32>, tensor<?x6xf32, \22n\22>, tensor<?x6xf32, \222*n\22>)"
func.func @main(%c: tensor<i1>, %x: tensor<?x6xf32, "n">) -> tensor<?x6xf32> {
  %0 = "graph.if"(%c) ({
    "graph.yield"(%x) : (tensor<?x6xf32, "n">) -> ()
  }, {
    %1 = "graph.concat"(%x, %x) {axis = 0 : i64} : (tensor<?x6xf32, "n">, tensor<?x6xf32, "n">) -> tensor<?x6xf32, "2*n">
    "graph.yield"(%1) : (tensor<?x6xf32, "2*n">) -> ()
  }) : (tensor<i1>) -> tensor<?x6xf32>
  return %0 : tensor<?x6xf32>
}

// -----

// So it does where both branches give one size, and the result has lost its name.
// CHECK: "graph.if"
// CHECK: stepwell.reason = "a conditional that gives values of sizes without a name (tensor<?x6xf32>, tensor<?x6xf32, \22n\22>, tensor<?x6xf32, \22n\22>)"
func.func @main(%c: tensor<i1>, %x: tensor<?x6xf32, "n">) -> tensor<?x6xf32> {
  %0 = "graph.if"(%c) ({
    "graph.yield"(%x) : (tensor<?x6xf32, "n">) -> ()
  }, {
    %1 = "graph.neg"(%x) : (tensor<?x6xf32, "n">) -> tensor<?x6xf32, "n">
    "graph.yield"(%1) : (tensor<?x6xf32, "n">) -> ()
  }) : (tensor<i1>) -> tensor<?x6xf32>
  return %0 : tensor<?x6xf32>
}

// -----

// Parts of different sizes do not lie side by side.
// CHECK: "graph.loop"
// CHECK: stepwell.reason = "a loop that collects values of changing sizes (tensor<?x6xf32, \22p\22>)"
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<?x6xf32, "n">) -> tensor<?x?x6xf32, "r, q"> {
  %0:2 = "graph.loop"(%n, %c, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<?x6xf32, "p">):
    %1 = "graph.concat"(%v, %v) {axis = 0 : i64} : (tensor<?x6xf32, "p">, tensor<?x6xf32, "p">) -> tensor<?x6xf32, "2*p">
    "graph.yield"(%go, %1, %v) : (tensor<i1>, tensor<?x6xf32, "2*p">, tensor<?x6xf32, "p">) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<?x6xf32, "n">) -> (tensor<?x6xf32, "m">, tensor<?x?x6xf32, "r, q">)
  return %0#1 : tensor<?x?x6xf32, "r, q">
}

// -----

// CHECK: "graph.loop"
// CHECK: stepwell.reason = "a loop that collects values over a number of rounds that nothing bounds"
func.func @main(%x: tensor<6xf32>) -> tensor<?x6xf32, "r"> {
  %n = "graph.constant"() {value = dense<9223372036854775807> : tensor<i64>} : () -> tensor<i64>
  %c = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %0:2 = "graph.loop"(%n, %c, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<6xf32>):
    "graph.yield"(%go, %v, %v) : (tensor<i1>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<6xf32>) -> (tensor<6xf32>, tensor<?x6xf32, "r">)
  return %0#1 : tensor<?x6xf32, "r">
}

// -----

// CHECK: "graph.loop"
// CHECK: stepwell.reason = "a loop that collects values over a number of rounds without a name (tensor<?x6xf32>)"
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<6xf32>) -> tensor<?x6xf32> {
  %0:2 = "graph.loop"(%n, %c, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<6xf32>):
    "graph.yield"(%go, %v, %v) : (tensor<i1>, tensor<6xf32>, tensor<6xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<6xf32>) -> (tensor<6xf32>, tensor<?x6xf32>)
  return %0#1 : tensor<?x6xf32>
}

// -----

// A loop over such a number that collects nothing is a function; so is one that collects parts of a size that it is given from outside.
// CHECK: "flow.loop"
// CHECK: "flow.loop"
// CHECK-NOT: stepwell.reason
func.func @main(%k: tensor<i64>, %c: tensor<i1>, %x: tensor<?xf32, "n">) -> (tensor<?xf32, "n">, tensor<?x?xf32, "r, n">) {
  %n = "graph.constant"() {value = dense<9223372036854775807> : tensor<i64>} : () -> tensor<i64>
  %0 = "graph.loop"(%n, %c, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<?xf32, "n">):
    "graph.yield"(%go, %v) : (tensor<i1>, tensor<?xf32, "n">) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<?xf32, "n">) -> tensor<?xf32, "n">
  %1 = "graph.loop"(%k, %c) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>):
    %2 = "graph.neg"(%x) : (tensor<?xf32, "n">) -> tensor<?xf32, "n">
    "graph.yield"(%go, %2) : (tensor<i1>, tensor<?xf32, "n">) -> ()
  }) : (tensor<i64>, tensor<i1>) -> tensor<?x?xf32, "r, n">
  return %0, %1 : tensor<?xf32, "n">, tensor<?x?xf32, "r, n">
}
