// How each level says a size that depends on data: the op that finds it, then a binding of numbers to names, then entries of the table of a run.
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt | FileCheck %s --check-prefix=OPT
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled | FileCheck %s --check-prefix=SCHEDULED
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled,affine | FileCheck %s --check-prefix=AFFINE
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled,affine,llvm | FileCheck %s --check-prefix=LLVM

// OPT: func.func @main(%arg0: tensor<7xf32>
// OPT: %[[P:.*]]:2 = call @non_zero_places_
// OPT: %[[N:.*]] = "flow.bind_sizes"(%[[P]]#1) {sizes = ["places"]} : (tensor<1xi64>) -> index
// OPT: tensor.empty(%[[N]]) : tensor<1x?xf32, "places">
// OPT: call @{{.*}} -> tensor<1x?xf32, "places">

// SCHEDULED: %[[N:.*]] = "flow.bind_sizes"(%{{.*}}) {sizes = ["places"]} : (tensor<1xi64>) -> index
// SCHEDULED: tensor.empty(%[[N]]) : tensor<1x?xf32>
// SCHEDULED: func.func private @{{.*}}stepwell.sizes = [{{.*}}"places"

// AFFINE: stepwell.segments = [{nodes = "where", outputs = array<i64: 1, 0>, shapes = ["1, places"], sizes = ["places"], slots = {{\[\["8\*places"\], \["4\*places"\]\]}}, start = 0 : i64}]
// AFFINE: func.func private @sizes_0(%[[T:.*]]: memref<8xi64>) -> i64
// AFFINE: %[[N:.*]] = memref.load %[[T]][%c0
// AFFINE: arith.mulsi_extended %[[N]], %c8_i64
// AFFINE: func.func @main(%{{.*}}: memref<7xf32> {stepwell.name = "x"}, {{.*}}, %[[T:.*]]: memref<8xi64>) -> i64
// AFFINE: memref.store %{{.*}}, %[[T]][%c0
// AFFINE: call @sizes_0(%[[T]])
// AFFINE: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %c0_i64
// AFFINE: cf.cond_br

// LLVM: stepwell.segments = [{nodes = "where"
// LLVM: llvm.func @sizes_0(%arg0: !llvm.ptr) -> i64
// LLVM: llvm.func @main(%arg0: !llvm.ptr) -> i64
// LLVM: llvm.call @sizes_0(
// LLVM: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64) -> ()
// LLVM: llvm.cond_br
module attributes {stepwell.inputs = [["x", tensor<7xf32>]], stepwell.outputs = [["y", tensor<1x?xf32, "places">]]} {
  func.func @main(%x: tensor<7xf32> {stepwell.name = "x"}) -> (tensor<1x?xf32, "places"> {stepwell.name = "y"}) {
    %0 = "graph.non_zero"(%x) : (tensor<7xf32>) -> tensor<1x?xi64, "places"> loc("where")
    %1 = "graph.cast"(%0) {saturate = true, to = f32} : (tensor<1x?xi64, "places">) -> tensor<1x?xf32, "places">
    return %1 : tensor<1x?xf32, "places">
  }
}
