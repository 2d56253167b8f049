// The command that compares files of IR: 1 where they differ, and nothing is said of numbers and locations.
// RUN: stepwell-opt %s --canonicalize -o %t.a.mlir
// RUN: stepwell-opt %s --cse -o %t.b.mlir
// RUN: stepwell diff %s %t.a.mlir
// RUN: not stepwell diff -U 0 %t.a.mlir %t.b.mlir | FileCheck %s
// RUN: not stepwell diff %t.a.mlir %t.nowhere.mlir 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: --- {{.*}}.a.mlir
// CHECK-NEXT: +++ {{.*}}.b.mlir
// CHECK-NEXT: @@ -3,2 +3 @@ @a
// CHECK-NEXT: -{{ *}}%1 = "graph.relu"(%arg0)
// CHECK-NEXT: -{{ *}}%2 = "graph.add"(%0, %1)
// CHECK-NEXT: +{{ *}}%2 = "graph.add"(%0, %0)
// CHECK-NOT: @@
// NONE: stepwell diff: error: {{.*}}nowhere.mlir
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  %7 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %8 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32> loc("elsewhere")
  %9 = "graph.add"(%7, %8) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %9 : tensor<3xf32>
}
