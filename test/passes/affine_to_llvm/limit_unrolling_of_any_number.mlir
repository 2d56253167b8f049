// RUN: stepwell-opt %s --limit-unrolling | FileCheck %s

// LLVM would write down eight rounds of a loop of an unknown number, with all loops in it: it is kept from that, but for innermost loops.
// CHECK: #[[ROLLED:.*]] = #llvm.loop_annotation<unroll = #{{.*}}>
// CHECK-LABEL: func.func @outside
// CHECK: scf.for
// CHECK: scf.for
// CHECK: use
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: } {loop_annotation = #[[ROLLED]]}
func.func private @use(%i: index, %j: index)
func.func @outside(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %c3 step %c1 {
      func.call @use(%i, %j) : (index, index) -> ()
    }
  }
  return
}

// CHECK-LABEL: func.func @inside
// CHECK: scf.for
// CHECK: scf.for
// CHECK: use
// CHECK-NEXT: {{^ *}}}{{$}}
// CHECK-NEXT: } {loop_annotation = #[[ROLLED]]}
func.func @inside(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      func.call @use(%i, %j) : (index, index) -> ()
    }
  }
  return
}
