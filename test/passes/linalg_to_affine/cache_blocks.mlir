// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

// Blocks of 32 columns are the outermost loop, on threads; inside, the sum goes in blocks of 40: the first starts at zero, those in the middle
// take up what lies in memory, and the last, which is shorter, is the only one that adds the bias.

// CHECK-LABEL: func.func private @product
// CHECK: affine.parallel (%[[J:arg[0-9]+]]) = (0) to (64) step (32)
// CHECK-NEXT: affine.for %{{.*}} = 0 to 32 step 16
// CHECK-NEXT: affine.for %{{.*}} = 0 to 8 step 2
// CHECK-NEXT: affine.for %{{.*}} = 0 to 40 iter_args(%{{.*}} = %cst, %{{.*}} = %cst)
// CHECK: affine.for %[[K:arg[0-9]+]] = 40 to 120 step 40
// CHECK-NEXT: affine.for %[[J2:arg[0-9]+]] = 0 to 32 step 16
// CHECK-NEXT: affine.for %[[I2:arg[0-9]+]] = 0 to 8 step 2
// CHECK-NEXT: affine.vector_load %arg3[%[[I2]], %[[J]] + %[[J2]]]
// CHECK: affine.for %[[K2:arg[0-9]+]] = 0 to 40 iter_args
// CHECK-NEXT: affine.load %arg0[%[[I2]], %[[K]] + %[[K2]]]
// CHECK-NOT: affine.vector_load %arg2
// CHECK: affine.for %{{.*}} = 0 to 20 iter_args
// CHECK: affine.load %arg0[%{{.*}}, %{{.*}} + 120]
// CHECK: affine.vector_load %arg2
// CHECK: affine.vector_store
func.func private @product(%x: memref<8x140xf32>, %w: memref<140x64xf32>, %b: memref<64xf32>, %o: memref<8x64xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8x64xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 1, 0>, parallel = 1 : i64, unroll = array<i64: 2, 1, 1>, vector = 1 : i64, width = 16 : i64,
                         block = array<i64: 0, 32, 40>}>}
    ins(%x, %w : memref<8x140xf32>, memref<140x64xf32>) outs(%o : memref<8x64xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%b : memref<64xf32>) outs(%o : memref<8x64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  }
  return
}
