// Printing after passes of a name, only after a change, and only what changed: renumbered values are no change.
// RUN: stepwell-opt %s --canonicalize --cse --mlir-print-ir-after=cse 2>&1 >/dev/null | FileCheck %s --check-prefix=AFTER
// RUN: stepwell-opt %s --canonicalize --cse --mlir-print-ir-before=cse 2>&1 >/dev/null | FileCheck %s --check-prefix=BEFORE
// RUN: stepwell-opt %s --canonicalize --cse --cse --mlir-print-ir-after-change 2>&1 >/dev/null | FileCheck %s --check-prefix=CHANGE
// RUN: stepwell-opt %s --canonicalize --cse --cse --print-ir-diff 2>&1 >/dev/null | FileCheck %s --check-prefix=DIFF
// RUN: not stepwell-opt %s --cse --mlir-print-ir-after=canonicalize 2>&1 >/dev/null | FileCheck %s --check-prefix=UNKNOWN

// AFTER-NOT: canonicalize
// AFTER: IR Dump After cse
// BEFORE-NOT: canonicalize
// BEFORE: IR Dump Before cse
// CHANGE-NOT: canonicalize
// CHANGE-COUNT-1: IR Dump After cse
// CHANGE-NOT: IR Dump
// DIFF: IR Difference After cse
// DIFF-NEXT: --- before cse
// DIFF-NEXT: +++ after cse
// DIFF-NEXT: @@ {{.*}} @@ @a
// DIFF-NEXT: func.func @a
// DIFF-NEXT: %0 = "graph.relu"(%arg0)
// DIFF-NEXT: -{{ *}}%1 = "graph.relu"(%arg0)
// DIFF-NEXT: -{{ *}}%2 = "graph.add"(%0, %1)
// DIFF-NEXT: +{{ *}}%2 = "graph.add"(%0, %0)
// DIFF-NEXT: %3 = "graph.exp"(%2)
// DIFF-NEXT: return %3
// DIFF-NEXT: }
// DIFF-NOT: IR Difference
// UNKNOWN: error: --mlir-print-ir-after canonicalize: no pass of that name is run; there are: cse
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.add"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "graph.exp"(%2) : (tensor<3xf32>) -> tensor<3xf32>
  return %3 : tensor<3xf32>
}
