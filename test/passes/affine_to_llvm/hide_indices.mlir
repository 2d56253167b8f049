// RUN: stepwell-opt %s --hide-indices | FileCheck %s

// Both indices of a nest are numbers that nothing is known of; one that nobody reads stays, and so does that of a single loop.
// CHECK-LABEL: llvm.func @two(
// CHECK: omp.loop_nest (%[[I:.*]], %[[J:.*]]) : i64
// CHECK-NEXT: %[[A:.*]] = llvm.inline_asm "", "=r,0" %[[I]] : (i64) -> i64
// CHECK-NEXT: %[[B:.*]] = llvm.inline_asm "", "=r,0" %[[J]] : (i64) -> i64
// CHECK-NEXT: llvm.getelementptr %{{.*}}[%[[A]], %[[B]]]
// CHECK: llvm.store %[[A]]
llvm.func @two(%p: !llvm.ptr, %n: i64, %zero: i64, %one: i64) {
  omp.parallel {
    omp.wsloop {
      omp.loop_nest (%i, %j) : i64 = (%zero, %zero) to (%n, %n) step (%one, %one) {
        %0 = llvm.getelementptr %p[%i, %j] : (!llvm.ptr, i64, i64) -> !llvm.ptr, !llvm.array<8 x i64>
        llvm.store %i, %0 : i64, !llvm.ptr
        omp.yield
      }
    }
    omp.terminator
  }
  llvm.return
}

// CHECK-LABEL: llvm.func @unread(
// CHECK: omp.loop_nest (%[[I:.*]], %[[J:.*]]) : i64
// CHECK-NEXT: llvm.inline_asm "", "=r,0" %[[J]] : (i64) -> i64
// CHECK-NOT: inline_asm
llvm.func @unread(%p: !llvm.ptr, %n: i64, %zero: i64, %one: i64) {
  omp.parallel {
    omp.wsloop {
      omp.loop_nest (%i, %j) : i64 = (%zero, %zero) to (%n, %n) step (%one, %one) {
        llvm.store %j, %p : i64, !llvm.ptr
        omp.yield
      }
    }
    omp.terminator
  }
  llvm.return
}

// CHECK-LABEL: llvm.func @one(
// CHECK-NOT: inline_asm
llvm.func @one(%p: !llvm.ptr, %n: i64, %zero: i64, %one: i64) {
  omp.parallel {
    omp.wsloop {
      omp.loop_nest (%i) : i64 = (%zero) to (%n) step (%one) {
        llvm.store %i, %p : i64, !llvm.ptr
        omp.yield
      }
    }
    omp.terminator
  }
  llvm.return
}
