// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// Rounds that run on threads are known in number, and nothing around them runs on threads.
func.func private @sound(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.for %k = %c1 to %n step %c2 {
    scf.for %i = %c0 to %c2 step %c1 {
    } {sched.parallel}
  }
  return
}

// -----

func.func private @counts(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  // expected-error @below {{'scf.for': a loop whose rounds run on threads must count from 0 to a constant in steps of 1}}
  scf.for %i = %c1 to %c2 step %c1 {
  } {sched.parallel}
  // expected-error @below {{must count from 0 to a constant in steps of 1}}
  scf.for %i = %c0 to %n step %c1 {
  } {sched.parallel}
  // expected-error @below {{must count from 0 to a constant in steps of 1}}
  scf.for %i = %c0 to %c2 step %c2 {
  } {sched.parallel}
  return
}

// -----

func.func private @nested() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %j = %c0 to %c2 step %c1 {
      // expected-error @below {{'scf.for': a loop whose rounds run on threads must not be inside another one}}
      scf.for %k = %c0 to %c2 step %c1 {
      } {sched.parallel}
    }
  } {sched.parallel}
  return
}

// -----

// expected-error @below {{'func.func': attribute 'sched.parallel' is for a loop (scf.for)}}
func.func private @elsewhere() attributes {sched.parallel} {
  return
}
