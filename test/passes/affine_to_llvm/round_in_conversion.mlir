// RUN: stepwell-opt %s --round-in-conversion --target x86-64-v3 | FileCheck %s
// RUN: stepwell-opt %s --round-in-conversion --target aarch64-neon | FileCheck %s --check-prefix=NEON

// CHECK-LABEL: func.func @vectors
// CHECK-NEXT: %[[I:.*]] = llvm.call_intrinsic "llvm.lrint"(%arg0) : (vector<16xf32>) -> vector<16xi32>
// CHECK-NEXT: return %[[I]]
// NEON-LABEL: func.func @vectors
// NEON: math.roundeven
// NEON: arith.fptosi
func.func @vectors(%x: vector<16xf32>) -> vector<16xi32> {
  %0 = math.roundeven %x : vector<16xf32>
  %1 = arith.fptosi %0 : vector<16xf32> to vector<16xi32>
  return %1 : vector<16xi32>
}

// CHECK-LABEL: func.func @scalar
// CHECK: llvm.call_intrinsic "llvm.lrint"(%arg0) : (f32) -> i32
func.func @scalar(%x: f32) -> i32 {
  %0 = math.roundeven %x : f32
  %1 = arith.fptosi %0 : f32 to i32
  return %1 : i32
}

// Toward zero, another type, or halves away from zero: no instruction does that.
// CHECK-LABEL: func.func @others
// CHECK-NOT: lrint
func.func @others(%x: f32, %y: f64) -> (i32, i16, i32, i32) {
  %0 = arith.fptosi %x : f32 to i32
  %1 = math.roundeven %x : f32
  %2 = arith.fptosi %1 : f32 to i16
  %3 = math.roundeven %y : f64
  %4 = arith.fptosi %3 : f64 to i32
  %5 = math.round %x : f32
  %6 = arith.fptosi %5 : f32 to i32
  return %0, %2, %4, %6 : i32, i16, i32, i32
}
