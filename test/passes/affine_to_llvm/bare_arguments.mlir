// RUN: stepwell-opt %s --bare-arguments | FileCheck %s

// CHECK: func.func private @kernel(%arg0: memref<2x3xf32>, %arg1: memref<4xf32> {llvm.noalias})
func.func private @kernel(%x: memref<2x3xf32>, %empty: memref<2x0xf32>, %out: memref<4xf32> {llvm.noalias}) {
  return
}

// The arenas' sizes are written down; what has no elements is a pointer that nobody follows.
// CHECK: func.func @main(%arg0: memref<2x3xf32>, %arg1: memref<1xi8>, %arg2: memref<4xf32>, %arg3: memref<128xi8> {stepwell.bytes = 128 : i64})
// CHECK: call @kernel(%arg0, %arg2) : (memref<2x3xf32>, memref<4xf32>) -> ()
func.func @main(%x: memref<2x3xf32>, %empty: memref<2x0xf32>, %out: memref<4xf32>, %workspace: memref<?xi8> {stepwell.bytes = 128 : i64}) {
  call @kernel(%x, %empty, %out) : (memref<2x3xf32>, memref<2x0xf32>, memref<4xf32>) -> ()
  return
}
