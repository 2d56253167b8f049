// RUN: stepwell-opt %s --pass-pipeline='convert-layout{block=8},canonicalize' --split-input-file | FileCheck %s

// Between two convolutions data stays blocked: no transposition is left inside the chain, and the pad and the ReLU work on blocks.
// The image of three colours is read as it is.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<1x3x8x8xf32>
// CHECK: %[[C:[0-9]+]] = "packed.conv"(%[[X]], %{{.*}}) {{.*}} : (tensor<1x3x8x8xf32>, tensor<2x3x3x3x8xf32>) -> tensor<1x2x6x6x8xf32>
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[C]]) : (tensor<1x2x6x6x8xf32>)
// CHECK-NOT: transpose
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%[[R]]) {high = array<i64: 0, 0, 1, 1, 0>, low = array<i64: 0, 0, 1, 1, 0>
// CHECK-NOT: transpose
// CHECK: "packed.conv"(%[[P]], %{{.*}}) {{.*}} : (tensor<1x2x8x8x8xf32>, tensor<3x2x3x3x8x8xf32>) -> tensor<1x3x6x6x8xf32>
// CHECK: graph.transpose
// CHECK: graph.reshape
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x24x6x6xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<16x3x3x3xf32>} : () -> tensor<16x3x3x3xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x6x6xf32>
  %1 = "graph.relu"(%0) : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  %2 = "graph.pad"(%1) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0.0 : f64} : (tensor<1x16x6x6xf32>) -> tensor<1x16x8x8xf32>
  %w1 = "graph.constant"() {value = dense<0.25> : tensor<24x16x3x3xf32>} : () -> tensor<24x16x3x3xf32>
  %3 = "graph.conv"(%2, %w1) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x8xf32>, tensor<24x16x3x3xf32>) -> tensor<1x24x6x6xf32>
  return %3 : tensor<1x24x6x6xf32>
}

// -----

// So it is in one dimension.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<1x2x6x8xf32>
// CHECK: "graph.relu"(%[[C]]) : (tensor<1x2x6x8xf32>)
func.func @main(%x: tensor<1x3x8xf32>) -> tensor<1x16x6xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<16x3x3xf32>} : () -> tensor<16x3x3xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<1x3x8xf32>, tensor<16x3x3xf32>) -> tensor<1x16x6xf32>
  %1 = "graph.relu"(%0) : (tensor<1x16x6xf32>) -> tensor<1x16x6xf32>
  return %1 : tensor<1x16x6xf32>
}

// -----

// Twelve filters fill one block and half of another; the division, which could make infinities of the filling, is done on plain data.
// CHECK-LABEL: func.func @main
// CHECK: packed.conv{{.*}} -> tensor<1x2x6x6x8xf32>
// CHECK: graph.slice{{.*}} -> tensor<1x12x6x6xf32>
// CHECK: "graph.div"{{.*}} tensor<1x12x6x6xf32>
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x12x6x6xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<12x3x3x3xf32>} : () -> tensor<12x3x3x3xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<12x3x3x3xf32>) -> tensor<1x12x6x6xf32>
  %1 = "graph.div"(%0, %0) : (tensor<1x12x6x6xf32>, tensor<1x12x6x6xf32>) -> tensor<1x12x6x6xf32>
  return %1 : tensor<1x12x6x6xf32>
}

// -----

// Weights that are not known now, groups of so few filters that blocks would be mostly filling, and padded convolutions are left alone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: blocked
// CHECK-COUNT-3: "graph.conv"
func.func @main(%x: tensor<1x32x8x8xf32>, %w: tensor<32x32x3x3xf32>) -> (tensor<1x16x4x4xf32>, tensor<1x16x6x8xf32>) {
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x6x6xf32>
  %g = "graph.constant"() {value = dense<0.5> : tensor<16x2x3x3xf32>} : () -> tensor<16x2x3x3xf32>
  %1 = "graph.conv"(%0, %g) {dilations = array<i64: 1, 1>, group = 16 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x32x6x6xf32>, tensor<16x2x3x3xf32>) -> tensor<1x16x4x4xf32>
  %k = "graph.constant"() {value = dense<0.5> : tensor<16x32x3x3xf32>} : () -> tensor<16x32x3x3xf32>
  %2 = "graph.conv"(%x, %k) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 1, 0, 1>, strides = array<i64: 1, 1>} : (tensor<1x32x8x8xf32>, tensor<16x32x3x3xf32>) -> tensor<1x16x6x8xf32>
  return %1, %2 : tensor<1x16x4x4xf32>, tensor<1x16x6x8xf32>
}

// -----

// Sixteen and eight channels are joined block after block; twelve would end in the middle of one, and rows are no channels.
// CHECK-LABEL: func.func @main
// CHECK: "graph.concat"(%{{.*}}) {axis = 1 : i64} : (tensor<1x2x6x6x8xf32>, tensor<1x1x6x6x8xf32>) -> tensor<1x3x6x6x8xf32>
// CHECK: "graph.concat"(%{{.*}}) {axis = 1 : i64} : (tensor<1x12x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x28x6x6xf32>
// CHECK: "graph.concat"(%{{.*}}) {axis = 2 : i64} : (tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x16x12x6xf32>
func.func @main(%x: tensor<1x3x6x6xf32>) -> (tensor<1x24x6x6xf32>, tensor<1x28x6x6xf32>, tensor<1x16x12x6xf32>) {
  %w16 = "graph.constant"() {value = dense<0.5> : tensor<16x3x1x1xf32>} : () -> tensor<16x3x1x1xf32>
  %w12 = "graph.constant"() {value = dense<0.25> : tensor<12x3x1x1xf32>} : () -> tensor<12x3x1x1xf32>
  %w8 = "graph.constant"() {value = dense<0.125> : tensor<8x3x1x1xf32>} : () -> tensor<8x3x1x1xf32>
  %a = "graph.conv"(%x, %w16) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<16x3x1x1xf32>) -> tensor<1x16x6x6xf32>
  %b = "graph.conv"(%x, %w12) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<12x3x1x1xf32>) -> tensor<1x12x6x6xf32>
  %c = "graph.conv"(%x, %w8) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x6x6xf32>
  %0 = "graph.concat"(%a, %c) {axis = 1 : i64} : (tensor<1x16x6x6xf32>, tensor<1x8x6x6xf32>) -> tensor<1x24x6x6xf32>
  %1 = "graph.concat"(%b, %a) {axis = 1 : i64} : (tensor<1x12x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x28x6x6xf32>
  %2 = "graph.concat"(%a, %a) {axis = 2 : i64} : (tensor<1x16x6x6xf32>, tensor<1x16x6x6xf32>) -> tensor<1x16x12x6xf32>
  return %0, %1, %2 : tensor<1x24x6x6xf32>, tensor<1x28x6x6xf32>, tensor<1x16x12x6xf32>
}

// -----

// Two groups of whole blocks: the layout is that of one group, and each group reads blocks of its own.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"{{.*}} group = 1 : i64{{.*}} -> tensor<1x4x6x6x8xf32>
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[C]])
// CHECK: "packed.conv"(%[[R]], %{{.*}}) {{.*}} group = 2 : i64{{.*}} : (tensor<1x4x6x6x8xf32>, tensor<6x2x3x3x8x8xf32>) -> tensor<1x6x4x4x8xf32>
func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x48x4x4xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<32x3x1x1xf32>} : () -> tensor<32x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<32x3x1x1xf32>) -> tensor<1x32x6x6xf32>
  %1 = "graph.relu"(%0) : (tensor<1x32x6x6xf32>) -> tensor<1x32x6x6xf32>
  %w1 = "graph.constant"() {value = dense<0.25> : tensor<48x16x3x3xf32>} : () -> tensor<48x16x3x3xf32>
  %2 = "graph.conv"(%1, %w1) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x32x6x6xf32>, tensor<48x16x3x3xf32>) -> tensor<1x48x4x4xf32>
  return %2 : tensor<1x48x4x4xf32>
}

// -----

// The unit of ShuffleNet. Two groups of six filters fill half a block and a half each; what comes in has both groups' channels side by
// side. The shuffle and the transposition are gone: the filters before it are in such an order that the second convolution finds
// the three channels that each of its groups wants from each block side by side. Its result lies as the first one's.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"{{.*}} -> tensor<1x1x6x6x12xf32>
// CHECK: %[[D:[0-9]+]] = "packed.conv"(%[[C]], %{{.*}}) {{.*}} group = 2 : i64{{.*}} : (tensor<1x1x6x6x12xf32>, tensor<2x1x1x1x6x8xf32>) -> tensor<1x2x6x6x8xf32>
// CHECK-NOT: transpose
// CHECK: %[[E:[0-9]+]] = "packed.depthwise_conv"(%[[D]], %{{.*}}) {{.*}} : (tensor<1x2x6x6x8xf32>, tensor<2x3x3x8xf32>) -> tensor<1x2x4x4x8xf32>
// CHECK-NOT: transpose
// CHECK: %[[F:[0-9]+]] = "packed.conv"(%[[E]], %{{.*}}) {{.*}} group = 2 : i64{{.*}} : (tensor<1x2x4x4x8xf32>, tensor<2x2x1x1x3x8xf32>) -> tensor<1x2x4x4x8xf32>
// CHECK: "graph.slice"(%[[F]]) {{.*}} -> tensor<1x2x4x4x6xf32>
func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x12x4x4xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<12x3x1x1xf32>} : () -> tensor<12x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<12x3x1x1xf32>) -> tensor<1x12x6x6xf32>
  %w1 = "graph.constant"() {value = dense<0.25> : tensor<12x6x1x1xf32>} : () -> tensor<12x6x1x1xf32>
  %1 = "graph.conv"(%0, %w1) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x12x6x6xf32>, tensor<12x6x1x1xf32>) -> tensor<1x12x6x6xf32>
  %2 = "graph.reshape"(%1) {shape = array<i64: 1, 2, 6, 6, 6>} : (tensor<1x12x6x6xf32>) -> tensor<1x2x6x6x6xf32>
  %3 = "graph.transpose"(%2) {perm = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x2x6x6x6xf32>) -> tensor<1x6x2x6x6xf32>
  %4 = "graph.reshape"(%3) {shape = array<i64: 1, 12, 6, 6>} : (tensor<1x6x2x6x6xf32>) -> tensor<1x12x6x6xf32>
  %w2 = "graph.constant"() {value = dense<0.125> : tensor<12x1x3x3xf32>} : () -> tensor<12x1x3x3xf32>
  %5 = "graph.conv"(%4, %w2) {dilations = array<i64: 1, 1>, group = 12 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x12x6x6xf32>, tensor<12x1x3x3xf32>) -> tensor<1x12x4x4xf32>
  %w3 = "graph.constant"() {value = dense<0.75> : tensor<12x6x1x1xf32>} : () -> tensor<12x6x1x1xf32>
  %6 = "graph.conv"(%5, %w3) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x12x4x4xf32>, tensor<12x6x1x1xf32>) -> tensor<1x12x4x4xf32>
  return %6 : tensor<1x12x4x4xf32>
}

// -----

// A transposition of positions is no shuffle of channels, and is done on plain data.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"
// CHECK: %[[T:[0-9]+]] = "graph.transpose"{{.*}} -> tensor<1x2x8x6x4xf32>
// CHECK: %[[R:[0-9]+]] = "graph.reshape"(%[[T]])
// CHECK: "graph.relu"(%[[R]]) : (tensor<1x16x6x4xf32>)
func.func @main(%x: tensor<1x3x4x6xf32>) -> tensor<1x16x6x4xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<16x3x1x1xf32>} : () -> tensor<16x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x4x6xf32>, tensor<16x3x1x1xf32>) -> tensor<1x16x4x6xf32>
  %1 = "graph.reshape"(%0) {shape = array<i64: 1, 2, 8, 4, 6>} : (tensor<1x16x4x6xf32>) -> tensor<1x2x8x4x6xf32>
  %2 = "graph.transpose"(%1) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x2x8x4x6xf32>) -> tensor<1x2x8x6x4xf32>
  %3 = "graph.reshape"(%2) {shape = array<i64: 1, 16, 6, 4>} : (tensor<1x2x8x6x4xf32>) -> tensor<1x16x6x4xf32>
  %4 = "graph.relu"(%3) : (tensor<1x16x6x4xf32>) -> tensor<1x16x6x4xf32>
  return %4 : tensor<1x16x6x4xf32>
}

// -----

// Eight and four channels are joined and read by two groups of six, the second of which wants some of both: channels 0 to 5 are put
// into one block, 6 to 11 into another, and two lanes of each are filled with zeros.
// CHECK-LABEL: func.func @main
// CHECK: "packed.relayout"(%{{.*}}, %{{.*}}) {block = 8 : i64, sizes = array<i64: 6, 2, 6, 2>, starts = array<i64: 0, -1, 6, -1>} : (tensor<1x1x6x6x8xf32>, tensor<1x1x6x6x8xf32>) -> tensor<1x2x6x6x8xf32>
// CHECK: "packed.conv"{{.*}} group = 2 : i64
func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x12x6x6xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<8x3x1x1xf32>} : () -> tensor<8x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x6x6xf32>
  %w1 = "graph.constant"() {value = dense<0.25> : tensor<4x3x1x1xf32>} : () -> tensor<4x3x1x1xf32>
  %1 = "graph.conv"(%x, %w1) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x6x6xf32>
  %2 = "graph.concat"(%0, %1) {axis = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<1x4x6x6xf32>) -> tensor<1x12x6x6xf32>
  %w2 = "graph.constant"() {value = dense<0.125> : tensor<12x6x1x1xf32>} : () -> tensor<12x6x1x1xf32>
  %3 = "graph.conv"(%2, %w2) {dilations = array<i64: 1, 1>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x12x6x6xf32>, tensor<12x6x1x1xf32>) -> tensor<1x12x6x6xf32>
  return %3 : tensor<1x12x6x6xf32>
}

// -----

// What is added to every channel of a position is taken as it is; a correction of each position of a mean is of this kind.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"
// CHECK-NOT: transpose
// CHECK: %[[P:[0-9]+]] = "graph.reshape"(%{{.*}}) {{.*}} -> tensor<1x1x6x6x1xf32>
// CHECK: "graph.mul"(%[[C]], %[[P]])
func.func @main(%x: tensor<1x3x6x6xf32>, %p: tensor<1x1x6x6xf32>) -> tensor<1x16x6x6xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<16x3x1x1xf32>} : () -> tensor<16x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<16x3x1x1xf32>) -> tensor<1x16x6x6xf32>
  %1 = "graph.mul"(%0, %p) : (tensor<1x16x6x6xf32>, tensor<1x1x6x6xf32>) -> tensor<1x16x6x6xf32>
  return %1 : tensor<1x16x6x6xf32>
}

// -----

// Sums over positions that keep their dimensions are made on blocks; those over channels, or that drop dimensions, on plain data.
// CHECK-LABEL: func.func @main
// CHECK: "graph.reduce_sum"(%{{.*}}) {axes = array<i64: 2, 3>, keepdims = true} : (tensor<1x2x6x6x8xf32>) -> tensor<1x2x1x1x8xf32>
// CHECK: "graph.reduce_sum"(%{{.*}}) {axes = array<i64: 2, 3>, keepdims = false} : (tensor<1x16x6x6xf32>) -> tensor<1x16xf32>
// CHECK: "graph.reduce_sum"(%{{.*}}) {axes = array<i64: 1, 2>, keepdims = true} : (tensor<1x16x6x6xf32>) -> tensor<1x1x1x6xf32>
func.func @main(%x: tensor<1x3x6x6xf32>) -> (tensor<1x16x1x1xf32>, tensor<1x16xf32>, tensor<1x1x1x6xf32>) {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<16x3x1x1xf32>} : () -> tensor<16x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<16x3x1x1xf32>) -> tensor<1x16x6x6xf32>
  %1 = "graph.reduce_sum"(%0) {axes = array<i64: 2, 3>, keepdims = true} : (tensor<1x16x6x6xf32>) -> tensor<1x16x1x1xf32>
  %2 = "graph.reduce_sum"(%0) {axes = array<i64: 2, 3>, keepdims = false} : (tensor<1x16x6x6xf32>) -> tensor<1x16xf32>
  %3 = "graph.reduce_sum"(%0) {axes = array<i64: 1, 2>, keepdims = true} : (tensor<1x16x6x6xf32>) -> tensor<1x1x1x6xf32>
  return %1, %2, %3 : tensor<1x16x1x1xf32>, tensor<1x16xf32>, tensor<1x1x1x6xf32>
}

// -----

// A normalisation over neighbouring channels and the pooling after it work on blocks, of the last of which two lanes are filling.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"
// CHECK-NEXT: %[[L:[0-9]+]] = "packed.lrn"(%[[C]]) {alpha = {{.*}}, beta = {{.*}}, bias = {{.*}}, channels = 14 : i64, size = 5 : i64} : (tensor<1x2x6x6x8xf32>)
// CHECK-NEXT: "graph.max_pool"(%[[L]])
func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x14x5x5xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<14x3x1x1xf32>} : () -> tensor<14x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<14x3x1x1xf32>) -> tensor<1x14x6x6xf32>
  %1 = "graph.lrn"(%0) {size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64} : (tensor<1x14x6x6xf32>) -> tensor<1x14x6x6xf32>
  %2 = "graph.max_pool"(%1) {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false} : (tensor<1x14x6x6xf32>) -> tensor<1x14x5x5xf32>
  return %2 : tensor<1x14x5x5xf32>
}

// -----

// Plain data is not packed for a normalisation.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: "graph.lrn"
func.func @main(%x: tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32> {
  %0 = "graph.lrn"(%x) {size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64} : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  return %0 : tensor<1x16x6x6xf32>
}

// -----

// Channels that lie shuffled in their lanes are brought into order first: neighbours must lie side by side.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"
// CHECK: %[[R:[0-9]+]] = "packed.relayout"(%[[C]]) {block = 8 : i64, sizes = array<i64: 1, 1, 1, 1, 1, 1, 1, 1>, starts = array<i64: 0, 4, 1, 5, 2, 6, 3, 7>}
// CHECK: "packed.lrn"(%[[R]])
func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x8x6x6xf32> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<8x3x1x1xf32>} : () -> tensor<8x3x1x1xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x6x6xf32>
  %1 = "graph.reshape"(%0) {shape = array<i64: 1, 2, 4, 6, 6>} : (tensor<1x8x6x6xf32>) -> tensor<1x2x4x6x6xf32>
  %2 = "graph.transpose"(%1) {perm = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x2x4x6x6xf32>) -> tensor<1x4x2x6x6xf32>
  %3 = "graph.reshape"(%2) {shape = array<i64: 1, 8, 6, 6>} : (tensor<1x4x2x6x6xf32>) -> tensor<1x8x6x6xf32>
  %4 = "graph.lrn"(%3) {size = 3 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64} : (tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  return %4 : tensor<1x8x6x6xf32>
}

// -----

// A pad of positions keeps its value. One of channels, or one that repeats what is there, is done on plain data.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"
// CHECK: "graph.pad"(%[[C]]) {{{.*}}value = 1.500000e+00 : f64} : (tensor<1x2x6x6x8xf32>) -> tensor<1x2x6x8x8xf32>
// CHECK: "graph.pad"({{.*}} : (tensor<1x16x6x6xf32>) -> tensor<1x24x6x6xf32>
// CHECK: "graph.pad"({{.*}} : (tensor<1x16x6x6xf32>) -> tensor<1x24x6x6xf32>
// CHECK: "graph.pad"({{.*}} mode = "edge"{{.*}} : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x8xf32>
func.func @main(%x: tensor<1x3x6x6xf32>) -> (tensor<1x16x6x8xf32>, tensor<1x24x6x6xf32>, tensor<1x24x6x6xf32>, tensor<1x16x6x8xf32>) {
  %w = "graph.constant"() {value = dense<0.5> : tensor<16x3x1x1xf32>} : () -> tensor<16x3x1x1xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x3x6x6xf32>, tensor<16x3x1x1xf32>) -> tensor<1x16x6x6xf32>
  %1 = "graph.pad"(%0) {low = array<i64: 0, 0, 0, 1>, high = array<i64: 0, 0, 0, 1>, mode = "constant", value = 1.5 : f64} : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x8xf32>
  %2 = "graph.pad"(%0) {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 8, 0, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x16x6x6xf32>) -> tensor<1x24x6x6xf32>
  %3 = "graph.pad"(%0) {low = array<i64: 0, 8, 0, 0>, high = array<i64: 0, 0, 0, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x16x6x6xf32>) -> tensor<1x24x6x6xf32>
  %4 = "graph.pad"(%0) {low = array<i64: 0, 0, 0, 1>, high = array<i64: 0, 0, 0, 1>, mode = "edge", value = 0.0 : f64} : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x8xf32>
  return %1, %2, %3, %4 : tensor<1x16x6x8xf32>, tensor<1x24x6x6xf32>, tensor<1x24x6x6xf32>, tensor<1x16x6x8xf32>
}

// -----

// Four filters fill half of the lanes, which pays. Integers and images of unknown size stay plain.
// CHECK-LABEL: func.func @main
// CHECK: packed.conv{{.*}} -> tensor<1x1x6x6x8xf32>
// CHECK: "graph.conv"({{.*}} -> tensor<1x16x6x6xi32>
// CHECK: "graph.conv"({{.*}} -> tensor<1x16x?x6xf32>
func.func @main(%x: tensor<1x16x6x6xf32>, %y: tensor<1x16x6x6xi32>, %z: tensor<1x16x?x6xf32>) -> (tensor<1x4x6x6xf32>, tensor<1x16x6x6xi32>, tensor<1x16x?x6xf32>) {
  %u = "graph.constant"() {value = dense<0.5> : tensor<4x16x1x1xf32>} : () -> tensor<4x16x1x1xf32>
  %v = "graph.constant"() {value = dense<3> : tensor<16x16x1x1xi32>} : () -> tensor<16x16x1x1xi32>
  %w = "graph.constant"() {value = dense<0.5> : tensor<16x16x1x1xf32>} : () -> tensor<16x16x1x1xf32>
  %0 = "graph.conv"(%x, %u) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x6x6xf32>, tensor<4x16x1x1xf32>) -> tensor<1x4x6x6xf32>
  %1 = "graph.conv"(%y, %v) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x6x6xi32>, tensor<16x16x1x1xi32>) -> tensor<1x16x6x6xi32>
  %2 = "graph.conv"(%z, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x?x6xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x?x6xf32>
  return %0, %1, %2 : tensor<1x4x6x6xf32>, tensor<1x16x6x6xi32>, tensor<1x16x?x6xf32>
}

// -----

// The phases of a larger image are whole blocks, so that it comes out in blocks too.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"
// CHECK: %[[S:[0-9]+]] = "graph.pixel_shuffle"(%[[C]]) {{.*}} : (tensor<1x4x6x8xf32>) -> tensor<1x2x11x8xf32>
// CHECK: "graph.relu"(%[[S]]) : (tensor<1x2x11x8xf32>)
func.func @main(%x: tensor<1x3x8xf32>) -> tensor<1x16x11xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<32x3x3xf32>} : () -> tensor<32x3x3xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<1x3x8xf32>, tensor<32x3x3xf32>) -> tensor<1x32x6xf32>
  %1 = "graph.pixel_shuffle"(%0) {strides = array<i64: 2>, offsets = array<i64: 1>, sizes = array<i64: 11>, group = 1 : i64} : (tensor<1x32x6xf32>) -> tensor<1x16x11xf32>
  %2 = "graph.relu"(%1) : (tensor<1x16x11xf32>) -> tensor<1x16x11xf32>
  return %2 : tensor<1x16x11xf32>
}

// -----

// Twelve channels of a phase fill no whole blocks: the image is put together on plain data.
// CHECK-LABEL: func.func @main
// CHECK: packed.conv
// CHECK: "graph.pixel_shuffle"({{.*}}) {{.*}} : (tensor<1x24x6xf32>) -> tensor<1x12x12xf32>
func.func @main(%x: tensor<1x3x8xf32>) -> tensor<1x12x12xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<24x3x3xf32>} : () -> tensor<24x3x3xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<1x3x8xf32>, tensor<24x3x3xf32>) -> tensor<1x24x6xf32>
  %1 = "graph.pixel_shuffle"(%0) {strides = array<i64: 2>, offsets = array<i64: 0>, sizes = array<i64: 12>, group = 1 : i64} : (tensor<1x24x6xf32>) -> tensor<1x12x12xf32>
  return %1 : tensor<1x12x12xf32>
}

// -----

// An image with a border is brought into blocks without it: zeros are not moved.
// CHECK-LABEL: func.func @main
// CHECK: "graph.transpose"({{.*}}) {{.*}} -> tensor<1x2x6x5x8xf32>
// CHECK: %[[P:[0-9]+]] = "graph.pad"({{.*}}) {high = array<i64: 0, 0, 1, 2, 0>, low = array<i64: 0, 0, 1, 0, 0>, {{.*}} -> tensor<1x2x8x7x8xf32>
// CHECK: "packed.conv"(%[[P]]
func.func @main(%x: tensor<1x16x6x5xf32>) -> tensor<1x16x6x5xf32> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<16x16x3x3xf32>} : () -> tensor<16x16x3x3xf32>
  %0 = "graph.pad"(%x) {high = array<i64: 0, 0, 1, 2>, low = array<i64: 0, 0, 1, 0>, mode = "constant", value = 0.0 : f64} : (tensor<1x16x6x5xf32>) -> tensor<1x16x8x7xf32>
  %1 = "graph.conv"(%0, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x16x8x7xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x6x5xf32>
  return %1 : tensor<1x16x6x5xf32>
}

// -----

// Only channels must be numbers: how many images there are, and how large they are, may be known at run time only.
// CHECK-LABEL: func.func @main
// CHECK: %[[C:[0-9]+]] = "packed.conv"({{.*}}) {{.*}} -> tensor<?x2x?x?x8xf32, "n, h - 2, 2*w - 2">
// CHECK-NOT: transpose
// CHECK: %[[R:[0-9]+]] = "graph.relu"(%[[C]])
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%[[R]]) {high = array<i64: 0, 0, 1, 1, 0>
// CHECK: "packed.conv"(%[[P]]{{.*}} -> tensor<?x3x?x?x8xf32, "n, h - 2, 2*w - 2">
// CHECK: "graph.reshape"({{.*}}) {shape = ["n", -1, "h - 2", "2*w - 2"]}
func.func @main(%x: tensor<?x3x?x?xf32, "n, h, 2*w">) -> tensor<?x24x?x?xf32, "n, h - 2, 2*w - 2"> {
  %w0 = "graph.constant"() {value = dense<0.5> : tensor<16x3x3x3xf32>} : () -> tensor<16x3x3x3xf32>
  %0 = "graph.conv"(%x, %w0) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x3x?x?xf32, "n, h, 2*w">, tensor<16x3x3x3xf32>) -> tensor<?x16x?x?xf32, "n, h - 2, 2*w - 2">
  %1 = "graph.relu"(%0) : (tensor<?x16x?x?xf32, "n, h - 2, 2*w - 2">) -> tensor<?x16x?x?xf32, "n, h - 2, 2*w - 2">
  %2 = "graph.pad"(%1) {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 1, 1>, mode = "constant", value = 0.0 : f64} : (tensor<?x16x?x?xf32, "n, h - 2, 2*w - 2">) -> tensor<?x16x?x?xf32, "n, h, 2*w">
  %w1 = "graph.constant"() {value = dense<0.5> : tensor<24x16x3x3xf32>} : () -> tensor<24x16x3x3xf32>
  %3 = "graph.conv"(%2, %w1) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<?x16x?x?xf32, "n, h, 2*w">, tensor<24x16x3x3xf32>) -> tensor<?x24x?x?xf32, "n, h - 2, 2*w - 2">
  return %3 : tensor<?x24x?x?xf32, "n, h - 2, 2*w - 2">
}

// -----

// How many channels there are must be known.
// CHECK-LABEL: func.func @main
// CHECK-NOT: blocked
func.func @main(%x: tensor<1x?x6x6xf32, "c">, %w: tensor<16x?x3x3xf32, "c">) -> tensor<1x16x4x4xf32> {
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x?x6x6xf32, "c">, tensor<16x?x3x3xf32, "c">) -> tensor<1x16x4x4xf32>
  return %0 : tensor<1x16x4x4xf32>
}

// -----

// A result keeps the type that the op before had, where inference says a size in other words: the function states it too.

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> tensor<?x12x?xf32, "a, max(0, n - 2)">
// CHECK: "packed.conv"
// CHECK: %[[Y:[0-9]+]] = "graph.reshape"({{.*}} -> tensor<?x12x?xf32, "a, max(0, n - 2)">
// CHECK: return %[[Y]]
func.func @main(%x: tensor<?x16x?xf32, "a, n">) -> tensor<?x12x?xf32, "a, max(0, n - 2)"> {
  %w = "graph.constant"() {value = dense<0.5> : tensor<12x16x3xf32>} : () -> tensor<12x16x3xf32>
  %0 = "graph.conv"(%x, %w) {dilations = array<i64: 1>, group = 1 : i64, pads = array<i64: 0, 0>, strides = array<i64: 1>} : (tensor<?x16x?xf32, "a, n">, tensor<12x16x3xf32>) -> tensor<?x12x?xf32, "a, max(0, n - 2)">
  return %0 : tensor<?x12x?xf32, "a, max(0, n - 2)">
}
