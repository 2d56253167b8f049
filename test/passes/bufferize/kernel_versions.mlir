// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' | FileCheck %s

// Both versions of a kernel take the same arguments: as much scratch as either needs, of what runs for at most two of "n" no more than for two.
// CHECK-LABEL: func.func private @once(
// CHECK-SAME: memref<128xi8> {llvm.noalias})
// CHECK-SAME: stepwell.scratch_bytes = 128 : i64
// CHECK-LABEL: func.func private @once.few(
// CHECK-SAME: memref<128xi8> {llvm.noalias})
// CHECK-SAME: stepwell.scratch_bytes = 128 : i64
// CHECK: memref<128xi8> to memref<?x16xf32>
// CHECK-LABEL: func.func private @twice(
// CHECK-SAME: memref<?xi8> {llvm.noalias})
// CHECK-SAME: stepwell.scratch_bytes = "64*n"
// CHECK-LABEL: func.func private @twice.few(
// CHECK-SAME: memref<?xi8> {llvm.noalias})
// CHECK-SAME: stepwell.scratch_bytes = "64*n"
#id = affine_map<(a, b) -> (a, b)>
#back = affine_map<(a, b) -> (a, 15 - b)>
module attributes {stepwell.inputs = [["x", tensor<?x16xf32, "n">]], stepwell.outputs = [["y", tensor<?x16xf32, "n">]]} {
  func.func private @once(%x: tensor<?x16xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32>
      attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = linalg.generic {indexing_maps = [#back, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x16xf32>) outs(%out : tensor<?x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<?x16xf32>
    return %0 : tensor<?x16xf32>
  }
  func.func private @once.few(%x: tensor<?x16xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32>
      attributes {stepwell.kernel, stepwell.sizes = ["n", "n"], stepwell.kernel_hints = {n = 1 : i64}, stepwell.version = {of = "once", size = "n", most = 2}} {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x16xf32>
    %e = tensor.empty(%n) : tensor<?x16xf32>
    %1 = linalg.generic {indexing_maps = [#back, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<?x16xf32>
    %0 = linalg.generic {indexing_maps = [#back, #id], iterator_types = ["parallel", "parallel"]}
      ins(%1 : tensor<?x16xf32>) outs(%out : tensor<?x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<?x16xf32>
    return %0 : tensor<?x16xf32>
  }
  func.func private @twice(%x: tensor<?x16xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32>
      attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x16xf32>
    %e = tensor.empty(%n) : tensor<?x16xf32>
    %1 = linalg.generic {indexing_maps = [#back, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<?x16xf32>
    %0 = linalg.generic {indexing_maps = [#back, #id], iterator_types = ["parallel", "parallel"]}
      ins(%1 : tensor<?x16xf32>) outs(%out : tensor<?x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<?x16xf32>
    return %0 : tensor<?x16xf32>
  }
  func.func private @twice.few(%x: tensor<?x16xf32>, %out: tensor<?x16xf32>) -> tensor<?x16xf32>
      attributes {stepwell.kernel, stepwell.sizes = ["n", "n"], stepwell.kernel_hints = {n = 1 : i64}, stepwell.version = {of = "twice", size = "n", most = 2}} {
    %0 = linalg.generic {indexing_maps = [#back, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x16xf32>) outs(%out : tensor<?x16xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<?x16xf32>
    return %0 : tensor<?x16xf32>
  }
  func.func @main(%x: tensor<?x16xf32> {stepwell.name = "x"}, %weights: memref<?xi8>) -> (tensor<?x16xf32> {stepwell.name = "y"}) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x16xf32>
    %e0 = tensor.empty(%n) : tensor<?x16xf32>
    %0 = call @once(%x, %e0) : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
    %e1 = tensor.empty(%n) : tensor<?x16xf32>
    %1 = call @twice(%0, %e1) : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
    return %1 : tensor<?x16xf32>
  }
}
