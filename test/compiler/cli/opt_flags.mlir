// Every pass is a flag; they run in the order of the command line, a pass on functions on each of them.
// RUN: stepwell-opt --load %S/Inputs/plugin.py %s --tag=text=one --cse --tag='text=two only-public=true' --count-ops | FileCheck %s
// RUN: stepwell-opt --load %S/Inputs/plugin.py %s --tag='text=two only-public' --tag=text=one | FileCheck %s --check-prefix=SWAPPED
// RUN: stepwell-opt %s --affine-loop-tile --canonicalize='max-iterations=1 top-down=false' | FileCheck %s --check-prefix=UPSTREAM

// CHECK: module attributes {test.count = 5 : i64}
// CHECK: @a{{.*}}tags = ["one", "two"]
// CHECK-COUNT-1: graph.relu
// CHECK: @b{{.*}}tags = ["one"]
// SWAPPED: @a{{.*}}tags = ["two", "one"]
// SWAPPED: @b{{.*}}tags = ["one"]
// UPSTREAM: graph.relu
// UPSTREAM-NOT: graph.neg
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "graph.relu"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "graph.add"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = "graph.neg"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
func.func private @b()
