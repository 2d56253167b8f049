// RUN: stepwell-opt %s --pass-pipeline='select-bf16{flush=true}' --target x86-64-v4-bf16 | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='select-bf16{flush=true}' --target x86-64-v4-vnni | FileCheck %s --check-prefix=NONE
// RUN: stepwell-opt %s --select-bf16 --target x86-64-v4-bf16 | FileCheck %s --check-prefix=NONE

// Vectors of 16, in pieces of 16, and of 8 are rounded by the instruction; other lengths and types are left.
// CHECK-LABEL: func.func @rounded
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.cvtneps2bf16.512"(%arg0) : (vector<16xf32>) -> vector<16xbf16>
// CHECK: vector.extract_strided_slice %arg1 {offsets = [0], sizes = [16], strides = [1]}
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.cvtneps2bf16.512"
// CHECK: vector.extract_strided_slice %arg1 {offsets = [16], sizes = [16], strides = [1]}
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.cvtneps2bf16.512"
// CHECK: vector.shuffle
// CHECK: llvm.call_intrinsic "llvm.x86.avx512bf16.cvtneps2bf16.256"(%arg2) : (vector<8xf32>) -> vector<8xbf16>
// CHECK: arith.truncf %arg3 : vector<4xf32> to vector<4xbf16>
// CHECK: arith.truncf %arg4 : vector<16xf64> to vector<16xbf16>
// CHECK: arith.truncf %arg0 : vector<16xf32> to vector<16xf16>
// NONE-LABEL: func.func @rounded
// NONE-NOT: llvm.call_intrinsic
func.func @rounded(%a: vector<16xf32>, %b: vector<32xf32>, %c: vector<8xf32>, %d: vector<4xf32>, %e: vector<16xf64>)
    -> (vector<16xbf16>, vector<32xbf16>, vector<8xbf16>, vector<4xbf16>, vector<16xbf16>, vector<16xf16>) {
  %0 = arith.truncf %a : vector<16xf32> to vector<16xbf16>
  %1 = arith.truncf %b : vector<32xf32> to vector<32xbf16>
  %2 = arith.truncf %c : vector<8xf32> to vector<8xbf16>
  %3 = arith.truncf %d : vector<4xf32> to vector<4xbf16>
  %4 = arith.truncf %e : vector<16xf64> to vector<16xbf16>
  %5 = arith.truncf %a : vector<16xf32> to vector<16xf16>
  return %0, %1, %2, %3, %4, %5 : vector<16xbf16>, vector<32xbf16>, vector<8xbf16>, vector<4xbf16>, vector<16xbf16>, vector<16xf16>
}
