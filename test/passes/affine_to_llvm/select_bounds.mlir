// RUN: stepwell-opt %s --select-bounds --target x86-64-v3 | FileCheck %s
// RUN: stepwell-opt %s --select-bounds --target aarch64-neon | FileCheck %s --check-prefix=NEON

// NaN and what is not above the bound stay as they are: that is maxps with the bound first, in one instruction.
// CHECK-LABEL: func.func @clamp
// CHECK-DAG: %[[SIX:.*]] = arith.constant dense<6.000000e+00> : vector<8xf32>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<8xf32>
// CHECK: %[[LOW:.*]] = arith.cmpf ogt, %[[ZERO]], %arg0 : vector<8xf32>
// CHECK: %[[X:.*]] = arith.select %[[LOW]], %[[ZERO]], %arg0
// CHECK: %[[HIGH:.*]] = arith.cmpf olt, %[[SIX]], %[[X]] : vector<8xf32>
// CHECK: arith.select %[[HIGH]], %[[SIX]], %[[X]]
// NEON: arith.maximumf
// NEON: arith.minimumf
// NEON-NOT: select
func.func @clamp(%x: vector<8xf32>) -> vector<8xf32> {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %six = arith.constant dense<6.0> : vector<8xf32>
  %0 = arith.maximumf %x, %zero : vector<8xf32>
  %1 = arith.minimumf %0, %six : vector<8xf32>
  return %1 : vector<8xf32>
}

// Neither of two unknown values may be taken for a number, and a bound that is NaN makes all NaN. What was found so far goes second: then only
// the new element is asked whether it is NaN.
// CHECK-LABEL: func.func @unknown
// CHECK: arith.maximumf %arg1, %arg0 fastmath<nsz>
// CHECK: arith.minimumf %arg0, %{{.*}} fastmath<nsz>
// CHECK-NOT: select
// NEON-LABEL: func.func @unknown
// NEON: arith.maximumf %arg0, %arg1 : f32
func.func @unknown(%found: f32, %element: f32) -> (f32, f32) {
  %nan = arith.constant 0x7FC00000 : f32
  %0 = arith.maximumf %found, %element : f32
  %1 = arith.minimumf %found, %nan : f32
  return %0, %1 : f32, f32
}

// The greatest number found so far is one: it begins as one, and what is no number never takes its place, however the loops lie.
// CHECK-LABEL: func.func @greatest_numbers
// CHECK: affine.for {{.*}} iter_args(%[[OUTER:.*]] = %
// CHECK: affine.for {{.*}} iter_args(%[[SO_FAR:.*]] = %[[OUTER]])
// CHECK: %[[X:.*]] = affine.vector_load
// CHECK: %[[ABOVE:.*]] = arith.cmpf ogt, %[[X]], %[[SO_FAR]] : vector<8xf32>
// CHECK: %[[M:.*]] = arith.select %[[ABOVE]], %[[X]], %[[SO_FAR]]
// CHECK: %[[AGAIN:.*]] = arith.cmpf ogt, %{{.*}}, %[[M]] : vector<8xf32>
// CHECK: affine.yield
// NEON-LABEL: func.func @greatest_numbers
// NEON: arith.maxnumf
// NEON-NOT: select
func.func @greatest_numbers(%x: memref<4x64xf32>) -> vector<8xf32> {
  %low = arith.constant dense<0xFF800000> : vector<8xf32>
  %0 = affine.for %i = 0 to 4 iter_args(%row = %low) -> (vector<8xf32>) {
    %1 = affine.for %j = 0 to 64 step 16 iter_args(%m = %row) -> (vector<8xf32>) {
      %a = affine.vector_load %x[%i, %j] : memref<4x64xf32>, vector<8xf32>
      %b = affine.vector_load %x[%i, %j + 8] : memref<4x64xf32>, vector<8xf32>
      %2 = arith.maxnumf %m, %a : vector<8xf32>
      %3 = arith.maxnumf %2, %b : vector<8xf32>
      affine.yield %3 : vector<8xf32>
    }
    affine.yield %1 : vector<8xf32>
  }
  return %0 : vector<8xf32>
}

// A constant that is NaN is no number to begin with: the greatest number is then the first that comes.
// CHECK-LABEL: func.func @no_number_yet
// CHECK-NOT: arith.select
// CHECK: arith.maxnumf %{{.*}}, %{{.*}} fastmath<nsz>
// CHECK-NOT: arith.select
// CHECK: return
func.func @no_number_yet(%v: memref<64xf32>) -> f32 {
  %nan = arith.constant 0x7FC00000 : f32
  %0 = affine.for %i = 0 to 64 iter_args(%m = %nan) -> (f32) {
    %a = affine.load %v[%i] : memref<64xf32>
    %1 = arith.maxnumf %m, %a : f32
    affine.yield %1 : f32
  }
  return %0 : f32
}

// What comes from elsewhere may be NaN: as an operand, as what a loop begins with, and as what a loop carries on.
// CHECK-LABEL: func.func @perhaps_none
// CHECK-NOT: arith.select
// CHECK: arith.maxnumf %arg1, %arg0 fastmath<nsz>
// CHECK-NOT: arith.select
// CHECK: return
func.func @perhaps_none(%x: f32, %y: f32, %v: memref<64xf32>) -> (f32, f32, f32) {
  %low = arith.constant 0xFF800000 : f32
  %0 = arith.maxnumf %x, %y : f32
  %1 = affine.for %i = 0 to 64 iter_args(%m = %x) -> (f32) {
    %a = affine.load %v[%i] : memref<64xf32>
    %2 = arith.maxnumf %m, %a : f32
    affine.yield %2 : f32
  }
  %3 = affine.for %i = 0 to 64 iter_args(%m = %low) -> (f32) {
    %a = affine.load %v[%i] : memref<64xf32>
    %4 = arith.maxnumf %m, %a : f32
    %5 = arith.addf %4, %a : f32
    affine.yield %5 : f32
  }
  return %0, %1, %3 : f32, f32, f32
}
