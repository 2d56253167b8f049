// RUN: stepwell-opt %s --limit-unrolling | FileCheck %s
// RUN: stepwell-opt %s --limit-unrolling=iterations=1000 | FileCheck %s --check-prefix=ALL
// RUN: stepwell-opt %s --limit-unrolling --convert-scf-to-cf --convert-func-to-llvm --convert-cf-to-llvm --convert-arith-to-llvm --convert-index-to-llvm --reconcile-unrealized-casts | FileCheck %s --check-prefix=LLVM

// ALL-NOT: loop_annotation
// CHECK: #[[ROLLED:.*]] = #llvm.loop_annotation<unroll = #{{.*}}>

// 15 times 15 is a nest that LLVM would unroll whole; its innermost loop it may.
// CHECK-LABEL: func.func @large
// CHECK: scf.for %[[I:.*]] = %c0 to %c15
// CHECK: scf.for %[[J:.*]] = %c0 to %c15
// CHECK: use
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: } {loop_annotation = #[[ROLLED]]}
// LLVM-LABEL: llvm.func @large
// LLVM: llvm.br ^{{.*}} {loop_annotation = #{{.*}}}
func.func private @use(%i: index, %j: index)
func.func @large() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c15 = arith.constant 15 : index
  scf.for %i = %c0 to %c15 step %c1 {
    scf.for %j = %c0 to %c15 step %c1 {
      func.call @use(%i, %j) : (index, index) -> ()
    }
  }
  return
}

// 3 times 3, and a step that leaves 8 times 8 of 64: not more than 64.
// CHECK-LABEL: func.func @small
// CHECK-NOT: loop_annotation
// CHECK: return
func.func @small() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c3 step %c1 {
      func.call @use(%i, %j) : (index, index) -> ()
    }
  }
  scf.for %i = %c0 to %c64 step %c8 {
    scf.for %j = %c0 to %c64 step %c8 {
      func.call @use(%i, %j) : (index, index) -> ()
    }
  }
  return
}

// What lies between counts: 2 times (3 times 4, beside 5 times 6) is 60; 3 times that is more.
// CHECK-LABEL: func.func @deep
// CHECK: scf.if
// CHECK: use
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK: use
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: } {loop_annotation = #[[ROLLED]]}
func.func @deep(%condition: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  scf.for %h = %c0 to %c3 step %c1 {
    scf.if %condition {
      scf.for %i = %c0 to %c2 step %c1 {
        scf.for %j = %c0 to %c3 step %c1 {
          scf.for %k = %c0 to %c4 step %c1 {
            func.call @use(%j, %k) : (index, index) -> ()
          }
        }
        scf.for %j = %c0 to %c5 step %c1 {
          scf.for %k = %c0 to %c6 step %c1 {
            func.call @use(%j, %k) : (index, index) -> ()
          }
        }
      }
    }
  }
  return
}
