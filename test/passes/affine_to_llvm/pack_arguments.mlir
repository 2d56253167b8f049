// RUN: stepwell-opt %s --pack-arguments | FileCheck %s

llvm.func @kernel(!llvm.ptr, !llvm.ptr)

// Each argument is read where it is used, and again where it is used again.
// CHECK-LABEL: llvm.func @main(%arg0: !llvm.ptr) -> i64
// CHECK-NEXT: llvm.getelementptr %arg0[0]
// CHECK-NEXT: %[[A:.*]] = llvm.load
// CHECK-NEXT: llvm.getelementptr %arg0[1]
// CHECK-NEXT: %[[B:.*]] = llvm.load
// CHECK-NEXT: llvm.call @kernel(%[[A]], %[[B]])
// CHECK-NEXT: llvm.getelementptr %arg0[0]
// CHECK-NEXT: %[[AGAIN:.*]] = llvm.load
// CHECK-NEXT: llvm.getelementptr %arg0[2]
// CHECK-NEXT: %[[C:.*]] = llvm.load
// CHECK-NEXT: llvm.call @kernel(%[[AGAIN]], %[[C]])
// CHECK-NEXT: %[[FINE:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-NEXT: llvm.return %[[FINE]]
llvm.func @main(%a: !llvm.ptr, %b: !llvm.ptr {llvm.noalias}, %c: !llvm.ptr, %unused: !llvm.ptr) {
  llvm.call @kernel(%a, %b) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.call @kernel(%a, %c) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}

// CHECK-LABEL: llvm.func @other(%arg0: !llvm.ptr, %arg1: !llvm.ptr)
llvm.func @other(%a: !llvm.ptr, %b: !llvm.ptr) {
  llvm.call @kernel(%a, %b) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}
