// RUN: stepwell-opt %s --pass-pipeline='func.func(fill-borders)' | FileCheck %s

#id = affine_map<(i, j, k) -> (i, j, k)>

// Rows above and below over the whole width, and columns beside the window.
// CHECK-LABEL: func.func @padded
// CHECK: tensor.extract_slice %arg1[0, 0, 0] [2, 1, 9] [1, 1, 1]
// CHECK: linalg.fill {{.*}} -> tensor<2x1x9xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 6, 0] [2, 2, 9] [1, 1, 1]
// CHECK: tensor.extract_slice %{{.*}}[0, 1, 0] [2, 5, 3] [1, 1, 1]
// CHECK: %[[LAST:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 1, 0] [2, 5, 3] [1, 1, 1]
// CHECK-NOT: linalg.fill
// CHECK: tensor.extract_slice %[[LAST]][0, 1, 3] [2, 5, 6] [1, 1, 1]
// CHECK: tensor.insert_slice %{{.*}} into %[[LAST]][0, 1, 3]
func.func @padded(%x: tensor<2x5x6xf32>, %out: tensor<2x8x9xf32>) -> tensor<2x8x9xf32> {
  %c = arith.constant 7.0 : f32
  %f = linalg.fill ins(%c : f32) outs(%out : tensor<2x8x9xf32>) -> tensor<2x8x9xf32>
  %s = tensor.extract_slice %f[0, 1, 3] [2, 5, 6] [1, 1, 1] : tensor<2x8x9xf32> to tensor<2x5x6xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x5x6xf32>) outs(%s : tensor<2x5x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x5x6xf32>
  %r = tensor.insert_slice %y into %f[0, 1, 3] [2, 5, 6] [1, 1, 1] : tensor<2x5x6xf32> into tensor<2x8x9xf32>
  return %r : tensor<2x8x9xf32>
}

// All of a fill that something else sees is kept, and gaps between what is inserted are filled.
// CHECK-LABEL: func.func @seen
// CHECK-COUNT-2: linalg.fill
// CHECK-NOT: linalg.fill
func.func @seen(%x: tensor<5xf32>, %out: tensor<9xf32>, %other: tensor<10xf32>) -> (tensor<9xf32>, tensor<9xf32>, tensor<10xf32>) {
  %c = arith.constant 7.0 : f32
  %f = linalg.fill ins(%c : f32) outs(%out : tensor<9xf32>) -> tensor<9xf32>
  %r = tensor.insert_slice %x into %f[2] [5] [1] : tensor<5xf32> into tensor<9xf32>
  %g = linalg.fill ins(%c : f32) outs(%other : tensor<10xf32>) -> tensor<10xf32>
  %s = tensor.insert_slice %x into %g[0] [5] [2] : tensor<5xf32> into tensor<10xf32>
  return %r, %f, %s : tensor<9xf32>, tensor<9xf32>, tensor<10xf32>
}

// So is what is read before it is written over.
// CHECK-LABEL: func.func @read
// CHECK: linalg.fill {{.*}} -> tensor<2x8x9xf32>
func.func @read(%x: tensor<2x5x6xf32>, %out: tensor<2x8x9xf32>) -> tensor<2x8x9xf32> {
  %c = arith.constant 7.0 : f32
  %f = linalg.fill ins(%c : f32) outs(%out : tensor<2x8x9xf32>) -> tensor<2x8x9xf32>
  %s = tensor.extract_slice %f[0, 1, 3] [2, 5, 6] [1, 1, 1] : tensor<2x8x9xf32> to tensor<2x5x6xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x5x6xf32>) outs(%s : tensor<2x5x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<2x5x6xf32>
  %r = tensor.insert_slice %y into %f[0, 1, 3] [2, 5, 6] [1, 1, 1] : tensor<2x5x6xf32> into tensor<2x8x9xf32>
  return %r : tensor<2x8x9xf32>
}

// Single elements all over the tensor are not filled one by one.
// CHECK-LABEL: func.func @last
// CHECK: linalg.fill {{.*}} -> tensor<16x4xf32>
// CHECK-NOT: linalg.fill
func.func @last(%x: tensor<16x3xf32>, %out: tensor<16x4xf32>) -> tensor<16x4xf32> {
  %c = arith.constant 7.0 : f32
  %f = linalg.fill ins(%c : f32) outs(%out : tensor<16x4xf32>) -> tensor<16x4xf32>
  %r = tensor.insert_slice %x into %f[0, 0] [16, 3] [1, 1] : tensor<16x3xf32> into tensor<16x4xf32>
  return %r : tensor<16x4xf32>
}

// Where the window lies may follow from sizes that are known only at run time: a row before the window, and as many behind it as there are.
// CHECK-LABEL: func.func @sized
// CHECK-DAG: %[[H:.*]] = tensor.dim %arg0, %c1
// CHECK: tensor.extract_slice %arg1[0, 0, 0] [2, 1, 9] [1, 1, 1]
// CHECK: linalg.fill {{.*}} -> tensor<2x1x9xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, %{{.*}}, 0] [2, 2, 9] [1, 1, 1]
// CHECK: linalg.fill {{.*}} -> tensor<2x2x9xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 1, 0] [2, %{{.*}}, 9] [1, 1, 1]
// CHECK-NOT: linalg.fill
// CHECK: return
func.func @sized(%x: tensor<2x?x9xf32>, %out: tensor<2x?x9xf32>) -> tensor<2x?x9xf32> attributes {stepwell.kernel, llvm.no_inline, stepwell.sizes = ["h", "h + 3"]} {
  %c = arith.constant 7.0 : f32
  %one = arith.constant 1 : index
  %h = tensor.dim %x, %one : tensor<2x?x9xf32>
  %f = linalg.fill ins(%c : f32) outs(%out : tensor<2x?x9xf32>) -> tensor<2x?x9xf32>
  %s = tensor.extract_slice %f[0, 1, 0] [2, %h, 9] [1, 1, 1] : tensor<2x?x9xf32> to tensor<2x?x9xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x?x9xf32>) outs(%s : tensor<2x?x9xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x?x9xf32>
  %r = tensor.insert_slice %y into %f[0, 1, 0] [2, %h, 9] [1, 1, 1] : tensor<2x?x9xf32> into tensor<2x?x9xf32>
  return %r : tensor<2x?x9xf32>
}
