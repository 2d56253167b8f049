// RUN: not stepwell-opt %s --bare-arguments 2>&1 | FileCheck %s

// It would become a descriptor, and all other arguments with it, while the caller passes pointers.
// CHECK: argument 1 of @main at {{.*}} is a memref<?xi8> without the attribute 'stepwell.bytes'
func.func @main(%out: memref<4xf32>, %workspace: memref<?xi8>) {
  return
}
