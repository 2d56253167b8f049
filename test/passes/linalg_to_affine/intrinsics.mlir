// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=AVX2
// RUN: stepwell-opt %s --target x86-64-v4 --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=AVX512
// RUN: stepwell-opt %s --target aarch64-dotprod --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=NEON
// RUN: stepwell-opt %s --target aarch64-neon --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=SMLAL
// RUN: stepwell-opt %s --target x86-64-v2 --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=NONE
// RUN: stepwell-opt %s --target x86-64-v4-vnni --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=VNNI
// RUN: stepwell-opt %s --target avx-vnni --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=VNNI256

// A product of signed bytes is computed by the dot product that the target has: rows of the right side are interleaved, the left side's
// neighbours are one scalar for all lanes. What the summed dimension leaves over (67 = 33 x 2 + 1 = 16 x 4 + 3) goes to the body.

// AVX2: affine.for %[[K:arg[0-9]+]] = 0 to 66 step 2
// AVX2-NEXT: affine.vector_load {{.*}}[{{.*}}, %[[K]]] : memref<12x67xi8>, vector<2xi8>
// AVX2: vector.bitcast {{.*}} : vector<2xi16> to vector<1xi32>
// AVX2: vector.broadcast {{.*}} : i32 to vector<8xi32>
// AVX2: vector.interleave
// AVX2: arith.extsi {{.*}} : vector<16xi8> to vector<16xi16>
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2-NEXT: arith.addi {{.*}} : vector<8xi32>
// AVX2: arith.muli

// AVX512: affine.for {{.*}} = 0 to 66 step 2
// AVX512: llvm.call_intrinsic "llvm.x86.avx512.pmaddw.d.512"{{.*}} : (vector<32xi16>, vector<32xi16>) -> vector<16xi32>

// NEON: affine.for {{.*}} = 0 to 64 step 4
// NEON: vector.interleave
// NEON: llvm.call_intrinsic "llvm.aarch64.neon.sdot.v4i32.v16i8"{{.*}} : (vector<4xi32>, vector<16xi8>, vector<16xi8>) -> vector<4xi32>
// NEON: arith.muli

// SMLAL: affine.for {{.*}} = 0 to 67
// SMLAL: arith.extsi {{.*}} : vector<4xi16> to vector<4xi32>
// SMLAL: arith.muli {{.*}} : vector<4xi32>

// NONE-NOT: llvm.call_intrinsic
// NONE: arith.muli

// VNNI: affine.for {{.*}} = 0 to 66 step 2
// VNNI: llvm.call_intrinsic "llvm.x86.avx512.vpdpwssd.512"{{.*}} : (vector<16xi32>, vector<32xi16>, vector<32xi16>) -> vector<16xi32>
// VNNI256: llvm.call_intrinsic "llvm.x86.avx512.vpdpwssd.256"{{.*}} : (vector<8xi32>, vector<16xi16>, vector<16xi16>) -> vector<8xi32>
func.func private @product(%a: memref<12x67xi8>, %b: memref<67x64xi8>, %out: memref<12x64xi32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<12x67xi8>, memref<67x64xi8>) outs(%out : memref<12x64xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %xw = arith.extsi %x : i8 to i32
    %yw = arith.extsi %y : i8 to i32
    %p = arith.muli %xw, %yw : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  }
  return
}
