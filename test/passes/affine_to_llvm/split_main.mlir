// RUN: stepwell-opt %s --split-main=calls=1 --split-input-file | FileCheck %s
// RUN: stepwell-opt %s --split-main --split-input-file | FileCheck %s --check-prefix=SHORT

llvm.func @kernel(!llvm.ptr, !llvm.ptr)
llvm.func @number(!llvm.ptr) -> i64

// A part computes addresses anew, and reads the arguments. What a call returns does not go from one part to another.
// CHECK: llvm.func internal @main.0(%[[A:.*]]: !llvm.ptr) attributes {no_inline}
// CHECK-NEXT: %[[PLACE:.*]] = llvm.getelementptr %[[A]][1]
// CHECK-NEXT: %[[BASE:.*]] = llvm.load %[[PLACE]]
// CHECK-NEXT: %[[BYTES:.*]] = llvm.getelementptr %[[BASE]][64]
// CHECK-NEXT: llvm.call @kernel(%[[BASE]], %[[BYTES]])
// CHECK-NEXT: llvm.return
// CHECK: llvm.func internal @main.1(%[[A:.*]]: !llvm.ptr) attributes {no_inline}
// CHECK-NEXT: %[[PLACE:.*]] = llvm.getelementptr %[[A]][1]
// CHECK-NEXT: %[[BASE:.*]] = llvm.load %[[PLACE]]
// CHECK-NEXT: %[[BYTES:.*]] = llvm.getelementptr %[[BASE]][64]
// CHECK-NEXT: %[[NUMBER:.*]] = llvm.call @number(%[[BYTES]])
// CHECK-NEXT: %[[END:.*]] = llvm.getelementptr %{{.*}}[%[[NUMBER]]]
// CHECK-NEXT: llvm.call @kernel(%{{.*}}, %[[END]])
// CHECK-NEXT: llvm.return
// CHECK: llvm.func internal @main.2(
// CHECK: llvm.call @kernel(%{{.*}}, %{{.*}})
// CHECK-NEXT: llvm.return
// CHECK-LABEL: llvm.func @main(
// CHECK-NEXT: llvm.call @main.0(%arg0)
// CHECK-NEXT: llvm.call @main.1(%arg0)
// CHECK-NEXT: llvm.call @main.2(%arg0)
// CHECK-NEXT: llvm.return
// SHORT-NOT: @main.0
llvm.func @main(%a: !llvm.ptr) {
  %0 = llvm.getelementptr %a[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %1 = llvm.load %0 : !llvm.ptr -> !llvm.ptr
  %2 = llvm.getelementptr %1[64] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.call @kernel(%1, %2) : (!llvm.ptr, !llvm.ptr) -> ()
  %n = llvm.call @number(%2) : (!llvm.ptr) -> i64
  %3 = llvm.getelementptr %1[%n] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.call @kernel(%1, %3) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.call @kernel(%2, %1) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}

// -----

// Arguments by themselves: pack-arguments has to run before.
// CHECK-LABEL: llvm.func @main(%arg0: !llvm.ptr, %arg1: !llvm.ptr)
// CHECK-COUNT-2: llvm.call @kernel
// CHECK-NOT: @main.0
llvm.func @kernel(!llvm.ptr, !llvm.ptr)
llvm.func @main(%a: !llvm.ptr, %b: !llvm.ptr) {
  llvm.call @kernel(%a, %b) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.call @kernel(%b, %a) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}


// -----

// What @main returns is computed in @main, with the addresses that it needs.
// CHECK: llvm.func @checks(
// CHECK-NEXT: llvm.func internal @main.0(
// CHECK: llvm.func internal @main.1(
// CHECK-NEXT: llvm.getelementptr
// CHECK-NEXT: llvm.load
// CHECK-NEXT: llvm.call @kernel
// CHECK-NEXT: llvm.return
// CHECK-LABEL: llvm.func @main(%arg0: !llvm.ptr) -> i64
// CHECK-NEXT: llvm.call @main.0(%arg0)
// CHECK-NEXT: llvm.call @main.1(%arg0)
// CHECK-NEXT: %[[PLACE:.*]] = llvm.getelementptr %arg0[1]
// CHECK-NEXT: %[[BASE:.*]] = llvm.load %[[PLACE]]
// CHECK-NEXT: %[[STATUS:.*]] = llvm.call @checks(%[[BASE]])
// CHECK-NEXT: llvm.return %[[STATUS]]
llvm.func @kernel(!llvm.ptr, !llvm.ptr)
llvm.func @checks(!llvm.ptr) -> i64
llvm.func @main(%a: !llvm.ptr) -> i64 {
  %0 = llvm.getelementptr %a[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %1 = llvm.load %0 : !llvm.ptr -> !llvm.ptr
  llvm.call @kernel(%1, %1) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.call @kernel(%1, %1) : (!llvm.ptr, !llvm.ptr) -> ()
  %status = llvm.call @checks(%1) : (!llvm.ptr) -> i64
  llvm.return %status : i64
}
