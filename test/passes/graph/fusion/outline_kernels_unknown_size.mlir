// RUN: not stepwell-opt %s --fuse-operators --outline-kernels 2>&1 | FileCheck %s

// CHECK: 'graph.non_zero' at loc("where") gives tensor<1x?xi64>, whose size is not known before it runs
func.func @main(%x: tensor<5xf32>) -> tensor<1x?xi64> {
  %0 = "graph.non_zero"(%x) : (tensor<5xf32>) -> tensor<1x?xi64> loc("where")
  return %0 : tensor<1x?xi64>
}
