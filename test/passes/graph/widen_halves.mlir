// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='widen-halves,canonicalize' --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='widen-halves{max-bytes=100},canonicalize' --split-input-file | FileCheck %s --check-prefix=LIMIT

// From the convolution on all is f32; an op that has another half to read, and what is returned, get halves.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[X:[0-9]+]] = "graph.cast"(%arg0) {saturate = true, to = f32}
// CHECK-DAG: %[[W:[0-9]+]] = "graph.cast"(%{{.*}}) {saturate = true, to = f32} : (tensor<4x2x1x1xf16>)
// CHECK: %[[C:[0-9]+]] = "graph.conv"(%[[X]], %[[W]])
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[C]]) : (tensor<1x4x3x3xf32>)
// CHECK: %[[H:[0-9]+]] = "graph.cast"(%[[R]]) {saturate = true, to = f16}
// CHECK: %[[J:[0-9]+]] = "graph.concat"(%[[C]], %[[R]]) {axis = 1 : i64}
// CHECK: %[[P:[0-9]+]] = "graph.cast"(%[[J]]) {saturate = true, to = f16}
// CHECK: %[[S:[0-9]+]] = "graph.add"(%[[H]], %arg1) : (tensor<1x4x3x3xf16>, tensor<1x4x3x3xf16>)
// CHECK: return %[[P]], %[[S]], %[[R]]
// LIMIT-LABEL: func.func @main
// LIMIT: "graph.conv"{{.*}} -> tensor<1x4x3x3xf32>
func.func @main(%x: tensor<1x2x3x3xf16>, %y: tensor<1x4x3x3xf16>) -> (tensor<1x8x3x3xf16>, tensor<1x4x3x3xf16>, tensor<1x4x3x3xf32>) {
  %w = "graph.constant"() {value = dense<0.3> : tensor<4x2x1x1xf16>} : () -> tensor<4x2x1x1xf16>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x3x3xf16>, tensor<4x2x1x1xf16>) -> tensor<1x4x3x3xf16>
  %1 = "graph.relu"(%0) : (tensor<1x4x3x3xf16>) -> tensor<1x4x3x3xf16>
  %2 = "graph.concat"(%0, %1) {axis = 1 : i64} : (tensor<1x4x3x3xf16>, tensor<1x4x3x3xf16>) -> tensor<1x8x3x3xf16>
  %3 = "graph.add"(%1, %y) : (tensor<1x4x3x3xf16>, tensor<1x4x3x3xf16>) -> tensor<1x4x3x3xf16>
  %4 = "graph.cast"(%1) {to = f32, saturate = true} : (tensor<1x4x3x3xf16>) -> tensor<1x4x3x3xf32>
  return %2, %3, %4 : tensor<1x8x3x3xf16>, tensor<1x4x3x3xf16>, tensor<1x4x3x3xf32>
}

// -----

// A product of many rows becomes one of f32, if its weights are few enough; one of few rows stays.
// CHECK-LABEL: func.func @main
// CHECK: "graph.matmul"{{.*}} -> tensor<20x8xf32>
// CHECK: "graph.matmul"{{.*}} -> tensor<4x8xf16>
// LIMIT-LABEL: func.func @main
// LIMIT: "graph.matmul"{{.*}} -> tensor<20x8xf16>
func.func @main(%x: tensor<20x16xf16>, %y: tensor<4x16xf16>) -> (tensor<20x8xf16>, tensor<4x8xf16>) {
  %w = "graph.constant"() {value = dense<0.3> : tensor<16x8xf16>} : () -> tensor<16x8xf16>
  %0 = "graph.matmul"(%x, %w) : (tensor<20x16xf16>, tensor<16x8xf16>) -> tensor<20x8xf16>
  %1 = "graph.matmul"(%y, %w) : (tensor<4x16xf16>, tensor<16x8xf16>) -> tensor<4x8xf16>
  return %0, %1 : tensor<20x8xf16>, tensor<4x8xf16>
}

// -----

// A normalisation of a batch goes on in f32, so that it can be folded into the convolution before it.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "graph.conv"({{.*}} -> tensor<1x4x3x3xf32>
// CHECK: %[[N:[0-9]+]] = "graph.batch_norm"(%[[C]], {{.*}} -> tensor<1x4x3x3xf32>
// CHECK: "graph.relu"(%[[N]]) : (tensor<1x4x3x3xf32>)
func.func @main(%x: tensor<1x2x3x3xf16>) -> tensor<1x4x3x3xf16> {
  %w = "graph.constant"() {value = dense<0.3> : tensor<4x2x1x1xf16>} : () -> tensor<4x2x1x1xf16>
  %s = "graph.constant"() {value = dense<1.5> : tensor<4xf16>} : () -> tensor<4xf16>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x2x3x3xf16>, tensor<4x2x1x1xf16>) -> tensor<1x4x3x3xf16>
  %1 = "graph.batch_norm"(%0, %s, %s, %s, %s) {epsilon = 1.0e-05 : f64} : (tensor<1x4x3x3xf16>, tensor<4xf16>, tensor<4xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<1x4x3x3xf16>
  %2 = "graph.relu"(%1) : (tensor<1x4x3x3xf16>) -> tensor<1x4x3x3xf16>
  return %2 : tensor<1x4x3x3xf16>
}

// -----

// A mean that its node computes in f32, as the importer makes it: squares that it alone reads, and what follows it, are f32. A cast that is a
// node of its own rounds, and so does the op before it.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:[0-9]+]] = "graph.mul"({{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: %[[M:[0-9]+]] = "graph.reduce_sum"(%[[S]])
// CHECK: %[[R:[0-9]+]] = "graph.sqrt"(%[[M]]) : (tensor<4x1xf32>)
// CHECK: "graph.cast"(%[[R]]) {saturate = true, to = f16}
// CHECK: "graph.div"({{.*}} : (tensor<4x8xf16>, tensor<4x1xf16>)
// CHECK: %[[E:[0-9]+]] = "graph.exp"(%arg0) : (tensor<4x8xf16>)
// CHECK: %[[W:[0-9]+]] = "graph.cast"(%[[E]]) {saturate = true, to = f32}
// CHECK: %[[T:[0-9]+]] = "graph.tanh"(%[[W]])
// CHECK: %[[N:[0-9]+]] = "graph.cast"(%[[T]]) {saturate = true, to = f16}
// CHECK: "graph.neg"(%[[N]]) : (tensor<4x8xf16>)
func.func @main(%x: tensor<4x8xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>) {
  %0 = "graph.mul"(%x, %x) : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16> loc("squares")
  %1 = "graph.cast"(%0) {to = f32, saturate = true} : (tensor<4x8xf16>) -> tensor<4x8xf32> loc("mean")
  %2 = "graph.reduce_sum"(%1) {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32> loc("mean")
  %3 = "graph.cast"(%2) {to = f16, saturate = true} : (tensor<4x1xf32>) -> tensor<4x1xf16> loc("mean")
  %4 = "graph.sqrt"(%3) : (tensor<4x1xf16>) -> tensor<4x1xf16> loc("root")
  %5 = "graph.div"(%x, %4) : (tensor<4x8xf16>, tensor<4x1xf16>) -> tensor<4x8xf16> loc("quotient")
  %6 = "graph.exp"(%x) : (tensor<4x8xf16>) -> tensor<4x8xf16> loc("exp")
  %7 = "graph.cast"(%6) {to = f32, saturate = true} : (tensor<4x8xf16>) -> tensor<4x8xf32> loc("to single")
  %8 = "graph.tanh"(%7) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("tanh")
  %9 = "graph.cast"(%8) {to = f16, saturate = true} : (tensor<4x8xf32>) -> tensor<4x8xf16> loc("to half")
  %10 = "graph.neg"(%9) : (tensor<4x8xf16>) -> tensor<4x8xf16> loc("minus")
  return %5, %10 : tensor<4x8xf16>, tensor<4x8xf16>
}
