// Diagnostics of the parser, of verifiers and of our passes meet their comments, in every form of these.
// RUN: stepwell-opt %s --split-input-file --verify-diagnostics --load %S/Inputs/plugin.py --pass-pipeline='fail-here'

// Two functions: the pass fails at the second.
func.func private @a()
// expected-error @below {{the second function is too much}}
func.func private @b()

// -----

// A verifier written in Python, and one with a regular expression.
func.func @a(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error-re @+1 {{'graph.add' takes {{[0-9]+}} operands}}
  %0 = "graph.add"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-note @+3 {{prior use here}}
// expected-error @+3 {{expects different type than prior uses}}
// Both comments count from their own line.
func.func @a(%x: i32) -> i64 {
  return %x : i64
}

// -----

func.func @a() {
  "graph.nonsense"() : () -> () // expected-error {{unregistered operation}}
  return
}

// -----

func.func @a() -> tensor<3xf32> {
  %0 = "graph.relu"() : () -> tensor<3xf32>
  // expected-error @above {{takes 1 operand}}
  return %0 : tensor<3xf32>
}
