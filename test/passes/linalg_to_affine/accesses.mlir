// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s

// Elements that lie close in a row are picked from vectors of it, others loaded one by one; an input that does not move is broadcast; an index along the
// vector counts up; an input that lies across is transposed in registers where the tile holds rows of it.
// What the body itself reads is a vector where its last index grows with the lanes.

// CHECK-LABEL: func.func private @strided
// CHECK: affine.vector_load %{{.*}}[%[[I:arg[0-9]+]] * 2]
// CHECK: affine.vector_load %{{.*}}[%[[I]] * 2 + 3]
// CHECK-NEXT: vector.shuffle {{.*}} [0, 2, 5, 7] : vector<4xf32>, vector<4xf32>
// CHECK: affine.load %{{.*}}[0]
// CHECK-NEXT: vector.broadcast
func.func private @strided(%x: memref<16xf32>, %s: memref<1xf32>, %o: memref<8xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i * 2)>, affine_map<(i) -> (0)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x, %s : memref<16xf32>, memref<1xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%i: f32, %j: f32, %out: f32):
    %m = arith.mulf %i, %j : f32
    linalg.yield %m : f32
  }
  return
}

// A kernel reads single numbers once, where it begins, but for those that it may write.
// CHECK-LABEL: func.func private @number
// CHECK-NEXT: %[[N:.*]] = affine.load %arg1[0, 0]
// CHECK-NEXT: affine.for
// CHECK-NOT: affine.load %arg1
// CHECK: affine.load %arg2[0]
// CHECK-NOT: affine.load %arg1
// CHECK: return
func.func private @number(%x: memref<16xf32>, %s: memref<1x1xf32>, %t: memref<1xf32>, %o: memref<16xf32>)
    attributes {stepwell.kernel, stepwell.results = 2 : i64} {
  %view = memref.collapse_shape %s [[0, 1]] : memref<1x1xf32> into memref<1xf32>
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (0)>, affine_map<(i) -> (0)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x, %view, %t : memref<16xf32>, memref<1xf32>, memref<1xf32>) outs(%o : memref<16xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %out: f32):
    %m = arith.mulf %i, %j : f32
    %n = arith.addf %m, %k : f32
    linalg.yield %n : f32
  }
  return
}

// CHECK-LABEL: func.func private @far
// CHECK: affine.load %{{.*}}[%[[I:arg[0-9]+]] * 5]
// CHECK: affine.load %{{.*}}[%[[I]] * 5 + 5]
// CHECK: affine.load %{{.*}}[%[[I]] * 5 + 10]
// CHECK: affine.load %{{.*}}[%[[I]] * 5 + 15]
// CHECK-NEXT: vector.from_elements {{.*}} : vector<4xf32>
func.func private @far(%x: memref<40xf32>, %o: memref<8xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i * 5)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%x : memref<40xf32>) outs(%o : memref<8xf32>) {
  ^bb0(%i: f32, %out: f32):
    linalg.yield %i : f32
  }
  return
}

// CHECK-LABEL: func.func private @counting
// CHECK: vector.step : vector<4xindex>
// CHECK: arith.index_cast {{.*}} : vector<4xindex> to vector<4xi64>
// CHECK: affine.vector_store
func.func private @counting(%o: memref<8xi64>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    outs(%o : memref<8xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %v = arith.index_cast %i : index to i64
    linalg.yield %v : i64
  }
  return
}

// Eight rows of four elements are two matrices side by side: four columns, and the last row of the tile is gathered.

// CHECK-LABEL: func.func private @across
// CHECK-COUNT-8: affine.vector_load {{.*}} : memref<16x5xf32>, vector<4xf32>
// CHECK: vector.shuffle {{.*}} [0, 4, 1, 5] : vector<4xf32>, vector<4xf32>
// CHECK: vector.shuffle {{.*}} [2, 6, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK-COUNT-4: vector.shuffle {{.*}} [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xf32>, vector<4xf32>
// CHECK-COUNT-8: affine.load {{.*}} : memref<16x5xf32>
// CHECK-NOT: affine.load
// CHECK: return
func.func private @across(%x: memref<16x5xf32>, %o: memref<5x16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 5, 1>, vector = 1 : i64, width = 8 : i64}>}
    ins(%x : memref<16x5xf32>) outs(%o : memref<5x16xf32>) {
  ^bb0(%i: f32, %out: f32):
    linalg.yield %i : f32
  }
  return
}

// Vectors across rows of two: whole rows are loaded once for both places in them, and stored side by side.

// CHECK-LABEL: func.func private @pairs
// CHECK: %[[X:.*]] = memref.collapse_shape %{{.*}} {{\[}}[0], [1, 2]] : memref<3x8x2xf32> into memref<3x16xf32>
// CHECK: %[[A:.*]] = affine.vector_load %[[X]][%{{.*}}, %{{.*}} * 2] : memref<3x16xf32>, vector<4xf32>
// CHECK: %[[B:.*]] = affine.vector_load %[[X]][%{{.*}}, %{{.*}} * 2 + 4] : memref<3x16xf32>, vector<4xf32>
// CHECK: %[[SECOND:.*]] = vector.shuffle %[[A]], %[[B]] [1, 3, 5, 7] : vector<4xf32>, vector<4xf32>
// CHECK: %[[FIRST:.*]] = vector.shuffle %[[A]], %[[B]] [0, 2, 4, 6] : vector<4xf32>, vector<4xf32>
// CHECK-NOT: affine.vector_load
// CHECK: vector.interleave %[[SECOND]], %[[FIRST]] : vector<4xf32> -> vector<8xf32>
// CHECK: affine.vector_store {{.*}} * 2] : memref<3x16xf32>, vector<8xf32>
// CHECK-NOT: affine.store
func.func private @pairs(%x: memref<3x8x2xf32>, %o: memref<3x8x2xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, 1 - k)>, affine_map<(i, j, k) -> (i, j, k)>],
    iterator_types = ["parallel", "parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1, 2>, parallel = 0 : i64, unroll = array<i64: 1, 1, 2>, vector = 1 : i64, width = 4 : i64}>}
    ins(%x : memref<3x8x2xf32>) outs(%o : memref<3x8x2xf32>) {
  ^bb0(%i: f32, %out: f32):
    linalg.yield %i : f32
  }
  return
}

// Row and offset are read, or computed, once for all lanes; the column counts up, with the offset before or behind it.

// CHECK-LABEL: func.func private @rows
// CHECK: %[[ROW:.*]] = arith.index_cast {{.*}} : i64 to index
// CHECK: %[[V:.*]] = vector.load %{{.*}}[%[[ROW]], %{{.*}}] : memref<9x16xf32>, vector<4xf32>
// CHECK-NOT: memref.load
// CHECK: affine.vector_store
func.func private @rows(%x: memref<9x16xf32>, %i: memref<5xi64>, %o: memref<5x12xf32>) {
  %two = arith.constant 2 : index
  %last = arith.constant 3 : index
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 4 : i64}>}
    ins(%i : memref<5xi64>) outs(%o : memref<5x12xf32>) {
  ^bb0(%index: i64, %out: f32):
    %row = arith.index_cast %index : i64 to index
    %j = linalg.index 1 : index
    %later = arith.addi %two, %j : index
    %column = arith.subi %later, %two : index
    %shifted = arith.addi %column, %last : index
    %v = memref.load %x[%row, %shifted] : memref<9x16xf32>
    linalg.yield %v : f32
  }
  return
}

// Elements that the lanes do not read side by side have no vectors: the nest of such a body must be a scalar one.

// CHECK-LABEL: func.func private @columns
// CHECK-NOT: vector
// CHECK: memref.load
// CHECK-NOT: vector
// CHECK: affine.store
func.func private @columns(%x: memref<16x9xf32>, %o: memref<12xf32>) {
  %two = arith.constant 2 : index
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = -1 : i64, width = 1 : i64}>}
    outs(%o : memref<12xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %v = memref.load %x[%i, %two] : memref<16x9xf32>
    linalg.yield %v : f32
  }
  return
}

// A loop in the body with the same rounds for all lanes sums up vectors; what it reads is as wide.

// CHECK-LABEL: func.func private @rounds
// CHECK: %[[START:.*]] = arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK: scf.for %[[K:.*]] = {{.*}} iter_args(%[[T:.*]] = %[[START]]) -> (vector<4xf32>)
// CHECK: %[[V:.*]] = vector.load %{{.*}}[%[[K]], %{{.*}}] : memref<9x8xf32>, vector<4xf32>
// CHECK: %[[S:.*]] = arith.addf %[[T]], %[[V]] : vector<4xf32>
// CHECK: scf.yield %[[S]] : vector<4xf32>
// CHECK: affine.vector_store
func.func private @rounds(%x: memref<9x8xf32>, %n: memref<5xindex>, %o: memref<5x8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %start = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1>, vector = 1 : i64, width = 4 : i64}>}
    ins(%n : memref<5xindex>) outs(%o : memref<5x8xf32>) {
  ^bb0(%count: index, %out: f32):
    %j = linalg.index 1 : index
    %sum = scf.for %k = %zero to %count step %one iter_args(%total = %start) -> (f32) {
      %v = memref.load %x[%k, %j] : memref<9x8xf32>
      %s = arith.addf %total, %v : f32
      scf.yield %s : f32
    }
    linalg.yield %sum : f32
  }
  return
}
