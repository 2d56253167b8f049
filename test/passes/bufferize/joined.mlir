// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' --split-input-file | FileCheck %s

// For one of "n", the operands of the concatenation lie in its result, one behind the other; for others each buffer lies by itself.
// CHECK: func.func private @concat
// CHECK-SAME: stepwell.concat = {arguments = array<i64: 0, 1>, one = "n"}
// CHECK: func.func @sizes(%[[T:.*]]: memref<5xi64>) -> i64
// CHECK: %[[N:.*]] = memref.load %[[T]][%c0
// CHECK: %[[ONE:.*]] = arith.cmpi eq, %[[N]], %c1_i64
// CHECK: %[[FIRST:.*]] = arith.addi %[[RESULT:.*]], %c0_i64
// CHECK: %[[SECOND:.*]] = arith.addi %[[RESULT]], %c32_i64
// CHECK: %[[A:.*]] = arith.select %[[ONE]], %[[FIRST]],
// CHECK: %[[B:.*]] = arith.select %[[ONE]], %[[SECOND]],
// CHECK: memref.store %[[A]], %[[T]][%c1
// CHECK: memref.store %[[B]], %[[T]][%c2
module attributes {stepwell.inputs = [["x", tensor<?x8xf32, "n">]], stepwell.outputs = [["y", tensor<?x16xf32, "n">]], stepwell.size_hints = {n = 4 : i64}} {
  func.func private @exp(%x: tensor<?x8xf32>, %out: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, 7 - b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x8xf32>) outs(%out : tensor<?x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
  func.func private @reverse(%x: tensor<?x16xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, 15 - b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x16xf32>) outs(%out : tensor<?x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<?x16xf32>
    return %0 : tensor<?x16xf32>
  }
  func.func private @concat(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32>
      attributes {stepwell.kernel, stepwell.sizes = ["n", "n", "n"], stepwell.concat = {one = "n", arguments = array<i64: 0, 1>}} {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %0 = tensor.insert_slice %x into %out[0, 0] [%n, 8] [1, 1] : tensor<?x8xf32> into tensor<?x16xf32>
    %1 = tensor.insert_slice %y into %0[0, 8] [%n, 8] [1, 1] : tensor<?x8xf32> into tensor<?x16xf32>
    return %1 : tensor<?x16xf32>
  }
  func.func @main(%x: tensor<?x8xf32> {stepwell.name = "x"}, %weights: memref<?xi8>) -> (tensor<?x16xf32> {stepwell.name = "y"}) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %e0 = tensor.empty(%n) : tensor<?x8xf32>
    %0 = call @exp(%x, %e0) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %e1 = tensor.empty(%n) : tensor<?x8xf32>
    %1 = call @exp(%0, %e1) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %e2 = tensor.empty(%n) : tensor<?x16xf32>
    %2 = call @concat(%0, %1, %e2) : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
    %e3 = tensor.empty(%n) : tensor<?x16xf32>
    %3 = call @reverse(%2, %e3) : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
    return %3 : tensor<?x16xf32>
  }
}

// -----

// The memory of the first operand is overwritten behind the concatenation, by a result of the same size: it stays where it is.
// CHECK: func.func private @concat
// CHECK-NOT: stepwell.concat
// CHECK: func.func @sizes
// CHECK-NOT: arith.cmpi eq, %{{.*}}, %c1_i64
// CHECK: return
module attributes {stepwell.inputs = [["x", tensor<?x8xf32, "n">], ["y", tensor<?x8xf32, "n">]], stepwell.outputs = [["z", tensor<?x16xf32, "n">]], stepwell.size_hints = {n = 4 : i64}} {
  func.func private @exp(%x: tensor<?x8xf32>, %out: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x8xf32>) outs(%out : tensor<?x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }
  func.func private @both(%x: tensor<?x16xf32>, %y: tensor<?x8xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32>
      attributes {stepwell.kernel, stepwell.sizes = ["n", "n", "n"]} {
    %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, 15 - b)>, affine_map<(a, b) -> (a, b floordiv 2)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<?x16xf32>, tensor<?x8xf32>) outs(%out : tensor<?x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %v = arith.addf %a, %b : f32
      linalg.yield %v : f32
    } -> tensor<?x16xf32>
    return %0 : tensor<?x16xf32>
  }
  func.func private @concat(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32>
      attributes {stepwell.kernel, stepwell.sizes = ["n", "n", "n"], stepwell.concat = {one = "n", arguments = array<i64: 0, 1>}} {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %0 = tensor.insert_slice %x into %out[0, 0] [%n, 8] [1, 1] : tensor<?x8xf32> into tensor<?x16xf32>
    %1 = tensor.insert_slice %y into %0[0, 8] [%n, 8] [1, 1] : tensor<?x8xf32> into tensor<?x16xf32>
    return %1 : tensor<?x16xf32>
  }
  func.func @main(%x: tensor<?x8xf32> {stepwell.name = "x"}, %y: tensor<?x8xf32> {stepwell.name = "y"}, %weights: memref<?xi8>) -> (tensor<?x16xf32> {stepwell.name = "z"}) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %e0 = tensor.empty(%n) : tensor<?x8xf32>
    %0 = call @exp(%x, %e0) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %e1 = tensor.empty(%n) : tensor<?x8xf32>
    %1 = call @exp(%y, %e1) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %e2 = tensor.empty(%n) : tensor<?x16xf32>
    %2 = call @concat(%0, %1, %e2) : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
    %e3 = tensor.empty(%n) : tensor<?x8xf32>
    %3 = call @exp(%0, %e3) : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    %e4 = tensor.empty(%n) : tensor<?x16xf32>
    %4 = call @both(%2, %3, %e4) : (tensor<?x16xf32>, tensor<?x8xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
    return %4 : tensor<?x16xf32>
  }
}
