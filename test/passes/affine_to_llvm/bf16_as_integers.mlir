// RUN: stepwell-opt %s --bf16-as-integers | FileCheck %s

// CHECK-LABEL: func.func @copied
// CHECK: %[[FROM:.*]] = builtin.unrealized_conversion_cast %arg0 : memref<4x32xbf16> to memref<4x32xi16>
// CHECK: %[[ROW:.*]] = vector.load %[[FROM]][%arg2, %arg3] : memref<4x32xi16>, vector<16xi16>
// CHECK: %[[X:.*]] = arith.bitcast %[[ROW]] : vector<16xi16> to vector<16xbf16>
// CHECK: %[[TO:.*]] = builtin.unrealized_conversion_cast %arg1 : memref<4x32xbf16> to memref<4x32xi16>
// CHECK: %[[BITS:.*]] = arith.bitcast %[[X]] : vector<16xbf16> to vector<16xi16>
// CHECK: vector.store %[[BITS]], %[[TO]][%arg2, %arg3] : memref<4x32xi16>, vector<16xi16>
// CHECK: %[[ONE:.*]] = memref.load %{{.*}}[%arg3, %arg2] : memref<4x32xi16>
// CHECK: %[[Y:.*]] = arith.bitcast %[[ONE]] : i16 to bf16
// CHECK: %[[BIT:.*]] = arith.bitcast %[[Y]] : bf16 to i16
// CHECK: memref.store %[[BIT]], %{{.*}}[%arg3, %arg2] : memref<4x32xi16>
func.func @copied(%x: memref<4x32xbf16>, %y: memref<4x32xbf16>, %i: index, %j: index) {
  %0 = vector.load %x[%i, %j] : memref<4x32xbf16>, vector<16xbf16>
  vector.store %0, %y[%i, %j] : memref<4x32xbf16>, vector<16xbf16>
  %1 = memref.load %x[%j, %i] : memref<4x32xbf16>
  memref.store %1, %y[%j, %i] : memref<4x32xbf16>
  return
}

// CHECK-LABEL: func.func @others
// CHECK-NOT: unrealized
// CHECK: return
func.func @others(%x: memref<32xf16>, %y: memref<32xi16>, %i: index) {
  %0 = vector.load %x[%i] : memref<32xf16>, vector<16xf16>
  vector.store %0, %x[%i] : memref<32xf16>, vector<16xf16>
  %1 = memref.load %y[%i] : memref<32xi16>
  memref.store %1, %y[%i] : memref<32xi16>
  return
}
