// RUN: stepwell-opt %s --fuse-operators --outline-kernels | FileCheck %s

// A size that is an element of an input is read from it, where it goes to a kernel and where a destination has it.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<1x6xf32>{{.*}}, %[[S:arg[0-9]+]]: tensor<2xi64>
// CHECK: %[[AT:.*]] = arith.constant 1 : index
// CHECK: %[[E:.*]] = tensor.extract %[[S]][%[[AT]]] : tensor<2xi64>
// CHECK: %[[N:.*]] = arith.index_cast %[[E]] : i64 to index
// CHECK: %[[D:.*]] = tensor.empty(%[[N]]) : tensor<?x6xf32, "s_1">
// CHECK: call @{{.*}}(%[[X]], %[[D]])
module attributes {
  stepwell.elements = ["", "?, s_1"],
  stepwell.inputs = [["x", tensor<1x6xf32>], ["s", tensor<2xi64>]], stepwell.outputs = [["y", tensor<?x6xf32, "s_1">]]
} {
  func.func @main(%x: tensor<1x6xf32>, %s: tensor<2xi64>) -> tensor<?x6xf32, "s_1"> {
    %0 = "graph.expand"(%x) {shape = ["s_1", 6]} : (tensor<1x6xf32>) -> tensor<?x6xf32, "s_1">
    return %0 : tensor<?x6xf32, "s_1">
  }
}
