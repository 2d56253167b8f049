// RUN: stepwell-opt %s --pack-weights --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='pack-weights{alignment=16}' --split-input-file | FileCheck %s --check-prefix=DENSE

// Each weight has a place, in order of first use; one used twice has one; a constant becomes a weight.
// CHECK: stepwell.arena = {bias = 64 : i64, constant = 192 : i64, weight = 0 : i64}
// CHECK-SAME: stepwell.weights_bytes = 204 : i64
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:arg[0-9]+]]: tensor<5x3xf32>, %[[W:arg[0-9]+]]: memref<?xi8>) -> tensor<5x3xf32>
// CHECK: %[[C0:[a-z_0-9]+]] = arith.constant 0 : index
// CHECK: %[[V:[a-z_0-9]+]] = memref.view %[[W]][%[[C0]]][] : memref<?xi8> to memref<3xf32>
// CHECK: bufferization.to_tensor %[[V]] restrict : memref<3xf32> to tensor<3xf32>
// CHECK-NOT: graph.
// CHECK: return
// DENSE: stepwell.arena = {bias = 16 : i64, constant = 144 : i64, weight = 0 : i64}
func.func @main(%x: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %w = "graph.parameter"() {id = "weight"} : () -> tensor<3xf32>
  %b = "graph.parameter"() {id = "bias"} : () -> tensor<8x4xf32>
  %again = "graph.parameter"() {id = "weight"} : () -> tensor<3xf32>
  %c = "graph.constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %e = tensor.empty() : tensor<5x3xf32>
  %r = func.call @k(%x, %w, %b, %again, %c, %e) : (tensor<5x3xf32>, tensor<3xf32>, tensor<8x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}
func.func private @k(tensor<5x3xf32>, tensor<3xf32>, tensor<8x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>

// -----

// A model without weights takes an arena all the same; constants of kernels stay in them.
// CHECK: stepwell.arena = {}, stepwell.weights_bytes = 0 : i64
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%{{.*}}: tensor<2xf32>, %{{.*}}: memref<?xi8>)
// CHECK: graph.constant
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func private @k(%o: tensor<2xf32>) -> tensor<2xf32> attributes {stepwell.kernel} {
  %r = "graph.constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// An unsigned weight is read as the signless tensor it becomes.
// CHECK-LABEL: func.func @main
// CHECK: memref.view {{.*}} : memref<?xi8> to memref<4xi8>
// CHECK: builtin.unrealized_conversion_cast %{{.*}} : tensor<4xi8> to tensor<4xui8>
func.func @main() -> tensor<4xui8> {
  %w = "graph.parameter"() {id = "table"} : () -> tensor<4xui8>
  return %w : tensor<4xui8>
}
