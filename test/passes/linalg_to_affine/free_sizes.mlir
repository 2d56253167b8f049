// RUN: stepwell-opt %s --lower-to-affine --cse --target x86-64-v2 --split-input-file | FileCheck %s

// Rows in fours, then two, then one, as the number asks for that is known only at run time; columns in vectors, as ever.
// CHECK-LABEL: func.func private @rows(%arg0: memref<?x20xf32>, %arg1: memref<?x20xf32>)
// CHECK-DAG: %[[N:.*]] = memref.dim %arg0
// CHECK: affine.for %[[I:.*]] = 0 to %[[FOURS:.*]] step 4 {
// CHECK: affine.vector_load %arg0[%[[I]], 0] : memref<?x20xf32>, vector<16xf32>
// CHECK: affine.vector_load %arg0[%[[I]] + 3, 0] : memref<?x20xf32>, vector<16xf32>
// CHECK: %[[TWO:.*]] = arith.cmpi slt, %[[FOURS]], %[[TWOS:.*]] : index
// CHECK: scf.if %[[TWO]] {
// CHECK: affine.vector_load %arg0[%[[FOURS]] + 1, 0] : memref<?x20xf32>, vector<16xf32>
// CHECK-NOT: affine.vector_load %arg0[%[[FOURS]] + 2, 0]
// CHECK: %[[ONE:.*]] = arith.cmpi slt, %[[TWOS]], %{{.*}} : index
// CHECK: scf.if %[[ONE]] {
// CHECK: affine.vector_load %arg0[%[[TWOS]], 0] : memref<?x20xf32>, vector<16xf32>
func.func private @rows(%x: memref<?x20xf32>, %y: memref<?x20xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 4, 1>, vector = 1 : i64, width = 16 : i64}>
  } ins(%x : memref<?x20xf32>) outs(%y : memref<?x20xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Vectors along such a dimension: whole ones, then halves of them down to single elements.
// CHECK-LABEL: func.func private @columns(
// CHECK: affine.for %{{.*}} = 0 to %[[A:.*]] step 8 {
// CHECK: affine.vector_load {{.*}} vector<8xf32>
// CHECK: arith.cmpi slt, %[[A]], %[[B:.*]] : index
// CHECK: affine.vector_load %arg0[%[[A]]] {{.*}} vector<4xf32>
// CHECK: arith.cmpi slt, %[[B]], %[[C:.*]] : index
// CHECK: affine.vector_load %arg0[%[[B]]] {{.*}} vector<2xf32>
// CHECK: arith.cmpi slt, %[[C]], %{{.*}} : index
// CHECK: affine.load %arg0[%[[C]]]
func.func private @columns(%x: memref<?xf32>, %y: memref<?xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  linalg.generic {
    indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 8 : i64}>
  } ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.mulf %a, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Rows of a product, whose sums lie in registers: whole tiles of nine, one of five if there are so many left, and one of what is left then.
// CHECK-LABEL: func.func private @product(%arg0: memref<?x6xf32>
// CHECK: affine.for %{{.*}} = 0 to %[[NINES:.*]] step 9 {
// CHECK-COUNT-9: affine.vector_store
// CHECK: arith.cmpi slt, %[[NINES]], %[[FIVES:.*]] : index
// CHECK: scf.if
// CHECK-COUNT-5: affine.vector_store
// CHECK: scf.index_switch
// CHECK: case 1 {
// CHECK: affine.vector_store %{{.*}}, %arg2[%[[FIVES]], 0]
// CHECK-NEXT: scf.yield
// CHECK: case 4 {
// CHECK-COUNT-4: affine.vector_store
// CHECK-NOT: case 5
func.func private @product(%x: memref<?x6xf32>, %w: memref<6x16xf32>, %y: memref<?x16xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "", "n"]} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<?x16xf32>)
  linalg.generic {
    indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 9, 1, 1>, vector = 1 : i64, width = 16 : i64}>
  } ins(%x, %w : memref<?x6xf32>, memref<6x16xf32>) outs(%y : memref<?x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Of a multiple of three only threes and sixes can be left, and of a multiple of the step nothing.
// CHECK-LABEL: func.func private @multiple(
// CHECK: affine.for %{{.*}} = 0 to %{{.*}} step 6 {
// CHECK-COUNT-6: affine.vector_store
// CHECK: scf.index_switch
// CHECK: case 3 {
// CHECK-NOT: case
// CHECK: affine.for %{{.*}} = 0 to %{{.*}} step 6 {
// CHECK-NOT: scf.index_switch
func.func private @multiple(%x: memref<?x6xf32>, %w: memref<6x16xf32>, %y: memref<?x16xf32>, %v: memref<?x6xf32>, %z: memref<?x16xf32>, %n: index)
    attributes {stepwell.kernel, stepwell.size_arguments = ["n"], stepwell.sizes = ["3*n", "", "3*n", "12*n", "12*n", ""]} {
  linalg.generic {
    indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 6, 1, 1>, vector = 1 : i64, width = 16 : i64}>
  } ins(%x, %w : memref<?x6xf32>, memref<6x16xf32>) outs(%y : memref<?x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {
    indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 6, 1, 1>, vector = 1 : i64, width = 16 : i64}>
  } ins(%v, %w : memref<?x6xf32>, memref<6x16xf32>) outs(%z : memref<?x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Work of which only a run knows how much it is goes to threads if there is enough of it; a loop over all rows is dealt out in two chunks.
// CHECK-LABEL: func.func private @threads(
// CHECK: %[[ENOUGH:.*]] = arith.cmpi sge, %{{.*}}, %c32768
// CHECK: "sched.threaded"(%[[ENOUGH]]) ({
// CHECK-NEXT: affine.parallel (%[[C:.*]]) = (0) to (2) {
// CHECK: affine.for %[[ROW:.*]] = #{{.*}}(%[[C]])[%[[N:.*]]] to min #{{.*}}(%[[C]])[%[[N]]] {
// CHECK: affine.vector_load %arg0[%[[ROW]]
// CHECK: }) : (i1) -> ()
// CHECK-NEXT: return
func.func private @threads(%x: memref<?x16xf32>, %y: memref<?x16xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"],
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 1 : i64, chunks = 2 : i64}]>,
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 16 : i64}>
  } ins(%x : memref<?x16xf32>) outs(%y : memref<?x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = math.absf %a : f32
    linalg.yield %0 : f32
  }
  return
}
