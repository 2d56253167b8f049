// RUN: stepwell-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: stepwell-opt %s --mlir-print-debuginfo | FileCheck %s --check-prefix=LOCATIONS
// RUN: stepwell-opt %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s --check-prefix=ELIDED
// RUN: stepwell-opt %s --cse --canonicalize --mlir-print-ir-before-all 2>&1 >/dev/null | FileCheck %s --check-prefix=BEFORE
// RUN: stepwell-opt %s --cse --canonicalize --mlir-print-ir-after-all 2>&1 >/dev/null | FileCheck %s --check-prefix=AFTER
// RUN: stepwell-opt %s --cse --canonicalize --mlir-timing 2>&1 >/dev/null | FileCheck %s --check-prefix=TIMING
// RUN: stepwell-opt %s --allow-unregistered-dialect --cse | FileCheck %s --check-prefix=AFTER

// GENERIC: "func.func"() <{
// LOCATIONS: return %{{.*}} loc(
// ELIDED: dense_resource<__elided__>
// BEFORE: IR Dump Before cse
// BEFORE-COUNT-2: graph.relu
// BEFORE: IR Dump Before canonicalize
// BEFORE-COUNT-1: graph.relu
// BEFORE-NOT: graph.relu
// AFTER-COUNT-1: graph.relu
// AFTER-NOT: IR Dump Before
// TIMING: seconds share pass
// TIMING: cse
// TIMING: canonicalize
// TIMING: total of 2 passes
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.add"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "graph.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %4 = "graph.mul"(%2, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %4 : tensor<3xf32>
}
