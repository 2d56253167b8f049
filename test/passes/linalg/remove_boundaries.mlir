// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize)' | FileCheck %s --check-prefix=BEFORE
// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize,remove-boundaries,canonicalize)' | FileCheck %s

// What makes the image of a convolution becomes one op before it, and is not computed anew for each of its filters.
// BEFORE: arith.mulf
// BEFORE-NEXT: arith.maximumf
// BEFORE: %[[S:.*]] = "sched.boundary"(%{{.*}}) : (tensor<1x2x5x7x8xf32>) -> tensor<1x2x5x7x8xf32>
// BEFORE: linalg.generic {{.*}}ins(%[[S]], %arg2 :
// CHECK-NOT: sched.boundary
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: arith.mulf
// CHECK-NEXT: arith.maximumf
// CHECK: linalg.generic {{.*}}ins(%[[R]], %arg2 :
func.func private @k(%x: tensor<1x2x5x7x8xf32>, %s: tensor<1x2x1x1x8xf32>, %w: tensor<3x2x1x1x8x8xf32>, %out: tensor<1x3x5x7x8xf32>) -> tensor<1x3x5x7x8xf32> attributes {stepwell.kernel} {
  %0 = "graph.mul"(%x, %s) : (tensor<1x2x5x7x8xf32>, tensor<1x2x1x1x8xf32>) -> tensor<1x2x5x7x8xf32>
  %1 = "graph.relu"(%0) : (tensor<1x2x5x7x8xf32>) -> tensor<1x2x5x7x8xf32>
  %2 = "packed.conv"(%1, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x5x7x8xf32>, tensor<3x2x1x1x8x8xf32>) -> tensor<1x3x5x7x8xf32>
  return %2 : tensor<1x3x5x7x8xf32>
}
