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
