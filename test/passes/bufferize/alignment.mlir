// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' | FileCheck %s

// Buffers of 12 bytes that live at once begin at multiples of 64 bytes in the workspace, whose size is one too; nothing is allocated.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[WS:arg[0-9]+]]: memref<?xi8> {stepwell.bytes = 128 : i64})
// CHECK-NOT: memref.alloc
// CHECK: memref.view %[[WS]][%c0][] : memref<?xi8> to memref<3xf32>
// CHECK: call @exp
// CHECK-NOT: memref.alloc
// CHECK: memref.view %[[WS]][%c64][] : memref<?xi8> to memref<3xf32>
// CHECK: call @reverse
// CHECK-NOT: memref.alloc
// CHECK: call @add
func.func private @exp(%x: tensor<3xf32>, %out: tensor<3xf32>) -> tensor<3xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @reverse(%x: tensor<3xf32>, %out: tensor<3xf32>) -> tensor<3xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 2)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @add(%x: tensor<3xf32>, %y: tensor<3xf32>, %out: tensor<3xf32>) -> tensor<3xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<3xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 2)>, affine_map<(i) -> (-i + 2)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x, %y : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func @main(%x: tensor<3xf32>, %weights: memref<?xi8>) -> tensor<3xf32> {
  %e0 = tensor.empty() : tensor<3xf32>
  %0 = call @exp(%x, %e0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %e1 = tensor.empty() : tensor<3xf32>
  %1 = call @reverse(%0, %e1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %e2 = tensor.empty() : tensor<3xf32>
  %2 = call @add(%0, %1, %e2) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
