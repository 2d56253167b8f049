// RUN: stepwell-opt %s --lower-affine --convert-scf-to-openmp --choose-threads --canonicalize | FileCheck %s
// RUN: stepwell-opt %s --lower-affine --choose-threads | FileCheck %s --check-prefix=ALONE
// RUN: stepwell-opt %s --split-input-file | stepwell-opt --split-input-file | FileCheck %s --check-prefix=PARSED

// Every region on threads inside has the condition; what is beside them stays beside them, and loops outside are as they were.
// CHECK-LABEL: func.func @some(
// CHECK-NOT: sched.threaded
// CHECK: omp.parallel if(%arg0) {
// CHECK: omp.wsloop
// CHECK: memref.store %{{.*}}, %arg1
// CHECK: scf.for
// CHECK: omp.parallel if(%arg0) {
// CHECK: memref.store %{{.*}}, %arg2
// CHECK: omp.parallel {
// CHECK: memref.store %{{.*}}, %arg1
// Without OpenMP nothing but the loops is left.
// ALONE-LABEL: func.func @some(
// ALONE-NOT: sched.threaded
// ALONE: scf.parallel
// ALONE: scf.for
// ALONE: scf.parallel
// ALONE: scf.parallel
// PARSED: "sched.threaded"(%arg0) ({
func.func @some(%enough: i1, %x: memref<9xf32>, %y: memref<?xf32>) {
  %one = arith.constant 1.0 : f32
  "sched.threaded"(%enough) ({
    affine.parallel (%i) = (0) to (9) {
      affine.store %one, %x[%i] : memref<9xf32>
    }
    affine.for %i = 0 to 7 {
      affine.store %one, %y[%i] : memref<?xf32>
    }
    affine.parallel (%i) = (0) to (5) {
      affine.store %one, %y[%i] : memref<?xf32>
    }
  }) : (i1) -> ()
  affine.parallel (%i) = (0) to (9) {
    affine.store %one, %x[%i] : memref<9xf32>
  }
  return
}
