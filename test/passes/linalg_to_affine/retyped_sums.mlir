// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,fuse-loops,assign-schedules),bufferize,func.func(lower-to-affine),canonicalize,cse' --split-input-file | FileCheck %s

// Sums in i32 of which bytes are made stay in registers: there is no memory for them, and only bytes are stored.
// CHECK-LABEL: func.func private @bytes
// CHECK-SAME: memref<12x64xi8>{{[^,]*}}) attributes
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.view
// CHECK: arith.trunci {{.*}} : vector<16xi32> to vector<16xi8>
// CHECK: affine.vector_store {{.*}} : memref<12x64xi8>, vector<16xi8>
// CHECK-NOT: xi32>, vector<
func.func @main(%a: tensor<12x64xi8>, %b: tensor<64x64xi8>) -> tensor<12x64xi8> {
  %e = tensor.empty() : tensor<12x64xi8>
  %0 = call @bytes(%a, %b, %e) : (tensor<12x64xi8>, tensor<64x64xi8>, tensor<12x64xi8>) -> tensor<12x64xi8>
  return %0 : tensor<12x64xi8>
}
func.func private @bytes(%a: tensor<12x64xi8>, %b: tensor<64x64xi8>, %out: tensor<12x64xi8>) -> tensor<12x64xi8> attributes {stepwell.kernel} {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<12x64xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<12x64xi32>) -> tensor<12x64xi32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<12x64xi8>, tensor<64x64xi8>) outs(%f : tensor<12x64xi32>) {
  ^bb0(%x: i8, %y: i8, %acc: i32):
    %xw = arith.extsi %x : i8 to i32
    %yw = arith.extsi %y : i8 to i32
    %p = arith.muli %xw, %yw : i32
    %t = arith.addi %acc, %p : i32
    linalg.yield %t : i32
  } -> tensor<12x64xi32>
  %r = tensor.empty() : tensor<12x64xi8>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%s : tensor<12x64xi32>) outs(%r : tensor<12x64xi8>) {
  ^bb0(%x: i32, %old: i8):
    %c = arith.constant 7 : i32
    %h = arith.shrsi %x, %c : i32
    %t = arith.trunci %h : i32 to i8
    linalg.yield %t : i8
  } -> tensor<12x64xi8>
  return %n : tensor<12x64xi8>
}

// -----

// Where another op reads the sums too, they are stored.
// CHECK-LABEL: func.func private @both
// CHECK: affine.{{(vector_)?}}store {{.*}} : memref<8xi32>
// CHECK: arith.trunci
func.func @main(%a: tensor<8x64xi32>) -> (tensor<8xi8>, tensor<8xi32>) {
  %e = tensor.empty() : tensor<8xi8>
  %s = tensor.empty() : tensor<8xi32>
  %0:2 = call @both(%a, %e, %s) : (tensor<8x64xi32>, tensor<8xi8>, tensor<8xi32>) -> (tensor<8xi8>, tensor<8xi32>)
  return %0#0, %0#1 : tensor<8xi8>, tensor<8xi32>
}
func.func private @both(%a: tensor<8x64xi32>, %out: tensor<8xi8>, %sums: tensor<8xi32>) -> (tensor<8xi8>, tensor<8xi32>) attributes {stepwell.kernel} {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<8xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<8xi32>) -> tensor<8xi32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%a : tensor<8x64xi32>) outs(%f : tensor<8xi32>) {
  ^bb0(%x: i32, %acc: i32):
    %t = arith.addi %acc, %x : i32
    linalg.yield %t : i32
  } -> tensor<8xi32>
  %r = tensor.empty() : tensor<8xi8>
  %n = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%s : tensor<8xi32>) outs(%r : tensor<8xi8>) {
  ^bb0(%x: i32, %old: i8):
    %t = arith.trunci %x : i32 to i8
    linalg.yield %t : i8
  } -> tensor<8xi8>
  return %n, %s : tensor<8xi8>, tensor<8xi32>
}
