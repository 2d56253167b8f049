// RUN: stepwell-opt %s --target x86-64-v4-amx --pass-pipeline='fit-tiles' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v4 --pass-pipeline='fit-tiles' --split-input-file | FileCheck %s --check-prefix=WITHOUT

// Five shapes of sums and of what is read with them, two registers each, and one of the right-hand sides are eleven registers. With the fewest
// rows made whole there are seven: those of one, two and three rows are read and written by way of memory.
// CHECK-LABEL: @five_shapes
// CHECK: %[[ROOM:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16x64xi8>
// CHECK-COUNT-16: vector.store %{{.*}}, %{{.*}} : memref<16x64xi8>, vector<64xi8>
// CHECK: memref.extract_strided_metadata %arg0
// CHECK: memref.reinterpret_cast %{{.*}} to offset: [%{{.*}}], sizes: [64], strides: [1]
// CHECK: vector.load %{{.*}} : memref<64xi8, strided<[1], offset: ?>>, vector<64xi8>
// CHECK: x86.amx.tile_load %{{.*}} : memref<16x64xi8> into !x86.amx.tile<16x64xi8>
// CHECK: x86.amx.tile_muli {{.*}} : !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x16xi32>
// CHECK: x86.amx.tile_store {{.*}} : memref<16x16xi32>, !x86.amx.tile<16x16xi32>
// CHECK: vector.store {{.*}} : memref<16xi32, strided<[1], offset: ?>>, vector<16xi32>
// CHECK: x86.amx.tile_muli {{.*}} : !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x16xi32>
// CHECK: x86.amx.tile_muli {{.*}} : !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<16x16xi32>
// CHECK: x86.amx.tile_muli {{.*}} : !x86.amx.tile<4x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<4x16xi32>
// CHECK: x86.amx.tile_muli {{.*}} : !x86.amx.tile<5x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<5x16xi32>
// WITHOUT-LABEL: @five_shapes
// WITHOUT-NOT: alloca

func.func @five_shapes(%x: memref<8x64xi8>, %y: memref<16x64xi8>, %out: memref<8x16xi32>) {
  %c0 = arith.constant 0 : index
  %y0 = x86.amx.tile_load %y[%c0, %c0] : memref<16x64xi8> into !x86.amx.tile<16x64xi8>
  %z1 = x86.amx.tile_zero : !x86.amx.tile<1x16xi32>
  %x1 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<1x64xi8>
  %s1 = x86.amx.tile_muli %x1, %y0, %z1 : !x86.amx.tile<1x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<1x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s1 : memref<8x16xi32>, !x86.amx.tile<1x16xi32>
  %z2 = x86.amx.tile_zero : !x86.amx.tile<2x16xi32>
  %x2 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<2x64xi8>
  %s2 = x86.amx.tile_muli %x2, %y0, %z2 : !x86.amx.tile<2x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<2x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s2 : memref<8x16xi32>, !x86.amx.tile<2x16xi32>
  %z3 = x86.amx.tile_zero : !x86.amx.tile<3x16xi32>
  %x3 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<3x64xi8>
  %s3 = x86.amx.tile_muli %x3, %y0, %z3 : !x86.amx.tile<3x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<3x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s3 : memref<8x16xi32>, !x86.amx.tile<3x16xi32>
  %z4 = x86.amx.tile_zero : !x86.amx.tile<4x16xi32>
  %x4 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<4x64xi8>
  %s4 = x86.amx.tile_muli %x4, %y0, %z4 : !x86.amx.tile<4x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<4x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s4 : memref<8x16xi32>, !x86.amx.tile<4x16xi32>
  %z5 = x86.amx.tile_zero : !x86.amx.tile<5x16xi32>
  %x5 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<5x64xi8>
  %s5 = x86.amx.tile_muli %x5, %y0, %z5 : !x86.amx.tile<5x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<5x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s5 : memref<8x16xi32>, !x86.amx.tile<5x16xi32>
  return
}

// -----

// Three of them are within the eight, and stay as they are.
// CHECK-LABEL: @three_shapes
// CHECK-NOT: alloca
// CHECK: return
func.func @three_shapes(%x: memref<8x64xi8>, %y: memref<16x64xi8>, %out: memref<8x16xi32>) {
  %c0 = arith.constant 0 : index
  %y0 = x86.amx.tile_load %y[%c0, %c0] : memref<16x64xi8> into !x86.amx.tile<16x64xi8>
  %z1 = x86.amx.tile_zero : !x86.amx.tile<1x16xi32>
  %x1 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<1x64xi8>
  %s1 = x86.amx.tile_muli %x1, %y0, %z1 : !x86.amx.tile<1x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<1x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s1 : memref<8x16xi32>, !x86.amx.tile<1x16xi32>
  %z2 = x86.amx.tile_zero : !x86.amx.tile<2x16xi32>
  %x2 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<2x64xi8>
  %s2 = x86.amx.tile_muli %x2, %y0, %z2 : !x86.amx.tile<2x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<2x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s2 : memref<8x16xi32>, !x86.amx.tile<2x16xi32>
  %z3 = x86.amx.tile_zero : !x86.amx.tile<3x16xi32>
  %x3 = x86.amx.tile_load %x[%c0, %c0] : memref<8x64xi8> into !x86.amx.tile<3x64xi8>
  %s3 = x86.amx.tile_muli %x3, %y0, %z3 : !x86.amx.tile<3x64xi8>, !x86.amx.tile<16x64xi8>, !x86.amx.tile<3x16xi32>
  x86.amx.tile_store %out[%c0, %c0], %s3 : memref<8x16xi32>, !x86.amx.tile<3x16xi32>
  return
}
