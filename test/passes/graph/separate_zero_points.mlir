// RUN: stepwell-opt %s --pass-pipeline='separate-zero-points' --target aarch64-dotprod --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='separate-zero-points' --target x86-64-v3 --split-input-file | FileCheck %s --check-prefix=SAME

// The instruction takes signed bytes: the input less 128, the zero point too; 113 - 128 = -15 times the sums 6 and -3 is taken off.
// Where the fastest instruction takes 16 bits nothing changes.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4x3xui8>
// CHECK: %[[W:.*]] = "graph.constant"() {value = dense<{{.*}}1, -1{{.*}}> : tensor<3x2xi32>}
// CHECK: %[[A:.*]] = "graph.cast"(%[[X]]) {{.*}} to = i32}
// CHECK: %[[SHIFT:.*]] = "graph.constant"() {value = dense<-128> : tensor<i32>}
// CHECK: %[[B:.*]] = "graph.add"(%[[A]], %[[SHIFT]])
// CHECK: %[[C:.*]] = "graph.cast"(%[[B]]) {{.*}} to = i8}
// CHECK: %[[D:.*]] = "graph.cast"(%[[C]]) {{.*}} to = i32} : (tensor<4x3xi8>)
// CHECK: %[[P:.*]] = "graph.matmul"(%[[D]], %[[W]])
// CHECK: %[[T:.*]] = "graph.constant"() {value = dense<{{.*}}-90, 45{{.*}}> : tensor<1x2xi32>}
// CHECK: %[[R:.*]] = "graph.sub"(%[[P]], %[[T]])
// CHECK: return %[[R]]
// SAME-LABEL: func.func @main
// SAME: "graph.matmul"
// SAME-NEXT: return
func.func @main(%x: tensor<4x3xui8>) -> tensor<4x2xi32> {
  %w = "graph.constant"() {value = dense<[[1, -1], [2, -1], [3, -1]]> : tensor<3x2xi32>} : () -> tensor<3x2xi32>
  %z = "graph.constant"() {value = dense<-113> : tensor<i32>} : () -> tensor<i32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x3xui8>) -> tensor<4x3xi32>
  %1 = "graph.add"(%0, %z) : (tensor<4x3xi32>, tensor<i32>) -> tensor<4x3xi32>
  %2 = "graph.matmul"(%1, %w) : (tensor<4x3xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>
  return %2 : tensor<4x2xi32>
}

// -----

// A zero point that is known when the model runs, one for each row.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<4x3xi8>, %[[Z:.*]]: tensor<4x1xi32>
// CHECK: %[[P:.*]] = "graph.matmul"
// CHECK: %[[T:.*]] = "graph.mul"(%[[Z]], %{{.*}}) : (tensor<4x1xi32>, tensor<1x2xi32>) -> tensor<4x2xi32>
// CHECK: "graph.sub"(%[[P]], %[[T]])
func.func @main(%x: tensor<4x3xi8>, %z: tensor<4x1xi32>) -> tensor<4x2xi32> {
  %w = "graph.constant"() {value = dense<[[1, -1], [2, -1], [3, -1]]> : tensor<3x2xi32>} : () -> tensor<3x2xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x3xi8>) -> tensor<4x3xi32>
  %1 = "graph.sub"(%0, %z) : (tensor<4x3xi32>, tensor<4x1xi32>) -> tensor<4x3xi32>
  %2 = "graph.matmul"(%1, %w) : (tensor<4x3xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>
  return %2 : tensor<4x2xi32>
}

// -----

// Nothing to gain: signed bytes without a zero point. Nothing to take off: numbers that are subtracted one by one, a right side that is not known,
// a difference the other way round.
// CHECK-LABEL: func.func @main
// CHECK: "graph.matmul"
// CHECK: "graph.matmul"
// CHECK: "graph.matmul"
// CHECK: "graph.matmul"
// CHECK-NEXT: return
func.func @main(%x: tensor<4x3xi8>, %z: tensor<3xi32>, %v: tensor<3x2xi8>, %s: tensor<i32>)
    -> (tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xi32>) {
  %w = "graph.constant"() {value = dense<[[1, -1], [2, -1], [3, -1]]> : tensor<3x2xi32>} : () -> tensor<3x2xi32>
  %0 = "graph.cast"(%x) {to = i32, saturate = true} : (tensor<4x3xi8>) -> tensor<4x3xi32>
  %1 = "graph.sub"(%0, %z) : (tensor<4x3xi32>, tensor<3xi32>) -> tensor<4x3xi32>
  %2 = "graph.sub"(%0, %s) : (tensor<4x3xi32>, tensor<i32>) -> tensor<4x3xi32>
  %3 = "graph.cast"(%v) {to = i32, saturate = true} : (tensor<3x2xi8>) -> tensor<3x2xi32>
  %4 = "graph.sub"(%s, %0) : (tensor<i32>, tensor<4x3xi32>) -> tensor<4x3xi32>
  %5 = "graph.matmul"(%0, %w) : (tensor<4x3xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>
  %6 = "graph.matmul"(%1, %w) : (tensor<4x3xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>
  %7 = "graph.matmul"(%2, %3) : (tensor<4x3xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>
  %8 = "graph.matmul"(%4, %w) : (tensor<4x3xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>
  return %5, %6, %7, %8 : tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xi32>
}
