// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' --split-input-file | FileCheck %s

#id = affine_map<(a, b) -> (a, b)>

// A concatenation is written by its producers: each call gets its slice of one buffer, here of the caller's, which the last result overwrites
// it in; a result overwrites the input that dies there.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:arg[0-9]+]]: memref<4x8xf32> {stepwell.name = "x"}, %[[Y:arg[0-9]+]]: memref<8x8xf32> {stepwell.name = "y"}
// CHECK-SAME: %[[W:arg[0-9]+]]: memref<?xi8> {stepwell.bytes = 256 : i64}, %[[WS:arg[0-9]+]]: memref<?xi8> {stepwell.bytes = 0 : i64}
// CHECK-NOT: alloc
// CHECK: %[[FLAT:[a-z_0-9]+]] = memref.reinterpret_cast %[[Y]] to offset: [0], sizes: [64], strides: [1]
// CHECK-NEXT: %[[BYTES:[a-z_0-9]+]] = builtin.unrealized_conversion_cast %[[FLAT]] : memref<64xf32> to memref<256xi8>
// CHECK: %[[A:[a-z_0-9]+]] = memref.view %[[BYTES]][%c0{{[_0-9]*}}][] : memref<256xi8> to memref<4x8xf32>
// CHECK-NEXT: call @exp(%[[X]], %[[A]])
// CHECK-NEXT: call @exp(%[[A]], %[[A]])
// CHECK: %[[PARAMETER:[a-z_0-9]+]] = memref.view %[[W]][%c128{{[_0-9]*}}][]
// CHECK: %[[B:[a-z_0-9]+]] = memref.view %{{.*}}[%c128{{[_0-9]*}}][] : memref<256xi8> to memref<4x8xf32>
// CHECK-NEXT: call @exp(%[[PARAMETER]], %[[B]])
// CHECK-NEXT: call @exp8(%[[Y]], %[[Y]])
// CHECK-NEXT: return
module attributes {stepwell.weights_bytes = 256 : i64} {
  func.func private @exp(%x: tensor<4x8xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {stepwell.kernel} {
    %e = tensor.empty() : tensor<4x8xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @exp8(%x: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {stepwell.kernel} {
    %e = tensor.empty() : tensor<8x8xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func @main(%x: tensor<4x8xf32> {stepwell.name = "x"}, %weights: memref<?xi8>) -> (tensor<8x8xf32> {stepwell.name = "y"}) {
    %e0 = tensor.empty() : tensor<4x8xf32>
    %0 = call @exp(%x, %e0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %e1 = tensor.empty() : tensor<4x8xf32>
    %1 = call @exp(%0, %e1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %c128 = arith.constant 128 : index
    %view = memref.view %weights[%c128][] : memref<?xi8> to memref<4x8xf32>
    %p = bufferization.to_tensor %view restrict : memref<4x8xf32> to tensor<4x8xf32>
    %e2 = tensor.empty() : tensor<4x8xf32>
    %2 = call @exp(%p, %e2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = tensor.concat dim(0) %1, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %e4 = tensor.empty() : tensor<8x8xf32>
    %4 = call @exp8(%3, %e4) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %4 : tensor<8x8xf32>
  }
}

// -----

// The model's input must not be overwritten or handed out: it is copied to the output.
// CHECK-LABEL: func.func @main
// CHECK: call @copy_8xf32(%arg0, %arg1)
// CHECK: call @copy_8xf32(%arg0, %arg2)
func.func @main(%x: tensor<8xf32>, %weights: memref<?xi8>) -> (tensor<8xf32>, tensor<8xf32>) {
  return %x, %x : tensor<8xf32>, tensor<8xf32>
}

// -----

// A kernel that reads its input elsewhere than where it writes cannot overwrite it: the second call gets a buffer of its own.
// CHECK-LABEL: func.func private @reverse
// CHECK-NOT: stepwell.in_place
// CHECK-LABEL: func.func @main
// CHECK: call @reverse(%arg0, %[[A:[a-z_0-9]+]])
// CHECK: call @reverse(%[[A]], %[[B:[a-z_0-9]+]])
// CHECK-NOT: call @reverse(%[[A]], %[[A]])
// CHECK: call @reverse(%[[B]], %arg1)
func.func private @reverse(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (-i + 7)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @main(%x: tensor<8xf32>, %weights: memref<?xi8>) -> tensor<8xf32> {
  %e0 = tensor.empty() : tensor<8xf32>
  %0 = call @reverse(%x, %e0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %1 = call @reverse(%0, %e1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %e2 = tensor.empty() : tensor<8xf32>
  %2 = call @reverse(%1, %e2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// A chain stays in one place, even where that begins as the parts of a concatenation: in the caller's buffer.
// CHECK-LABEL: func.func @main(%arg0: memref<4xf32>
// CHECK: %[[A:[a-z_0-9]+]] = memref.view %{{.*}}[%c0{{[_0-9]*}}][] : memref<32xi8> to memref<4xf32>
// CHECK-NEXT: call @exp4(%arg0, %[[A]])
// CHECK: %[[B:[a-z_0-9]+]] = memref.view %{{.*}}[%c16{{[_0-9]*}}][] : memref<32xi8> to memref<4xf32>
// CHECK-NEXT: call @exp4(%arg0, %[[B]])
// CHECK-NEXT: call @exp8(%arg1, %arg1)
// CHECK-NEXT: call @exp8(%arg1, %arg1)
// CHECK-NEXT: call @exp8(%arg1, %arg1)
// CHECK-NEXT: call @exp8(%arg1, %arg1)
// CHECK-NEXT: return
#id1 = affine_map<(i) -> (i)>
func.func private @exp4(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @exp8(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id1, #id1], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @main(%x: tensor<4xf32>, %weights: memref<?xi8>) -> tensor<8xf32> {
  %e0 = tensor.empty() : tensor<4xf32>
  %0 = call @exp4(%x, %e0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %1 = call @exp4(%x, %e1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.concat dim(0) %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %e3 = tensor.empty() : tensor<8xf32>
  %3 = call @exp8(%2, %e3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %e4 = tensor.empty() : tensor<8xf32>
  %4 = call @exp8(%3, %e4) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %e5 = tensor.empty() : tensor<8xf32>
  %5 = call @exp8(%4, %e5) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %e6 = tensor.empty() : tensor<8xf32>
  %6 = call @exp8(%5, %e6) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %6 : tensor<8xf32>
}

// -----

// The second input lies in the first, where a kernel that writes over the first would find what it wrote.
// CHECK-LABEL: func.func @main(%arg0: memref<4xf32>
// CHECK: %[[OTHER:[a-z_0-9]+]] = memref.view %arg3[%c0{{[_0-9]*}}][] : memref<?xi8> to memref<2x4xf32>
// CHECK-NEXT: call @shifted(%{{[a-z_0-9]+}}, %{{[a-z_0-9]+}}, %[[OTHER]])
// CHECK-NEXT: call @exp8(%[[OTHER]], %arg1)
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
func.func private @exp4(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @shifted(%x: tensor<2x4xf32>, %p: tensor<4xf32>, %out: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<2x4xf32>
  %0 = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
    ins(%x, %p : tensor<2x4xf32>, tensor<4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func private @exp8(%x: tensor<2x4xf32>, %out: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<2x4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (1 - i, j)>, #all], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func @main(%x: tensor<4xf32>, %weights: memref<?xi8>) -> tensor<2x4xf32> {
  %e0 = tensor.empty() : tensor<4xf32>
  %0 = call @exp4(%x, %e0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %1 = call @exp4(%x, %e1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = tensor.concat dim(0) %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %3 = tensor.expand_shape %2 [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %e4 = tensor.empty() : tensor<2x4xf32>
  %4 = call @shifted(%3, %0, %e4) : (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %e5 = tensor.empty() : tensor<2x4xf32>
  %5 = call @exp8(%4, %e5) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %5 : tensor<2x4xf32>
}

// -----

// A kernel that only takes a slice copies it once, from where it lies to where it is to go, without scratch.
// CHECK-LABEL: func.func private @slice(
// CHECK-NOT: stepwell.scratch_bytes
// CHECK: %[[SLICE:[a-z_0-9]+]] = memref.subview %arg0[0, 1] [4, 6] [1, 1]
// CHECK-NEXT: linalg.generic
// CHECK-SAME: ins(%[[SLICE]] : {{.*}}) outs(%arg1 :
// CHECK-NOT: linalg.generic
// CHECK: return
func.func private @slice(%x: tensor<4x8xf32>, %out: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {stepwell.kernel} {
  %0 = tensor.extract_slice %x[0, 1] [4, 6] [1, 1] : tensor<4x8xf32> to tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @main(%x: tensor<4x8xf32>, %weights: memref<?xi8>) -> tensor<4x6xf32> {
  %e0 = tensor.empty() : tensor<4x6xf32>
  %0 = call @slice(%x, %e0) : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// A residual may lie where the sum goes, since it is read just before that is stored; not where sums in blocks have been left there before.
// CHECK-LABEL: func.func private @whole
// CHECK-SAME: stepwell.in_place = array<i64: 1, 0>
// CHECK-LABEL: func.func private @in_blocks
// CHECK-NOT: stepwell.in_place
// CHECK-LABEL: func.func @main
func.func private @whole(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<8x8xf32>
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 8 : i64}>}
    ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%r : tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func private @in_blocks(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<8x8xf32>
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1>, parallel = 0 : i64, unroll = array<i64: 1, 1, 1>, vector = 1 : i64, width = 8 : i64,
                         block = array<i64: 0, 0, 4>}>}
    ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%r : tensor<8x8xf32>) outs(%0 : tensor<8x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func @main(%x: tensor<8x8xf32>, %weights: memref<?xi8>) -> tensor<8x8xf32> {
  %e0 = tensor.empty() : tensor<8x8xf32>
  %0 = call @whole(%x, %x, %e0) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %e1 = tensor.empty() : tensor<8x8xf32>
  %1 = call @in_blocks(%x, %0, %e1) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// Two nests: the last one may overwrite what it alone reads, and just where it writes.
// CHECK-LABEL: func.func private @residual
// CHECK-SAME: stepwell.in_place = array<i64: 1, 0>
#row = affine_map<(i, j) -> (i)>
#both = affine_map<(i, j) -> (i, j)>
func.func private @residual(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {stepwell.kernel} {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<8xf32>) -> tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#row, #both, #both], iterator_types = ["parallel", "parallel"]} ins(%0, %r : tensor<8xf32>, tensor<8x8xf32>) outs(%out : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func @main(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %weights: memref<?xi8>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %0 = call @residual(%x, %r, %e) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// What the first nest reads too must stay as it is: in rounds of a shared loop it reads on while the last one writes.
// CHECK-LABEL: func.func private @read_by_both
// CHECK-NOT: stepwell.in_place
// CHECK-LABEL: func.func @main
#row = affine_map<(i, j) -> (i)>
#both = affine_map<(i, j) -> (i, j)>
func.func private @read_by_both(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {stepwell.kernel} {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e0 : tensor<8xf32>) -> tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<8x8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#row, #both, #both], iterator_types = ["parallel", "parallel"]} ins(%0, %r : tensor<8xf32>, tensor<8x8xf32>) outs(%out : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func @main(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %weights: memref<?xi8>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  %0 = call @read_by_both(%x, %r, %e) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// Of several results each has its destination. One may take the place of what its nest alone reads; a result that is not computed in its
// destination, a view of an input here, is copied there. Both parts of the concatenation are written in place.
// CHECK-LABEL: func.func private @three
// CHECK-SAME: %[[X:arg0]]: memref<4x8xf32>, %[[R:arg1]]: memref<4x8xf32>
// CHECK-SAME: %[[A:arg2]]: memref<4x8xf32>, %[[B:arg3]]: memref<4x8xf32>, %[[C:arg4]]: memref<8x4xf32>)
// CHECK-SAME: stepwell.in_place = array<i64: 1, 1>
// CHECK-SAME: stepwell.results = 3
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<4x8xf32>) outs(%[[A]] : memref<4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[R]] : memref<4x8xf32>) outs(%[[B]] : memref<4x8xf32>)
// CHECK: linalg.generic {{.*}} outs(%[[C]] : memref<8x4xf32>)
// CHECK-NOT: memref.copy
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[IN:arg0]]: memref<4x8xf32>, %[[OUT:arg1]]: memref<8x4xf32>, %[[OUT2:arg2]]: memref<8x8xf32>
// CHECK: %[[BYTES:[a-z_0-9]+]] = builtin.unrealized_conversion_cast
// CHECK: %[[V:[a-z_0-9]+]] = memref.view %[[BYTES]][%c128
// CHECK-NEXT: call @exp(%[[IN]], %[[V]])
// CHECK: %[[FIRST:[a-z_0-9]+]] = memref.view %[[BYTES]][%c0
// CHECK-NEXT: call @three(%[[IN]], %[[V]], %[[FIRST]], %[[V]], %[[OUT]])
// CHECK-NEXT: call @exp8(%[[OUT2]], %[[OUT2]])
#id = affine_map<(a, b) -> (a, b)>
module {
  func.func private @exp(%x: tensor<4x8xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {stepwell.kernel} {
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%out : tensor<4x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @exp8(%x: tensor<8x8xf32>, %out: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {stepwell.kernel} {
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%out : tensor<8x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @three(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %oa: tensor<4x8xf32>, %ob: tensor<4x8xf32>, %oc: tensor<8x4xf32>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>) attributes {stepwell.kernel} {
    %e0 = tensor.empty() : tensor<4x8xf32>
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e0 : tensor<4x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = arith.negf %a : f32
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    %e1 = tensor.empty() : tensor<4x8xf32>
    %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<4x8xf32>) outs(%e1 : tensor<4x8xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.absf %a : f32
      linalg.yield %v : f32
    } -> tensor<4x8xf32>
    %flat = tensor.collapse_shape %x [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
    %2 = tensor.expand_shape %flat [[0, 1]] output_shape [8, 4] : tensor<32xf32> into tensor<8x4xf32>
    return %0, %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>
  }
  func.func @main(%x: tensor<4x8xf32>, %weights: memref<?xi8>) -> (tensor<8x4xf32>, tensor<8x8xf32>) {
    %e = tensor.empty() : tensor<4x8xf32>
    %y = call @exp(%x, %e) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %e0 = tensor.empty() : tensor<4x8xf32>
    %e1 = tensor.empty() : tensor<4x8xf32>
    %e2 = tensor.empty() : tensor<8x4xf32>
    %0:3 = call @three(%x, %y, %e0, %e1, %e2) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>)
    %both = tensor.concat dim(0) %0#0, %0#1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %e3 = tensor.empty() : tensor<8x8xf32>
    %z = call @exp8(%both, %e3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0#2, %z : tensor<8x4xf32>, tensor<8x8xf32>
  }
}
