// RUN: stepwell-opt %s --pass-pipeline='pack-matmul,canonicalize' --target x86-64-v3 --split-input-file | FileCheck %s

// Several rows share what they load of a panel of two registers; what follows stays in panels, and a residual is only seen in them.
// CHECK-LABEL: func.func @main
// CHECK: %[[M:[0-9]+]] = "packed.matmul"(%arg0, %{{[0-9]+}}) : (tensor<12x20xf32>, tensor<2x20x16xf32>) -> tensor<12x2x16xf32>
// CHECK: %[[B:[0-9]+]] = "graph.add"(%[[M]], %{{[0-9]+}}) : (tensor<12x2x16xf32>, tensor<2x16xf32>) -> tensor<12x2x16xf32>
// CHECK: %[[R:[0-9]+]] = "graph.reshape"(%arg1) {{.*}} -> tensor<12x2x16xf32>
// CHECK: %[[S:[0-9]+]] = "graph.add"(%[[B]], %[[R]])
// CHECK: %[[V:[0-9]+]] = "graph.reshape"(%[[S]]) {{.*}} -> tensor<12x32xf32>
// CHECK: return %[[V]]
func.func @main(%x: tensor<12x20xf32>, %residual: tensor<12x32xf32>) -> tensor<12x32xf32> {
  %w = "graph.constant"() {value = dense<0.25> : tensor<20x32xf32>} : () -> tensor<20x32xf32>
  %b = "graph.constant"() {value = dense<0.5> : tensor<32xf32>} : () -> tensor<32xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<12x20xf32>, tensor<20x32xf32>) -> tensor<12x32xf32>
  %1 = "graph.add"(%0, %b) : (tensor<12x32xf32>, tensor<32xf32>) -> tensor<12x32xf32>
  %2 = "graph.add"(%1, %residual) : (tensor<12x32xf32>, tensor<12x32xf32>) -> tensor<12x32xf32>
  return %2 : tensor<12x32xf32>
}

// -----

// Panels of one register where two would fill up most of the last one. What fills it is cut off at the end.
// CHECK-LABEL: func.func @main
// CHECK: %[[M:[0-9]+]] = "packed.matmul"(%arg0, %{{[0-9]+}}) : (tensor<1x20xf32>, tensor<9x20x8xf32>) -> tensor<1x9x8xf32>
// CHECK: %[[B:[0-9]+]] = "graph.add"(%[[M]], %{{[0-9]+}}) : (tensor<1x9x8xf32>, tensor<9x8xf32>) -> tensor<1x9x8xf32>
// CHECK: %[[F:[0-9]+]] = "graph.reshape"(%[[B]]) {{.*}} -> tensor<1x72xf32>
// CHECK: "graph.slice"(%[[F]]) {sizes = array<i64: 1, 70>{{.*}} -> tensor<1x70xf32>
func.func @main(%x: tensor<1x20xf32>) -> tensor<1x70xf32> {
  %w = "graph.constant"() {value = dense<0.25> : tensor<20x70xf32>} : () -> tensor<20x70xf32>
  %b = "graph.constant"() {value = dense<0.5> : tensor<70xf32>} : () -> tensor<70xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<1x20xf32>, tensor<20x70xf32>) -> tensor<1x70xf32>
  %1 = "graph.add"(%0, %b) : (tensor<1x70xf32>, tensor<70xf32>) -> tensor<1x70xf32>
  return %1 : tensor<1x70xf32>
}

// -----

// As many rows as a run has: as for several.
// CHECK-LABEL: func.func @main
// CHECK: %[[M:[0-9]+]] = "packed.matmul"(%arg0, %{{[0-9]+}}) : (tensor<3x?x20xf32, "n">, tensor<3x20x16xf32>) -> tensor<3x?x3x16xf32, "n">
// CHECK: %[[B:[0-9]+]] = "graph.add"(%[[M]], %{{[0-9]+}}) : (tensor<3x?x3x16xf32, "n">, tensor<3x16xf32>) -> tensor<3x?x3x16xf32, "n">
// CHECK: %[[F:[0-9]+]] = "graph.reshape"(%[[B]]) {shape = [3, "n", 48]} {{.*}} -> tensor<3x?x48xf32, "n">
// CHECK: "graph.slice"(%[[F]]) {sizes = array<i64: 3, -1, 44>{{.*}} -> tensor<3x?x44xf32, "n">
func.func @main(%x: tensor<3x?x20xf32, "n">) -> tensor<3x?x44xf32, "n"> {
  %w = "graph.constant"() {value = dense<0.25> : tensor<20x44xf32>} : () -> tensor<20x44xf32>
  %b = "graph.constant"() {value = dense<0.5> : tensor<44xf32>} : () -> tensor<44xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<3x?x20xf32, "n">, tensor<20x44xf32>) -> tensor<3x?x44xf32, "n">
  %1 = "graph.add"(%0, %b) : (tensor<3x?x44xf32, "n">, tensor<44xf32>) -> tensor<3x?x44xf32, "n">
  return %1 : tensor<3x?x44xf32, "n">
}

// -----

// Left alone: a small right-hand side that is not known, batches of matrices, integers, few columns.
// CHECK-LABEL: func.func @main
// CHECK-NOT: panel
func.func @main(%x: tensor<4x20xf32>, %y: tensor<20x64xf32>, %z: tensor<2x4x20xf32>, %i: tensor<4x20xi32>) -> (tensor<4x64xf32>, tensor<2x4x64xf32>, tensor<4x64xi32>, tensor<4x3xf32>) {
  %0 = "graph.matmul"(%x, %y) : (tensor<4x20xf32>, tensor<20x64xf32>) -> tensor<4x64xf32>
  %v = "graph.constant"() {value = dense<0.5> : tensor<2x20x64xf32>} : () -> tensor<2x20x64xf32>
  %1 = "graph.matmul"(%z, %v) : (tensor<2x4x20xf32>, tensor<2x20x64xf32>) -> tensor<2x4x64xf32>
  %w = "graph.constant"() {value = dense<5> : tensor<20x64xi32>} : () -> tensor<20x64xi32>
  %2 = "graph.matmul"(%i, %w) : (tensor<4x20xi32>, tensor<20x64xi32>) -> tensor<4x64xi32>
  %u = "graph.constant"() {value = dense<0.5> : tensor<20x3xf32>} : () -> tensor<20x3xf32>
  %3 = "graph.matmul"(%x, %u) : (tensor<4x20xf32>, tensor<20x3xf32>) -> tensor<4x3xf32>
  return %0, %1, %2, %3 : tensor<4x64xf32>, tensor<2x4x64xf32>, tensor<4x64xi32>, tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: "packed.matmul"{{.*}} -> tensor<1x63x16xf32>
func.func @main(%x: tensor<1x20xf32>) -> tensor<1x1000xf32> {
  %w = "graph.constant"() {value = dense<0.25> : tensor<20x1000xf32>} : () -> tensor<20x1000xf32>
  %0 = "graph.matmul"(%x, %w) : (tensor<1x20xf32>, tensor<20x1000xf32>) -> tensor<1x1000xf32>
  return %0 : tensor<1x1000xf32>
}

// -----

// A large matrix that is not a constant is packed at run time, filled up with zeros, if enough rows are multiplied by it.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%arg1) {{.*}}high = array<i64: 0, 8>{{.*}} -> tensor<700x1008xf32>
// CHECK: %[[A:[0-9]+]] = "graph.reshape"(%[[P]]) {{.*}} -> tensor<700x63x16xf32>
// CHECK: %[[T:[0-9]+]] = "graph.transpose"(%[[A]]) {perm = array<i64: 1, 0, 2>} {{.*}} -> tensor<63x700x16xf32>
// CHECK: %[[M:[0-9]+]] = "packed.matmul"(%arg0, %[[T]])
// CHECK: "graph.slice"({{.*}} -> tensor<16x1000xf32>
// CHECK: "graph.matmul"(%arg2, %arg1)
func.func @main(%x: tensor<16x700xf32>, %y: tensor<700x1000xf32>, %few: tensor<15x700xf32>) -> (tensor<16x1000xf32>, tensor<15x1000xf32>) {
  %0 = "graph.matmul"(%x, %y) : (tensor<16x700xf32>, tensor<700x1000xf32>) -> tensor<16x1000xf32>
  %1 = "graph.matmul"(%few, %y) : (tensor<15x700xf32>, tensor<700x1000xf32>) -> tensor<15x1000xf32>
  return %0, %1 : tensor<16x1000xf32>, tensor<15x1000xf32>
}

// -----

// The weights of a recurrent layer, gate by gate; those that are not known stay as they are.
// CHECK-LABEL: func.func @main
// CHECK: "graph.rnn"(%arg0, %{{[0-9]+}}) {{.*}} : (tensor<3x1x24xf32>, tensor<1x1x3x24x8xf32>)
// CHECK: "graph.rnn"(%arg0, %arg1) {{.*}} : (tensor<3x1x24xf32>, tensor<1x1x1x24x24xf32>)
func.func @main(%x: tensor<3x1x24xf32>, %v: tensor<1x1x1x24x24xf32>) -> (tensor<1x1x24xf32>, tensor<1x1x24xf32>) {
  %w = "graph.constant"() {value = dense<0.25> : tensor<1x1x1x24x24xf32>} : () -> tensor<1x1x1x24x24xf32>
  %0, %1 = "graph.rnn"(%x, %w) {activations = ["tanh"], alphas = [0.0], betas = [0.0], clip = 1.0, direction = "forward", operandSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (tensor<3x1x24xf32>, tensor<1x1x1x24x24xf32>) -> (tensor<3x1x1x24xf32>, tensor<1x1x24xf32>)
  %2, %3 = "graph.rnn"(%x, %v) {activations = ["tanh"], alphas = [0.0], betas = [0.0], clip = 1.0, direction = "forward", operandSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (tensor<3x1x24xf32>, tensor<1x1x1x24x24xf32>) -> (tensor<3x1x1x24xf32>, tensor<1x1x24xf32>)
  return %1, %3 : tensor<1x1x24xf32>, tensor<1x1x24xf32>
}

// -----

// So they are for as many steps and rows as come, in panels for several rows.
// CHECK-LABEL: func.func @main
// CHECK: "graph.rnn"(%arg0, %{{[0-9]+}}) {{.*}} : (tensor<?x?x32xf32, "s, n">, tensor<1x1x2x32x16xf32>)
func.func @main(%x: tensor<?x?x32xf32, "s, n">) -> tensor<1x?x32xf32, "n"> {
  %w = "graph.constant"() {value = dense<0.25> : tensor<1x1x1x32x32xf32>} : () -> tensor<1x1x1x32x32xf32>
  %0, %1 = "graph.rnn"(%x, %w) {activations = ["tanh"], alphas = [0.0], betas = [0.0], clip = 1.0, direction = "forward", operandSegmentSizes = array<i32: 1, 1, 0, 0>}
    : (tensor<?x?x32xf32, "s, n">, tensor<1x1x1x32x32xf32>) -> (tensor<?x1x?x32xf32, "s, n">, tensor<1x?x32xf32, "n">)
  return %1 : tensor<1x?x32xf32, "n">
}
