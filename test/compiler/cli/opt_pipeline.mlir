// A pipeline mixes and nests our passes and upstream's, with and without the outer builtin.module.
// RUN: stepwell-opt --load %S/Inputs/plugin.py %s --pass-pipeline='builtin.module(func.func(tag{text=one},cse),count-ops, tag{text={two words}})' | FileCheck %s
// RUN: stepwell-opt --load %S/Inputs/plugin.py %s --pass-pipeline='func.func(tag{text=one},cse),count-ops,tag{text="two words"}' | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='' | FileCheck %s --check-prefix=EMPTY

// CHECK: module attributes {test.count = 4 : i64}
// CHECK: @a{{.*}}tags = ["one", "two words"]
// CHECK-COUNT-1: graph.relu
// CHECK-NOT: graph.relu
// EMPTY-COUNT-2: graph.relu
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.add"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
