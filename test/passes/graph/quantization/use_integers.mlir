// RUN: stepwell-opt %s --pass-pipeline='use-integers' --split-input-file | FileCheck %s

// A convolution of dequantised data sums integers. The scales and that of the next quantisation become one factor for each filter, and zero is where
// saturation cuts off.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = "graph.cast"(%arg0) {{.*}} -> tensor<1x4x5x5xi32>
// CHECK: %[[C:.*]] = "graph.add"(%[[X]], %{{.*}}) {{.*}} (tensor<1x4x5x5xi32>, tensor<i32>)
// CHECK: %[[W:.*]] = "graph.cast"(%{{.*}}) {{.*}} (tensor<2x4x3x3xi8>) -> tensor<2x4x3x3xi32>
// CHECK: %[[S:.*]] = "graph.conv"(%[[C]], %[[W]])
// CHECK: %[[F:.*]] = "graph.cast"(%[[S]]) {{.*}} to = f32}
// CHECK: %[[P:.*]] = "graph.mul"(%[[F]], %{{.*}}) {{.*}} tensor<2x1x1xf32>)
// CHECK-NOT: relu
// CHECK: %[[Q:.*]] = "graph.quantize"(%[[P]], %{{.*}}, %{{.*}}) {{.*}} -> tensor<1x2x3x3xui8>
// CHECK: return %[[Q]]
func.func @main(%x: tensor<1x4x5x5xui8>) -> tensor<1x2x3x3xui8> {
  %w = "graph.parameter"() {id = "w"} : () -> tensor<2x4x3x3xi8>
  %s = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %t = "graph.constant"() {value = dense<[[[[2.0]]], [[[4.0]]]]> : tensor<2x1x1x1xf32>} : () -> tensor<2x1x1x1xf32>
  %z = "graph.constant"() {value = dense<7> : tensor<ui8>} : () -> tensor<ui8>
  %u = "graph.constant"() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
  %q = "graph.constant"() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %n = "graph.constant"() {value = dense<0> : tensor<ui8>} : () -> tensor<ui8>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<1x4x5x5xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x5x5xf32>
  %1 = "graph.dequantize"(%w, %t, %u) : (tensor<2x4x3x3xi8>, tensor<2x1x1x1xf32>, tensor<i8>) -> tensor<2x4x3x3xf32>
  %2 = "graph.conv"(%0, %1) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x4x5x5xf32>, tensor<2x4x3x3xf32>) -> tensor<1x2x3x3xf32>
  %3 = "graph.relu"(%2) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %4 = "graph.quantize"(%3, %q, %n) : (tensor<1x2x3x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x2x3x3xui8>
  return %4 : tensor<1x2x3x3xui8>
}

// -----

// A bias with the scale of the product is added to the sums; one with another scale is not.
// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = "graph.matmul"
// CHECK: %[[T:.*]] = "graph.add"(%[[M]], %{{.*}}) {{.*}} tensor<2xi32>)
// CHECK: %[[F:.*]] = "graph.cast"(%[[T]]) {{.*}} to = f32}
// CHECK: "graph.mul"(%[[F]], %{{.*}})
// CHECK: %[[O:.*]] = "graph.dequantize"
// CHECK: "graph.add"(%{{.*}}, %[[O]])
func.func @main(%x: tensor<3x4xi8>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %w = "graph.constant"() {value = dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi8>} : () -> tensor<4x2xi8>
  %b = "graph.constant"() {value = dense<[3, -4]> : tensor<2xi32>} : () -> tensor<2xi32>
  %s = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %t = "graph.constant"() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %other = "graph.constant"() {value = dense<0.26> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
  %zero = "graph.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<3x4xi8>, tensor<f32>, tensor<i8>) -> tensor<3x4xf32>
  %1 = "graph.dequantize"(%w, %s, %z) : (tensor<4x2xi8>, tensor<f32>, tensor<i8>) -> tensor<4x2xf32>
  %2 = "graph.matmul"(%0, %1) : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %3 = "graph.dequantize"(%b, %t, %zero) : (tensor<2xi32>, tensor<f32>, tensor<i32>) -> tensor<2xf32>
  %4 = "graph.add"(%2, %3) : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %5 = "graph.matmul"(%0, %1) : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %6 = "graph.dequantize"(%b, %other, %zero) : (tensor<2xi32>, tensor<f32>, tensor<i32>) -> tensor<2xf32>
  %7 = "graph.add"(%5, %6) : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  return %4, %7 : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// Filters of one channel: sums of integers that are floats, of bytes padded with their zero point, which is taken off behind them.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = "graph.pad"(%arg0) {{.*}} value = 5.0
// CHECK: %[[X:.*]] = "graph.cast"(%[[P]]) {{.*}} to = f32}
// CHECK: %[[S:.*]] = "graph.conv"(%[[X]], %{{.*}}) {{.*}} group = 2 {{.*}} pads = array<i64: 0, 0>
// CHECK: "graph.add"(%[[S]], %{{.*}}) {{.*}} tensor<2x1xf32>)
func.func @main(%x: tensor<1x2x6xui8>) -> tensor<1x2x6xf32> {
  %w = "graph.constant"() {value = dense<[[[1, 2, 3]], [[-1, -2, -3]]]> : tensor<2x1x3xi8>} : () -> tensor<2x1x3xi8>
  %s = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<5> : tensor<ui8>} : () -> tensor<ui8>
  %u = "graph.constant"() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<1x2x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x2x6xf32>
  %1 = "graph.dequantize"(%w, %s, %u) : (tensor<2x1x3xi8>, tensor<f32>, tensor<i8>) -> tensor<2x1x3xf32>
  %2 = "graph.conv"(%0, %1) {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 2 : i64} : (tensor<1x2x6xf32>, tensor<2x1x3xf32>) -> tensor<1x2x6xf32>
  return %2 : tensor<1x2x6xf32>
}

// -----

// What only moves is moved in bytes, and what is quantised as it was is not quantised again.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = "graph.concat"(%arg0, %arg0) {{.*}} -> tensor<1x4x4x4xui8>
// CHECK: %[[M:.*]] = "graph.max_pool"(%[[C]])
// CHECK: %[[T:.*]] = "graph.transpose"(%[[M]])
// CHECK: %[[P:.*]] = "graph.pad"(%[[T]]) {{.*}} value = 9.0
// CHECK: return %[[P]]
func.func @main(%x: tensor<1x2x4x4xui8>) -> tensor<1x3x2x5xui8> {
  %s = "graph.constant"() {value = dense<0.3> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<9> : tensor<ui8>} : () -> tensor<ui8>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<1x2x4x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x2x4x4xf32>
  %1 = "graph.concat"(%0, %0) {axis = 1 : i64} : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x4x4x4xf32>
  %2 = "graph.max_pool"(%1) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x4x4x4xf32>) -> tensor<1x4x2x2xf32>
  %3 = "graph.transpose"(%2) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x4x2x2xf32>) -> tensor<1x2x2x4xf32>
  %4 = "graph.pad"(%3) {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 0, 0, 1>, mode = "constant", value = 0.0} : (tensor<1x2x2x4xf32>) -> tensor<1x3x2x5xf32>
  %5 = "graph.quantize"(%4, %s, %z) : (tensor<1x3x2x5xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x3x2x5xui8>
  return %5 : tensor<1x3x2x5xui8>
}

// -----

// What is joined or pooled is quantised before.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[A:.*]] = "graph.quantize"(%arg0
// CHECK-DAG: %[[B:.*]] = "graph.quantize"(%arg1
// CHECK: "graph.concat"(%[[A]], %[[B]]) {{.*}} -> tensor<2x4xui8>
func.func @main(%x: tensor<1x4xf32>, %y: tensor<1x4xf32>) -> tensor<2x4xui8> {
  %s = "graph.constant"() {value = dense<0.3> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<9> : tensor<ui8>} : () -> tensor<ui8>
  %0 = "graph.concat"(%x, %y) {axis = 0 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %1 = "graph.quantize"(%0, %s, %z) : (tensor<2x4xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x4xui8>
  return %1 : tensor<2x4xui8>
}

// -----

// Left to floats: scales along what is summed, 16 bits whose sums may not fit i32, and operands one of which is not dequantised.
// CHECK-LABEL: func.func @main
// CHECK: "graph.matmul"{{.*}} -> tensor<2x2xf32>
// CHECK: "graph.matmul"{{.*}} -> tensor<2x2xf32>
// CHECK: "graph.matmul"{{.*}} -> tensor<2x2xf32>
func.func @main(%x: tensor<2x3xi8>, %y: tensor<3x2xi8>, %a: tensor<2x9xi16>, %b: tensor<9x2xi16>, %f: tensor<2x3xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %s = "graph.constant"() {value = dense<0.3> : tensor<f32>} : () -> tensor<f32>
  %t = "graph.constant"() {value = dense<[0.3, 0.2, 0.1]> : tensor<3xf32>} : () -> tensor<3xf32>
  %z = "graph.constant"() {value = dense<9> : tensor<i8>} : () -> tensor<i8>
  %n = "graph.constant"() {value = dense<0> : tensor<i16>} : () -> tensor<i16>
  %0 = "graph.dequantize"(%x, %t, %z) : (tensor<2x3xi8>, tensor<3xf32>, tensor<i8>) -> tensor<2x3xf32>
  %1 = "graph.dequantize"(%y, %s, %z) : (tensor<3x2xi8>, tensor<f32>, tensor<i8>) -> tensor<3x2xf32>
  %2 = "graph.matmul"(%0, %1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %3 = "graph.dequantize"(%a, %s, %n) : (tensor<2x9xi16>, tensor<f32>, tensor<i16>) -> tensor<2x9xf32>
  %4 = "graph.dequantize"(%b, %s, %n) : (tensor<9x2xi16>, tensor<f32>, tensor<i16>) -> tensor<9x2xf32>
  %5 = "graph.matmul"(%3, %4) : (tensor<2x9xf32>, tensor<9x2xf32>) -> tensor<2x2xf32>
  %6 = "graph.matmul"(%f, %1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %2, %5, %6 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// Scale and zero point lose the dimensions that the result lacks. Differences of i32 may wrap: the greatest would be another number.
// CHECK-LABEL: func.func @fewer_dimensions
// CHECK: %[[S:.*]] = "graph.reshape"(%arg1) {shape = array<i64>}
// CHECK: "graph.dequantize"(%{{.*}}, %[[S]], %{{.*}}) {{.*}} -> tensor<f32>
// CHECK: %[[W:.*]] = "graph.dequantize"(%arg2
// CHECK: "graph.reduce_max"(%[[W]])
func.func @fewer_dimensions(%x: tensor<2x3xi8>, %s: tensor<1x1xf32>, %i: tensor<2xi32>) -> (tensor<f32>, tensor<f32>) {
  %z = "graph.constant"() {value = dense<1> : tensor<1x1xi8>} : () -> tensor<1x1xi8>
  %t = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %u = "graph.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<2x3xi8>, tensor<1x1xf32>, tensor<1x1xi8>) -> tensor<2x3xf32>
  %1 = "graph.slice"(%0) {starts = array<i64: 1, 1>, sizes = array<i64: 1, 1>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<1x1xf32>
  %2 = "graph.reshape"(%1) {shape = array<i64>} : (tensor<1x1xf32>) -> tensor<f32>
  %3 = "graph.dequantize"(%i, %t, %u) : (tensor<2xi32>, tensor<f32>, tensor<i32>) -> tensor<2xf32>
  %4 = "graph.reduce_max"(%3) {axes = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
  return %2, %4 : tensor<f32>, tensor<f32>
}

// -----

// Factors of integers are not merged.
// CHECK-LABEL: func.func @factors_of_integers
// CHECK-COUNT-2: "graph.mul"
func.func @factors_of_integers(%x: tensor<1x2x3xi64>, %w: tensor<2x2x1xi64>) -> tensor<1x2x3xi64> {
  %k = "graph.constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64} : (tensor<1x2x3xi64>, tensor<2x2x1xi64>) -> tensor<1x2x3xi64>
  %1 = "graph.mul"(%0, %k) : (tensor<1x2x3xi64>, tensor<i64>) -> tensor<1x2x3xi64>
  %2 = "graph.mul"(%1, %k) : (tensor<1x2x3xi64>, tensor<i64>) -> tensor<1x2x3xi64>
  return %2 : tensor<1x2x3xi64>
}

// -----

// Scales and zero points for each of a free number of rows are turned with the data.
// CHECK-LABEL: func.func @free_rows
// CHECK: %[[R:.*]] = "graph.reshape"(%arg1)
// CHECK: %[[Z:.*]] = "graph.transpose"(%[[R]])
// CHECK: "graph.dequantize"(%{{.*}}, %{{.*}}, %[[Z]]) {{.*}} -> tensor<3x?xf32, "n">
// CHECK: "graph.reduce_max"(%{{.*}}) {{.*}} -> tensor<?xf32, "n">
func.func @free_rows(%x: tensor<?x3xi8, "n">, %z: tensor<?x1xi8, "n">, %s: tensor<?x1xf32, "n">) -> (tensor<3x?xf32, "n">, tensor<?xf32, "n">) {
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<?x3xi8, "n">, tensor<?x1xf32, "n">, tensor<?x1xi8, "n">) -> tensor<?x3xf32, "n">
  %1 = "graph.transpose"(%0) {perm = array<i64: 1, 0>} : (tensor<?x3xf32, "n">) -> tensor<3x?xf32, "n">
  %2 = "graph.reduce_max"(%0) {axes = array<i64: 1>, keepdims = false} : (tensor<?x3xf32, "n">) -> tensor<?xf32, "n">
  return %1, %2 : tensor<3x?xf32, "n">, tensor<?xf32, "n">
}

// -----

// Of windows that may be padding alone the greatest is minus infinity, which is no integer.
// CHECK-LABEL: func.func @windows_of_padding
// CHECK: %[[X:.*]] = "graph.dequantize"(%arg0
// CHECK: "graph.max_pool"(%[[X]]) {{.*}}pads = array<i64: 2, 0>
// CHECK: "graph.max_pool"(%arg0) {{.*}}pads = array<i64: 1, 1>
// CHECK: "graph.max_pool"(%arg1) {{.*}}pads = array<i64: 1, 1>
// CHECK: "graph.max_pool"({{.*}}dilations = array<i64: 3>{{.*}}(tensor<1x1x?xf32, "n">)
func.func @windows_of_padding(%x: tensor<1x1x4xi8>, %y: tensor<1x1x?xi8, "n">) -> (tensor<1x1x5xf32>, tensor<1x1x5xf32>, tensor<1x1x?xf32, "n + 1">, tensor<1x1x?xf32, "n - 1">) {
  %s = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = "graph.constant"() {value = dense<1> : tensor<i8>} : () -> tensor<i8>
  %0 = "graph.dequantize"(%x, %s, %z) : (tensor<1x1x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x1x4xf32>
  %1 = "graph.dequantize"(%y, %s, %z) : (tensor<1x1x?xi8, "n">, tensor<f32>, tensor<i8>) -> tensor<1x1x?xf32, "n">
  %2 = "graph.max_pool"(%0) {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 2, 0>, dilations = array<i64: 1>, ceil_mode = false} : (tensor<1x1x4xf32>) -> tensor<1x1x5xf32>
  %3 = "graph.max_pool"(%0) {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false} : (tensor<1x1x4xf32>) -> tensor<1x1x5xf32>
  %4 = "graph.max_pool"(%1) {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false} : (tensor<1x1x?xf32, "n">) -> tensor<1x1x?xf32, "n + 1">
  %5 = "graph.max_pool"(%1) {kernel = array<i64: 2>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 3>, ceil_mode = false} : (tensor<1x1x?xf32, "n">) -> tensor<1x1x?xf32, "n - 1">
  return %2, %3, %4, %5 : tensor<1x1x5xf32>, tensor<1x1x5xf32>, tensor<1x1x?xf32, "n + 1">, tensor<1x1x?xf32, "n - 1">
}
