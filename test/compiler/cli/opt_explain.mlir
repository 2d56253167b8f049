// What a pattern did, and why it did nothing, op by op; what passes count can be printed. A name behind --explain is that of a node.
// RUN: stepwell-opt %s --load %S/Inputs/plugin.py --merge-relus --explain --mlir-pass-statistics 2>&1 | FileCheck %s
// RUN: stepwell-opt --load %S/Inputs/plugin.py --merge-relus --explain %s 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: stepwell-opt %s --load %S/Inputs/plugin.py --merge-relus --explain 'fir*' 2>&1 >/dev/null | FileCheck %s --check-prefix=NODE
// RUN: not stepwell-opt %s --load %S/Inputs/plugin.py --merge-relus --explain secund 2>&1 >/dev/null | FileCheck %s --check-prefix=UNKNOWN

// NODE-NOT: second
// NODE: first
// NODE-NEXT: declined merge-relus/relu_of_relu, graph.relu: its operand is no relu
// NODE-NOT: second
// UNKNOWN: error: SW003 there is no node or kernel 'secund'; did you mean 'second'?
// FILE: declined
// CHECK: 1 merge-relus
// CHECK: second
// CHECK-NEXT: did merge-relus/relu_of_relu, graph.relu: relu(relu(x)) -> relu(x)
// CHECK: first
// CHECK-NEXT: declined merge-relus/relu_of_relu, graph.relu: its operand is no relu
// CHECK-COUNT-1: "graph.relu"
// CHECK-NOT: "graph.relu"
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32> loc("first")
  %1 = "graph.relu"(%0) : (tensor<3xf32>) -> tensor<3xf32> loc("second")
  return %1 : tensor<3xf32>
}
