// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' --split-input-file | FileCheck %s

#id = affine_map<(a) -> (a)>

// A function compares the hidden results, behind the outputs, with what they may be: less than twice the size where indices may count from the end,
// or 0 where there is no index; 0 where the data ask for a size. The first check that fails is the status of @main: its number above the kind, 12.
// CHECK: func.func private @checks(%[[R:.*]]: memref<2xi64>, %[[T:.*]]: memref<{{.*}}xi64>) -> i64
// CHECK: %[[A:.*]] = memref.load %[[R]][%c0{{[_0-9]*}}]
// CHECK: %[[B:.*]] = memref.load %[[R]][%c1{{[_0-9]*}}]
// CHECK: %[[N:.*]] = memref.load %[[T]][%c0{{[_0-9]*}}]
// CHECK: %[[LIMIT:.*]], %{{.*}} = arith.mulsi_extended %{{.*}}, %[[N]]
// CHECK: arith.cmpi uge, %[[A]], %c14_i64
// CHECK: arith.cmpi uge, %[[B]], %[[LIMIT]]
// CHECK: %[[C:.*]] = memref.load %[[R]][%c0{{[_0-9]*}}]
// CHECK: arith.cmpi uge, %[[C]], %c1_i64
// CHECK: %[[LEAST:.*]] = arith.select %{{.*}}, %c1_i64{{[_0-9]*}}, %c0_i64
// CHECK: %[[MOST:.*]] = arith.maxsi %[[N]], %[[LEAST]]
// CHECK: arith.cmpi uge, %{{.*}}, %[[MOST]]
// CHECK: arith.select %{{.*}}, %c524_i64
// CHECK: arith.select %{{.*}}, %c268_i64
// CHECK: arith.select %{{.*}}, %c12_i64
// CHECK: return
// CHECK: func.func @main({{.*}}, %[[H:[a-z0-9]+]]: memref<2xi64> {stepwell.name = "h"}, {{.*}}) -> i64
// CHECK: call @reach(%{{.*}}, %[[H]])
// CHECK: %[[STATUS:.*]] = call @checks(%[[H]], %{{.*}})
// CHECK-NEXT: return %[[STATUS]]
module attributes {
  stepwell.inputs = [["x", tensor<?xf32, "n">]], stepwell.outputs = [["y", tensor<?xf32, "n">]],
  stepwell.checks = [
    {node = "find", op = "graph.gather", result = 0 : i64, dims = array<i64: 0, 1>, sizes = [7, "n"]},
    {node = "ask", op = "graph.reshape", result = 0 : i64, dims = array<i64: 0, 1>, sizes = array<i64: 1, 1>, exact = true},
    {node = "rows", op = "graph.gather", result = 0 : i64, dims = array<i64: 0, 1>, sizes = ["n", 5], from_start = true, count = "n - 1"}]
} {
  func.func private @reach(%x: tensor<?xf32, "n">, %out: tensor<2xi64>) -> tensor<2xi64> attributes {stepwell.kernel, stepwell.sizes = ["n", ""]} {
    %three = arith.constant 3 : i64
    %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%out : tensor<2xi64>) {
    ^bb0(%o: i64):
      linalg.yield %three : i64
    } -> tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @main(%x: tensor<?xf32, "n"> {stepwell.name = "x"}, %weights: memref<?xi8>) -> (tensor<?xf32, "n"> {stepwell.name = "y"}, tensor<2xi64> {stepwell.name = "h"}) {
    %e = tensor.empty() : tensor<2xi64>
    %0 = call @reach(%x, %e) : (tensor<?xf32, "n">, tensor<2xi64>) -> tensor<2xi64>
    return %x, %0 : tensor<?xf32, "n">, tensor<2xi64>
  }
}
