// RUN: stepwell-opt %s --simplify-algebra --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @neutral
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2x3xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @neutral(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %zero = "graph.constant"() {value = dense<0.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %one = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.add"(%x, %zero) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "graph.add"(%zero, %x) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "graph.sub"(%x, %zero) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = "graph.mul"(%one, %x) : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "graph.div"(%x, %one) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %5 = "graph.pow"(%x, %one) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// Neutral, but the other operand gives the result its shape; or neutral on the wrong side; or not everywhere; or NaN is possible.
// CHECK-LABEL: func.func @not_neutral
// CHECK-DAG: "graph.add"(%arg0, %{{.*}}) : (tensor<3xf32>, tensor<2x3xf32>)
// CHECK-DAG: "graph.pow"
// CHECK-DAG: "graph.add"(%arg0, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>)
// CHECK-DAG: "graph.mul"
func.func @not_neutral(%x: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %zeros = "graph.constant"() {value = dense<0.0> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %one = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %mixed = "graph.constant"() {value = dense<[0.0, 0.0, 1.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %zero = "graph.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.add"(%x, %zeros) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "graph.pow"(%one, %x) : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.add"(%x, %mixed) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "graph.mul"(%x, %zero) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0, %1, %2, %3 : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// With an unknown size, a scalar is neutral and a tensor of unknown size may not be.
// CHECK-LABEL: func.func @dynamic
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<?xf32>
// CHECK-NEXT: return %[[X]]
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  %zero = "graph.constant"() {value = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = "graph.add"(%x, %zero) : (tensor<?xf32>, tensor<1xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// CHECK-LABEL: func.func @integers
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2xi32>, %[[U:arg[0-9]+]]: tensor<2xui8>
// CHECK-DAG: %[[Z:.*]] = "graph.expand"
// CHECK-DAG: %[[A:.*]] = "graph.add"(%[[X]], %{{.*}})
// CHECK-DAG: %[[S:.*]] = "graph.sub"(%[[U]], %{{.*}})
// CHECK-DAG: %[[D:.*]] = "graph.div"(%[[X]], %{{.*}})
// CHECK: return %[[Z]], %[[A]], %[[S]], %[[D]]
func.func @integers(%x: tensor<2xi32>, %u: tensor<2xui8>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xui8>, tensor<2xi32>) {
  %zero = "graph.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %four = "graph.constant"() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  %c = "graph.constant"() {value = dense<3> : tensor<ui8>} : () -> tensor<ui8>
  %0 = "graph.mul"(%x, %zero) : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  %1 = "graph.sub"(%x, %four) : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  %2 = "graph.sub"(%u, %c) : (tensor<2xui8>, tensor<ui8>) -> tensor<2xui8>
  %3 = "graph.div"(%x, %four) : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return %0, %1, %2, %3 : tensor<2xi32>, tensor<2xi32>, tensor<2xui8>, tensor<2xi32>
}

// -----

// A division is a multiplication only where that rounds the same.
// CHECK-LABEL: func.func @division
// CHECK-DAG: %[[C:.*]] = "graph.constant"() {value = dense<[5.000000e-01, -4.000000e+00]>
// CHECK-DAG: %[[M:.*]] = "graph.mul"(%arg0, %[[C]])
// CHECK-DAG: %[[D:.*]] = "graph.div"(%arg0, %{{.*}}) : (tensor<2xf32>, tensor<f32>)
// CHECK-DAG: %[[S:.*]] = "graph.div"(%arg0, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>)
// CHECK-DAG: %[[R:.*]] = "graph.reciprocal"(%arg0)
// CHECK: return %[[M]], %[[D]], %[[S]], %[[R]]
func.func @division(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %powers = "graph.constant"() {value = dense<[2.0, -0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %three = "graph.constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %extreme = "graph.constant"() {value = dense<[1.7014118346046923e38, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %one = "graph.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.div"(%x, %powers) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "graph.div"(%x, %three) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = "graph.div"(%x, %extreme) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "graph.div"(%one, %x) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @powers
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2xf32>
// CHECK-DAG: %[[S:.*]] = "graph.mul"(%[[X]], %[[X]])
// CHECK-DAG: %[[Q:.*]] = "graph.sqrt"(%[[X]])
// CHECK-DAG: %[[R:.*]] = "graph.reciprocal"(%[[X]])
// CHECK-DAG: %[[P:.*]] = "graph.pow"(%[[X]]
// CHECK: return %[[S]], %[[Q]], %[[R]], %[[P]]
func.func @powers(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %two = "graph.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %half = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %minus = "graph.constant"() {value = dense<-1.0> : tensor<f32>} : () -> tensor<f32>
  %other = "graph.constant"() {value = dense<1.7> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.pow"(%x, %two) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = "graph.pow"(%x, %half) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = "graph.pow"(%x, %minus) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = "graph.pow"(%x, %other) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @negations
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2xf32>
// CHECK-NEXT: %[[N:.*]] = "graph.neg"(%[[X]])
// CHECK-NEXT: %[[M:.*]] = "graph.neg"(%[[X]])
// CHECK-NEXT: %[[A:.*]] = "graph.abs"(%[[X]])
// CHECK-NEXT: return %[[X]], %[[N]], %[[M]], %[[A]]
func.func @negations(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = "graph.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %minus = "graph.constant"() {value = dense<-1.0> : tensor<f32>} : () -> tensor<f32>
  %n = "graph.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %0 = "graph.neg"(%n) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "graph.sub"(%zero, %x) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = "graph.mul"(%x, %minus) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = "graph.abs"(%n) : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// ReLU6 in its many spellings is one clamp; bounds merge.
// CHECK-LABEL: func.func @bounds
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2xf32>
// CHECK-NEXT: %[[SIX:.*]] = "graph.clamp"(%[[X]]) {max = 6.000000e+00 : f64, min = 0.000000e+00 : f64}
// CHECK-NEXT: %[[SIX2:.*]] = "graph.clamp"(%[[X]]) {max = 6.000000e+00 : f64, min = 0.000000e+00 : f64}
// CHECK-NEXT: %[[RELU:.*]] = "graph.relu"(%[[X]])
// CHECK-NEXT: %[[EMPTY:.*]] = "graph.clamp"(%[[X]]) {max = 3.000000e+00 : f64, min = 3.000000e+00 : f64}
// CHECK-NEXT: return %[[SIX]], %[[SIX2]], %[[RELU]], %[[RELU]], %[[EMPTY]]
func.func @bounds(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = "graph.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %six = "graph.constant"() {value = dense<6.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "graph.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "graph.clamp"(%0) {min = 0xFFF0000000000000 : f64, max = 6.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "graph.maximum"(%zero, %x) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "graph.minimum"(%2, %six) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = "graph.clamp"(%x) {min = 0.0 : f64, max = 0x7FF0000000000000 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  %5 = "graph.relu"(%4) : (tensor<2xf32>) -> tensor<2xf32>
  %6 = "graph.clamp"(%x) {min = -1.0 : f64, max = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  %7 = "graph.clamp"(%6) {min = 3.0 : f64, max = 5.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  return %1, %3, %4, %5, %7 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// A bound for each element, or one that is not known, is no clamp.
// CHECK-LABEL: func.func @not_bounds
// CHECK: "graph.maximum"
// CHECK: "graph.minimum"
func.func @not_bounds(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %c = "graph.constant"() {value = dense<[0.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %0 = "graph.maximum"(%x, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "graph.minimum"(%0, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @cube
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2xf32>
// CHECK-NEXT: %[[S:.*]] = "graph.mul"(%[[X]], %[[X]])
// CHECK-NEXT: %[[C:.*]] = "graph.mul"(%[[S]], %[[X]])
// CHECK-NEXT: return %[[C]]
func.func @cube(%x: tensor<2xf32>) -> tensor<2xf32> {
  %three = "graph.constant"() {value = dense<3.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = "graph.pow"(%x, %three) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @tanh_of_softplus
// CHECK-DAG: %[[TWO:.*]] = "graph.constant"() {value = dense<2.000000e+00> : tensor<f32>}
// CHECK-DAG: %[[X:.*]] = "graph.cast"(%arg0) {{.*}} -> tensor<4xf32>
// CHECK: %[[BOUNDED:.*]] = "graph.clamp"(%[[X]]) {max = 2.000000e+01 : f64
// CHECK: %[[E:.*]] = "graph.exp"(%[[BOUNDED]])
// CHECK: %[[SUM:.*]] = "graph.add"(%[[E]], %[[TWO]])
// CHECK: %[[N:.*]] = "graph.mul"(%[[E]], %[[SUM]])
// CHECK: %[[D:.*]] = "graph.add"(%[[N]], %[[TWO]])
// CHECK: %[[Q:.*]] = "graph.div"(%[[N]], %[[D]])
// CHECK: "graph.cast"(%[[Q]]) {{.*}} -> tensor<4xf16>
func.func @tanh_of_softplus(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = "graph.softplus"(%x) : (tensor<4xf16>) -> tensor<4xf16>
  %1 = "graph.tanh"(%0) : (tensor<4xf16>) -> tensor<4xf16>
  return %1 : tensor<4xf16>
}

// Of the least integer abs gives itself, of which relu makes 0; abs of it is the same again.
// CHECK-LABEL: func.func @signs_of_integers
// CHECK: %[[A:.*]] = "graph.abs"(%arg0)
// CHECK: %[[R:.*]] = "graph.relu"(%[[A]])
// CHECK: %[[F:.*]] = "graph.abs"(%arg1)
// CHECK: return %[[R]], %[[A]], %[[F]]
func.func @signs_of_integers(%x: tensor<4xi8>, %f: tensor<4xf32>) -> (tensor<4xi8>, tensor<4xi8>, tensor<4xf32>) {
  %0 = "graph.abs"(%x) : (tensor<4xi8>) -> tensor<4xi8>
  %1 = "graph.relu"(%0) : (tensor<4xi8>) -> tensor<4xi8>
  %2 = "graph.abs"(%0) : (tensor<4xi8>) -> tensor<4xi8>
  %3 = "graph.abs"(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "graph.relu"(%3) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %2, %4 : tensor<4xi8>, tensor<4xi8>, tensor<4xf32>
}
