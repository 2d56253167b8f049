// RUN: stepwell-opt %s --pass-pipeline='narrow-floats{to=bf16 keep="kept;*/norm"}' --target x86-64-v4-bf16 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='narrow-floats{to=bf16}' --target x86-64-v3 --split-input-file | FileCheck %s --check-prefix=PLAIN
// RUN: stepwell-opt %s --pass-pipeline='narrow-floats' --target x86-64-v4-bf16 --split-input-file | FileCheck %s --check-prefix=OFF
// RUN: stepwell-opt %s --pass-pipeline='narrow-floats{to=bf16},separate-zero-points,narrow-products,convert-layout,canonicalize,cse,fuse-operators,outline-kernels' --target x86-64-v4-bf16 --split-input-file | FileCheck %s --check-prefix=KERNELS

// What a convolution reads is rounded before it is padded; another reader gets the rounded value, the result and a node that is kept do not.
// OFF-NOT: bf16
// PLAIN-LABEL: func.func @main
// PLAIN-NOT: bf16
// PLAIN: return
// CHECK-LABEL: func.func @main
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%arg0)
// CHECK: %[[N:[0-9]+]] = "graph.cast"(%[[R]]) {saturate = true, to = bf16}
// CHECK: %[[X:[0-9]+]] = "graph.cast"(%[[N]]) {saturate = true, to = f32}
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%[[N]]){{.*}}bf16>
// CHECK: %[[IMAGE:[0-9]+]] = "graph.cast"(%[[P]]) {saturate = true, to = f32}
// CHECK: %[[W:[0-9]+]] = "graph.parameter"{{.*}} : () -> tensor<32x16x3x3xbf16>
// CHECK: %[[FILTERS:[0-9]+]] = "graph.cast"(%[[W]]) {saturate = true, to = f32}
// CHECK: %[[C:[0-9]+]] = "graph.conv"(%[[IMAGE]], %[[FILTERS]])
// CHECK: %[[K:[0-9]+]] = "graph.conv"(%[[R]], %{{.*}}) {{.*}}tensor<32x16x1x1xf32>
// CHECK: "graph.neg"(%[[X]])
// CHECK: return %{{.*}}, %[[R]]
// KERNELS-LABEL: func.func @main
// KERNELS: call @packed_conv{{.*}}(tensor<1x1x8x8x16xbf16>, tensor<2x1x3x3x8x16x2xbf16>, {{.*}}tensor<1x2x6x6x16xf32>)
// KERNELS: "packed.conv"{{.*}} : (tensor<1x1x8x8x16xf32>, tensor<2x1x3x3x8x16x2xf32>) -> tensor<1x2x6x6x16xf32>
func.func @main(%x: tensor<1x16x6x6xf32>) -> (tensor<1x32x6x6xf32>, tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>) {
  %w = "graph.constant"() {value = dense<0.3> : tensor<32x16x3x3xf32>} : () -> tensor<32x16x3x3xf32>
  %v = "graph.constant"() {value = dense<0.7> : tensor<32x16x1x1xf32>} : () -> tensor<32x16x1x1xf32>
  %0 = "graph.relu"(%x) : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  %1 = "graph.pad"(%0) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0.0} : (tensor<1x16x6x6xf32>) -> tensor<1x16x8x8xf32>
  %2 = "graph.conv"(%1, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x6x6xf32>
  %3 = "graph.conv"(%0, %v) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x6x6xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x6x6xf32> loc("kept")
  %4 = "graph.add"(%2, %3) : (tensor<1x32x6x6xf32>, tensor<1x32x6x6xf32>) -> tensor<1x32x6x6xf32>
  %5 = "graph.neg"(%0) : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  return %4, %5, %0 : tensor<1x32x6x6xf32>, tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>
}

// -----

// A product of few rows reads weights in bf16 on every target that widens them fast enough; one of many does where an instruction multiplies them.
// CHECK-LABEL: func.func @main
// CHECK: tensor<64x32xbf16>
// CHECK: tensor<32x64xbf16>
// PLAIN-LABEL: func.func @main
// PLAIN-NOT: tensor<64x32xbf16>
// PLAIN: tensor<32x64xbf16>
// KERNELS-LABEL: func.func @main
// KERNELS: call @matmul{{.*}}(tensor<20x64xbf16>, tensor<64x32xbf16>, tensor<20x32xf32>)
func.func @main(%x: tensor<20x64xf32>, %y: tensor<2x32xf32>) -> (tensor<20x32xf32>, tensor<2x64xf32>) {
  %w = "graph.constant"() {value = dense<0.3> : tensor<64x32xf32>} : () -> tensor<64x32xf32>
  %v = "graph.constant"() {value = dense<0.7> : tensor<32x64xf32>} : () -> tensor<32x64xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<20x64xf32>, tensor<64x32xf32>) -> tensor<20x32xf32>
  %1 = "graph.matmul"(%y, %v) : (tensor<2x32xf32>, tensor<32x64xf32>) -> tensor<2x64xf32>
  return %0, %1 : tensor<20x32xf32>, tensor<2x64xf32>
}
