// RUN: stepwell-opt %s --target x86-64-v4-bf16 --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=BF16
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=AVX2
// RUN: stepwell-opt %s --target x86-64-v2 --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=NONE

// A product of bf16 whose right side has pairs of neighbours side by side: one dot product for 16 columns, whose left side is a pair that a load
// broadcasts. Without the instruction pairs are taken apart: the first numbers are shifted up, the second ones are there already.
// BF16: affine.for {{.*}} = 0 to 33
// BF16: affine.vector_load {{.*}} : memref<12x66xbf16>, vector<2xbf16>
// BF16: vector.bitcast {{.*}} : vector<2xbf16> to vector<1xi32>
// BF16: vector.broadcast {{.*}} : i32 to vector<16xi32>
// BF16: affine.vector_load {{.*}} : memref<33x64x2xbf16>, vector<{{[0-9]+}}xbf16>
// BF16: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"{{.*}} : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
// BF16-NOT: arith.mulf

// AVX2: affine.for {{.*}} = 0 to 33
// AVX2: arith.shli {{.*}} : vector<8xi32>
// AVX2: arith.mulf {{.*}} fastmath<contract> : vector<8xf32>
// AVX2: arith.andi {{.*}} : vector<8xi32>
// AVX2: arith.mulf {{.*}} fastmath<contract> : vector<8xf32>

// NONE-NOT: arith.shli
// NONE: arith.extf
func.func private @product(%a: memref<12x66xbf16>, %b: memref<33x64x2xbf16>, %out: memref<12x64xf32>) {
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

// Two blocks follow each other without a loop, around which LLVM would load all that a round reads at first, and spill sums.
// BF16-LABEL: func.func private @two_blocks(
// BF16: affine.for {{.*}} = 0 to 5 iter_args
// BF16-NOT: affine.for
// BF16: affine.vector_load %arg1[{{.*}}, 0, {{.*}}, 0] : memref<5x2x64x2xbf16>
// BF16: affine.vector_load %arg1[{{.*}}, 1, {{.*}}, 0] : memref<5x2x64x2xbf16>
// BF16: affine.yield
func.func private @two_blocks(%a: memref<12x5x4xbf16>, %b: memref<5x2x64x2xbf16>, %out: memref<12x64xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, m, k, l) -> (i, m, k * 2 + l)>, affine_map<(i, j, m, k, l) -> (m, k, j, l)>, affine_map<(i, j, m, k, l) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%a, %b : memref<12x5x4xbf16>, memref<5x2x64x2xbf16>) outs(%out : memref<12x64xf32>) {
  ^bb0(%x: bf16, %y: bf16, %acc: f32):
    %xw = arith.extf %x : bf16 to f32
    %yw = arith.extf %y : bf16 to f32
    %p = arith.mulf %xw, %yw fastmath<contract> : f32
    %s = arith.addf %acc, %p fastmath<contract> : f32
    linalg.yield %s : f32
  }
  return
}
