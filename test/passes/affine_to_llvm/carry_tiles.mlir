// RUN: stepwell-opt %s --target x86-64-v4-amx --pass-pipeline='convert-scf-to-cf,convert-vector-to-llvm{enable-x86=true},carry-tiles' | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v4 --pass-pipeline='convert-scf-to-cf,carry-tiles' | FileCheck %s --check-prefix=WITHOUT

// Blocks take registers in the type that the loads and products have after their conversion, and no casts are left.
// CHECK: %[[Z:.*]] = llvm.call_intrinsic "llvm.x86.tilezero.internal"
// CHECK: cf.br ^[[HEAD:bb[0-9]+]](%{{.*}}, %[[Z]] : index, !llvm.x86_amx)
// CHECK: ^[[HEAD]](%{{.*}}: index, %[[T:.*]]: !llvm.x86_amx):
// CHECK: %[[P:.*]] = llvm.call_intrinsic "llvm.x86.tdpbf16ps.internal"(%{{.*}}, %{{.*}}, %{{.*}}, %[[T]], %{{.*}}, %{{.*}})
// CHECK: cf.br ^[[HEAD]](%{{.*}}, %[[P]] : index, !llvm.x86_amx)
// CHECK-NOT: !x86.amx.tile

// WITHOUT: cf.br ^{{.*}} : index, !x86.amx.tile<16x16xf32>)
func.func @sum(%x: memref<16x32xbf16>, %y: memref<16x32xbf16>, %out: memref<16x16xf32>, %rounds: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = x86.amx.tile_zero : !x86.amx.tile<16x16xf32>
  %a = x86.amx.tile_load %x[%c0, %c0] : memref<16x32xbf16> into !x86.amx.tile<16x32xbf16>
  %b = x86.amx.tile_load %y[%c0, %c0] : memref<16x32xbf16> into !x86.amx.tile<16x32xbf16>
  %sum = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zero) -> (!x86.amx.tile<16x16xf32>) {
    %next = x86.amx.tile_mulf %a, %b, %acc : !x86.amx.tile<16x32xbf16>, !x86.amx.tile<16x32xbf16>, !x86.amx.tile<16x16xf32>
    scf.yield %next : !x86.amx.tile<16x16xf32>
  }
  x86.amx.tile_store %out[%c0, %c0], %sum : memref<16x16xf32>, !x86.amx.tile<16x16xf32>
  return
}
