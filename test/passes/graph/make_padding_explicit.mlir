// RUN: stepwell-opt %s --make-padding-explicit --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --make-padding-explicit --split-input-file --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

// CHECK-LABEL: func.func @conv
// CHECK: %[[P:.*]] = "graph.pad"(%arg0) {high = array<i64: 0, 0, 3, 4>, low = array<i64: 0, 0, 1, 2>, mode = "constant", value = 0.000000e+00 : f64} {{.*}} -> tensor<1x2x9x11xf32>
// CHECK-NEXT: "graph.conv"(%[[P]], %arg1) {dilations = array<i64: 1, 2>, group = 2 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 1>}
func.func @conv(%x: tensor<1x2x5x5xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<1x4x4x7xf32> {
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 2, 1>, pads = array<i64: 1, 2, 3, 4>, dilations = array<i64: 1, 2>, group = 2 : i64}
    : (tensor<1x2x5x5xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x4x7xf32>
  return %0 : tensor<1x4x4x7xf32>
}

// -----

// Without padding there is nothing to do.
// CHECK-LABEL: func.func @no_padding
// CHECK-NOT: "graph.pad"
func.func @no_padding(%x: tensor<1x2x5x5xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32> {
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64}
    : (tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32>
  return %0 : tensor<1x4x3x3xf32>
}

// -----

// Equal padding of one value is made once; a maximum is padded with what never wins.
// CHECK-LABEL: func.func @shared
// CHECK: %[[P:.*]] = "graph.pad"(%arg0) {{.*}}value = 0.000000e+00
// CHECK-NEXT: "graph.conv"(%[[P]]
// CHECK-NEXT: "graph.conv"(%[[P]]
// CHECK-NEXT: %[[M:.*]] = "graph.pad"(%arg0) {{.*}}value = 0xFFF0000000000000
// CHECK-NEXT: "graph.max_pool"(%[[M]]) {ceil_mode = false{{.*}}pads = array<i64: 0, 0>
// CHECK-NEXT: %[[I:.*]] = "graph.pad"(%arg2) {{.*}}value = -1.280000e+02
// CHECK-NEXT: "graph.max_pool"(%[[I]])
func.func @shared(%x: tensor<1x2x5xf32>, %w: tensor<2x2x3xf32>, %i: tensor<1x2x5xi8>) -> (tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xi8>) {
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x2x5xf32>, tensor<2x2x3xf32>) -> tensor<1x2x5xf32>
  %1 = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x2x5xf32>, tensor<2x2x3xf32>) -> tensor<1x2x5xf32>
  %2 = "graph.max_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false}
    : (tensor<1x2x5xf32>) -> tensor<1x2x5xf32>
  %3 = "graph.max_pool"(%i) {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false}
    : (tensor<1x2x5xi8>) -> tensor<1x2x5xi8>
  return %0, %1, %2, %3 : tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xi8>
}

// -----

// Windows that hang over the end become padding there.
// CHECK-LABEL: func.func @ceil_mode
// CHECK: "graph.pad"(%arg0) {high = array<i64: 0, 0, 1>, low = array<i64: 0, 0, 0>
// CHECK-NEXT: "graph.max_pool"{{.*}}ceil_mode = false{{.*}} : (tensor<1x1x7xf32>) -> tensor<1x1x3xf32>
func.func @ceil_mode(%x: tensor<1x1x6xf32>) -> tensor<1x1x3xf32> {
  %0 = "graph.max_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = true}
    : (tensor<1x1x6xf32>) -> tensor<1x1x3xf32>
  return %0 : tensor<1x1x3xf32>
}

// -----

// A mean over the elements inside is a mean over whole windows times 3/2 at both ends.
// CHECK-LABEL: func.func @mean_of_what_is_inside
// CHECK-DAG: %[[C:.*]] = "graph.constant"() {value = dense<{{\[\[\[}}1.500000e+00, 1.000000e+00, 1.000000e+00, 1.500000e+00]]]> : tensor<1x1x4xf32>}
// CHECK-DAG: %[[A:.*]] = "graph.avg_pool"(%{{.*}}) {ceil_mode = false, count_include_pad = true
// CHECK-DAG: "graph.mul"(%[[A]], %[[C]])
func.func @mean_of_what_is_inside(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
  %0 = "graph.avg_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false, count_include_pad = false}
    : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  return %0 : tensor<1x2x4xf32>
}

// -----

// With the padding counted there is no correction, except for what hangs over the padded end.
// CHECK-LABEL: func.func @mean_with_padding
// CHECK: "graph.pad"
// CHECK-NEXT: %[[A:.*]] = "graph.avg_pool"
// CHECK-NEXT: %[[P:.*]] = "graph.pad"(%arg0) {high = array<i64: 0, 0, 2>, low = array<i64: 0, 0, 1>
// CHECK-NEXT: %[[B:.*]] = "graph.avg_pool"(%[[P]])
// CHECK-NEXT: %[[C:.*]] = "graph.constant"() {value = dense<{{\[\[\[}}1.000000e+00, 1.000000e+00, 1.500000e+00]]]>
// CHECK-NEXT: %[[M:.*]] = "graph.mul"(%[[B]], %[[C]])
// CHECK-NEXT: return %[[A]], %[[M]]
func.func @mean_with_padding(%x: tensor<1x2x4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x3xf32>) {
  %0 = "graph.avg_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false, count_include_pad = true}
    : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %1 = "graph.avg_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = true, count_include_pad = true}
    : (tensor<1x2x4xf32>) -> tensor<1x2x3xf32>
  return %0, %1 : tensor<1x2x4xf32>, tensor<1x2x3xf32>
}

// -----

// Of an image of unknown size, padding can be made explicit, but not what depends on where its end is.
// CHECK-LABEL: func.func @unknown_size
// CHECK: "graph.pad"
// CHECK-NEXT: "graph.conv"
// CHECK-NEXT: "graph.max_pool"(%arg0) {ceil_mode = true
// WHY: {{.*}}make-padding-explicit{{.*}}graph.max_pool{{.*}}follows from a size that is not known
func.func @unknown_size(%x: tensor<1x2x?xf32>, %w: tensor<2x2x3xf32>) -> (tensor<1x2x?xf32>, tensor<1x2x?xf32>) {
  %0 = "graph.conv"(%x, %w) {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, group = 1 : i64}
    : (tensor<1x2x?xf32>, tensor<2x2x3xf32>) -> tensor<1x2x?xf32>
  %1 = "graph.max_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = true}
    : (tensor<1x2x?xf32>) -> tensor<1x2x?xf32>
  return %0, %1 : tensor<1x2x?xf32>, tensor<1x2x?xf32>
}

// -----

// Where the last window ends may follow from a size that has a name, and so may the part of a window that counts.
// CHECK-LABEL: func.func @named_size
// CHECK: %[[P:[0-9]+]] = "graph.pad"(%arg0) {high = [0, 0, "-n + 2*(n // 2) + 1"]{{.*}} -> tensor<1x2x?xf32, "2*(n // 2) + 1">
// CHECK: "graph.max_pool"(%[[P]]) {ceil_mode = false, {{.*}} -> tensor<1x2x?xf32, "n // 2">
// CHECK: %[[ONES:[0-9]+]] = "graph.expand"({{.*}}) {shape = [1, 1, "n"]}
// CHECK: %[[R:[0-9]+]] = "graph.pad"(%[[ONES]]) {high = array<i64: 0, 0, 1>, low = array<i64: 0, 0, 1>
// CHECK: %[[PART:[0-9]+]] = "graph.avg_pool"(%[[R]])
// CHECK: %[[Q:[0-9]+]] = "graph.pad"(%arg0) {high = array<i64: 0, 0, 1>, low = array<i64: 0, 0, 1>
// CHECK: %[[MEAN:[0-9]+]] = "graph.avg_pool"(%[[Q]]) {{{.*}}count_include_pad = true
// CHECK: "graph.div"(%[[MEAN]], %[[PART]])
// WHY: {{.*}}make-padding-explicit{{.*}}graph.max_pool{{.*}}its windows leave gaps
func.func @named_size(%x: tensor<1x2x?xf32, "n">) -> (tensor<1x2x?xf32, "n // 2">, tensor<1x2x?xf32, "n">, tensor<1x2x?xf32, "(n + 2) // 3">) {
  %0 = "graph.max_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = true}
    : (tensor<1x2x?xf32, "n">) -> tensor<1x2x?xf32, "n // 2">
  %1 = "graph.avg_pool"(%x) {kernel = array<i64: 3>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, ceil_mode = false, count_include_pad = false}
    : (tensor<1x2x?xf32, "n">) -> tensor<1x2x?xf32, "n">
  %2 = "graph.max_pool"(%x) {kernel = array<i64: 1>, strides = array<i64: 3>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceil_mode = true}
    : (tensor<1x2x?xf32, "n">) -> tensor<1x2x?xf32, "(n + 2) // 3">
  return %0, %1, %2 : tensor<1x2x?xf32, "n // 2">, tensor<1x2x?xf32, "n">, tensor<1x2x?xf32, "(n + 2) // 3">
}
