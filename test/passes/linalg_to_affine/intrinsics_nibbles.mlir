// RUN: stepwell-opt %s --target x86-64-v4-vnni --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=VNNI
// RUN: stepwell-opt %s --target aarch64-dotprod --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=NEON
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=NONE

// Bytes of two numbers each: the lower half is multiplied first, then the upper one, which is shifted down in registers. There are two halves, so the
// loop over them is written out. Each of 12 products reads a part of the matrix of its own, which is asked for a page early.
// VNNI-LABEL: func.func private @halves(
// VNNI: affine.for {{.*}} = 0 to 12
// VNNI: affine.for {{.*}} = 0 to 4 iter_args
// VNNI: affine.prefetch %arg1[%{{.*}} + 4,
// VNNI: affine.vector_load %arg1{{.*}}, vector<256xi8>
// VNNI-NOT: arith.shrui
// VNNI: arith.andi {{.*}} : vector<256xi8>
// VNNI: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// VNNI: arith.shrui {{.*}} : vector<256xi8>
// VNNI: arith.andi {{.*}} : vector<256xi8>
// VNNI-NOT: affine.prefetch
// VNNI: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// VNNI-NOT: arith.muli

// Four bits without a sign fit a signed byte, too.
// NEON-LABEL: func.func private @halves(
// NEON: llvm.call_intrinsic "llvm.aarch64.neon.sdot.v4i32.v16i8"

// NONE-LABEL: func.func private @halves(
// NONE-NOT: llvm.call_intrinsic
// NONE: arith.muli
// NONE-LABEL: func.func private @shifted_by_column(
func.func private @halves(%x: memref<3x12x4x2x4xi8>, %w: memref<12x4x64x4xi8>, %out: memref<3x12x64xi32>) {
  %four = arith.constant 4 : i8
  %mask = arith.constant 15 : i8
  linalg.generic {indexing_maps = [affine_map<(r, b, c, k, h, l) -> (r, b, k, h, l)>, affine_map<(r, b, c, k, h, l) -> (b, k, c, l)>, affine_map<(r, b, c, k, h, l) -> (r, b, c)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : memref<3x12x4x2x4xi8>, memref<12x4x64x4xi8>) outs(%out : memref<3x12x64xi32>) {
  ^bb0(%p: i8, %byte: i8, %acc: i32):
    %half = linalg.index 4 : index
    %number = arith.index_cast %half : index to i8
    %shift = arith.muli %number, %four : i8
    %down = arith.shrui %byte, %shift : i8
    %nibble = arith.andi %down, %mask : i8
    %pw = arith.extsi %p : i8 to i32
    %nw = arith.extui %nibble : i8 to i32
    %m = arith.muli %pw, %nw : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  }
  return
}

// A shift that differs from lane to lane is left to the body.
// VNNI-LABEL: func.func private @shifted_by_column(
// VNNI-NOT: vpdpbusd
// VNNI: arith.muli
func.func private @shifted_by_column(%x: memref<3x4x4xi8>, %w: memref<4x64x4xi8>, %out: memref<3x64xi32>) {
  %mask = arith.constant 15 : i8
  linalg.generic {indexing_maps = [affine_map<(r, c, k, l) -> (r, k, l)>, affine_map<(r, c, k, l) -> (k, c, l)>, affine_map<(r, c, k, l) -> (r, c)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %w : memref<3x4x4xi8>, memref<4x64x4xi8>) outs(%out : memref<3x64xi32>) {
  ^bb0(%p: i8, %byte: i8, %acc: i32):
    %column = linalg.index 1 : index
    %shift = arith.index_cast %column : index to i8
    %down = arith.shrui %byte, %shift : i8
    %nibble = arith.andi %down, %mask : i8
    %pw = arith.extsi %p : i8 to i32
    %nw = arith.extui %nibble : i8 to i32
    %m = arith.muli %pw, %nw : i32
    %s = arith.addi %acc, %m : i32
    linalg.yield %s : i32
  }
  return
}
