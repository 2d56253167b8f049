// RUN: stepwell-opt %s --lower-to-affine --cse --target x86-64-v3 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --lower-to-affine --cse --target x86-64-v2 --split-input-file | FileCheck %s --check-prefix=HALVES

// Along a dimension of unknown size: whole vectors, one register more if there are so many left, and the rest in a register with lanes switched off.
// CHECK-LABEL: func.func private @columns(
// CHECK: affine.for %{{.*}} = 0 to %[[A:.*]] step 16 {
// CHECK: affine.vector_load {{.*}} vector<16xf32>
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[A]], %[[B:.*]] : index
// CHECK: scf.if %[[MORE]] {
// CHECK: affine.vector_load %arg0[%[[A]]] {{.*}} vector<8xf32>
// CHECK: %[[M:.*]] = vector.create_mask %{{.*}} : vector<8xi1>
// CHECK: %[[LEFT:.*]] = arith.cmpi slt, %[[B]], %{{.*}} : index
// CHECK: scf.if %[[LEFT]] {
// CHECK: vector.maskedload %arg0[{{.*}}], %[[M]], %{{.*}} : memref<?xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
// CHECK: vector.maskedstore %arg1[{{.*}}], %[[M]]
// CHECK-NOT: affine.for
// HALVES-LABEL: func.func private @columns(
// HALVES-NOT: vector.maskedload
func.func private @columns(%x: memref<?xf32>, %y: memref<?xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 16 : i64}>
  } ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.mulf %a, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// A sum in lanes: those that are switched off keep what they had, and all are added up once.
// CHECK-LABEL: func.func private @sum(
// CHECK: %[[L:.*]] = affine.for %{{.*}} = 0 to %[[A:.*]] step 16 iter_args
// CHECK: %[[M:.*]] = vector.create_mask %{{.*}} : vector<16xi1>
// CHECK: %[[LEFT:.*]] = arith.cmpi slt, %[[A]], %{{.*}} : index
// CHECK: %[[ALL:.*]] = scf.if %[[LEFT]] -> (vector<16xf32>) {
// CHECK: vector.maskedload
// CHECK: %[[S:.*]] = arith.addf %[[L]]
// CHECK: arith.select %[[M]], %[[S]], %[[L]]
// CHECK: } else {
// CHECK-NEXT: scf.yield %[[L]]
// CHECK: vector.reduction <add>, %[[ALL]]
// CHECK-NOT: vector.reduction
func.func private @sum(%x: memref<3x?xf32>, %y: memref<3xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", ""]} {
  linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 16 : i64}>
  } ins(%x : memref<3x?xf32>) outs(%y : memref<3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.mulf %a, %a : f32
    %1 = arith.addf %b, %0 : f32
    linalg.yield %1 : f32
  }
  return
}

// -----

// Vectors that are put together from elements further apart have no masks, nor have bytes.
// CHECK-LABEL: func.func private @apart(
// CHECK-NOT: vector.create_mask
func.func private @apart(%x: memref<?x9xf32>, %y: memref<?xf32>, %b: memref<?xi8>, %c: memref<?xi8>) attributes {stepwell.kernel, stepwell.sizes = ["n", "n", "n", "n"]} {
  linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0, 3)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 16 : i64}>
  } ins(%x : memref<?x9xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 16 : i64}>
  } ins(%b : memref<?xi8>) outs(%c : memref<?xi8>) {
  ^bb0(%a: i8, %o: i8):
    linalg.yield %a : i8
  }
  return
}
