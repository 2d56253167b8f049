// How each level says a size that only a call tells. A free dimension has its name in the type, expressions of it too; kernels know sizes by
// names, those that no argument has are arguments of their own.
// RUN: stepwell-opt %s | FileCheck %s --check-prefix=GRAPH
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt | FileCheck %s --check-prefix=OPT
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg | FileCheck %s --check-prefix=LINALG
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled | FileCheck %s --check-prefixes=LINALG,SCHEDULED
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled,affine | FileCheck %s --check-prefix=AFFINE
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled,affine,llvm | FileCheck %s --check-prefix=LLVM

// GRAPH: stepwell.inputs = {{\[\["x", tensor<\?x6xf32, "n">\]\]}}
// GRAPH: "graph.concat"{{.*}} -> tensor<?x6xf32, "2*n">
// GRAPH: "graph.exp"{{.*}} -> tensor<?x6xf32, "2*n">
// GRAPH: "graph.reshape"{{.*}} {shape = ["n", 12]} {{.*}} -> tensor<?x12xf32, "n">

// OPT: func.func @main(%arg0: tensor<?x6xf32, "n">
// OPT: %[[N:.*]] = tensor.dim %arg0
// OPT: %[[M:.*]] = arith.muli %{{.*}}, %[[N]]
// OPT: tensor.empty(%[[M]]) : tensor<?x6xf32, "2*n">
// OPT: %[[N:.*]] = tensor.dim %arg0
// OPT: call @exp_{{[0-9a-f]+}}(%{{.*}}, %[[N]], %{{.*}}) : (tensor<?x6xf32, "2*n">, index, tensor<?x6xf32, "2*n">)
// OPT: "graph.reshape"{{.*}} -> tensor<?x12xf32, "n">
// OPT: func.func private @exp_{{.*}}stepwell.size_arguments = ["n"]

// LINALG: stepwell.inputs = {{\[\["x", tensor<\?x6xf32, "n">\]\]}}
// LINALG: func.func @main(%arg0: tensor<?x6xf32> {stepwell.name = "x"}
// LINALG: tensor.dim %arg0
// LINALG: func.func private @exp_{{.*}}(%arg0: tensor<?x6xf32>, %arg1: index, %arg2: tensor<?x6xf32>){{.*}}stepwell.size_arguments = ["n"], stepwell.sizes = ["2*n", "", "2*n"]
// SCHEDULED: linalg.generic {{.*}}sched.nest = #sched.nest

// AFFINE: stepwell.size_table = {sizes = [], workspace = {{[0-9]+}} : i64}
// AFFINE: func.func private @exp_{{.*}}(%[[X:.*]]: memref<?x6xf32>, %[[N:.*]]: index, %[[Y:.*]]: memref<?x6xf32>){{.*}}stepwell.sizes = ["2*n", "", "2*n"]
// AFFINE: arith.muli %[[N]], %c12
// AFFINE: affine.for %{{.*}} = 0 to %{{.*}} step 16
// AFFINE: func.func @main({{.*}}, %[[T:.*]]: memref<{{[0-9]+}}xi64> {stepwell.symbols = ["n"]})
// AFFINE: memref.load %[[T]][%c0
// AFFINE: memref.load %[[T]][%c1
// AFFINE: func.func @sizes(%[[T:.*]]: memref<{{[0-9]+}}xi64>) -> i64
// AFFINE: %[[N:.*]] = memref.load %[[T]][%c0
// AFFINE: arith.mulsi_extended %[[N]], %c48_i64
// AFFINE: memref.store %{{.*}}, %[[T]][%c1

// LLVM: stepwell.inputs = {{\[\["x", tensor<\?x6xf32, "n">\]\]}}
// LLVM: llvm.func @exp_{{.*}}(%arg0: !llvm.ptr, %arg1: i64, %arg2: !llvm.ptr, %arg3: i64){{.*}}stepwell.size_arguments = ["n"], stepwell.sizes = ["2*n", "", "2*n"]
// LLVM: llvm.func @main(
// LLVM: llvm.func @sizes(%arg0: !llvm.ptr) -> i64
module attributes {stepwell.inputs = [["x", tensor<?x6xf32, "n">]], stepwell.outputs = [["y", tensor<?x12xf32, "n">]]} {
  func.func @main(%x: tensor<?x6xf32, "n"> {stepwell.name = "x"}) -> (tensor<?x12xf32, "n"> {stepwell.name = "y"}) {
    %0 = "graph.concat"(%x, %x) {axis = 0 : i64} : (tensor<?x6xf32, "n">, tensor<?x6xf32, "n">) -> tensor<?x6xf32, "2*n">
    %1 = "graph.exp"(%0) : (tensor<?x6xf32, "2*n">) -> tensor<?x6xf32, "2*n">
    %2 = "graph.reshape"(%1) {shape = ["n", 12]} : (tensor<?x6xf32, "2*n">) -> tensor<?x12xf32, "n">
    %3 = "graph.transpose"(%2) {perm = array<i64: 1, 0>} : (tensor<?x12xf32, "n">) -> tensor<12x?xf32, "n">
    %4 = "graph.softmax"(%3) {axis = 1 : i64} : (tensor<12x?xf32, "n">) -> tensor<12x?xf32, "n">
    %5 = "graph.transpose"(%4) {perm = array<i64: 1, 0>} : (tensor<12x?xf32, "n">) -> tensor<?x12xf32, "n">
    return %5 : tensor<?x12xf32, "n">
  }
}
