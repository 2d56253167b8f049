// RUN: stepwell-opt %s --pass-pipeline='convert-graph-to-linalg,func.func(linalg-fuse-elementwise-ops,canonicalize,remove-boundaries,use-destinations,fuse-loops{chunks=2})' --target x86-64-v3 --split-input-file | FileCheck %s

// Four rows of four tiles: everything fits a cache, so the five stages are done two rows at a time, and the transforms block by block of channels
// and filters.
// CHECK-LABEL: func.func private @small
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop4", step = 2 : i64}, {chunks = 1 : i64, dim = 2 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 4 : i64, loop = "loop4", step = 2 : i64}, {chunks = 1 : i64, dim = 3 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 4 : i64, loop = "loop4", step = 2 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop4", step = 2 : i64}, {chunks = 1 : i64, dim = 2 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop4", step = 2 : i64}, {chunks = 1 : i64, dim = 1 : i64, loop = "inner2", step = 1 : i64}]>
func.func private @small(%x: tensor<1x4x18x18x8xf32>, %u: tensor<6x6x8x4x8x8xf32>, %out: tensor<1x8x16x16x8xf32>) -> tensor<1x8x16x16x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x4x18x18x8xf32>, tensor<6x6x8x4x8x8xf32>) -> tensor<1x8x16x16x8xf32>
  return %0 : tensor<1x8x16x16x8xf32>
}

// -----

// With 9 MB of filters it is cheaper to transform the whole image: only the transforms are fused, over channels and over filters.
// CHECK-LABEL: func.func private @many_filters
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: iterator_types = [{{.*}}, "reduction", "reduction"]}
// CHECK-NOT: #sched
// CHECK: iterator_types = [{{.*}}, "parallel", "reduction"]}
// CHECK-SAME: sched.fused = #sched.fused<[{{{.*}}dim = 2 : i64, loop = "inner2"
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 1 : i64, loop = "inner2", step = 1 : i64}]>
func.func private @many_filters(%x: tensor<1x32x58x58x8xf32>, %u: tensor<6x6x32x32x8x8xf32>, %out: tensor<1x32x56x56x8xf32>) -> tensor<1x32x56x56x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x32x58x58x8xf32>, tensor<6x6x32x32x8x8xf32>) -> tensor<1x32x56x56x8xf32>
  return %0 : tensor<1x32x56x56x8xf32>
}

// -----

// 2 MB of filters are read again for each row of tiles, from the last cache: that takes less than to write and read 8 MB, which go to memory.
// CHECK-LABEL: func.func private @filters_from_the_last_cache
// CHECK-COUNT-5: sched.fused = #sched.fused<[{{.*}}loop = "loop4"
func.func private @filters_from_the_last_cache(%x: tensor<1x14x66x66x8xf32>, %u: tensor<6x6x14x14x8x8xf32>, %out: tensor<1x14x64x64x8xf32>) -> tensor<1x14x64x64x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 1 : i64, transformed = true} : (tensor<1x14x66x66x8xf32>, tensor<6x6x14x14x8x8xf32>) -> tensor<1x14x64x64x8xf32>
  return %0 : tensor<1x14x64x64x8xf32>
}

// -----

// Two groups: only the products have a loop over these, and are done by the same rows of tiles.
// CHECK-LABEL: func.func private @groups
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop5", step = 2 : i64}, {chunks = 1 : i64, dim = 2 : i64, loop = "inner2", step = 2 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 5 : i64, loop = "loop5", step = 2 : i64}, {chunks = 1 : i64, dim = 3 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 5 : i64, loop = "loop5", step = 2 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 4 : i64, loop = "loop5", step = 2 : i64}, {chunks = 1 : i64, dim = 3 : i64, loop = "inner3", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop5", step = 2 : i64}, {chunks = 1 : i64, dim = 2 : i64, loop = "inner3", step = 1 : i64}]>
func.func private @groups(%x: tensor<1x4x18x18x8xf32>, %u: tensor<6x6x8x2x8x8xf32>, %out: tensor<1x8x16x16x8xf32>) -> tensor<1x8x16x16x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %u) {tile = 4 : i64, group = 2 : i64, transformed = true} : (tensor<1x4x18x18x8xf32>, tensor<6x6x8x2x8x8xf32>) -> tensor<1x8x16x16x8xf32>
  return %0 : tensor<1x8x16x16x8xf32>
}

// -----

// Plain filters: what is made of a few blocks of them, of the products with these and of their way back is done block by block.
// CHECK-LABEL: func.func private @plain
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 1 : i64, loop = "loop3", step = 4 : i64}, {chunks = 1 : i64, dim = 2 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop3", step = 4 : i64}, {chunks = 1 : i64, dim = 3 : i64, loop = "inner2", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 3 : i64, loop = "loop3", step = 4 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 2 : i64, loop = "loop3", step = 4 : i64}, {chunks = 1 : i64, dim = 3 : i64, loop = "inner3", step = 1 : i64}]>
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 1 : i64, loop = "loop3", step = 4 : i64}, {chunks = 1 : i64, dim = 2 : i64, loop = "inner3", step = 1 : i64}]>
func.func private @plain(%x: tensor<1x4x18x18x8xf32>, %w: tensor<8x4x3x3x8x8xf32>, %out: tensor<1x8x16x16x8xf32>) -> tensor<1x8x16x16x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %w) {tile = 4 : i64, group = 1 : i64, transformed = false} : (tensor<1x4x18x18x8xf32>, tensor<8x4x3x3x8x8xf32>) -> tensor<1x8x16x16x8xf32>
  return %0 : tensor<1x8x16x16x8xf32>
}

// -----

// Few plain filters, a large image: rows of tiles are fused, and filters, which all rows read, are transformed before. Between the transforms of
// data and the products they would make two loops of one, and all transformed data, 3.6 MB, would be stored.
// CHECK-LABEL: func.func private @few_plain_filters
// CHECK-COUNT-2: sched.fused = #sched.fused<[{{{.*}}loop = "inner1", step = 1 : i64}]>
// CHECK-COUNT-5: sched.fused = #sched.fused<[{{{.*}}loop = "loop4"
// CHECK-NOT: sched.fused
func.func private @few_plain_filters(%x: tensor<1x16x58x58x8xf32>, %w: tensor<4x16x3x3x8x8xf32>, %out: tensor<1x4x56x56x8xf32>) -> tensor<1x4x56x56x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.winograd_conv"(%x, %w) {tile = 4 : i64, group = 1 : i64, transformed = false} : (tensor<1x16x58x58x8xf32>, tensor<4x16x3x3x8x8xf32>) -> tensor<1x4x56x56x8xf32>
  return %0 : tensor<1x4x56x56x8xf32>
}

// -----

// Attention: twelve heads are dealt out to two chunks, and in each the scores of one head at a time, 64 KB of them, stay in the second cache. The
// pass knows neither softmax nor products: it finds that all seven stages have the loop over heads in common.
// CHECK-LABEL: func.func private @attention
// CHECK-COUNT-6: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 1 : i64, loop = "loop1", step = 1 : i64}]>
// CHECK-NOT: sched.fused
func.func private @attention(%q: tensor<1x12x128x64xf32>, %k: tensor<1x12x64x128xf32>, %v: tensor<1x12x128x64xf32>, %out: tensor<1x12x128x64xf32>) -> tensor<1x12x128x64xf32> attributes {stepwell.kernel} {
  %0 = "graph.attention"(%q, %k, %v) {scale = 0.125 : f64} : (tensor<1x12x128x64xf32>, tensor<1x12x64x128xf32>, tensor<1x12x128x64xf32>) -> tensor<1x12x128x64xf32>
  return %0 : tensor<1x12x128x64xf32>
}

// -----

// A single head of 2000 queries and keys: 16 MB of scores, some queries at a time.
// CHECK-LABEL: func.func private @queries
// CHECK-COUNT-6: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", step = {{[0-9]+}} : i64}]>
func.func private @queries(%q: tensor<2000x64xf32>, %k: tensor<64x2000xf32>, %v: tensor<2000x64xf32>, %mask: tensor<2000xf32>, %out: tensor<2000x64xf32>) -> tensor<2000x64xf32> attributes {stepwell.kernel} {
  %0 = "graph.attention"(%q, %k, %v, %mask) {scale = 0.125 : f64} : (tensor<2000x64xf32>, tensor<64x2000xf32>, tensor<2000x64xf32>, tensor<2000xf32>) -> tensor<2000x64xf32>
  return %0 : tensor<2000x64xf32>
}

// -----

// No product: the last stage leads. A row of what several stages read, and one of what they hand on, stay in the first cache. The next row of the
// input, which fills the second cache, is asked for where it is read last: by the exponentials.
// CHECK-LABEL: func.func private @softmax
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", step = 1 : i64}]>
// CHECK: arith.maxnumf
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", prefetch = 1 : i64, step = 1 : i64}]>
// CHECK: math.exp
// CHECK-COUNT-2: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", step = 1 : i64}]>
func.func private @softmax(%x: tensor<256x1000xf32>, %out: tensor<256x1000xf32>) -> tensor<256x1000xf32> attributes {stepwell.kernel} {
  %0 = "graph.softmax"(%x) {axis = 1 : i64} : (tensor<256x1000xf32>) -> tensor<256x1000xf32>
  return %0 : tensor<256x1000xf32>
}

// -----

// Nothing large is handed on: the sum takes the exponentials as they are made. What three stages read stays in the first cache, two rows at a time,
// and all of it in the second: nothing is asked for early.
// CHECK-LABEL: func.func private @logarithms
// CHECK-COUNT-3: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", step = 2 : i64}]>
func.func private @logarithms(%x: tensor<32x1000xf32>, %out: tensor<32x1000xf32>) -> tensor<32x1000xf32> attributes {stepwell.kernel} {
  %0 = "graph.log_softmax"(%x) {axis = 1 : i64} : (tensor<32x1000xf32>) -> tensor<32x1000xf32>
  return %0 : tensor<32x1000xf32>
}

// -----

// One row, 200 KB, has no room in the first cache but in the second.
// CHECK-LABEL: func.func private @vocabulary
// CHECK-COUNT-4: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", {{.*}}step = 1 : i64}]>
func.func private @vocabulary(%x: tensor<8x50257xf32>, %out: tensor<8x50257xf32>) -> tensor<8x50257xf32> attributes {stepwell.kernel} {
  %0 = "graph.softmax"(%x) {axis = 1 : i64} : (tensor<8x50257xf32>) -> tensor<8x50257xf32>
  return %0 : tensor<8x50257xf32>
}

// -----

// Softmax along columns: vectors run along the only loop in common, so that it is not fused.
// CHECK-LABEL: func.func private @columns
// CHECK-NOT: sched.fused
func.func private @columns(%x: tensor<1000x64xf32>, %out: tensor<1000x64xf32>) -> tensor<1000x64xf32> attributes {stepwell.kernel} {
  %0 = "graph.softmax"(%x) {axis = 0 : i64} : (tensor<1000x64xf32>) -> tensor<1000x64xf32>
  return %0 : tensor<1000x64xf32>
}

// -----

// Rows of which only a run knows the number are fused one at a time; what is handed on is merged with them before, or stays whole.
// CHECK-LABEL: func.func private @free_rows(
// CHECK: linalg.generic {{.*}}"reduction"]{{.*}} attrs = {sched.fused = #sched.fused<[{chunks = {{[0-9]+}} : i64, dim = 0 : i64, loop = "loop0", {{.*}}step = 1 : i64}]>}
// CHECK: linalg.generic {{.*}} attrs = {sched.fused = #sched.fused<[{chunks = {{[0-9]+}} : i64, dim = 0 : i64, loop = "loop0", {{.*}}step = 1 : i64}]>}
func.func private @free_rows(%x: tensor<?x4096xf32>, %out: tensor<?x4096xf32>) -> tensor<?x4096xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x4096xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<?x4096xf32>) outs(%f : tensor<?xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x, %s : tensor<?x4096xf32>, tensor<?xf32>) outs(%out : tensor<?x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.subf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x4096xf32>
  return %y : tensor<?x4096xf32>
}

// -----

// Four images are likely, but one would leave a thread idle: the rows of all images are split among threads, image by image inside.
// CHECK-LABEL: func.func private @few_images(
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 1 : i64, loop = "loop1", {{.*}}}, {chunks = 1 : i64, dim = 0 : i64, loop = "loop0", {{.*}}step = 1 : i64}]>
module attributes {stepwell.size_hints = {n = 4 : i64}} {
  func.func private @few_images(%x: tensor<?x32x2048xf32>, %out: tensor<?x32x2048xf32>) -> tensor<?x32x2048xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = "graph.softmax"(%x) {axis = 2 : i64} : (tensor<?x32x2048xf32>) -> tensor<?x32x2048xf32>
    return %0 : tensor<?x32x2048xf32>
  }
}

// -----

// Of many, a quarter is still enough.
// CHECK-LABEL: func.func private @many_images(
// CHECK: sched.fused = #sched.fused<[{chunks = 2 : i64, dim = 0 : i64, loop = "loop0", {{.*}}step = 1 : i64}
module attributes {stepwell.size_hints = {n = 64 : i64}} {
  func.func private @many_images(%x: tensor<?x32x2048xf32>, %out: tensor<?x32x2048xf32>) -> tensor<?x32x2048xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
    %0 = "graph.softmax"(%x) {axis = 2 : i64} : (tensor<?x32x2048xf32>) -> tensor<?x32x2048xf32>
    return %0 : tensor<?x32x2048xf32>
  }
}

// -----

// Short rows are fused eight at a time; what is left over comes behind them, one row after the other.
// CHECK-LABEL: func.func private @short_free_rows(
// CHECK-COUNT-4: sched.fused = #sched.fused<[{chunks = {{[0-9]+}} : i64, dim = 0 : i64, loop = "loop0", rest = 1 : i64, step = 8 : i64}]>
func.func private @short_free_rows(%x: tensor<?x64xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  %0 = "graph.softmax"(%x) {axis = 1 : i64} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// Of a multiple of eight nothing is left over.
// CHECK-LABEL: func.func private @eights_of_rows(
// CHECK-COUNT-4: sched.fused = #sched.fused<[{chunks = {{[0-9]+}} : i64, dim = 0 : i64, loop = "loop0", step = 8 : i64}]>
func.func private @eights_of_rows(%x: tensor<?x64xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {stepwell.kernel, stepwell.sizes = ["8*n", "8*n"]} {
  %0 = "graph.softmax"(%x) {axis = 1 : i64} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
