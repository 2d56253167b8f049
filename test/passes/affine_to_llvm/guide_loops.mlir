// RUN: stepwell-opt %s --lower-affine --convert-scf-to-openmp --guide-loops=work=1000 --canonicalize | FileCheck %s
// RUN: stepwell-opt %s --lower-affine --convert-scf-to-openmp --guide-loops=work=1000 --canonicalize --convert-scf-to-cf --finalize-memref-to-llvm --convert-vector-to-llvm --convert-arith-to-llvm --convert-func-to-llvm=use-bare-ptr-memref-call-conv=true --convert-openmp-to-llvm --convert-cf-to-llvm --reconcile-unrealized-casts | FileCheck %s --check-prefix=LLVM
// RUN: stepwell-opt %s --lower-affine --convert-scf-to-openmp --guide-loops --canonicalize | FileCheck %s --check-prefix=SMALL

// What is below half a million operations has equal shares.
// SMALL-NOT: guided

// 640 iterations of two operations: 64 chunks at most, but for the first.
// CHECK-LABEL: func.func @large(
// CHECK: %[[CHUNK:.*]] = arith.constant 10 : i64
// CHECK: omp.wsloop schedule(guided = %[[CHUNK]] : i64) {
// CHECK-NEXT: omp.loop_nest
// LLVM-LABEL: llvm.func @large(
// LLVM: %[[CHUNK:.*]] = llvm.mlir.constant(10 : i64) : i64
// LLVM: omp.wsloop schedule(guided = %[[CHUNK]] : i64) {
func.func @large(%x: memref<640x8xf32>) {
  affine.parallel (%i) = (0) to (640) {
    %v = affine.vector_load %x[%i, 0] : memref<640x8xf32>, vector<8xf32>
    affine.vector_store %v, %x[%i, 0] : memref<640x8xf32>, vector<8xf32>
  }
  return
}

// CHECK-LABEL: func.func @small(
// CHECK: omp.wsloop {
func.func @small(%x: memref<400x8xf32>) {
  affine.parallel (%i) = (0) to (400) {
    %v = affine.vector_load %x[%i, 0] : memref<400x8xf32>, vector<8xf32>
    affine.vector_store %v, %x[%i, 0] : memref<400x8xf32>, vector<8xf32>
  }
  return
}

// A value of 256 bytes is eight registers; loops inside count, and both dimensions: 5 * 7 * (3 * (8 + 8)).
// CHECK-LABEL: func.func @wide(
// CHECK: %[[CHUNK:.*]] = arith.constant 1 : i64
// CHECK: omp.wsloop schedule(guided = %[[CHUNK]] : i64) {
// CHECK-NEXT: omp.loop_nest (%{{.*}}, %{{.*}}) : index
func.func @wide(%x: memref<5x7x3x64xf32>) {
  affine.parallel (%i, %j) = (0, 0) to (5, 7) {
    affine.for %k = 0 to 3 {
      %v = affine.vector_load %x[%i, %j, %k, 0] : memref<5x7x3x64xf32>, vector<64xf32>
      affine.vector_store %v, %x[%i, %j, %k, 0] : memref<5x7x3x64xf32>, vector<64xf32>
    }
  }
  return
}

// Three iterations, each of them large: one for each thread, which has its own part of the workspace.
// CHECK-LABEL: func.func @few(
// CHECK: omp.wsloop {
func.func @few(%x: memref<3x999xf32>) {
  affine.parallel (%i) = (0) to (3) {
    affine.for %k = 0 to 999 {
      %v = affine.load %x[%i, %k] : memref<3x999xf32>
      affine.store %v, %x[%i, %k] : memref<3x999xf32>
    }
  }
  return
}

// A size that only a run knows counts as one: the rest decides, and the chunk is computed.
// CHECK-LABEL: func.func @unknown(
// CHECK: omp.parallel
// CHECK: %[[PIECES:.*]] = arith.divsi %{{.*}}, %c64
// CHECK: %[[CHUNK:.*]] = arith.maxsi %[[PIECES]], %c1
// CHECK: %[[NUMBER:.*]] = arith.index_cast %[[CHUNK]] : index to i64
// CHECK: omp.wsloop schedule(guided = %[[NUMBER]] : i64) {
// CHECK: omp.parallel
// CHECK-NEXT: omp.wsloop {
func.func @unknown(%n: index, %x: memref<?x999xf32>, %y: memref<?xf32>) {
  affine.parallel (%i) = (0) to (symbol(%n)) {
    affine.for %k = 0 to 999 {
      %v = affine.load %x[%i, %k] : memref<?x999xf32>
      affine.store %v, %x[%i, %k] : memref<?x999xf32>
    }
  }
  affine.parallel (%i) = (0) to (symbol(%n)) {
    %v = affine.load %y[%i] : memref<?xf32>
    affine.store %v, %y[%i] : memref<?xf32>
  }
  return
}

// The order of a sum is not left to chance.
// CHECK-LABEL: func.func @sum(
// CHECK: omp.wsloop reduction(
// CHECK-NOT: guided
func.func @sum(%x: memref<4000xf32>, %y: memref<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 4000 : index
  %zero = arith.constant 0.0 : f32
  %s = scf.parallel (%i) = (%c0) to (%n) step (%c1) init (%zero) -> f32 {
    %v = memref.load %x[%i] : memref<4000xf32>
    scf.reduce(%v : f32) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      scf.reduce.return %r : f32
    }
  }
  memref.store %s, %y[] : memref<f32>
  return
}
