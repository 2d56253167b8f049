// RUN: stepwell-opt %s --target x86-64-v4-amx --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' --split-input-file | FileCheck %s

// Rows of bf16 times pairs of them: sums of all twelve rows and of two times sixteen columns stay in registers of two dimensions. What is left
// over of the sum is less wide. The sums come to vectors by way of memory, and what they begin with is added then.
// CHECK-LABEL: @rows_of_halves
// CHECK: affine.for %[[J:.*]] = 0 to 64 step 32
// CHECK: %[[Z:.*]] = x86.amx.tile_zero : !x86.amx.tile<12x16xf32>
// CHECK: affine.for %[[K:.*]] = 0 to 32 step 16 iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) -> (!x86.amx.tile<12x16xf32>, !x86.amx.tile<12x16xf32>)
// CHECK: %[[X:.*]] = x86.amx.tile_load %arg0[%{{.*}}, %{{.*}}], %c66{{.*}} : memref<12x66xbf16> into !x86.amx.tile<12x32xbf16>
// CHECK: %[[Y:.*]] = x86.amx.tile_load %arg1[%[[K]], %[[J]], %c0{{.*}}], %c128{{.*}} : memref<33x64x2xbf16> into !x86.amx.tile<16x32xbf16>
// CHECK: x86.amx.tile_mulf %[[X]], %[[Y]], %[[A]]
// CHECK: %[[W:.*]] = x86.amx.tile_load %arg1[%[[K]], %{{.*}}, %c0{{.*}}], %c128
// CHECK: x86.amx.tile_mulf %[[X]], %[[W]], %[[B]]
// CHECK: x86.amx.tile_mulf {{.*}} : !x86.amx.tile<12x2xbf16>, !x86.amx.tile<1x32xbf16>, !x86.amx.tile<12x16xf32>
// CHECK: memref.alloca_scope
// CHECK: x86.amx.tile_store
// CHECK: affine.vector_load {{.*}} : memref<12x32xf32>, vector<32xf32>
// CHECK: affine.vector_load %arg2[0, %[[J]]]
// CHECK: arith.addf
func.func private @rows_of_halves(%a: memref<12x66xbf16>, %b: memref<33x64x2xbf16>, %out: memref<12x64xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i, k * 2 + l)>, affine_map<(i, j, k, l) -> (k, j, l)>, affine_map<(i, j, k, l) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%a, %b : memref<12x66xbf16>, memref<33x64x2xbf16>) outs(%out : memref<12x64xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %xw = arith.extf %x : bf16 to f32
    %yw = arith.extf %y : bf16 to f32
    %p = arith.mulf %xw, %yw fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Two registers of rows, of as many rows each; unsigned bytes times signed ones, begun at zero.
// CHECK-LABEL: @rows_of_bytes
// CHECK-COUNT-2: x86.amx.tile_zero : !x86.amx.tile<16x16xi32>
// CHECK: x86.amx.tile_muli %{{.*}} zext, %{{.*}}, %{{.*}} : !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x16xi32>
// CHECK-NOT: arith.addi {{.*}} : vector<32xi32>
func.func private @rows_of_bytes(%a: memref<96x256xi8>, %b: memref<64x32x4xi8>, %out: memref<96x32xi32>) {
  %zero = arith.constant 0 : i32
  linalg.fill ins(%zero : i32) outs(%out : memref<96x32xi32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i, k * 4 + l)>, affine_map<(i, j, k, l) -> (k, j, l)>, affine_map<(i, j, k, l) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%a, %b : memref<96x256xi8>, memref<64x32x4xi8>) outs(%out : memref<96x32xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %xw = arith.extui %x : i8 to i32
    %yw = arith.extsi %y : i8 to i32
    %p = arith.muli %xw, %yw : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  }
  return
}

// -----

// Two rows fill little of a register, and an instruction on vectors takes the same pairs.
// CHECK-LABEL: @few_rows
// CHECK-NOT: amx
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
func.func private @few_rows(%a: memref<2x66xbf16>, %b: memref<33x64x2xbf16>, %out: memref<2x64xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i, k * 2 + l)>, affine_map<(i, j, k, l) -> (k, j, l)>, affine_map<(i, j, k, l) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%a, %b : memref<2x66xbf16>, memref<33x64x2xbf16>) outs(%out : memref<2x64xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %xw = arith.extf %x : bf16 to f32
    %yw = arith.extf %y : bf16 to f32
    %p = arith.mulf %xw, %yw fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  }
  return
}
