// RUN: stepwell-opt %s --expand-math --target x86-64-v3 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --expand-math=libm=true --target x86-64-v3 --split-input-file | FileCheck %s --check-prefix=LIBM
// RUN: stepwell-opt %s --expand-math --target x86-64-v4 --split-input-file | FileCheck %s --check-prefix=SCALE

// The argument is clamped, k is taken from the low bits of a float that has been rounded to an integer, and products are fused.
// CHECK-LABEL: func.func @exponential
// CHECK-DAG: %[[LOG2E:.*]] = arith.constant dense<1.44269502> : vector<8xf32>
// CHECK-DAG: %[[ROUNDER:.*]] = arith.constant dense<0x4B400000> : vector<8xf32>
// CHECK-NOT: math.exp
// CHECK: %[[K:.*]] = math.fma %{{.*}}, %[[LOG2E]], %[[ROUNDER]] : vector<8xf32>
// CHECK: arith.bitcast %[[K]] : vector<8xf32> to vector<8xi32>
// CHECK-NOT: fastmath
// CHECK-NOT: math.exp
// CHECK: return
// LIBM-LABEL: func.func @exponential
// LIBM: math.exp %{{.*}} : vector<8xf32>
func.func @exponential(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.exp %x : vector<8xf32>
  return %0 : vector<8xf32>
}

// -----

// A scalar is computed by the same operations as a lane.
// CHECK-LABEL: func.func @scalar
// CHECK: math.fma %{{.*}} : f32
// CHECK: arith.bitcast %{{.*}} : f32 to i32
// CHECK-NOT: math.exp
// CHECK: return
func.func @scalar(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  return %0 : f32
}

// -----

// Narrow floats are widened, once for each operand, and rounded once; double precision is libm's.
// CHECK-LABEL: func.func @precisions
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : vector<4xbf16> to vector<4xf32>
// CHECK-NOT: math.log %{{.*}}f32
// CHECK: arith.truncf %{{.*}} : vector<4xf32> to vector<4xbf16>
// CHECK: math.log %{{.*}} : vector<4xf64>
// CHECK: return
// LIBM-LABEL: func.func @precisions
// LIBM: %[[X:.*]] = arith.extf %{{.*}} : vector<4xbf16> to vector<4xf32>
// LIBM: %[[Y:.*]] = math.log %[[X]] : vector<4xf32>
// LIBM: arith.truncf %[[Y]] : vector<4xf32> to vector<4xbf16>
func.func @precisions(%x: vector<4xbf16>, %y: vector<4xf64>) -> (vector<4xbf16>, vector<4xf64>) {
  %0 = math.log %x : vector<4xbf16>
  %1 = math.log %y : vector<4xf64>
  return %0, %1 : vector<4xbf16>, vector<4xf64>
}

// -----

// What a large argument needs is done in a branch that is taken if any lane has one.
// CHECK-LABEL: func.func @sine
// CHECK: %[[FAR:.*]] = arith.cmpf oge, %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %[[FAR]] : vector<8xi1> into i1
// CHECK: scf.if %[[ANY]] -> (vector<8xi32>, vector<8xi32>, vector<8xi32>)
// CHECK: arith.extf %{{.*}} : vector<8xf32> to vector<8xf64>
// CHECK: arith.select %[[FAR]]
// CHECK: } else {
// CHECK-NEXT: scf.yield
// CHECK-NOT: math.sin
// CHECK: return
func.func @sine(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.sin %x : vector<8xf32>
  return %0 : vector<8xf32>
}

// -----

// A scalar's own comparison is the condition; a vector of more dimensions is flattened for it.
// CHECK-LABEL: func.func @conditions
// CHECK: %[[FAR:.*]] = arith.cmpf oge, %{{.*}}, %{{.*}} : f32
// CHECK: scf.if %[[FAR]]
// CHECK: vector.shape_cast %{{.*}} : vector<2x4xi1> to vector<8xi1>
// CHECK: vector.reduction <or>
// CHECK: return
func.func @conditions(%x: f32, %y: vector<2x4xf32>) -> (f32, vector<2x4xf32>) {
  %0 = math.cos %x : f32
  %1 = math.cos %y : vector<2x4xf32>
  return %0, %1 : f32, vector<2x4xf32>
}

// -----

// Some powers are products or roots, whether the exponent is a constant vector or a scalar in every lane.
// CHECK-LABEL: func.func @cubes
// CHECK: %[[S:.*]] = arith.mulf %arg0, %arg0 : vector<8xf32>
// CHECK: %[[C:.*]] = arith.mulf %[[S]], %arg0 : vector<8xf32>
// CHECK-NOT: f64
// CHECK: return %[[C]]
// LIBM-LABEL: func.func @cubes
// LIBM: math.powf
func.func @cubes(%x: vector<8xf32>) -> vector<8xf32> {
  %three = arith.constant 3.0 : f32
  %y = vector.broadcast %three : f32 to vector<8xf32>
  %0 = math.powf %x, %y : vector<8xf32>
  return %0 : vector<8xf32>
}

// -----

// Others are taken in double precision.
// CHECK-LABEL: func.func @powers
// CHECK: arith.divf %{{.*}} : vector<8xf64>
// CHECK-NOT: math.powf
// CHECK: return
func.func @powers(%x: vector<8xf32>) -> vector<8xf32> {
  %y = arith.constant dense<2.5> : vector<8xf32>
  %0 = math.powf %x, %y : vector<8xf32>
  return %0 : vector<8xf32>
}

// -----

// Square roots are instructions.
// CHECK-LABEL: func.func @roots
// CHECK: %[[S:.*]] = math.sqrt %arg0 : vector<8xf32>
// CHECK: %[[T:.*]] = math.sqrt %arg0 : vector<8xf32>
// CHECK: %[[R:.*]] = arith.divf %{{.*}}, %[[T]] : vector<8xf32>
// CHECK: return %[[S]], %[[R]]
func.func @roots(%x: vector<8xf32>) -> (vector<8xf32>, vector<8xf32>) {
  %0 = math.sqrt %x : vector<8xf32>
  %1 = math.rsqrt %x : vector<8xf32>
  return %0, %1 : vector<8xf32>, vector<8xf32>
}

// -----

// Where libm has the last word, log1p is corrected: its stock lowering is log(1 + x).
// CHECK-LABEL: func.func @corrected
// CHECK-NOT: math.log1p
// CHECK: return
// LIBM-LABEL: func.func @corrected
// LIBM: %[[U:.*]] = arith.addf %arg0, %{{.*}} : f32
// LIBM: math.log %[[U]] : f32
// LIBM: arith.divf %arg0
// LIBM: %[[V:.*]] = arith.addf %arg1, %{{.*}} : f64
// LIBM: math.log %[[V]] : f64
// LIBM-NOT: math.log1p
// LIBM: return
func.func @corrected(%x: f32, %y: f64) -> (f32, f64) {
  %0 = math.log1p %x : f32
  %1 = math.log1p %y : f64
  return %0, %1 : f32, f64
}

// -----

// Vectors of unknown length, and functions that we have no polynomials for, are left alone.
// CHECK-LABEL: func.func @left
// CHECK: math.exp %{{.*}} : vector<[4]xf32>
// CHECK: math.cbrt
func.func @left(%x: vector<[4]xf32>, %y: f32) -> (vector<[4]xf32>, f32) {
  %0 = math.exp %x : vector<[4]xf32>
  %1 = math.cbrt %y : f32
  return %0, %1 : vector<[4]xf32>, f32
}

// -----

// A result that may overflow or be subnormal is scaled in two steps; by one instruction where the target has it.
// CHECK-LABEL: func.func @scaled
// CHECK: arith.shrsi
// CHECK-NOT: llvm.call_intrinsic
// SCALE-LABEL: func.func @scaled
// SCALE-NOT: arith.cmpf
// SCALE-NOT: arith.shrsi
// SCALE: arith.andi %{{.*}} : vector<8xi32>
// SCALE-NOT: arith.cmpf
// SCALE: llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.256"({{.*}}) : (vector<8xf32>, vector<8xf32>, vector<8xf32>, i8) -> vector<8xf32>
func.func @scaled(%x: vector<8xf32>) -> vector<8xf32> {
  %0 = math.exp %x : vector<8xf32>
  return %0 : vector<8xf32>
}
