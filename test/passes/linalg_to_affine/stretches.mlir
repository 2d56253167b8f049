// RUN: stepwell-opt %s --pass-pipeline='func.func(assign-schedules,lower-to-affine),canonicalize,cse' --target x86-64-v3 --split-input-file | FileCheck %s

// Stretches of memory are copied at once, no more than 256 kB each, and shared among threads: 49 rows of 3 kB.
// CHECK-LABEL: func.func private @rows
// CHECK: affine.parallel (%[[B:.*]], %[[I:.*]]) = (0, 0) to (8, 196) step (1, 49)
// CHECK-NEXT: %[[FROM:.*]] = memref.subview %arg0[%[[B]], %[[I]], 0] [1, 49, 768] [1, 1, 1]
// CHECK-NEXT: %[[ROWS:.*]] = memref.collapse_shape %[[FROM]]
// CHECK-NEXT: %[[TO:.*]] = memref.subview %{{.*}}[%[[B]], %[[I]], 0] [1, 49, 768] [1, 1, 1] : {{.*}} to memref<1x49x768xf32, strided<[151296, 768, 1], offset: ?>>
// CHECK-NEXT: %[[THERE:.*]] = memref.collapse_shape %[[TO]]
// CHECK-NEXT: memref.copy %[[ROWS]], %[[THERE]] : memref<37632xf32, strided<[1], offset: ?>> to memref<37632xf32, strided<[1], offset: ?>>
// CHECK-NOT: vector
func.func private @rows(%x: memref<8x196x768xf32>, %y: memref<8x197x768xf32>) {
  %part = memref.subview %y[0, 1, 0] [8, 196, 768] [1, 1, 1] : memref<8x197x768xf32> to memref<8x196x768xf32, strided<[151296, 768, 1], offset: 768>>
  linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : memref<8x196x768xf32>) outs(%part : memref<8x196x768xf32, strided<[151296, 768, 1], offset: 768>>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

// What is left over of whole stretches, of no more than 65536 elements, is a copy of its own.
// CHECK-LABEL: func.func private @prime
// CHECK: memref.copy %{{.*}} : memref<65536xf32> to memref<65536xf32>
// CHECK: memref.subview %arg0[65536] [34467] [1]
// CHECK: memref.copy {{.*}} memref<34467xf32, strided<[1], offset: 65536>>
func.func private @prime(%x: memref<100003xf32>, %y: memref<100003xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : memref<100003xf32>) outs(%y : memref<100003xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  return
}

// -----

// Short rows that lie apart, rows in another order, columns, and what is changed on its way go by vectors.
// CHECK-LABEL: func.func private @others
// CHECK-NOT: memref.copy
func.func private @others(%x: memref<512x96xf32>, %wide: memref<512x100xf32>, %y: memref<512x96xf32>, %z: memref<96x512xf32>, %t: memref<2x256x96xf32>) {
  %part = memref.subview %wide[0, 0] [512, 96] [1, 1] : memref<512x100xf32> to memref<512x96xf32, strided<[100, 1]>>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : memref<512x96xf32>) outs(%part : memref<512x96xf32, strided<[100, 1]>>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (511 - i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : memref<512x96xf32>) outs(%y : memref<512x96xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j, i)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : memref<512x96xf32>) outs(%z : memref<96x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x : memref<512x96xf32>) outs(%y : memref<512x96xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(k, i, j) -> (i + 256, j)>, affine_map<(k, i, j) -> (k, i, j)>], iterator_types = ["parallel", "parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1, 2>, parallel = 2 : i64, unroll = array<i64: 1, 1, 1>, vector = 2 : i64, width = 16 : i64}>}
    ins(%x : memref<512x96xf32>) outs(%t : memref<2x256x96xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  return
}
