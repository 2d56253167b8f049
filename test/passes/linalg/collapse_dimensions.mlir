// RUN: stepwell-opt %s --pass-pipeline='func.func(collapse-dimensions,canonicalize)' --split-input-file | FileCheck %s

#o = affine_map<(n, f, h, w, c) -> (n, f, h, w)>
#id = affine_map<(n, f, h, w) -> (n, f, h, w)>

// A 1x1 convolution walks rows and columns as one; its epilogue is merged alike, so the chain stays one nest.
// CHECK-LABEL: func.func private @pointwise
// CHECK: linalg.fill {{.*}} -> tensor<1x6x49xf32>
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "parallel", "reduction"]{{.*}} outs(%[[F:[0-9]+]] : tensor<1x6x49xf32>)
// CHECK: linalg.generic {{.*}} ins(%arg2 : tensor<6xf32>) outs(%{{[0-9]+}} : tensor<1x6x49xf32>)
// CHECK: tensor.expand_shape {{.*}} : tensor<1x6x49xf32> into tensor<1x6x7x7xf32>
func.func private @pointwise(%x: tensor<1x3x7x7xf32>, %w: tensor<6x3xf32>, %b: tensor<6xf32>, %out: tensor<1x6x7x7xf32>) -> tensor<1x6x7x7xf32> {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%out : tensor<1x6x7x7xf32>) -> tensor<1x6x7x7xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c) -> (n, c, h, w)>, affine_map<(n, f, h, w, c) -> (f, c)>, #o],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<1x3x7x7xf32>, tensor<6x3xf32>) outs(%f : tensor<1x6x7x7xf32>) {
  ^bb0(%i: f32, %j: f32, %acc: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x6x7x7xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w) -> (f)>, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b : tensor<6xf32>) outs(%1 : tensor<1x6x7x7xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %s = arith.addf %acc, %i : f32
    linalg.yield %s : f32
  } -> tensor<1x6x7x7xf32>
  return %2 : tensor<1x6x7x7xf32>
}

// -----

// A 3x3 window does not walk rows and columns as one stretch.
// CHECK-LABEL: func.func private @window
// CHECK-NOT: collapse_shape
func.func private @window(%x: tensor<2x3x9x9xf32>, %w: tensor<6x3x3x3xf32>, %out: tensor<2x6x7x7xf32>) -> tensor<2x6x7x7xf32> {
  %1 = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, y, z) -> (n, c, h + y, w + z)>, affine_map<(n, f, h, w, c, y, z) -> (f, c, y, z)>,
    affine_map<(n, f, h, w, c, y, z) -> (n, f, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<2x3x9x9xf32>, tensor<6x3x3x3xf32>) outs(%out : tensor<2x6x7x7xf32>) {
  ^bb0(%i: f32, %j: f32, %acc: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %acc, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x6x7x7xf32>
  return %1 : tensor<2x6x7x7xf32>
}

// -----

// Merging loops would lose the index that the body asks for.
// CHECK-LABEL: func.func private @index
// CHECK-NOT: collapse_shape
func.func private @index(%out: tensor<3x4xi64>) -> tensor<3x4xi64> {
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%out : tensor<3x4xi64>) {
  ^bb0(%acc: i64):
    %j = linalg.index 1 : index
    %v = arith.index_cast %j : index to i64
    linalg.yield %v : i64
  } -> tensor<3x4xi64>
  return %1 : tensor<3x4xi64>
}

// -----

// A fused loop takes the dimension behind it in, and makes longer steps; the one before it does not take it in.
// CHECK-LABEL: func.func private @fused
// CHECK: linalg.generic {{.*}}["parallel", "parallel"]} {{.*}}outs(%{{.*}} : tensor<3x56xf32>) attrs = {{.*}}{sched.fused = #sched.fused<[{chunks = 1 : i64, dim = 1 : i64, loop = "rows", step = 14 : i64}]>}
#id = affine_map<(n, f, h, w) -> (n, f, h, w)>
func.func private @fused(%x: tensor<1x3x8x7xf32>, %out: tensor<1x3x8x7xf32>) -> tensor<1x3x8x7xf32> {
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"],
    sched.fused = #sched.fused<[{loop = "rows", dim = 2 : i64, step = 2 : i64, chunks = 1 : i64}]>} ins(%x : tensor<1x3x8x7xf32>) outs(%out : tensor<1x3x8x7xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<1x3x8x7xf32>
  return %1 : tensor<1x3x8x7xf32>
}

// -----

// In a slice, rows and columns do not lie side by side; seen through a view, rows in two dimensions do.
// CHECK-LABEL: func.func private @slice
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<24x4xf32>)
#id = affine_map<(f, g, h, w) -> (f, g, h, w)>
func.func private @slice(%x: tensor<3x2x4x4xf32>, %whole: tensor<3x8x5xf32>) -> tensor<3x2x4x4xf32> {
  %part = tensor.extract_slice %whole[0, 0, 1] [3, 8, 4] [1, 1, 1] : tensor<3x8x5xf32> to tensor<3x8x4xf32>
  %out = tensor.expand_shape %part [[0], [1, 2], [3]] output_shape [3, 2, 4, 4] : tensor<3x8x4xf32> into tensor<3x2x4x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<3x2x4x4xf32>) outs(%out : tensor<3x2x4x4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<3x2x4x4xf32>
  return %1 : tensor<3x2x4x4xf32>
}

// -----

// Sizes known only at run time are merged where what is known of them suffices: rows of a whole tensor follow each other, those of a slice do not.
// CHECK-LABEL: func.func private @free(
// CHECK: linalg.generic {{.*}} ins(%{{[a-z_0-9]+}} : tensor<?xf32>) outs(%{{[a-z_0-9]+}} : tensor<?xf32>)
// CHECK: tensor.expand_shape {{.*}} : tensor<?xf32> into tensor<?x?x8xf32>
func.func private @free(%x: tensor<?x?x8xf32>, %out: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> attributes {stepwell.kernel, stepwell.sizes = ["n, m", "n, m"]} {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<?x?x8xf32>) outs(%out : tensor<?x?x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = math.absf %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x?x8xf32>
  return %0 : tensor<?x?x8xf32>
}

// -----

// CHECK-LABEL: func.func private @free_slice(
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<?x8xf32>) outs(%{{.*}} : tensor<?x8xf32>)
func.func private @free_slice(%x: tensor<?x10xf32>, %out: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x10xf32>
  %s = tensor.extract_slice %x[0, 1] [%n, 8] [1, 1] : tensor<?x10xf32> to tensor<?x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%s : tensor<?x8xf32>) outs(%out : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = math.absf %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// Where sizes are known only at run time, a view cannot merge dimensions of a slice: of the first `n` rows of heads that have room for more, batch
// and heads are merged in the whole, and so is the slice.
// CHECK-LABEL: func.func private @free_part(
// CHECK: %[[OUT:.*]] = tensor.collapse_shape %arg1 {{\[\[}}0, 1], [2], [3]]
// CHECK: %[[WHOLE:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2], [3]] : tensor<?x3x?x8xf32> into tensor<?x?x8xf32>
// CHECK: %[[PART:.*]] = tensor.extract_slice %[[WHOLE]][0, 0, 0] [%{{.*}}, %{{.*}}, 8] [1, 1, 1] : tensor<?x?x8xf32> to tensor<?x?x8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[PART]] : tensor<?x?x8xf32>) outs(%[[OUT]] : tensor<?x?x8xf32>)
func.func private @free_part(%x: tensor<?x3x?x8xf32>, %out: tensor<?x3x?x8xf32>) -> tensor<?x3x?x8xf32> attributes {stepwell.kernel, stepwell.sizes = ["b, room", "b, n"]} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %out, %c0 : tensor<?x3x?x8xf32>
  %n = tensor.dim %out, %c2 : tensor<?x3x?x8xf32>
  %s = tensor.extract_slice %x[0, 0, 0, 0] [%b, 3, %n, 8] [1, 1, 1, 1] : tensor<?x3x?x8xf32> to tensor<?x3x?x8xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i, j, k, l)>, affine_map<(i, j, k, l) -> (i, j, k, 7 - l)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s : tensor<?x3x?x8xf32>) outs(%out : tensor<?x3x?x8xf32>) {
  ^bb0(%a: f32, %c: f32):
    %1 = math.absf %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x3x?x8xf32>
  return %0 : tensor<?x3x?x8xf32>
}

// -----

// What is computed in a slice is inserted in the merged whole: from 2 rows of n on.
// CHECK-LABEL: func.func private @free_written(
// CHECK: %[[WHOLE:.*]] = tensor.collapse_shape %arg1 {{\[\[}}0], [1, 2]] : tensor<?x5x?xf32> into tensor<?x?xf32>
// CHECK: %[[FROM:.*]] = arith.muli %{{.*}}, %c2
// CHECK: tensor.extract_slice %[[WHOLE]][0, %[[FROM]]]
// CHECK: %[[NEW:.*]] = linalg.generic
// CHECK: %[[PUT:.*]] = tensor.insert_slice %[[NEW]] into %[[WHOLE]][0, %[[FROM]]]
// CHECK: %[[APART:.*]] = tensor.expand_shape %[[PUT]] {{\[\[}}0], [1, 2]]
// CHECK: return %[[APART]]
func.func private @free_written(%x: tensor<?x3x?xf32>, %out: tensor<?x5x?xf32>) -> tensor<?x5x?xf32> attributes {stepwell.kernel, stepwell.sizes = ["b, n", "b, n"]} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %x, %c0 : tensor<?x3x?xf32>
  %n = tensor.dim %x, %c2 : tensor<?x3x?xf32>
  %s = tensor.extract_slice %out[0, 2, 0] [%b, 3, %n] [1, 1, 1] : tensor<?x5x?xf32> to tensor<?x3x?xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<?x3x?xf32>) outs(%s : tensor<?x3x?xf32>) {
  ^bb0(%a: f32, %c: f32):
    %1 = math.absf %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x3x?xf32>
  %1 = tensor.insert_slice %0 into %out[0, 2, 0] [%b, 3, %n] [1, 1, 1] : tensor<?x3x?xf32> into tensor<?x5x?xf32>
  return %1 : tensor<?x5x?xf32>
}

// -----

// A slice that is read again stays as it is.
// CHECK-LABEL: func.func private @free_read_again(
// CHECK-NOT: tensor.collapse_shape
// CHECK: return
func.func private @free_read_again(%x: tensor<?x3x?xf32>, %out: tensor<?x5x?xf32>) -> (tensor<?x5x?xf32>, tensor<?x3x?xf32>) attributes {stepwell.kernel, stepwell.sizes = ["b, n", "b, n"]} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %x, %c0 : tensor<?x3x?xf32>
  %n = tensor.dim %x, %c2 : tensor<?x3x?xf32>
  %s = tensor.extract_slice %out[0, 2, 0] [%b, 3, %n] [1, 1, 1] : tensor<?x5x?xf32> to tensor<?x3x?xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : tensor<?x3x?xf32>) outs(%s : tensor<?x3x?xf32>) {
  ^bb0(%a: f32, %c: f32):
    %1 = math.absf %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x3x?xf32>
  %1 = tensor.insert_slice %0 into %out[0, 2, 0] [%b, 3, %n] [1, 1, 1] : tensor<?x3x?xf32> into tensor<?x5x?xf32>
  return %1, %0 : tensor<?x5x?xf32>, tensor<?x3x?xf32>
}
