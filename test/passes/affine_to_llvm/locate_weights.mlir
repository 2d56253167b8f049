// RUN: stepwell-opt %s --locate-weights | FileCheck %s

// CHECK: module attributes {{.*}}stepwell.located
module attributes {stepwell.arena = {a = 0 : i64, b = 64 : i64, none = 64 : i64}, stepwell.weights_bytes = 128 : i64} {
func.func private @kernel(%x: memref<8xf32>, %y: memref<16xf32>) attributes {stepwell.kernel} { return }

// A view begins where the table says that its weight lies; of a part of a weight, so many bytes behind.
// CHECK-LABEL: func.func @main
// CHECK: %[[TABLE:.*]] = memref.view %arg0[%{{.*}}][] : memref<?xi8> to memref<2xi64>
// CHECK: %[[B:.*]] = memref.load %[[TABLE]][%c1
// CHECK: %[[AT:.*]] = arith.index_cast %[[B]]
// CHECK: memref.view %arg0[%[[AT]]][] : memref<?xi8> to memref<16xf32>
// CHECK: %[[A:.*]] = memref.load %[[TABLE]][%c0
// CHECK: %[[BEGIN:.*]] = arith.index_cast %[[A]]
// CHECK: %[[INSIDE:.*]] = arith.addi %[[BEGIN]], %c32
// CHECK: memref.view %arg0[%[[INSIDE]]][] : memref<?xi8> to memref<8xf32>
func.func @main(%weights: memref<?xi8> {stepwell.bytes = 128 : i64}, %workspace: memref<?xi8> {stepwell.bytes = 0 : i64}) {
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %b = memref.view %weights[%c64][] : memref<?xi8> to memref<16xf32>
  %a = memref.view %weights[%c32][] : memref<?xi8> to memref<8xf32>
  call @kernel(%a, %b) : (memref<8xf32>, memref<16xf32>) -> ()
  return
}

// An address counts from the weight, too.
// CHECK-LABEL: func.func private @round
// CHECK: %[[POINTER:.*]] = memref.extract_aligned_pointer_as_index %arg1
// CHECK: %[[PLACE:.*]] = arith.index_cast
// CHECK: arith.addi %[[POINTER]], %[[PLACE]]
func.func private @round(%x: memref<1xi64>, %weights: memref<128xi8>, %own: memref<1xi8>, %base: memref<1xi8>, %table: memref<4xi64>) -> i64 attributes {stepwell.region} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %pointer = memref.extract_aligned_pointer_as_index %weights : memref<128xi8> -> index
  %b = arith.addi %pointer, %c64 : index
  %number = arith.index_cast %b : index to i64
  memref.store %number, %x[%c0] : memref<1xi64>
  %one = arith.constant 1 : i64
  return %one : i64
}
}
