// How each level says a loop that only a run decides: a region, then a function that an op names, then branches between blocks.
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt | FileCheck %s --check-prefixes=OPT,BOTH
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled | FileCheck %s --check-prefixes=SCHEDULED,BOTH
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled,affine | FileCheck %s --check-prefix=AFFINE
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline=graph-opt,linalg,scheduled,affine,llvm | FileCheck %s --check-prefix=LLVM

// BOTH: func.func @main(
// OPT: "flow.loop"{{.*}}{body = "main.body", carried = 1 : i64, destinations = 2 : i64}{{.*}} -> (tensor<?xf32, "n">, tensor<1xi64>)
// SCHEDULED: "flow.loop"{{.*}}{body = "main.body", carried = 1 : i64, destinations = 2 : i64}{{.*}} -> (tensor<?xf32>, tensor<1xi64>)
// BOTH: func.func private @main.body({{.*}}) -> (tensor<i1>, tensor<?xf32{{.*}}>) attributes {{{.*}}stepwell.region

// AFFINE: func.func @main({{.*}}: memref<{{[0-9]+}}xi64> {stepwell.symbols = ["n"]}) -> i64
// AFFINE: call @main.body(
// AFFINE: llvm.getelementptr %{{.*}}[1]
// AFFINE: llvm.getelementptr %{{.*}}[1]
// AFFINE: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64) -> ()
// AFFINE: func.func private @main.body({{.*}}) -> i64 attributes {{{.*}}stepwell.region, stepwell.sizes = [{{.*}}"n"

// LLVM: llvm.func @main(
// LLVM: llvm.call @main.body(
// LLVM: llvm.func @main.body({{.*}}) -> i64
module attributes {stepwell.inputs = [["k", tensor<i64>], ["x", tensor<?xf32, "n">]], stepwell.outputs = [["y", tensor<?xf32, "n">]]} {
  func.func @main(%k: tensor<i64> {stepwell.name = "k"}, %x: tensor<?xf32, "n"> {stepwell.name = "x"}) -> (tensor<?xf32, "n"> {stepwell.name = "y"}) {
    %yes = "graph.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %0 = "graph.loop"(%k, %yes, %x) ({
    ^bb0(%i: tensor<i64>, %go: tensor<i1>, %v: tensor<?xf32, "n">):
      %1 = "graph.sub"(%x, %v) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
      "graph.yield"(%go, %1) : (tensor<i1>, tensor<?xf32, "n">) -> ()
    }) : (tensor<i64>, tensor<i1>, tensor<?xf32, "n">) -> tensor<?xf32, "n">
    return %0 : tensor<?xf32, "n">
  }
}
