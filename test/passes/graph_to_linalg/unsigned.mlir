// RUN: stepwell-opt %s --convert-graph-to-linalg --split-input-file | FileCheck %s

// Below the graph dialect types are signless: the signature and every value are, and the arithmetic knows.
// CHECK-LABEL: func.func private @divide
// CHECK-SAME: (%{{.*}}: tensor<4xi8>, %{{.*}}: tensor<4xi8>, %{{.*}}: tensor<4xi8>) -> tensor<4xi8>
// CHECK: arith.uitofp %{{.*}} : i8 to f32
// CHECK: arith.divf
// CHECK: arith.fptoui %{{.*}} : f32 to i8
// CHECK-NOT: ui8
// CHECK-NOT: unrealized_conversion_cast
// CHECK: return %{{.*}} : tensor<4xi8>
func.func private @divide(%x: tensor<4xui8>, %y: tensor<4xui8>, %o: tensor<4xui8>) -> tensor<4xui8> attributes {stepwell.kernel} {
  %r = "graph.div"(%x, %y) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %r : tensor<4xui8>
}

// -----

// CHECK-LABEL: func.func private @chain
// CHECK: arith.maxui
// CHECK: arith.cmpi ult
// CHECK: arith.uitofp %{{.*}} : i16 to f32
// CHECK-NOT: unrealized_conversion_cast
func.func private @chain(%x: tensor<4xui16>, %y: tensor<4xui16>, %o: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel} {
  %m = "graph.maximum"(%x, %y) : (tensor<4xui16>, tensor<4xui16>) -> tensor<4xui16>
  %c = "graph.less"(%m, %y) : (tensor<4xui16>, tensor<4xui16>) -> tensor<4xi1>
  %s = "graph.select"(%c, %m, %x) : (tensor<4xi1>, tensor<4xui16>, tensor<4xui16>) -> tensor<4xui16>
  %r = "graph.cast"(%s) {to = f32, saturate = false} : (tensor<4xui16>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Signed arithmetic guards what would trap, division by zero, and what would overflow, by -1. A quotient is exact as a float is truncated.
// CHECK-LABEL: func.func private @signed
// CHECK-DAG: %[[ZERO:[a-z_0-9]+]] = arith.constant 0 : i32
// CHECK-DAG: %[[MINUS:[a-z_0-9-]+]] = arith.constant -1 : i32
// CHECK-DAG: arith.cmpi eq, %{{.*}}, %[[ZERO]] : i32
// CHECK-DAG: arith.cmpi eq, %{{.*}}, %[[MINUS]] : i32
// CHECK: %[[SAFE:[0-9]+]] = arith.select
// CHECK-DAG: %[[X:[a-z_0-9]+]] = arith.sitofp %{{.*}} : i32 to f64
// CHECK-DAG: %[[Y:[a-z_0-9]+]] = arith.sitofp %[[SAFE]] : i32 to f64
// CHECK: %[[Q:[a-z_0-9]+]] = arith.divf %[[X]], %[[Y]] : f64
// CHECK: arith.fptosi %[[Q]] : f64 to i32
func.func private @signed(%x: tensor<4xi32>, %y: tensor<4xi32>, %o: tensor<4xi32>) -> tensor<4xi32> attributes {stepwell.kernel} {
  %r = "graph.div"(%x, %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

// A known divisor, and 64 bits, which no float has, are left to LLVM.
// CHECK-LABEL: func.func private @by_seven
// CHECK: arith.divsi
// CHECK-LABEL: func.func private @long
// CHECK: arith.divsi
func.func private @by_seven(%x: tensor<4xi32>, %o: tensor<4xi32>) -> tensor<4xi32> attributes {stepwell.kernel} {
  %c = "graph.constant"() {value = dense<7> : tensor<i32>} : () -> tensor<i32>
  %r = "graph.div"(%x, %c) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}
func.func private @long(%x: tensor<4xi64>, %y: tensor<4xi64>, %o: tensor<4xi64>) -> tensor<4xi64> attributes {stepwell.kernel} {
  %r = "graph.div"(%x, %y) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return %r : tensor<4xi64>
}

// -----

// An unsigned constant above the signed range keeps its bits.
// CHECK-LABEL: func.func private @bits
// CHECK: arith.constant -56 : i8
// CHECK: arith.minui
func.func private @bits(%x: tensor<4xui8>, %o: tensor<4xui8>) -> tensor<4xui8> attributes {stepwell.kernel} {
  %c = "graph.constant"() {value = dense<200> : tensor<ui8>} : () -> tensor<ui8>
  %r = "graph.minimum"(%x, %c) : (tensor<4xui8>, tensor<ui8>) -> tensor<4xui8>
  return %r : tensor<4xui8>
}

// -----

// Calls in @main change with the kernels they call.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%{{.*}}: tensor<2x2xi8>) -> tensor<4xi8>
// CHECK: tensor.collapse_shape %{{.*}} : tensor<2x2xi8> into tensor<4xi8>
// CHECK: %[[E:[0-9]+]] = tensor.empty() : tensor<4xi8>
// CHECK: call @k(%{{.*}}, %[[E]]) : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
// CHECK-NOT: ui8
func.func @main(%x: tensor<2x2xui8>) -> tensor<4xui8> {
  %f = "graph.reshape"(%x) {shape = array<i64: 4>} : (tensor<2x2xui8>) -> tensor<4xui8>
  %e = tensor.empty() : tensor<4xui8>
  %r = func.call @k(%f, %e) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %r : tensor<4xui8>
}
func.func private @k(%x: tensor<4xui8>, %o: tensor<4xui8>) -> tensor<4xui8> attributes {stepwell.kernel} {
  %r = "graph.add"(%x, %x) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %r : tensor<4xui8>
}
