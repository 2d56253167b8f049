// RUN: stepwell-opt %s --merge-versions --canonicalize --cse --split-input-file | FileCheck %s

// One function is left, which runs either; places and sizes of both are computed at the top.
// CHECK-LABEL: func.func private @double(
// CHECK-DAG: %[[N:.*]] = memref.dim %arg0, %c0
// CHECK-DAG: %[[TWICE:.*]] = arith.muli %[[N]], %c2
// CHECK-DAG: %[[FEW:.*]] = arith.cmpi sle, %[[N]], %c2
// CHECK: scf.if %[[FEW]] {
// CHECK: affine.for %{{.*}} = 0 to %[[N]] {
// CHECK: arith.mulf
// CHECK: } else {
// CHECK: affine.for %{{.*}} = 0 to %[[TWICE]] step 2 {
// CHECK: arith.addf
// CHECK: return
// CHECK-NOT: @double.few
func.func private @double(%x: memref<?xf32>, %out: memref<?xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %twice = arith.muli %n, %c2 : index
  affine.for %i = 0 to %twice step 2 {
    %v = affine.load %x[%i floordiv 2] : memref<?xf32>
    %r = arith.addf %v, %v : f32
    affine.store %r, %out[%i floordiv 2] : memref<?xf32>
  }
  return
}

func.func private @double.few(%x: memref<?xf32>, %out: memref<?xf32>)
    attributes {stepwell.kernel, stepwell.sizes = ["n", "n"], stepwell.version = {of = "double", size = "n", most = 2}, stepwell.kernel_hints = {n = 1 : i64}} {
  %c0 = arith.constant 0 : index
  %two = arith.constant 2.0 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf32>
    %r = arith.mulf %v, %two : f32
    affine.store %r, %out[%i] : memref<?xf32>
  }
  return
}
