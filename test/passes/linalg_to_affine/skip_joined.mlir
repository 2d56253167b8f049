// RUN: stepwell-opt %s --skip-joined --canonicalize --cse | FileCheck %s

// Nothing is copied if there is one of "n", and each operand lies where it is to be: the first one where the result begins, the second one 32 bytes
// behind. What only computes sizes stays at the top, where bounds of affine loops are looked for.
// CHECK-LABEL: func.func private @concat(%arg0: memref<?x8xf32>, %arg1: memref<?x4xf32>, %arg2: memref<?x12xf32>)
// CHECK-NOT: stepwell.concat
// CHECK-DAG: %[[OUT:.*]] = memref.extract_aligned_pointer_as_index %arg2
// CHECK-DAG: %[[X:.*]] = memref.extract_aligned_pointer_as_index %arg0
// CHECK-DAG: %[[Y:.*]] = memref.extract_aligned_pointer_as_index %arg1
// CHECK-DAG: %[[N:.*]] = memref.dim %arg0, %c0
// CHECK-DAG: %[[BYTES:.*]] = arith.muli %[[N]], %c32
// CHECK-DAG: %[[BEHIND:.*]] = arith.addi %[[OUT]], %[[BYTES]]
// CHECK-DAG: %[[MANY:.*]] = arith.cmpi ne, %[[N]], %c1
// CHECK-DAG: %[[FIRST:.*]] = arith.cmpi ne, %[[X]], %[[OUT]]
// CHECK-DAG: %[[SECOND:.*]] = arith.cmpi ne, %[[Y]], %[[BEHIND]]
// CHECK: %[[EITHER:.*]] = arith.ori %[[MANY]], %[[FIRST]]
// CHECK: %[[ANY:.*]] = arith.ori %[[EITHER]], %[[SECOND]]
// CHECK: scf.if %[[ANY]] {
// CHECK: affine.for %{{.*}} = 0 to %[[N]]
// CHECK: affine.store {{.*}} %arg2
// CHECK: affine.for %{{.*}} = 0 to %[[N]]
// CHECK-NOT: memref.dim
// CHECK: return
func.func private @concat(%x: memref<?x8xf32>, %y: memref<?x4xf32>, %out: memref<?x12xf32>)
    attributes {stepwell.kernel, stepwell.sizes = ["n", "n", "n"], stepwell.concat = {one = "n", arguments = array<i64: 0, 1>}} {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?x8xf32>
  affine.for %i = 0 to %n {
    affine.for %j = 0 to 8 {
      %v = affine.load %x[%i, %j] : memref<?x8xf32>
      affine.store %v, %out[%i, %j] : memref<?x12xf32>
    }
  }
  affine.for %i = 0 to %n {
    affine.for %j = 0 to 4 {
      %v = affine.load %y[%i, %j] : memref<?x4xf32>
      affine.store %v, %out[%i, %j + 8] : memref<?x12xf32>
    }
  }
  return
}
