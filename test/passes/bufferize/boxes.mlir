// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' --split-input-file | FileCheck %s

#id = affine_map<(a) -> (a)>

// What is boxed has memory of its own, which the runtime gives when its size is known: here when @main begins. Where it has a place already, as an
// input, or what is in a box by now, it is copied. The pairs of `boxes` are a slot, and whether it may hold boxes.
// CHECK: stepwell.segments = [{boxes = array<i64: 0, 0, 1, 1, 2, 0, 3, 0>, nodes = {{.*}}, outputs = array<i64>, sizes = array<i64>, slots = [["4*n"], ["144"{{.*}}], ["4*n"{{.*}}], ["4*n"{{.*}}]], start = 3 : i64}]
// CHECK: func.func @main(%[[X:.*]]: memref<?xf32>, %[[Y:.*]]: memref<?xf32>, %{{.*}}: memref<9xi64>, %{{.*}}: memref<?xi8> {stepwell.bytes = 0 : i64}, %[[WS:.*]]: memref<?xi8>{{.*}}, %[[T:.*]]: memref<14xi64> {stepwell.symbols = ["n"]})
// CHECK: call @sizes_0(%[[T]]) : (memref<14xi64>) -> i64
// CHECK: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %c0_i64{{[_0-9]*}}) :
// CHECK: %[[N:.*]] = arith.index_cast
// CHECK: memref.load %[[T]][%c3{{[_0-9]*}}]
// CHECK: %[[LIES:.*]] = arith.index_cast
// CHECK: %[[A:.*]] = memref.view %[[WS]][%[[LIES]]][%[[N]]]
// CHECK: call @exp(%{{.*}}, %[[A]])
// The box: where the value lies, its size, then zeros.
// CHECK: %[[BOX:.*]] = memref.view %[[WS]][{{.*}}] : memref<?xi8> to memref<9xi64>
// CHECK: %[[I:.*]] = arith.index_cast %[[LIES]] : index to i64
// CHECK: memref.store %[[I]], %[[BOX]][%c0{{[_0-9]*}}]
// CHECK: %[[I:.*]] = arith.index_cast %[[N]] : index to i64
// CHECK: memref.store %[[I]], %[[BOX]][%c1{{[_0-9]*}}]
// CHECK: %[[I:.*]] = arith.index_cast %c0{{[_0-9]*}} : index to i64
// CHECK: memref.store %[[I]], %[[BOX]][%c2{{[_0-9]*}}]
// CHECK: memref.store %{{.*}}, %[[BOX]][%c8{{[_0-9]*}}]
// A second box of the same value, then one of an input.
// CHECK: memref.load %[[T]][%c5{{[_0-9]*}}]
// CHECK: call @copy_anyxf32(%[[A]], %[[B:[a-z_0-9]+]])
// CHECK: memref.load %[[T]][%c6{{[_0-9]*}}]
// CHECK: call @copy_anyxf32(%{{.*}}, %[[C:[a-z_0-9]+]])
// The boxed value dies here; but its memory is not written again.
// CHECK: call @exp(%[[A]], %[[D:[a-z_0-9]+]])
// CHECK: call @exp(%[[D]], %[[D]])
// The boxes that lie in a box have been put there in the first place. What is found in one lies so far from the workspace of @main as the box says,
// and is not written either.
// CHECK-NOT: call @copy
// CHECK: %[[L:.*]] = memref.load %[[BOX]][%c0{{[_0-9]*}}] : memref<9xi64>
// CHECK: %[[J:.*]] = arith.index_cast %[[L]]
// CHECK: %[[U:.*]] = memref.view %[[WS]][%[[J]]][%[[N]]] : memref<?xi8> to memref<?xf32>
// CHECK: call @neg(%[[U]], %
// CHECK-NOT: call @neg(%[[U]], %[[U]]
module attributes {
  stepwell.inputs = [["x", tensor<?xf32, "n">]], stepwell.outputs = [["y", tensor<?xf32, "n">], ["b", tensor<9xi64>]]
} {
  func.func private @exp(%x: tensor<?xf32, "n">, %out: tensor<?xf32, "n">) -> tensor<?xf32, "n"> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32, "n">) outs(%out : tensor<?xf32, "n">) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<?xf32, "n">
    return %0 : tensor<?xf32, "n">
  }
  func.func private @neg(%x: tensor<?xf32, "n">, %out: tensor<?xf32, "n">) -> tensor<?xf32, "n"> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32, "n">) outs(%out : tensor<?xf32, "n">) {
    ^bb0(%a: f32, %o: f32):
      %v = arith.negf %a : f32
      linalg.yield %v : f32
    } -> tensor<?xf32, "n">
    return %0 : tensor<?xf32, "n">
  }
  func.func @main(%x: tensor<?xf32, "n">, %weights: memref<?xi8>) -> (tensor<?xf32, "n">, tensor<9xi64>) {
    %zero = arith.constant 0 : index
    %n = tensor.dim %x, %zero : tensor<?xf32, "n">
    %e0 = tensor.empty(%n) : tensor<?xf32, "n">
    %0 = call @exp(%x, %e0) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
    %p0 = tensor.empty() : tensor<9xi64>
    %b0 = "flow.box"(%0, %p0) : (tensor<?xf32, "n">, tensor<9xi64>) -> tensor<9xi64>
    %p1 = tensor.empty() : tensor<9xi64>
    %b1 = "flow.box"(%0, %p1) : (tensor<?xf32, "n">, tensor<9xi64>) -> tensor<9xi64>
    %p2 = tensor.empty() : tensor<9xi64>
    %b2 = "flow.box"(%x, %p2) : (tensor<?xf32, "n">, tensor<9xi64>) -> tensor<9xi64>
    %e1 = tensor.empty(%n) : tensor<?xf32, "n">
    %1 = call @exp(%0, %e1) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
    %e2 = tensor.empty(%n) : tensor<?xf32, "n">
    %2 = call @exp(%1, %e2) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
    %all = tensor.concat dim(0) %b1, %b2 : (tensor<9xi64>, tensor<9xi64>) -> tensor<18xi64>
    %rows = tensor.expand_shape %all [[0, 1]] output_shape [2, 9] : tensor<18xi64> into tensor<2x9xi64>
    %p3 = tensor.empty() : tensor<9xi64>
    %b3 = "flow.box"(%rows, %p3) : (tensor<2x9xi64>, tensor<9xi64>) -> tensor<9xi64>
    %3 = "flow.unbox"(%b0) {to = f32, sizes = ["n"]} : (tensor<9xi64>) -> tensor<?xf32, "n">
    %e3 = tensor.empty(%n) : tensor<?xf32, "n">
    %4 = call @neg(%3, %e3) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
    %both = tensor.empty(%n) : tensor<?xf32, "n">
    %5 = call @exp(%4, %both) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
    return %5, %b3 : tensor<?xf32, "n">, tensor<9xi64>
  }
}

// -----

#id = affine_map<(a) -> (a)>

// After each round of a loop that makes boxes, the runtime is told where its carried values are that may hold boxes, and lets go of memory. Before
// the first it is asked for a mark: the record holds a count, the mark (-1), then an address and a number of boxes for each.
// CHECK: func.func @main(%[[N:.*]]: memref<i64>, {{.*}}: memref<?xi8> {stepwell.bytes = 0 : i64}, %[[WS:.*]]: memref<?xi8>{{.*}}, %[[T:.*]]: memref<5xi64>)
// CHECK: %[[KEPT:.*]] = memref.view %[[WS]][{{.*}}] : memref<?xi8> to memref<4xi64>
// CHECK: memref.store %c1_i64{{[_0-9]*}}, %[[KEPT]][%c0{{[_0-9]*}}]
// CHECK: memref.store %c-1_i64{{[_0-9]*}}, %[[KEPT]][%c1{{[_0-9]*}}]
// CHECK: %[[A:.*]] = memref.extract_aligned_pointer_as_index %[[KEPT]]
// CHECK: %[[R:.*]] = arith.index_cast %[[A]]
// CHECK: llvm.getelementptr %{{.*}}[1]
// CHECK: llvm.getelementptr %{{.*}}[2]
// CHECK: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %[[R]]) :
// CHECK: cf.cond_br %{{.*}}, ^[[HEAD:bb[0-9]+]](%c0{{.*}}), ^[[END:bb[0-9]+]](%c10_i64
// CHECK: %[[S:.*]] = call @main.body(
// CHECK: cf.cond_br %{{.*}}, ^[[DONE:.*]], ^[[END]](%[[S]] : i64)
// CHECK: ^[[DONE]]:
// CHECK: %[[I:.*]] = arith.index_cast %{{.*}} : index to i64
// CHECK: memref.store %[[I]], %[[KEPT]][%c2{{[_0-9]*}}]
// CHECK: %[[ONE:.*]] = arith.index_cast %c1{{[_0-9]*}} : index to i64
// CHECK: memref.store %[[ONE]], %[[KEPT]][%c3{{[_0-9]*}}]
// CHECK: llvm.getelementptr %{{.*}}[1]
// CHECK: llvm.getelementptr %{{.*}}[2]
// CHECK: llvm.call
// CHECK: cf.cond_br %{{.*}}, ^[[HEAD]](%{{.*}}), ^[[END]](%c10_i64
// The memory of a box whose size is a number is asked for when the function begins, in each round anew.
// CHECK: func.func private @main.body(
// CHECK: llvm.getelementptr %{{.*}}[1]
// CHECK: llvm.getelementptr %{{.*}}[0]
// CHECK: llvm.call
func.func private @exp(%x: tensor<6xf32>, %out: tensor<6xf32>) -> tensor<6xf32> attributes {stepwell.kernel} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<6xf32>) outs(%out : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
func.func @main(%k: tensor<i64>, %c: tensor<i1>, %b: tensor<9xi64>, %x: tensor<6xf32>, %weights: memref<?xi8>) -> (tensor<6xf32>, tensor<9xi64>) {
  %e0 = tensor.empty() : tensor<6xf32>
  %e1 = tensor.empty() : tensor<9xi64>
  %e2 = tensor.empty() : tensor<1xi64>
  %0:3 = "flow.loop"(%k, %c, %x, %b, %e0, %e1, %e2) {body = "main.body", carried = 2 : i64, destinations = 3 : i64}
    : (tensor<i64>, tensor<i1>, tensor<6xf32>, tensor<9xi64>, tensor<6xf32>, tensor<9xi64>, tensor<1xi64>) -> (tensor<6xf32>, tensor<9xi64>, tensor<1xi64>)
  return %0#0, %0#1 : tensor<6xf32>, tensor<9xi64>
}
func.func private @main.body(%i: tensor<i64>, %go: tensor<i1>, %x: tensor<6xf32>, %b: tensor<9xi64>) -> (tensor<i1>, tensor<6xf32>, tensor<9xi64>)
    attributes {stepwell.region} {
  %0 = "flow.unbox"(%b) {to = f32, sizes = array<i64: 6>} : (tensor<9xi64>) -> tensor<6xf32>
  %e0 = tensor.empty() : tensor<6xf32>
  %1 = call @exp(%0, %e0) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %p = tensor.empty() : tensor<9xi64>
  %2 = "flow.box"(%1, %p) : (tensor<6xf32>, tensor<9xi64>) -> tensor<9xi64>
  %e1 = tensor.empty() : tensor<6xf32>
  %3 = call @exp(%x, %e1) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  return %go, %3, %2 : tensor<i1>, tensor<6xf32>, tensor<9xi64>
}
