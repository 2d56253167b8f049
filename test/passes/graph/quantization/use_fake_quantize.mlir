// RUN: stepwell-opt %s --pass-pipeline='use-fake-quantize' --split-input-file | FileCheck %s

// What is quantised and dequantised at once stays in floats. With these scales all 256 bytes give the same results if quotients become products.
// CHECK-LABEL: func.func @main
// CHECK: %[[D:.*]] = "graph.dequantize"(%arg0
// CHECK: %[[P:.*]] = "graph.mul"(%[[D]], %{{.*}}) {{.*}}tensor<f32>
// CHECK: %[[F:.*]] = "graph.fake_quantize"(%[[P]], %{{.*}}) {{.*}} (tensor<4x5xf32>, tensor<ui8>) -> tensor<4x5xf32>
// CHECK: %[[S:.*]] = "graph.mul"(%[[F]], %{{.*}})
// CHECK: %[[R:.*]] = "graph.relu"(%[[S]])
// CHECK: %[[M:.*]] = "graph.mul"(%[[R]], %{{.*}})
// CHECK: %[[O:.*]] = "graph.constant"() {{.*}}dense<1.0{{.*}}> : tensor<f32>
// CHECK: %[[Q:.*]] = "graph.quantize"(%[[M]], %[[O]], %{{.*}})
// CHECK: return %[[Q]]
func.func @main(%x: tensor<4x5xui8>) -> tensor<4x5xi8> {
  %s = "graph.constant"() {value = dense<0.0131> : tensor<f32>} : () -> tensor<f32>
  %t = "graph.constant"() {value = dense<0.3> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<7> : tensor<ui8>} : () -> tensor<ui8>
  %n = "graph.constant"() {value = dense<-3> : tensor<i8>} : () -> tensor<i8>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<4x5xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x5xf32>
  %1 = "graph.quantize"(%0, %t, %z) : (tensor<4x5xf32>, tensor<f32>, tensor<ui8>) -> tensor<4x5xui8>
  %2 = "graph.dequantize"(%1, %t, %z) : (tensor<4x5xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x5xf32>
  %3 = "graph.relu"(%2) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %4 = "graph.quantize"(%3, %s, %n) : (tensor<4x5xf32>, tensor<f32>, tensor<i8>) -> tensor<4x5xi8>
  return %4 : tensor<4x5xi8>
}

// -----

// A scale that is twice another one, and no power of two: half of the quotients are ties, of which a product gets some wrong.
// CHECK-LABEL: func.func @main
// CHECK: %[[D:.*]] = "graph.dequantize"
// CHECK: %[[V:.*]] = "graph.div"(%[[D]], %{{.*}})
// CHECK: "graph.fake_quantize"(%[[V]]
func.func @main(%x: tensor<6xui8>) -> tensor<6xf32> {
  %s = "graph.constant"() {value = dense<0.7> : tensor<f32>} : () -> tensor<f32>
  %t = "graph.constant"() {value = dense<1.4> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<0> : tensor<ui8>} : () -> tensor<ui8>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<6xui8>, tensor<f32>, tensor<ui8>) -> tensor<6xf32>
  %1 = "graph.quantize"(%0, %t, %z) : (tensor<6xf32>, tensor<f32>, tensor<ui8>) -> tensor<6xui8>
  %2 = "graph.dequantize"(%1, %t, %z) : (tensor<6xui8>, tensor<f32>, tensor<ui8>) -> tensor<6xf32>
  return %2 : tensor<6xf32>
}

// -----

// Any float may come, so nothing can be tried. The integers have another reader, or there are more than bytes hold: they are made.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.mul
// CHECK: %[[Q:.*]] = "graph.quantize"(%arg0
// CHECK: "graph.dequantize"(%[[Q]]
// CHECK: "graph.dequantize"
// CHECK-NOT: fake_quantize
func.func @main(%x: tensor<6xf32>) -> (tensor<6xui8>, tensor<6xf32>, tensor<6xf32>) {
  %s = "graph.constant"() {value = dense<0.7> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<0> : tensor<ui8>} : () -> tensor<ui8>
  %w = "graph.constant"() {value = dense<0> : tensor<i16>} : () -> tensor<i16>
  %0 = "graph.quantize"(%x, %s, %z) : (tensor<6xf32>, tensor<f32>, tensor<ui8>) -> tensor<6xui8>
  %1 = "graph.dequantize"(%0, %s, %z) : (tensor<6xui8>, tensor<f32>, tensor<ui8>) -> tensor<6xf32>
  %2 = "graph.quantize"(%x, %s, %w) : (tensor<6xf32>, tensor<f32>, tensor<i16>) -> tensor<6xi16>
  %3 = "graph.dequantize"(%2, %s, %w) : (tensor<6xi16>, tensor<f32>, tensor<i16>) -> tensor<6xf32>
  return %0, %1, %3 : tensor<6xui8>, tensor<6xf32>, tensor<6xf32>
}
