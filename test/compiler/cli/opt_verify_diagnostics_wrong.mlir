// What was not expected and what did not come are both errors, each with its line.
// RUN: not stepwell-opt %s --split-input-file --verify-diagnostics 2>&1 >/dev/null | FileCheck %s
// RUN: not stepwell-opt %s --split-input-file --verify-diagnostics=only-expected 2>&1 >/dev/null | FileCheck %s --check-prefix=ONLY

// CHECK-DAG: wrong.mlir:[[L:12]]:8: error: unexpected error: 'graph.relu' takes 1 operand
// CHECK-DAG: wrong.mlir:13:1: error: expected error "takes 7 operands" was not produced
// CHECK-DAG: wrong.mlir:20:1: error: expected warning "anything" was not produced
// ONLY-NOT: unexpected
// ONLY: error: expected error "takes 7 operands" was not produced
func.func @a() -> tensor<3xf32> {
  // The next line is wrong, but not in the way that is expected.
  %0 = "graph.relu"() : () -> tensor<3xf32>
  // expected-error @above {{takes 7 operands}}
  return %0 : tensor<3xf32>
}

// -----

func.func private @fine()
// expected-warning @above {{anything}}
