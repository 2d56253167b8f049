// RUN: stepwell-opt %s --target x86-64-v4-vnni --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s

// An intrinsic takes four bytes of each column: a line of these is asked for eight blocks before, where a tile reads more than the first cache holds.

// CHECK-LABEL: func.func private @large
// CHECK: affine.for %[[K:arg[0-9]+]] = 0 to 1024
// CHECK: affine.prefetch %arg1[%[[K]] + 8, 0, 0], read, locality<3>, data : memref<1024x16x4xi8>
// CHECK: affine.vector_load %arg1[%[[K]], 0, 0] : memref<1024x16x4xi8>, vector<64xi8>
// CHECK-NOT: affine.prefetch
// CHECK: llvm.x86.avx512.vpdpbusd.512
func.func private @large(%x: memref<280x1024x4xi8>, %w: memref<1024x16x4xi8>, %o: memref<280x16xi32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k, g) -> (i, k, g)>, affine_map<(i, j, k, g) -> (k, j, g)>, affine_map<(i, j, k, g) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : memref<280x1024x4xi8>, memref<1024x16x4xi8>) outs(%o : memref<280x16xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %aw = arith.extui %a : i8 to i32
    %bw = arith.extsi %b : i8 to i32
    %p = arith.muli %aw, %bw : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  }
  return
}

// CHECK-LABEL: func.func private @small
// CHECK-NOT: affine.prefetch
// CHECK: llvm.x86.avx512.vpdpbusd.512
// CHECK-NOT: affine.prefetch
func.func private @small(%x: memref<280x128x4xi8>, %w: memref<128x16x4xi8>, %o: memref<280x16xi32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k, g) -> (i, k, g)>, affine_map<(i, j, k, g) -> (k, j, g)>, affine_map<(i, j, k, g) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : memref<280x128x4xi8>, memref<128x16x4xi8>) outs(%o : memref<280x16xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %aw = arith.extui %a : i8 to i32
    %bw = arith.extsi %b : i8 to i32
    %p = arith.muli %aw, %bw : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  }
  return
}
