// RUN: stepwell-opt %s --boolean-vectors | FileCheck %s

// A boolean is a byte in memory, of which any but 0 is true; a vector of i1 would be bits.
// CHECK-LABEL: func.func @negated
// CHECK-DAG: %[[TRUE:.*]] = arith.constant dense<true> : vector<16xi1>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0> : vector<16xi8>
// CHECK: %[[IN:.*]] = builtin.unrealized_conversion_cast %arg0 : memref<4x32xi1> to memref<4x32xi8>
// CHECK: %[[BYTES:.*]] = vector.load %[[IN]][%arg2, %arg3] : memref<4x32xi8>, vector<16xi8>
// CHECK: %[[X:.*]] = arith.cmpi ne, %[[BYTES]], %[[ZERO]] : vector<16xi8>
// CHECK: %[[NOT:.*]] = arith.xori %[[X]], %[[TRUE]] : vector<16xi1>
// CHECK: %[[WIDE:.*]] = arith.extui %[[NOT]] : vector<16xi1> to vector<16xi8>
// CHECK: %[[OUT:.*]] = builtin.unrealized_conversion_cast %arg1 : memref<4x32xi1> to memref<4x32xi8>
// CHECK: vector.store %[[WIDE]], %[[OUT]][%arg2, %arg3] : memref<4x32xi8>, vector<16xi8>
func.func @negated(%x: memref<4x32xi1>, %y: memref<4x32xi1>, %i: index, %j: index) {
  %true = arith.constant dense<true> : vector<16xi1>
  %0 = vector.load %x[%i, %j] : memref<4x32xi1>, vector<16xi1>
  %1 = arith.xori %0, %true : vector<16xi1>
  vector.store %1, %y[%i, %j] : memref<4x32xi1>, vector<16xi1>
  return
}

// CHECK-LABEL: func.func @others
// CHECK-NOT: unrealized
// CHECK: return
func.func @others(%x: memref<32xi8>, %y: memref<32xi1>, %i: index) {
  %0 = vector.load %x[%i] : memref<32xi8>, vector<16xi8>
  vector.store %0, %x[%i] : memref<32xi8>, vector<16xi8>
  %1 = memref.load %y[%i] : memref<32xi1>
  memref.store %1, %y[%i] : memref<32xi1>
  return
}
