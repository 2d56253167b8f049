// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' --split-input-file | FileCheck %s

#id = affine_map<(a, b) -> (a, b)>

// A kernel that overwrites a part of bound memory writes there, and result 0 is that memory: nothing is copied, and output 0 is not touched.
// CHECK: func.func private @write
// CHECK-SAME: %{{.*}}: memref<8x4xf32>, %[[NEW:.*]]: memref<2x4xf32>, %[[OUT:.*]]: memref<8x4xf32>
// CHECK-NOT: alloc
// CHECK: %[[PART:.*]] = memref.subview %[[OUT]][3, 0] [2, 4] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[NEW]] {{.*}} outs(%[[PART]]
// CHECK-NOT: linalg.generic
// CHECK: func.func @main(%[[X:arg[0-9]+]]: memref<8x4xf32> {stepwell.name = "x"}
// CHECK-NOT: copy
// CHECK: call @write(%[[X]], %arg1, %[[X]])
// CHECK-NEXT: return
module attributes {stepwell.bound = array<i64: 0, 0>} {
  func.func private @write(%x: tensor<8x4xf32>, %new: tensor<2x4xf32>, %out: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {stepwell.kernel, stepwell.overwrites = array<i64: 0, 0>} {
    %0 = tensor.insert_slice %new into %x[3, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
  func.func @main(%x: tensor<8x4xf32> {stepwell.name = "x"}, %new: tensor<2x4xf32>, %w: memref<?xi8>) -> tensor<8x4xf32> {
    %0 = tensor.empty() : tensor<8x4xf32>
    %1 = call @write(%x, %new, %0) : (tensor<8x4xf32>, tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}

// -----

// The caller's memory, which is not bound, is copied first.
// CHECK: func.func @main(%[[X:arg[0-9]+]]: memref<8x4xf32>{{.*}}, %[[NEW:arg[0-9]+]]: memref<2x4xf32>{{.*}}, %[[Y:arg[0-9]+]]: memref<8x4xf32>
// CHECK: call @copy_32xf32(
// CHECK: call @write(%[[X]], %[[NEW]], %[[Y]])
module {
  func.func private @write(%x: tensor<8x4xf32>, %new: tensor<2x4xf32>, %out: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {stepwell.kernel, stepwell.overwrites = array<i64: 0, 0>} {
    %0 = tensor.insert_slice %new into %x[3, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
  func.func @main(%x: tensor<8x4xf32>, %new: tensor<2x4xf32>, %w: memref<?xi8>) -> tensor<8x4xf32> {
    %0 = tensor.empty() : tensor<8x4xf32>
    %1 = call @write(%x, %new, %0) : (tensor<8x4xf32>, tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
