// RUN: stepwell-opt %s --pass-pipeline='pack-matmul,canonicalize' --target x86-64-v4 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='pack-matmul,canonicalize' --target x86-64-v3 --split-input-file | FileCheck %s --check-prefix=SIX

// Ten rows of 4096 bytes meet in one set of the first cache, that holds eight lines. What a product leaves gets a panel more; six rows have room.
// CHECK-LABEL: func.func @main
// CHECK: %[[M:[0-9]+]] = "packed.matmul"(%arg0, %{{[0-9]+}}) : (tensor<12x20xf32>, tensor<32x20x32xf32>) -> tensor<12x32x32xf32>
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[M]])
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%[[R]]) {high = array<i64: 0, 1, 0>{{.*}}value = 0.000000e+00{{.*}} -> tensor<12x33x32xf32>
// CHECK: %[[V:[0-9]+]] = "graph.reshape"(%[[P]]) {{.*}} -> tensor<12x1056xf32>
// CHECK: "packed.matmul"(%[[V]], %{{[0-9]+}}) : (tensor<12x1056xf32>, tensor<8x1056x32xf32>) -> tensor<12x8x32xf32>
// SIX-LABEL: func.func @main
// SIX-NOT: graph.pad
// SIX: "packed.matmul"({{.*}} : (tensor<12x1024xf32>, tensor<16x1024x16xf32>)
func.func @main(%x: tensor<12x20xf32>) -> tensor<12x256xf32> {
  %w = "graph.constant"() {value = dense<0.25> : tensor<20x1024xf32>} : () -> tensor<20x1024xf32>
  %v = "graph.constant"() {value = dense<0.5> : tensor<1024x256xf32>} : () -> tensor<1024x256xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<12x20xf32>, tensor<20x1024xf32>) -> tensor<12x1024xf32>
  %1 = "graph.relu"(%0) : (tensor<12x1024xf32>) -> tensor<12x1024xf32>
  %2 = "graph.matmul"(%1, %v) : (tensor<12x1024xf32>, tensor<1024x256xf32>) -> tensor<12x256xf32>
  return %2 : tensor<12x256xf32>
}

// -----

// What comes from elsewhere gets as many elements as a line has, once for all products.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%arg0) {high = array<i64: 0, 0, 16>{{.*}} -> tensor<2x?x1040xf32, "n">
// CHECK-NOT: graph.pad
// CHECK: "packed.matmul"(%[[P]], %{{[0-9]+}}) : (tensor<2x?x1040xf32, "n">, tensor<8x1040x32xf32>) -> tensor<2x?x8x32xf32, "n">
// CHECK: "packed.matmul"(%[[P]], %{{[0-9]+}}) : (tensor<2x?x1040xf32, "n">, tensor<16x1040x32xf32>)
func.func @main(%x: tensor<2x?x1024xf32, "n">) -> (tensor<2x?x256xf32, "n">, tensor<2x?x512xf32, "n">) {
  %w = "graph.constant"() {value = dense<0.25> : tensor<1024x256xf32>} : () -> tensor<1024x256xf32>
  %v = "graph.constant"() {value = dense<0.5> : tensor<1024x512xf32>} : () -> tensor<1024x512xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<2x?x1024xf32, "n">, tensor<1024x256xf32>) -> tensor<2x?x256xf32, "n">
  %1 = "graph.matmul"(%x, %v) : (tensor<2x?x1024xf32, "n">, tensor<1024x512xf32>) -> tensor<2x?x512xf32, "n">
  return %0, %1 : tensor<2x?x256xf32, "n">, tensor<2x?x512xf32, "n">
}

// -----

// Left alone: rows that meet in four sets, eight rows, and few columns, which take less time than the copy.
// CHECK-LABEL: func.func @main
// CHECK-NOT: graph.pad
// CHECK-COUNT-3: "packed.matmul"
func.func @main(%x: tensor<12x768xf32>, %y: tensor<8x1024xf32>, %z: tensor<12x1024xf32>) -> (tensor<12x256xf32>, tensor<8x256xf32>, tensor<12x224xf32>) {
  %u = "graph.constant"() {value = dense<0.25> : tensor<768x256xf32>} : () -> tensor<768x256xf32>
  %v = "graph.constant"() {value = dense<0.25> : tensor<1024x256xf32>} : () -> tensor<1024x256xf32>
  %w = "graph.constant"() {value = dense<0.25> : tensor<1024x224xf32>} : () -> tensor<1024x224xf32>
  %0 = "graph.matmul"(%x, %u) : (tensor<12x768xf32>, tensor<768x256xf32>) -> tensor<12x256xf32>
  %1 = "graph.matmul"(%y, %v) : (tensor<8x1024xf32>, tensor<1024x256xf32>) -> tensor<8x256xf32>
  %2 = "graph.matmul"(%z, %w) : (tensor<12x1024xf32>, tensor<1024x224xf32>) -> tensor<12x224xf32>
  return %0, %1, %2 : tensor<12x256xf32>, tensor<8x256xf32>, tensor<12x224xf32>
}
