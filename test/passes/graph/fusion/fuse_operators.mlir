// RUN: stepwell-opt %s --fuse-operators --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='fuse-operators{producers=false}' --split-input-file | FileCheck %s --check-prefix=OFF

// A root takes the element-wise ops after it and one pad; bias and residual come in as inputs, a number goes inside.
// CHECK-LABEL: func.func @epilogue
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<1x2x4xf32>, %[[W:arg[0-9]+]]: tensor<2x2x1xf32>, %[[R:arg[0-9]+]]: tensor<1x2x4xf32>
// CHECK-NEXT: %[[B:.*]] = "graph.constant"() {value = dense<{{.*}}1.000000e+00{{.*}}2.000000e+00{{.*}}> : tensor<1x2x1xf32>}
// CHECK-NEXT: %[[F:.*]] = "graph.fused"(%[[X]], %[[W]], %[[B]], %[[R]]) ({
// CHECK-NEXT: ^bb0(%[[IX:.*]]: tensor<1x2x4xf32>, %[[IW:.*]]: tensor<2x2x1xf32>, %[[IB:.*]]: tensor<1x2x1xf32>, %[[IR:.*]]: tensor<1x2x4xf32>):
// CHECK-NEXT: %[[H:.*]] = "graph.constant"() {value = dense<5.000000e-01> : tensor<f32>}
// CHECK-NEXT: %[[C:.*]] = "graph.conv"(%[[IX]], %[[IW]])
// CHECK-NEXT: %[[D:.*]] = "graph.add"(%[[C]], %[[IB]])
// CHECK-NEXT: %[[E:.*]] = "graph.add"(%[[IR]], %[[D]])
// CHECK-NEXT: %[[G:.*]] = "graph.mul"(%[[E]], %[[H]])
// CHECK-NEXT: %[[P:.*]] = "graph.pad"(%[[G]])
// CHECK-NEXT: "graph.yield"(%[[P]])
// CHECK-NEXT: }) : {{.*}} -> tensor<1x2x6xf32>
// CHECK-NEXT: return %[[F]]
func.func @epilogue(%x: tensor<1x2x4xf32>, %w: tensor<2x2x1xf32>, %r: tensor<1x2x4xf32>) -> tensor<1x2x6xf32> {
  %b = "graph.constant"() {value = dense<[[[1.0], [2.0]]]> : tensor<1x2x1xf32>} : () -> tensor<1x2x1xf32>
  %half = "graph.constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x2x4xf32>, tensor<2x2x1xf32>) -> tensor<1x2x4xf32>
  %1 = "graph.add"(%0, %b) : (tensor<1x2x4xf32>, tensor<1x2x1xf32>) -> tensor<1x2x4xf32>
  %2 = "graph.add"(%r, %1) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %3 = "graph.mul"(%2, %half) : (tensor<1x2x4xf32>, tensor<f32>) -> tensor<1x2x4xf32>
  %4 = "graph.pad"(%3) {low = array<i64: 0, 0, 1>, high = array<i64: 0, 0, 1>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x6xf32>
  return %4 : tensor<1x2x6xf32>
}

// -----

// A value with users outside ends its group.
// CHECK-LABEL: func.func @two_users
// CHECK: %[[A:.*]] = "graph.fused"
// CHECK: "graph.reduce_sum"
// CHECK: "graph.relu"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"(%[[A]])
// CHECK: "graph.exp"
// CHECK: "graph.fused"(%[[A]])
// CHECK: "graph.pad"
func.func @two_users(%x: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<5xf32>) {
  %0 = "graph.reduce_sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xf32>
  %1 = "graph.relu"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.exp"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "graph.pad"(%1) {low = array<i64: 1>, high = array<i64: 1>, mode = "constant", value = 0.0 : f64} : (tensor<3xf32>) -> tensor<5xf32>
  return %2, %3 : tensor<3xf32>, tensor<5xf32>
}

// -----

// Paths that part and meet again stay in one group: x * sigmoid(x) after a matrix product.
// CHECK-LABEL: func.func @diamond
// CHECK-COUNT-1: "graph.fused"
// CHECK: "graph.matmul"
// CHECK-NEXT: "graph.sigmoid"
// CHECK-NEXT: "graph.mul"
// CHECK-NEXT: "graph.yield"
// CHECK-NOT: "graph.fused"
func.func @diamond(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "graph.matmul"(%x, %x) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "graph.sigmoid"(%0) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "graph.mul"(%0, %1) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// -----

// Paths that part and meet only through something else do not: that would be a cycle.
// CHECK-LABEL: func.func @no_cycle
// CHECK: %[[A:.*]] = "graph.fused"
// CHECK: "graph.relu"
// CHECK: %[[T:.*]] = "graph.fused"(%[[A]])
// CHECK: "graph.transpose"
// CHECK: "graph.fused"(%[[A]], %[[T]])
// CHECK: "graph.add"
func.func @no_cycle(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "graph.transpose"(%0) {perm = array<i64: 1, 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "graph.add"(%0, %1) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// -----

// A root's value is never broadcast up within its group.
// CHECK-LABEL: func.func @broadcast
// CHECK: "graph.fused"
// CHECK: "graph.reduce_max"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.sub"
func.func @broadcast(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "graph.reduce_max"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  %1 = "graph.sub"(%x, %0) : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// -----

// Of two roots that are added, the later takes the addition, at its own place; the earlier one stays before it.
// CHECK-LABEL: func.func @two_roots
// CHECK: %[[A:.*]] = "graph.fused"(%arg0)
// CHECK: "graph.softmax"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"(%arg1, %[[A]])
// CHECK: "graph.softmax"
// CHECK-NEXT: "graph.add"
func.func @two_roots(%x: tensor<3x3xf32>, %y: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = "graph.softmax"(%x) {axis = 1 : i64} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = "graph.softmax"(%y) {axis = 1 : i64} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %2 = "graph.add"(%0, %1) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// -----

// Element-wise ops join each other, whichever comes first.
// CHECK-LABEL: func.func @elementwise
// CHECK: "graph.fused"(%arg0, %arg1)
// CHECK: "graph.exp"
// CHECK-NEXT: "graph.sqrt"
// CHECK-NEXT: "graph.mul"
// CHECK-NEXT: "graph.cast"
// CHECK-NEXT: "graph.yield"
// CHECK-NOT: "graph.fused"
func.func @elementwise(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xi32> {
  %0 = "graph.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "graph.sqrt"(%y) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.mul"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "graph.cast"(%2) {to = i32, saturate = false} : (tensor<3xf32>) -> tensor<3xi32>
  return %3 : tensor<3xi32>
}

// -----

// What computes nothing stays outside; a concatenation that interleaves, a pad that copies and what picks elements are groups of one.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT: "graph.parameter"
// CHECK-NEXT: "graph.reshape"
// CHECK-NEXT: "graph.concat"
// CHECK-NEXT: "graph.fused"
// CHECK: "graph.concat"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.pad"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.slice"
// CHECK-NEXT: "graph.yield"
func.func @alone(%x: tensor<1x2x3xf32>) -> (tensor<1x4x3xf32>, tensor<1x2x6xf32>, tensor<1x2x5xf32>, tensor<1x1x3xf32>) {
  %p = "graph.parameter"() {id = "w"} : () -> tensor<6xf32>
  %r = "graph.reshape"(%p) {shape = array<i64: 1, 2, 3>} : (tensor<6xf32>) -> tensor<1x2x3xf32>
  %0 = "graph.concat"(%x, %r) {axis = 1 : i64} : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x4x3xf32>
  %1 = "graph.concat"(%x, %r) {axis = 2 : i64} : (tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x2x6xf32>
  %2 = "graph.pad"(%x) {low = array<i64: 0, 0, 1>, high = array<i64: 0, 0, 1>, mode = "edge", value = 0.0 : f64} : (tensor<1x2x3xf32>) -> tensor<1x2x5xf32>
  %3 = "graph.slice"(%x) {starts = array<i64: 0, 1, 0>, sizes = array<i64: 1, 1, 3>, steps = array<i64: 1, 1, 1>} : (tensor<1x2x3xf32>) -> tensor<1x1x3xf32>
  return %0, %1, %2, %3 : tensor<1x4x3xf32>, tensor<1x2x6xf32>, tensor<1x2x5xf32>, tensor<1x1x3xf32>
}

// -----

// All results of an op come out of its group.
// CHECK-LABEL: func.func @two_results
// CHECK: %[[F:.*]]:2 = "graph.fused"(%arg0)
// CHECK: "graph.constant"() {value = dense<2>
// CHECK: %[[T:.*]]:2 = "graph.top_k"
// CHECK-NEXT: "graph.yield"(%[[T]]#0, %[[T]]#1)
// CHECK: return %[[F]]#0, %[[F]]#1
func.func @two_results(%x: tensor<5xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
  %k = "graph.constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %v, %i = "graph.top_k"(%x, %k) {axis = 0 : i64, largest = true} : (tensor<5xf32>, tensor<i64>) -> (tensor<2xf32>, tensor<2xi64>)
  return %v, %i : tensor<2xf32>, tensor<2xi64>
}

// -----

// Bodies of control flow are grouped by themselves; a value that they use ends its group outside.
// CHECK-LABEL: func.func @branches
// CHECK: %[[R:.*]] = "graph.fused"(%arg1)
// CHECK: "graph.relu"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.if"
// CHECK-NEXT: "graph.fused"(%[[R]])
// CHECK: "graph.exp"
// CHECK-NEXT: "graph.neg"
// CHECK: "graph.yield"
// CHECK: "graph.fused"(%[[R]])
// CHECK: "graph.sin"
func.func @branches(%c: tensor<i1>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "graph.if"(%c) ({
    %2 = "graph.exp"(%0) : (tensor<3xf32>) -> tensor<3xf32>
    %3 = "graph.neg"(%2) : (tensor<3xf32>) -> tensor<3xf32>
    "graph.yield"(%3) : (tensor<3xf32>) -> ()
  }, {
    "graph.yield"(%0) : (tensor<3xf32>) -> ()
  }) : (tensor<i1>) -> tensor<3xf32>
  %4 = "graph.sin"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  return %1, %4 : tensor<3xf32>, tensor<3xf32>
}

// -----

// Where a size is not known, equal types may hide a broadcast: a number surely does not, another tensor may.
// CHECK-LABEL: func.func @unknown_size
// CHECK: "graph.fused"(%arg0)
// CHECK: "graph.exp"
// CHECK-NEXT: "graph.mul"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.add"
func.func @unknown_size(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c = "graph.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "graph.exp"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %1 = "graph.mul"(%0, %c) : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>
  %2 = "graph.add"(%1, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %2 : tensor<?xf32>
}

// -----

// A pointwise convolution takes the element-wise ops that make its image.
// CHECK-LABEL: func.func @pointwise
// CHECK-COUNT-1: "graph.fused"
// CHECK: "graph.mul"
// CHECK-NEXT: "graph.relu"
// CHECK-NEXT: "packed.conv"
// CHECK-NEXT: "graph.clamp"
// CHECK-NEXT: "graph.yield"
// CHECK-NOT: "graph.fused"
// OFF-LABEL: func.func @pointwise
// OFF-COUNT-2: "graph.fused"
func.func @pointwise(%x: tensor<1x2x5x7x8xf32>, %s: tensor<1x2x1x1x8xf32>, %w: tensor<3x2x1x1x8x8xf32>) -> tensor<1x3x5x7x8xf32> {
  %0 = "graph.mul"(%x, %s) : (tensor<1x2x5x7x8xf32>, tensor<1x2x1x1x8xf32>) -> tensor<1x2x5x7x8xf32>
  %1 = "graph.relu"(%0) : (tensor<1x2x5x7x8xf32>) -> tensor<1x2x5x7x8xf32>
  %2 = "packed.conv"(%1, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x5x7x8xf32>, tensor<3x2x1x1x8x8xf32>) -> tensor<1x3x5x7x8xf32>
  %3 = "graph.clamp"(%2) {min = 0.0 : f64, max = 6.0 : f64} : (tensor<1x3x5x7x8xf32>) -> tensor<1x3x5x7x8xf32>
  return %3 : tensor<1x3x5x7x8xf32>
}

// -----

// And a depthwise convolution with its epilogue.
// CHECK-LABEL: func.func @depthwise
// CHECK: "graph.fused"
// CHECK: "graph.relu"
// CHECK-NEXT: "graph.pad"
// CHECK: "graph.fused"
// CHECK: "packed.depthwise_conv"
// CHECK-NEXT: "graph.relu"
// CHECK-NEXT: "packed.conv"
// CHECK-NEXT: "graph.yield"
// OFF-LABEL: func.func @depthwise
// OFF-COUNT-3: "graph.fused"
func.func @depthwise(%x: tensor<1x2x5x7x8xf32>, %k: tensor<2x3x3x8xf32>, %w: tensor<2x2x1x1x8x8xf32>) -> tensor<1x2x3x4x8xf32> {
  %0 = "graph.relu"(%x) : (tensor<1x2x5x7x8xf32>) -> tensor<1x2x5x7x8xf32>
  %1 = "graph.pad"(%0) {low = array<i64: 0, 0, 1, 1, 0>, high = array<i64: 0, 0, 1, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x2x5x7x8xf32>) -> tensor<1x2x7x9x8xf32>
  %2 = "packed.depthwise_conv"(%1, %k) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>} : (tensor<1x2x7x9x8xf32>, tensor<2x3x3x8xf32>) -> tensor<1x2x3x4x8xf32>
  %3 = "graph.relu"(%2) : (tensor<1x2x3x4x8xf32>) -> tensor<1x2x3x4x8xf32>
  %4 = "packed.conv"(%3, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x3x4x8xf32>, tensor<2x2x1x1x8x8xf32>) -> tensor<1x2x3x4x8xf32>
  return %4 : tensor<1x2x3x4x8xf32>
}

// -----

// What something else uses too is computed by itself.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: %[[R:.*]] = "graph.fused"(%arg0)
// CHECK: "graph.relu"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"(%[[R]], %arg1)
// CHECK: "packed.conv"
func.func @read_elsewhere(%x: tensor<1x2x5x7x8xf32>, %w: tensor<3x2x1x1x8x8xf32>) -> (tensor<1x3x5x7x8xf32>, tensor<1x2x5x7x8xf32>) {
  %0 = "graph.relu"(%x) : (tensor<1x2x5x7x8xf32>) -> tensor<1x2x5x7x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x5x7x8xf32>, tensor<3x2x1x1x8x8xf32>) -> tensor<1x3x5x7x8xf32>
  return %1, %0 : tensor<1x3x5x7x8xf32>, tensor<1x2x5x7x8xf32>
}

// -----

// CHECK-LABEL: func.func @depthwise_read_elsewhere
// CHECK: %[[D:.*]] = "graph.fused"(%arg0, %arg1)
// CHECK: "packed.depthwise_conv"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"(%[[D]], %arg2)
// CHECK: "packed.conv"
func.func @depthwise_read_elsewhere(%x: tensor<1x2x7x9x8xf32>, %k: tensor<2x3x3x8xf32>, %w: tensor<2x2x1x1x8x8xf32>) -> (tensor<1x2x5x7x8xf32>, tensor<1x2x5x7x8xf32>) {
  %0 = "packed.depthwise_conv"(%x, %k) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<1x2x7x9x8xf32>, tensor<2x3x3x8xf32>) -> tensor<1x2x5x7x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x5x7x8xf32>, tensor<2x2x1x1x8x8xf32>) -> tensor<1x2x5x7x8xf32>
  return %1, %0 : tensor<1x2x5x7x8xf32>, tensor<1x2x5x7x8xf32>
}

// -----

// In groups it is not worth its memory.
// CHECK-LABEL: func.func @groups
// CHECK-COUNT-2: "graph.fused"
func.func @groups(%x: tensor<1x2x5x7x8xf32>, %w: tensor<2x1x1x1x8x8xf32>) -> tensor<1x2x5x7x8xf32> {
  %0 = "graph.relu"(%x) : (tensor<1x2x5x7x8xf32>) -> tensor<1x2x5x7x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 2 : i64} : (tensor<1x2x5x7x8xf32>, tensor<2x1x1x1x8x8xf32>) -> tensor<1x2x5x7x8xf32>
  return %1 : tensor<1x2x5x7x8xf32>
}

// -----

// With strides or a window, positions of the result do not need the same positions of the image.
// CHECK-LABEL: func.func @not_pointwise
// CHECK: "graph.fused"(%arg0)
// CHECK: "graph.relu"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "packed.conv"
// CHECK-NEXT: "graph.exp"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "packed.conv"
func.func @not_pointwise(%x: tensor<1x2x6x6x8xf32>, %w: tensor<2x2x1x1x8x8xf32>, %v: tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x1x1x8xf32> {
  %0 = "graph.relu"(%x) : (tensor<1x2x6x6x8xf32>) -> tensor<1x2x6x6x8xf32>
  %1 = "packed.conv"(%0, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x6x6x8xf32>, tensor<2x2x1x1x8x8xf32>) -> tensor<1x2x3x3x8xf32>
  %2 = "graph.exp"(%1) : (tensor<1x2x3x3x8xf32>) -> tensor<1x2x3x3x8xf32>
  %3 = "packed.conv"(%2, %v) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x3x3x8xf32>, tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x1x1x8xf32>
  return %3 : tensor<1x2x1x1x8xf32>
}

// -----

// A reduction reads each element once, and computes what it reads; so does a pooling whose windows lie apart.
// CHECK-LABEL: func.func @read_once
// CHECK-COUNT-2: "graph.fused"
// CHECK: "graph.exp"
// CHECK-NEXT: "graph.max_pool"
// CHECK-NEXT: "graph.yield"
// CHECK-NOT: "graph.fused"
// OFF-LABEL: func.func @read_once
// OFF-COUNT-4: "graph.fused"
func.func @read_once(%x: tensor<1x2x4x6xf32>, %y: tensor<1x2x4x6xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x2x2x3xf32>) {
  %0 = "graph.relu"(%x) : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %1 = "graph.reduce_sum"(%0) {axes = array<i64: 2, 3>, keepdims = true} : (tensor<1x2x4x6xf32>) -> tensor<1x2x1x1xf32>
  %2 = "graph.exp"(%y) : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %3 = "graph.max_pool"(%2) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x2x4x6xf32>) -> tensor<1x2x2x3xf32>
  return %1, %3 : tensor<1x2x1x1xf32>, tensor<1x2x2x3xf32>
}

// -----

// Where windows overlap, each element would be computed for each of them.
// CHECK-LABEL: func.func @windows_overlap
// CHECK-COUNT-2: "graph.fused"
func.func @windows_overlap(%x: tensor<1x2x4x6xf32>) -> tensor<1x2x3x5xf32> {
  %0 = "graph.exp"(%x) : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x2x4x6xf32>) -> tensor<1x2x3x5xf32>
  return %1 : tensor<1x2x3x5xf32>
}

// -----

// A pooling whose windows lie apart takes the convolution that it alone reads, with its epilogue, if it reads all of it.
// CHECK-LABEL: func.func @pooled
// CHECK-COUNT-1: "graph.fused"
// CHECK: "packed.conv"
// CHECK-NEXT: "graph.relu"
// CHECK-NEXT: "graph.avg_pool"
// CHECK-NEXT: "graph.yield"
// CHECK-NOT: "graph.fused"
// OFF-LABEL: func.func @pooled
// OFF-COUNT-2: "graph.fused"
func.func @pooled(%x: tensor<1x2x6x6x8xf32>, %w: tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x2x2x8xf32> {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x6x6x8xf32>, tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x4x4x8xf32>
  %1 = "graph.relu"(%0) : (tensor<1x2x4x4x8xf32>) -> tensor<1x2x4x4x8xf32>
  %2 = "graph.avg_pool"(%1) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false, count_include_pad = true} : (tensor<1x2x4x4x8xf32>) -> tensor<1x2x2x2x8xf32>
  return %2 : tensor<1x2x2x2x8xf32>
}

// -----

// Windows that overlap or leave a row out have kernels of their own, and so has one of two readers.
// CHECK-LABEL: func.func @not_in_rows
// CHECK-COUNT-2: "graph.fused"
// CHECK-LABEL: func.func @row_left_out
// CHECK-COUNT-2: "graph.fused"
// CHECK-LABEL: func.func @read_twice
// CHECK-COUNT-2: "graph.fused"
func.func @not_in_rows(%x: tensor<1x2x7x7x8xf32>, %w: tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x2x2x8xf32> {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x7x7x8xf32>, tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x5x5x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x2x5x5x8xf32>) -> tensor<1x2x2x2x8xf32>
  return %1 : tensor<1x2x2x2x8xf32>
}
func.func @row_left_out(%x: tensor<1x2x7x7x8xf32>, %w: tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x2x2x8xf32> {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x7x7x8xf32>, tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x5x5x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x2x5x5x8xf32>) -> tensor<1x2x2x2x8xf32>
  return %1 : tensor<1x2x2x2x8xf32>
}
func.func @read_twice(%x: tensor<1x2x6x6x8xf32>, %w: tensor<2x2x3x3x8x8xf32>) -> (tensor<1x2x2x2x8xf32>, tensor<1x2x4x4x8xf32>) {
  %0 = "packed.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64} : (tensor<1x2x6x6x8xf32>, tensor<2x2x3x3x8x8xf32>) -> tensor<1x2x4x4x8xf32>
  %1 = "graph.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x2x4x4x8xf32>) -> tensor<1x2x2x2x8xf32>
  return %1, %0 : tensor<1x2x2x2x8xf32>, tensor<1x2x4x4x8xf32>
}

// -----

// What is transposed is written inside its padding, if nothing else reads it.
// CHECK-LABEL: func.func @transposed_and_padded
// CHECK: graph.fused
// CHECK: graph.transpose
// CHECK-NEXT: graph.pad
// CHECK-NEXT: graph.yield
// CHECK-LABEL: func.func @padded_and_read
// CHECK-COUNT-2: graph.fused
func.func @transposed_and_padded(%x: tensor<2x3x4xf32>) -> tensor<2x6x3xf32> {
  %0 = "graph.transpose"(%x) {perm = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %1 = "graph.pad"(%0) {low = array<i64: 0, 1, 0>, high = array<i64: 0, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<2x4x3xf32>) -> tensor<2x6x3xf32>
  return %1 : tensor<2x6x3xf32>
}
func.func @padded_and_read(%x: tensor<2x3x4xf32>) -> (tensor<2x6x3xf32>, tensor<2x4x3xf32>) {
  %0 = "graph.transpose"(%x) {perm = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %1 = "graph.pad"(%0) {low = array<i64: 0, 1, 0>, high = array<i64: 0, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<2x4x3xf32>) -> tensor<2x6x3xf32>
  return %1, %0 : tensor<2x6x3xf32>, tensor<2x4x3xf32>
}

// -----

// Element-wise ops read through slices and transpositions that keep whole rows, in each kernel that needs them; a concatenation that moves its
// operands has the kernels that make them write them where they belong. Nothing is only copied, and what others use too is computed once.
// CHECK-LABEL: func.func @views
// CHECK: "graph.fused"
// CHECK: "graph.exp"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.slice"
// CHECK-NEXT: "graph.sub"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.transpose"
// CHECK-NEXT: "graph.slice"
// CHECK-NEXT: "graph.slice"
// CHECK-NEXT: "graph.mul"
// CHECK-NEXT: "graph.mul"
// CHECK-NEXT: "graph.concat"
// CHECK-NEXT: "graph.yield"
// CHECK-NOT: graph.
// CHECK: return
// OFF-LABEL: func.func @views
// OFF: "graph.transpose"
// OFF-NEXT: "graph.yield"
// OFF: "graph.slice"
// OFF-NEXT: "graph.yield"
// OFF: "graph.concat"
// OFF-NEXT: "graph.yield"
func.func @views(%x: tensor<3x2x40xf32>, %t: tensor<2x3x20xf32>) -> (tensor<3x2x60xf32>, tensor<3x2x20xf32>) {
  %turned = "graph.transpose"(%t) {perm = array<i64: 1, 0, 2>} : (tensor<2x3x20xf32>) -> tensor<3x2x20xf32>
  %a = "graph.slice"(%x) {starts = array<i64: 0, 0, 0>, sizes = array<i64: 3, 2, 20>, steps = array<i64: 1, 1, 1>}
    : (tensor<3x2x40xf32>) -> tensor<3x2x20xf32>
  %b = "graph.slice"(%x) {starts = array<i64: 0, 0, 20>, sizes = array<i64: 3, 2, 20>, steps = array<i64: 1, 1, 1>}
    : (tensor<3x2x40xf32>) -> tensor<3x2x20xf32>
  %e = "graph.exp"(%a) : (tensor<3x2x20xf32>) -> tensor<3x2x20xf32>
  %p = "graph.mul"(%turned, %a) : (tensor<3x2x20xf32>, tensor<3x2x20xf32>) -> tensor<3x2x20xf32>
  %q = "graph.mul"(%turned, %b) : (tensor<3x2x20xf32>, tensor<3x2x20xf32>) -> tensor<3x2x20xf32>
  %d = "graph.sub"(%e, %b) : (tensor<3x2x20xf32>, tensor<3x2x20xf32>) -> tensor<3x2x20xf32>
  %c = "graph.concat"(%p, %q, %e) {axis = 2 : i64} : (tensor<3x2x20xf32>, tensor<3x2x20xf32>, tensor<3x2x20xf32>) -> tensor<3x2x60xf32>
  return %c, %d : tensor<3x2x60xf32>, tensor<3x2x20xf32>
}

// -----

// Short rows, and elements that lie apart, are copied first: arithmetic on them would be in short vectors, or in none.
// CHECK-LABEL: func.func @no_views
// CHECK: "graph.slice"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.slice"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.transpose"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.add"
// What something else needs as a copy is read there.
// CHECK: "graph.transpose"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.reduce_sum"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: "graph.mul"
// CHECK-NEXT: "graph.yield"
// CHECK: return
func.func @no_views(%x: tensor<40x40xf32>, %y: tensor<40x8xf32>, %z: tensor<20x2x20xf32>) -> (tensor<40x8xf32>, tensor<40x20xf32>, tensor<40x40xf32>,
    tensor<2x20x20xf32>, tensor<2x20xf32>) {
  %a = "graph.slice"(%x) {starts = array<i64: 0, 4>, sizes = array<i64: 40, 8>, steps = array<i64: 1, 1>} : (tensor<40x40xf32>) -> tensor<40x8xf32>
  %b = "graph.slice"(%x) {starts = array<i64: 0, 1>, sizes = array<i64: 40, 20>, steps = array<i64: 1, 2>} : (tensor<40x40xf32>) -> tensor<40x20xf32>
  %t = "graph.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<40x40xf32>) -> tensor<40x40xf32>
  %p = "graph.add"(%a, %y) : (tensor<40x8xf32>, tensor<40x8xf32>) -> tensor<40x8xf32>
  %q = "graph.exp"(%b) : (tensor<40x20xf32>) -> tensor<40x20xf32>
  %r = "graph.exp"(%t) : (tensor<40x40xf32>) -> tensor<40x40xf32>
  %u = "graph.transpose"(%z) {perm = array<i64: 1, 0, 2>} : (tensor<20x2x20xf32>) -> tensor<2x20x20xf32>
  %v = "graph.reduce_sum"(%u) {axes = array<i64: 2>, keepdims = false} : (tensor<2x20x20xf32>) -> tensor<2x20xf32>
  %w = "graph.mul"(%u, %u) : (tensor<2x20x20xf32>, tensor<2x20x20xf32>) -> tensor<2x20x20xf32>
  return %p, %q, %r, %w, %v : tensor<40x8xf32>, tensor<40x20xf32>, tensor<40x40xf32>, tensor<2x20x20xf32>, tensor<2x20xf32>
}

// -----

// A scatter begins with a copy of what it scatters into: zeros are made there, and what is computed for nothing else is computed there.
// CHECK-LABEL: func.func @scatters
// CHECK: "graph.fused"
// CHECK: "graph.expand"
// CHECK-NEXT: "graph.scatter_elements"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.exp"
// CHECK-NEXT: "graph.yield"
// CHECK: "graph.fused"
// CHECK: "graph.neg"
// CHECK-NEXT: "graph.scatter_nd"
// CHECK-NEXT: "graph.yield"
// OFF-LABEL: func.func @scatters
// OFF: "graph.expand"
// OFF-NEXT: "graph.yield"
func.func @scatters(%i: tensor<5xi64>, %x: tensor<5xf32>, %y: tensor<9xf32>, %j: tensor<5x1xi64>) -> (tensor<9xf32>, tensor<9xf32>) {
  %zero = "graph.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "graph.expand"(%zero) {shape = array<i64: 9>} : (tensor<f32>) -> tensor<9xf32>
  %0 = "graph.scatter_elements"(%zeros, %i, %x) {from_start = false, axis = 0 : i64, reduction = "none"} : (tensor<9xf32>, tensor<5xi64>, tensor<5xf32>) -> tensor<9xf32>
  %e = "graph.exp"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %n = "graph.neg"(%y) : (tensor<9xf32>) -> tensor<9xf32>
  %1 = "graph.scatter_nd"(%n, %j, %e) {reduction = "none"} : (tensor<9xf32>, tensor<5x1xi64>, tensor<5xf32>) -> tensor<9xf32>
  return %0, %1 : tensor<9xf32>, tensor<9xf32>
}

// -----

// The elements of many pairs are read the other way round where they are used.
// CHECK-LABEL: func.func @swapped_pairs
// CHECK-NEXT: %[[F:.*]] = "graph.fused"(%{{.*}}) ({
// CHECK: "graph.slice"
// CHECK-NEXT: "graph.mul"
// CHECK: return %[[F]]
// OFF-LABEL: func.func @swapped_pairs
// OFF-COUNT-2: "graph.fused"
func.func @swapped_pairs(%x: tensor<3x64x2xf32>, %y: tensor<3x64x2xf32>) -> tensor<3x64x2xf32> {
  %0 = "graph.slice"(%x) {starts = array<i64: 0, 0, 1>, sizes = array<i64: -1, -1, 2>, steps = array<i64: 1, 1, -1>} : (tensor<3x64x2xf32>) -> tensor<3x64x2xf32>
  %1 = "graph.mul"(%0, %y) : (tensor<3x64x2xf32>, tensor<3x64x2xf32>) -> tensor<3x64x2xf32>
  return %1 : tensor<3x64x2xf32>
}
