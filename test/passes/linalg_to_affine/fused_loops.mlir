// RUN: stepwell-opt %s --pass-pipeline='func.func(assign-schedules,lower-to-affine)' --target x86-64-v3 --split-input-file | FileCheck %s

// Two chunks of four rounds each. The buffer between the ops is a slice of two rows, of which each chunk has its own, 262144 bytes apart;
// the ops themselves are on one thread.
// CHECK-DAG: #[[CHUNK:.*]] = affine_map<(d0) -> (d0 * 262144)>
// CHECK-DAG: #[[FIRST:.*]] = affine_map<(d0) -> (d0 * 4)>
// CHECK-DAG: #[[LAST:.*]] = affine_map<(d0) -> (d0 * 4 + 4, 7)>
// CHECK-LABEL: func.func @kernel
// CHECK: affine.parallel (%[[S:.*]]) = (0) to (2)
// CHECK: %[[BYTES:.*]] = affine.apply #[[CHUNK]](%[[S]])
// CHECK: %[[SHIFT:.*]] = arith.addi %c256, %[[BYTES]]
// CHECK: %[[SLICE:.*]] = memref.view %arg2[%[[SHIFT]]][] : memref<524544xi8> to memref<2x32768xf32>
// CHECK: affine.for %[[ROUND:.*]] = #[[FIRST]](%[[S]]) to min #[[LAST]](%[[S]])
// CHECK-NOT: affine.parallel
// CHECK: %[[X:.*]] = affine.vector_load %arg0[%[[ROUND]] * 2 + %[[I:.*]], %{{.*}}]
// CHECK: affine.vector_store %{{.*}}, %[[SLICE]][%[[I]], %{{.*}}] : memref<2x32768xf32>, vector<16xf32>
// CHECK: affine.vector_load %[[SLICE]][%[[J:.*]], %{{.*}}] : memref<2x32768xf32>, vector<16xf32>
// CHECK: affine.vector_store %{{.*}}, %arg1[%[[ROUND]] * 2 + %[[J]], %{{.*}}]
#id = affine_map<(i, j) -> (i, j)>
#rows = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 2 : i64, chunks = 2 : i64}]>
func.func @kernel(%x: memref<14x32768xf32>, %y: memref<14x32768xf32>, %scratch: memref<524544xi8>) {
  %c256 = arith.constant 256 : index
  %t = memref.view %scratch[%c256][] {stepwell.slice = {loops = 1 : i64, run = 1 : i64, chunks = 2 : i64, bytes = 262144 : i64}} : memref<524544xi8> to memref<14x32768xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"], sched.fused = #rows} ins(%x : memref<14x32768xf32>) outs(%t : memref<14x32768xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.absf %a : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"], sched.fused = #rows} ins(%t : memref<14x32768xf32>) outs(%y : memref<14x32768xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// One op goes over two rows of eight in a round, the other over sixteen positions: that is the same slice.
// CHECK-LABEL: func.func @rows_and_positions
// CHECK: %[[ROWS:.*]] = memref.view %arg2[%{{.*}}][] : memref<64xi8> to memref<2x8xf32>
// CHECK: %[[POSITIONS:.*]] = memref.view %arg2[%{{.*}}][] : memref<64xi8> to memref<16xf32>
// CHECK: affine.for %[[ROUND:.*]] = 0 to 7
// CHECK: affine.vector_load %arg0[%[[ROUND]] * 2 + %[[I:.*]], 0]
// CHECK: affine.vector_store %{{.*}}, %[[ROWS]][%[[I]], 0] : memref<2x8xf32>, vector<8xf32>
// CHECK: affine.vector_load %[[POSITIONS]][0] : memref<16xf32>, vector<16xf32>
// CHECK: affine.vector_store %{{.*}}, %arg1[%[[ROUND]] * 16]
#id = affine_map<(i, j) -> (i, j)>
#id1 = affine_map<(i) -> (i)>
func.func @rows_and_positions(%x: memref<14x8xf32>, %y: memref<112xf32>, %scratch: memref<64xi8>) {
  %c0 = arith.constant 0 : index
  %t = memref.view %scratch[%c0][] {stepwell.slice = {loops = 1 : i64, run = 1 : i64, chunks = 1 : i64, bytes = 64 : i64}} : memref<64xi8> to memref<14x8xf32>
  %p = memref.collapse_shape %t [[0, 1]] : memref<14x8xf32> into memref<112xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"],
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 2 : i64, chunks = 1 : i64}]>} ins(%x : memref<14x8xf32>) outs(%t : memref<14x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.absf %a : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"],
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 16 : i64, chunks = 1 : i64}]>} ins(%p : memref<112xf32>) outs(%y : memref<112xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Of rows that only a run counts, whole rounds of four come first, on two threads; what is left over, of row 4*(n // 4) on, one by one behind them.
// CHECK-LABEL: func.func @some_rows
// CHECK-SAME: (%[[X:.*]]: memref<?x8xf32>, %[[Y:.*]]: memref<?x8xf32>, %[[SCRATCH:.*]]: memref<256xi8>)
// CHECK: %[[ROUNDS:.*]] = arith.floordivsi %{{.*}}, %c4{{.*}} : index
// CHECK: %[[WHOLE:.*]] = arith.muli %c4{{.*}}, %[[ROUNDS]] : index
// CHECK: affine.parallel
// CHECK: affine.for %[[ROUND:.*]] = #{{.*}} to min
// CHECK: affine.vector_load %[[X]][%[[ROUND]] * 4 + %{{.*}}, 0]
// CHECK: %[[ROW:.*]] = memref.view %[[SCRATCH]]{{.*}} to memref<1x8xf32>
// CHECK: affine.for %[[LEFT:.*]] = %[[WHOLE]] to %dim
// CHECK-NEXT: %[[READ:.*]] = affine.vector_load %[[X]][%[[LEFT]], 0]
// CHECK-NEXT: %[[MADE:.*]] = math.absf %[[READ]]
// CHECK-NEXT: affine.vector_store %[[MADE]], %[[ROW]][0, 0]
// CHECK-NEXT: %[[AGAIN:.*]] = affine.vector_load %[[ROW]][0, 0]
// CHECK-NEXT: %[[NEGATED:.*]] = arith.negf %[[AGAIN]]
// CHECK-NEXT: affine.vector_store %[[NEGATED]], %[[Y]][%[[LEFT]], 0]
#id = affine_map<(i, j) -> (i, j)>
#rows = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 4 : i64, chunks = 2 : i64, rest = 1 : i64}]>
func.func @some_rows(%x: memref<?x8xf32>, %y: memref<?x8xf32>, %scratch: memref<256xi8>) attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?x8xf32>
  %t = memref.view %scratch[%c0][%n] {stepwell.slice = {loops = 1 : i64, run = 1 : i64, chunks = 2 : i64, bytes = 128 : i64}} : memref<256xi8> to memref<?x8xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"], sched.fused = #rows} ins(%x : memref<?x8xf32>) outs(%t : memref<?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.absf %a : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"], sched.fused = #rows} ins(%t : memref<?x8xf32>) outs(%y : memref<?x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  }
  return
}
