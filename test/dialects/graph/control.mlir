// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// A group sees its inputs as block arguments only; inputs and results may have different types.
func.func @f(%x: tensor<2x3xf32>, %b: tensor<3xf32>, %n: tensor<i64>) {
  %0 = "graph.fused"(%x, %b) ({
  ^bb0(%y: tensor<2x3xf32>, %c: tensor<3xf32>):
    %1 = "graph.add"(%y, %c) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    "graph.yield"(%1) : (tensor<2x3xf32>) -> ()
  }) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2:2 = "graph.fused"(%x, %n) ({
  ^bb0(%y: tensor<2x3xf32>, %k: tensor<i64>):
    %3:2 = "graph.top_k"(%y, %k) {axis = 1 : i64, largest = true} : (tensor<2x3xf32>, tensor<i64>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
    "graph.yield"(%3#0, %3#1) : (tensor<2x2xf32>, tensor<2x2xi64>) -> ()
  }) : (tensor<2x3xf32>, tensor<i64>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.fused' region 0 must take (tensor<2x3xf32>), it takes (tensor<3x2xf32>)}}
  %0 = "graph.fused"(%x) ({
  ^bb0(%y: tensor<3x2xf32>):
    "graph.yield"(%y) : (tensor<3x2xf32>) -> ()
  }) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.fused' region 0 must yield (tensor<3x2xf32>), it yields (tensor<2x3xf32>)}}
  %0 = "graph.fused"(%x) ({
  ^bb0(%y: tensor<2x3xf32>):
    "graph.yield"(%y) : (tensor<2x3xf32>) -> ()
  }) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.fused' region 0 must be one block that ends in graph.yield}}
  %0 = "graph.fused"(%x) ({}) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-note @below {{required by region isolation constraints}}
  %0 = "graph.fused"(%x) ({
  ^bb0(%y: tensor<2x3xf32>):
    // expected-error @below {{using value defined outside the region}}
    %1 = "graph.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    "graph.yield"(%1) : (tensor<2x3xf32>) -> ()
  }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// Branches capture what they use; a size that differs between them is unknown in the result.
func.func @f(%p: tensor<i1>, %x: tensor<2x3xf32>, %y: tensor<4x3xf32>) {
  %0:2 = "graph.if"(%p) ({
    "graph.yield"(%x, %p) : (tensor<2x3xf32>, tensor<i1>) -> ()
  }, {
    "graph.yield"(%y, %p) : (tensor<4x3xf32>, tensor<i1>) -> ()
  }) : (tensor<i1>) -> (tensor<?x3xf32>, tensor<i1>)
  return
}

// -----

func.func @f(%p: tensor<1xi1>, %x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.if' operand 'condition' must be tensor<i1>, got tensor<1xi1>}}
  %0 = "graph.if"(%p) ({
    "graph.yield"(%x) : (tensor<2x3xf32>) -> ()
  }, {
    "graph.yield"(%x) : (tensor<2x3xf32>) -> ()
  }) : (tensor<1xi1>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%p: tensor<i1>, %x: tensor<2x3xf32>) {
  // expected-error @below {{'graph.if' region 1 must yield (tensor<2x3xf32>), it yields ()}}
  %0 = "graph.if"(%p) ({
    "graph.yield"(%x) : (tensor<2x3xf32>) -> ()
  }, {
    "graph.yield"() : () -> ()
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return
}

// -----

// The second carried value grows from round to round.
func.func @f(%n: tensor<i64>, %p: tensor<i1>, %x: tensor<2xf32>, %l: tensor<0xf32>) {
  %0:2 = "graph.loop"(%n, %p, %x, %l) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>, %all: tensor<?xf32>):
    %1 = "graph.concat"(%all, %v) {axis = 0 : i64} : (tensor<?xf32>, tensor<2xf32>) -> tensor<?xf32>
    "graph.yield"(%go, %v, %1) : (tensor<i1>, tensor<2xf32>, tensor<?xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2xf32>, tensor<0xf32>) -> (tensor<2xf32>, tensor<?xf32>)
  return
}

// -----

func.func @f(%n: tensor<i32>, %p: tensor<i1>) {
  // expected-error @below {{'graph.loop' operand 'trip_count' must be tensor<i64>, got tensor<i32>}}
  "graph.loop"(%n, %p) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>):
    "graph.yield"(%go) : (tensor<i1>) -> ()
  }) : (tensor<i32>, tensor<i1>) -> ()
  return
}

// -----

func.func @f(%n: tensor<i64>, %p: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error @below {{'graph.loop' carries (tensor<2xf32>), but its results are (tensor<3xf32>)}}
  %0 = "graph.loop"(%n, %p, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
    "graph.yield"(%go, %v) : (tensor<i1>, tensor<2xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%n: tensor<i64>, %p: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error @below {{'graph.loop' region 0 must take (tensor<i64>, tensor<i1>, tensor<2xf32>), it takes (tensor<2xf32>)}}
  %0 = "graph.loop"(%n, %p, %x) ({
  ^bb0(%v: tensor<2xf32>):
    "graph.yield"(%p, %v) : (tensor<i1>, tensor<2xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%n: tensor<i64>, %p: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error @below {{'graph.loop' region 0 must yield (tensor<i1>, tensor<2xf32>), it yields (tensor<2xf32>)}}
  %0 = "graph.loop"(%n, %p, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
    "graph.yield"(%v) : (tensor<2xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @f(%n: tensor<i64>, %p: tensor<i1>, %x: tensor<2xf32>) {
  // expected-error @below {{'graph.loop' carries (tensor<2xf32>) through its body, but its results are (tensor<?xf32>)}}
  %0 = "graph.loop"(%n, %p, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<2xf32>):
    %1 = "graph.concat"(%v, %v) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    "graph.yield"(%go, %1) : (tensor<i1>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2xf32>) -> tensor<?xf32>
  return
}
