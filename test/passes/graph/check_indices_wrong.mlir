// RUN: not stepwell-opt %s --check-indices 2>&1 | FileCheck %s
// RUN: not stepwell-opt %s --check-indices=at-run-time=false 2>&1 | FileCheck %s

// Constant indices are looked at in any case, all of them; the op that nothing uses does no harm.
// CHECK: SW001 pass 'check-indices': 2 operands have indices out of range:
// CHECK-SAME: graph.gather of far: index 5, at [0, 1], is out of range for dimension 1 of size 4 (expected -4 to 3)
// CHECK-SAME: graph.scatter_nd of back: index -6, at [1, 0], is out of range for dimension 0 of size 5 (expected -5 to 4)
func.func @main(%x: tensor<5x4xf32>, %u: tensor<2xf32>) -> (tensor<5x2x2xf32>, tensor<5x4xf32>) {
  %i = "graph.constant"() {value = dense<[[0, 5], [9, -4]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
  %a = "graph.gather"(%x, %i) {axis = 1 : i64} : (tensor<5x4xf32>, tensor<2x2xi64>) -> tensor<5x2x2xf32> loc("far")
  %j = "graph.constant"() {value = dense<[[4, 3], [-6, -4]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
  %b = "graph.scatter_nd"(%x, %j, %u) {reduction = "none"} : (tensor<5x4xf32>, tensor<2x2xi64>, tensor<2xf32>) -> tensor<5x4xf32> loc("back")
  %c = "graph.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x4xf32>, tensor<2x2xi64>) -> tensor<2x2x4xf32> loc("dead")
  return %a, %b : tensor<5x2x2xf32>, tensor<5x4xf32>
}
