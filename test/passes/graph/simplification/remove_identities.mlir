// RUN: stepwell-opt %s --remove-identities --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @nothing_happens
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2x3xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @nothing_happens(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>,
                                                    tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = "graph.cast"(%x) {to = f32, saturate = false} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "graph.reshape"(%x) {shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "graph.transpose"(%x) {perm = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "graph.slice"(%x) {starts = array<i64: 0, 0>, sizes = array<i64: 2, -1>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "graph.pad"(%x) {low = array<i64: 0, 0>, high = array<i64: 0, 0>, mode = "reflect", value = 1.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = "graph.expand"(%x) {shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = "graph.tile"(%x) {repeats = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = "graph.clamp"(%x) {min = 0xFFF0000000000000 : f64, max = 0x7FF0000000000000 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = "graph.reduce_sum"(%x) {axes = array<i64>, keepdims = false} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>,
         tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// Each of these does something.
// CHECK-LABEL: func.func @something_happens
// CHECK: "graph.cast"
// CHECK: "graph.reshape"
// CHECK: "graph.transpose"
// CHECK: "graph.slice"
// CHECK: "graph.slice"
// CHECK: "graph.pad"
// CHECK: "graph.expand"
// CHECK: "graph.tile"
// CHECK: "graph.clamp"
// CHECK: "graph.reduce_max"
func.func @something_happens(%x: tensor<2x3xf32>) -> (tensor<2x3xi32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<2x3xf32>, tensor<1x3xf32>,
                                                      tensor<2x4xf32>, tensor<5x2x3xf32>, tensor<2x6xf32>, tensor<2x3xf32>, tensor<2xf32>) {
  %0 = "graph.cast"(%x) {to = i32, saturate = false} : (tensor<2x3xf32>) -> tensor<2x3xi32>
  %1 = "graph.reshape"(%x) {shape = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = "graph.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %3 = "graph.slice"(%x) {starts = array<i64: 0, 2>, sizes = array<i64: 2, 3>, steps = array<i64: 1, -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "graph.slice"(%x) {starts = array<i64: 1, 0>, sizes = array<i64: 1, 3>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %5 = "graph.pad"(%x) {low = array<i64: 0, 1>, high = array<i64: 0, 0>, mode = "constant", value = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<2x4xf32>
  %6 = "graph.expand"(%x) {shape = array<i64: 5, 2, 3>} : (tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %7 = "graph.tile"(%x) {repeats = array<i64: 1, 2>} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  %8 = "graph.clamp"(%x) {min = 0.0 : f64, max = 0x7FF0000000000000 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = "graph.reduce_max"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<2x3xi32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<2x3xf32>, tensor<1x3xf32>,
         tensor<2x4xf32>, tensor<5x2x3xf32>, tensor<2x6xf32>, tensor<2x3xf32>, tensor<2xf32>
}

// -----

// A resize to the same sizes is nothing where its scales say so too: at a scale of 1.1 it reads between the elements.
// CHECK-LABEL: func.func @resizes
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<5xf32>
// CHECK-NEXT: %[[Y:.*]] = "graph.resize"(%[[X]]) {{.*}}scales = [1.1
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @resizes(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %0 = "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.0], sizes = array<i64: 5>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "graph.resize"(%x) {antialias = false, coordinates = "half_pixel", cubic_coefficient = -7.5e-1 : f64, exclude_outside = false, extrapolation = 0.0 : f64, mode = "linear", roi = [], rounding = "floor", scales = [1.1], sizes = array<i64: 5>} : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %1 : tensor<5xf32>, tensor<5xf32>
}

// -----

// A pair of casts comes back to where it began only through a type that holds every value.
// CHECK-LABEL: func.func @cast_pairs
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xi16>, %[[Y:[a-z0-9]+]]: tensor<4xi32>
// CHECK-NEXT: %[[F:.*]] = "graph.cast"(%[[Y]]) {{.*}} -> tensor<4xf32>
// CHECK-NEXT: %[[I:.*]] = "graph.cast"(%[[F]]) {{.*}} -> tensor<4xi32>
// CHECK-NEXT: return %[[X]], %[[I]]
func.func @cast_pairs(%x: tensor<4xi16>, %y: tensor<4xi32>) -> (tensor<4xi16>, tensor<4xi32>) {
  %0 = "graph.cast"(%x) {to = f32, saturate = false} : (tensor<4xi16>) -> tensor<4xf32>
  %1 = "graph.cast"(%0) {to = i16, saturate = false} : (tensor<4xf32>) -> tensor<4xi16>
  %2 = "graph.cast"(%y) {to = f32, saturate = false} : (tensor<4xi32>) -> tensor<4xf32>
  %3 = "graph.cast"(%2) {to = i32, saturate = false} : (tensor<4xf32>) -> tensor<4xi32>
  return %1, %3 : tensor<4xi16>, tensor<4xi32>
}

// -----

// CHECK-LABEL: func.func @chains
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2x3x4xf32>
// CHECK-DAG: %[[R:.*]] = "graph.reshape"(%[[X]]) {shape = array<i64: 4, 6>}
// CHECK-DAG: %[[T:.*]] = "graph.transpose"(%[[X]]) {perm = array<i64: 2, 0, 1>}
// CHECK-DAG: %[[S:.*]] = "graph.slice"(%[[X]]) {sizes = array<i64: 1, 1, 2>, starts = array<i64: 0, 0, 3>, steps = array<i64: 1, 1, -2>}
// CHECK-DAG: %[[P:.*]] = "graph.pad"(%[[X]]) {high = array<i64: 0, 2, 0>, low = array<i64: 1, 1, 0>
// CHECK: return %[[R]], %[[T]], %[[S]], %[[P]]
func.func @chains(%x: tensor<2x3x4xf32>) -> (tensor<4x6xf32>, tensor<4x2x3xf32>, tensor<1x1x2xf32>, tensor<3x6x4xf32>) {
  %0 = "graph.reshape"(%x) {shape = array<i64: 24>} : (tensor<2x3x4xf32>) -> tensor<24xf32>
  %1 = "graph.reshape"(%0) {shape = array<i64: 4, -1>} : (tensor<24xf32>) -> tensor<4x6xf32>
  %2 = "graph.transpose"(%x) {perm = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %3 = "graph.transpose"(%2) {perm = array<i64: 2, 1, 0>} : (tensor<3x2x4xf32>) -> tensor<4x2x3xf32>
  %4 = "graph.slice"(%x) {starts = array<i64: 0, 0, 1>, sizes = array<i64: 1, 3, 2>, steps = array<i64: 1, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<1x3x2xf32>
  %5 = "graph.slice"(%4) {starts = array<i64: 0, 0, 1>, sizes = array<i64: 1, 1, 2>, steps = array<i64: 1, 1, -1>} : (tensor<1x3x2xf32>) -> tensor<1x1x2xf32>
  %6 = "graph.pad"(%x) {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, 0>, mode = "constant", value = 2.0 : f64} : (tensor<2x3x4xf32>) -> tensor<2x4x4xf32>
  %7 = "graph.pad"(%6) {low = array<i64: 1, 0, 0>, high = array<i64: 0, 2, 0>, mode = "constant", value = 2.0 : f64} : (tensor<2x4x4xf32>) -> tensor<3x6x4xf32>
  return %1, %3, %5, %7 : tensor<4x6xf32>, tensor<4x2x3xf32>, tensor<1x1x2xf32>, tensor<3x6x4xf32>
}

// -----

// Pads of different values, or that copy, stay two.
// CHECK-LABEL: func.func @different_pads
// CHECK-COUNT-4: "graph.pad"
func.func @different_pads(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %0 = "graph.pad"(%x) {low = array<i64: 1>, high = array<i64: 0>, mode = "constant", value = 0.0 : f64} : (tensor<4xf32>) -> tensor<5xf32>
  %1 = "graph.pad"(%0) {low = array<i64: 1>, high = array<i64: 0>, mode = "constant", value = 1.0 : f64} : (tensor<5xf32>) -> tensor<6xf32>
  %2 = "graph.pad"(%x) {low = array<i64: 1>, high = array<i64: 0>, mode = "edge", value = 0.0 : f64} : (tensor<4xf32>) -> tensor<5xf32>
  %3 = "graph.pad"(%2) {low = array<i64: 1>, high = array<i64: 0>, mode = "constant", value = 0.0 : f64} : (tensor<5xf32>) -> tensor<6xf32>
  return %1, %3 : tensor<6xf32>, tensor<6xf32>
}

// -----

// What moves no data is a reshape.
// CHECK-LABEL: func.func @views
// CHECK-NOT: "graph.transpose"
// CHECK-NOT: "graph.expand"
// CHECK-NOT: "graph.reduce_sum"
// CHECK-COUNT-3: "graph.reshape"
// CHECK: return
func.func @views(%x: tensor<1x3x1x4xf32>) -> (tensor<3x1x4x1xf32>, tensor<1x1x3x1x4xf32>, tensor<3x1x4xf32>) {
  %0 = "graph.transpose"(%x) {perm = array<i64: 1, 0, 3, 2>} : (tensor<1x3x1x4xf32>) -> tensor<3x1x4x1xf32>
  %1 = "graph.expand"(%x) {shape = array<i64: 1, 1, 3, 1, 4>} : (tensor<1x3x1x4xf32>) -> tensor<1x1x3x1x4xf32>
  %2 = "graph.reduce_sum"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<1x3x1x4xf32>) -> tensor<3x1x4xf32>
  return %0, %1, %2 : tensor<3x1x4x1xf32>, tensor<1x1x3x1x4xf32>, tensor<3x1x4xf32>
}

// -----

// With unknown sizes: a reshape to the same type is one, unless two sizes may have moved; an expansion may repeat what is 1.
// CHECK-LABEL: func.func @dynamic
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<?x3xf32>, %[[Y:arg[0-9]+]]: tensor<?x?xf32>
// CHECK: %[[E:.*]] = "graph.dynamic_expand"
// CHECK: %[[R:.*]] = "graph.dynamic_reshape"(%[[Y]]
// CHECK: return %[[X]], %[[R]], %[[E]]
func.func @dynamic(%x: tensor<?x3xf32>, %y: tensor<?x?xf32>, %s: tensor<2xi64>) -> (tensor<?x3xf32>, tensor<?x?xf32>, tensor<?x3xf32>) {
  %0 = "graph.reshape"(%x) {shape = array<i64: -1, 3>} : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %2 = "graph.dynamic_expand"(%x, %s) : (tensor<?x3xf32>, tensor<2xi64>) -> tensor<?x3xf32>
  %1 = "graph.dynamic_reshape"(%y, %s) : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %0, %1, %2 : tensor<?x3xf32>, tensor<?x?xf32>, tensor<?x3xf32>
}

// -----

// Pooling over single elements.
// CHECK-LABEL: func.func @pooling
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<1x2x4x4xf32>
// CHECK-NEXT: %[[P:.*]] = "graph.max_pool"(%[[X]]) {{{.*}}strides = array<i64: 2, 1>}
// CHECK-NEXT: return %[[X]], %[[P]]
func.func @pooling(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x2x4xf32>) {
  %0 = "graph.max_pool"(%x) {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false}
    : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %1 = "graph.max_pool"(%x) {kernel = array<i64: 1, 1>, strides = array<i64: 2, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceil_mode = false}
    : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x4xf32>
  return %0, %1 : tensor<1x2x4x4xf32>, tensor<1x2x2x4xf32>
}

// -----

// CHECK-LABEL: func.func @concat
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<2x3xf32>
// CHECK-NEXT: return %[[X]]
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x0xf32>) -> tensor<2x3xf32> {
  %0 = "graph.concat"(%y, %x) {axis = 1 : i64} : (tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// A condition that is the same everywhere chooses one operand, if that has the shape of the result.
// CHECK-LABEL: func.func @known_condition
// CHECK-NOT: graph.select
// CHECK: return %arg1, %arg0
// CHECK-LABEL: func.func @broadcast_operand
// CHECK: graph.select
func.func @known_condition(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %no = "graph.constant"() {value = dense<false> : tensor<3xi1>} : () -> tensor<3xi1>
  %yes = "graph.constant"() {value = dense<true> : tensor<2x1xi1>} : () -> tensor<2x1xi1>
  %0 = "graph.select"(%no, %a, %b) : (tensor<3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "graph.select"(%yes, %a, %b) : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}
func.func @broadcast_operand(%a: tensor<1x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %yes = "graph.constant"() {value = dense<true> : tensor<1xi1>} : () -> tensor<1xi1>
  %0 = "graph.select"(%yes, %a, %b) : (tensor<1xi1>, tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
