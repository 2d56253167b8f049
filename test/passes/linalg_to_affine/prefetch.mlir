// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' --split-input-file | FileCheck %s

// The vectors of the right side, of two lines each, are asked for eight rounds of the sum ahead, once for both rows that use them.

// CHECK-LABEL: func.func private @product
// CHECK: affine.for %[[I:arg[0-9]+]] = 0 to 8 step 2
// CHECK: affine.for %[[J:arg[0-9]+]] = 0 to 64 step 32
// CHECK: affine.for %[[K:arg[0-9]+]] = 0 to 100
// CHECK: affine.vector_load %arg1[%[[K]], %[[J]]] : memref<100x64xf32>, vector<32xf32>
// CHECK-NEXT: affine.prefetch %arg1[%[[K]] + 8, %[[J]]], read, locality<3>, data
// CHECK-NEXT: affine.prefetch %arg1[%[[K]] + 8, %[[J]] + 16], read, locality<3>, data
// CHECK-NOT: affine.prefetch
func.func private @product(%x: memref<8x100xf32>, %w: memref<100x64xf32>, %o: memref<8x64xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8x64xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 2, 1, 1>, vector = 1 : i64, width = 32 : i64, prefetch = 8 : i64}>}
    ins(%x, %w : memref<8x100xf32>, memref<100x64xf32>) outs(%o : memref<8x64xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// What the vectors are multiplied by lies in lines, one for each position, which the innermost loop goes through: that of the next block of channels
// is asked for before, once for each position.
// CHECK-LABEL: func.func private @lines
// CHECK: affine.for %[[P:arg[0-9]+]] = 0 to 10 step 2
// CHECK: affine.for %[[B:arg[0-9]+]] = 0 to 4
// CHECK-NEXT: affine.prefetch %arg0[%[[B]] + 1, %[[P]], 0], read, locality<3>, data
// CHECK-NEXT: affine.prefetch %arg0[%[[B]] + 1, %[[P]] + 1, 0], read, locality<3>, data
// CHECK-NEXT: affine.for %[[K:arg[0-9]+]] = 0 to 16
// CHECK: affine.prefetch %arg1[%[[B]], %[[K]] + 8, 0], read, locality<3>, data
// CHECK-NOT: affine.prefetch
func.func private @lines(%x: memref<4x10x16xf32>, %w: memref<4x16x16xf32>, %o: memref<10x16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(p, c, b, k) -> (b, p, k)>, affine_map<(p, c, b, k) -> (b, k, c)>, affine_map<(p, c, b, k) -> (p, c)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 2, 1, 1, 1>, vector = 1 : i64, width = 16 : i64, prefetch = 8 : i64}>}
    ins(%x, %w : memref<4x10x16xf32>, memref<4x16x16xf32>) outs(%o : memref<10x16xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Of windows that overlap, only what the next round reads and this one does not; of lines of another length, nothing.
// CHECK-LABEL: func.func private @windows
// CHECK: affine.for %[[P:arg[0-9]+]] = 0 to 10 step 2
// CHECK: affine.for %[[T:arg[0-9]+]] = 0 to 3
// CHECK-NEXT: affine.prefetch %arg0[%[[P]] + %[[T]] + 2, 0], read, locality<3>, data
// CHECK-NEXT: affine.for %[[K:arg[0-9]+]] = 0 to 16
// CHECK: affine.prefetch %arg1[%[[T]], %[[K]] + 8, 0], read, locality<3>, data
// CHECK-NOT: affine.prefetch
// CHECK-LABEL: func.func private @short
// CHECK: affine.for %{{.*}} = 0 to 3
// CHECK-NEXT: affine.for %[[K:arg[0-9]+]] = 0 to 8
func.func private @windows(%x: memref<12x16xf32>, %w: memref<3x16x16xf32>, %o: memref<10x16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(p, c, t, k) -> (p + t, k)>, affine_map<(p, c, t, k) -> (t, k, c)>, affine_map<(p, c, t, k) -> (p, c)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 2, 1, 1, 1>, vector = 1 : i64, width = 16 : i64, prefetch = 8 : i64}>}
    ins(%x, %w : memref<12x16xf32>, memref<3x16x16xf32>) outs(%o : memref<10x16xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}
func.func private @short(%x: memref<12x8xf32>, %w: memref<3x8x16xf32>, %o: memref<10x16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(p, c, t, k) -> (p + t, k)>, affine_map<(p, c, t, k) -> (t, k, c)>, affine_map<(p, c, t, k) -> (p, c)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 2, 1, 1, 1>, vector = 1 : i64, width = 16 : i64, prefetch = 8 : i64}>}
    ins(%x, %w : memref<12x8xf32>, memref<3x8x16xf32>) outs(%o : memref<10x16xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Along the panels, whole tiles ask for the next one, for the second cache; what is left over of the rows does not.
// CHECK-LABEL: func.func private @panels
// CHECK: affine.for %[[P:arg[0-9]+]] = 0 to 4
// CHECK: affine.for %[[I:arg[0-9]+]] = 0 to 6 step 3
// CHECK: affine.for %[[K:arg[0-9]+]] = 0 to 100
// CHECK: affine.vector_load %arg1[%[[P]], %[[K]], 0] : memref<4x100x32xf32>, vector<32xf32>
// CHECK-NEXT: affine.prefetch %arg1[%[[P]] + 1, %[[K]], 0], read, locality<2>, data
// CHECK-NEXT: affine.prefetch %arg1[%[[P]] + 1, %[[K]], 16], read, locality<2>, data
// CHECK-NOT: affine.prefetch
func.func private @panels(%x: memref<7x100xf32>, %w: memref<4x100x32xf32>, %o: memref<7x4x32xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, p, j, k) -> (i, k)>, affine_map<(i, p, j, k) -> (p, k, j)>, affine_map<(i, p, j, k) -> (i, p, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 1, 0, 2>, parallel = 0 : i64, unroll = array<i64: 3, 1, 1, 1>, vector = 2 : i64, width = 32 : i64, prefetch = 1 : i64, along = 1 : i64}>}
    ins(%x, %w : memref<7x100xf32>, memref<4x100x32xf32>) outs(%o : memref<7x4x32xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Of rows that only the run counts, the tiles in the first 16 ask.
// CHECK: #[[EARLY:.+]] = affine_set<(d0) : (-d0 + 15 >= 0)>
// CHECK-LABEL: func.func private @panels_of_many
// CHECK: affine.for %[[P:arg[0-9]+]] = 0 to 4
// CHECK: affine.for %[[I:arg[0-9]+]] = 0 to {{.*}} step 3
// CHECK: affine.for %[[K:arg[0-9]+]] = 0 to 100
// CHECK: affine.vector_load %arg1[%[[P]], %[[K]], 0] : memref<4x100x32xf32>, vector<32xf32>
// CHECK-NEXT: affine.if #[[EARLY]](%[[I]]) {
// CHECK-NEXT: affine.prefetch %arg1[%[[P]] + 1, %[[K]], 0], read, locality<2>, data
// CHECK-NEXT: affine.prefetch %arg1[%[[P]] + 1, %[[K]], 16], read, locality<2>, data
// CHECK-NEXT: }
// CHECK-NOT: affine.prefetch
func.func private @panels_of_many(%x: memref<?x100xf32>, %w: memref<4x100x32xf32>, %o: memref<?x4x32xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "", "n"]} {
  linalg.generic {indexing_maps = [affine_map<(i, p, j, k) -> (i, k)>, affine_map<(i, p, j, k) -> (p, k, j)>, affine_map<(i, p, j, k) -> (i, p, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 1, 0, 2>, parallel = 0 : i64, unroll = array<i64: 3, 1, 1, 1>, vector = 2 : i64, width = 32 : i64, prefetch = 1 : i64, along = 1 : i64}>}
    ins(%x, %w : memref<?x100xf32>, memref<4x100x32xf32>) outs(%o : memref<?x4x32xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %p = arith.mulf %a, %c : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// The second op asks for what both read in the round to come, and not for the slice that the first hands on.
// CHECK-LABEL: func.func private @rows
// CHECK: affine.for %[[ROUND:arg[0-9]+]] = 0 to 7
// CHECK-NOT: affine.prefetch
// CHECK: affine.vector_store
// CHECK: affine.vector_load %arg0[%[[ROUND]] * 2 + %[[I:arg[0-9]+]], %[[J:arg[0-9]+]]]
// CHECK-NEXT: affine.prefetch %arg0[%[[ROUND]] * 2 + %[[I]] + 2, %[[J]]], read, locality<3>, data
// CHECK-NOT: affine.prefetch
func.func private @rows(%x: memref<14x160xf32>, %y: memref<14x160xf32>, %scratch: memref<1280xi8>) {
  %c0 = arith.constant 0 : index
  %t = memref.view %scratch[%c0][] {stepwell.slice = {loops = 1 : i64, run = 1 : i64, chunks = 1 : i64, bytes = 1280 : i64}} : memref<1280xi8> to memref<14x160xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 16 : i64}>,
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 2 : i64}]>} ins(%x : memref<14x160xf32>) outs(%t : memref<14x160xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.absf %a : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 16 : i64}>,
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 2 : i64, prefetch = 1 : i64}]>} ins(%x, %t : memref<14x160xf32>, memref<14x160xf32>) outs(%y : memref<14x160xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.subf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Where vectors lie along the sum, a round is a vector.
// CHECK-LABEL: func.func private @lanes
// CHECK: affine.for %[[I:arg[0-9]+]] = 0 to 8
// CHECK: affine.for %[[K:arg[0-9]+]] = 0 to 96 step 32
// CHECK: affine.vector_load %arg0[%[[I]], %[[K]]] : memref<8x96xf32>, vector<32xf32>
// CHECK-NEXT: affine.prefetch %arg0[%[[I]], %[[K]] + 128], read, locality<3>, data
// CHECK-NEXT: affine.prefetch %arg0[%[[I]], %[[K]] + 144], read, locality<3>, data
// CHECK-NOT: affine.prefetch
func.func private @lanes(%x: memref<8x96xf32>, %o: memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<8xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 32 : i64, prefetch = 4 : i64}>}
    ins(%x : memref<8x96xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  }
  return
}
