// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// What a module, a kernel, an argument and a buffer say is checked when it is read.
module attributes {stepwell.inputs = [["x", tensor<2xui8>]], stepwell.outputs = [], stepwell.nodes = ["a"], stepwell.arena = {w = 64 : i64},
  stepwell.weights_bytes = 72 : i64, stepwell.workspace_bytes = 0 : i64, stepwell.workspace_lower_bound = 0 : i64} {
  func.func private @kernel(%x: memref<4xf32>, %y: memref<4xf32>, %scratch: memref<64xi8>)
      attributes {stepwell.kernel, stepwell.results = 1 : i64, stepwell.in_place = array<i64: 0, 0>, stepwell.scratch_bytes = 64 : i64} {
    %c0 = arith.constant 0 : index
    %t = memref.view %scratch[%c0][] {stepwell.slice = {loops = 1 : i64, run = 1 : i64, chunks = 1 : i64, bytes = 64 : i64}} : memref<64xi8> to memref<16xf32>
    return
  }
  func.func @main(%x: memref<4xf32> {stepwell.name = "x"}, %weights: memref<?xi8> {stepwell.bytes = 72 : i64}) {
    return
  }
}

// -----

// expected-error @below {{'builtin.module': attribute 'stepwell.weights_bytes' must be a whole number from 0, got -1 : i64}}
module attributes {stepwell.weights_bytes = -1 : i64} {}

// -----

// expected-error @below {{attribute 'stepwell.arena': weight 'w' begins at byte 64, but 'stepwell.weights_bytes' is 0}}
module attributes {stepwell.arena = {w = 64 : i64}} {}

// -----

// expected-error @below {{attribute 'stepwell.inputs' must be a list of ["name", tensor<…>], got [["x"]]}}
module attributes {stepwell.inputs = [["x"]]} {}

// -----

// expected-error @below {{attribute 'stepwell.outputs': 'y': element type i3 is not supported}}
module attributes {stepwell.outputs = [["y", tensor<4xi3>]]} {}

// -----

// expected-error @below {{attribute 'stepwell.size_table': field 'workspace' must be a whole number, got "2"}}
module attributes {stepwell.size_table = {workspace = "2", sizes = ["2*n"]}} {}

// -----

// expected-error @below {{attribute 'stepwell.assumptions': expected a relation of two sizes such as 'n <= 2*m', got 'n ~ 2'}}
module attributes {stepwell.assumptions = ["n == 2*m", "n ~ 2"]} {}

// -----

// expected-error @below {{attribute 'stepwell.checks': there is no field 'ode', expected node, op, result, dims, sizes, exact}}
module attributes {stepwell.checks = [{ode = "n", op = "o", result = 0 : i64, dims = array<i64: 0>, sizes = array<i64: 4>}]} {}

// -----

// expected-error @below {{there is no attribute 'stepwell.input'; expected stepwell.inputs, stepwell.outputs, stepwell.any_integers, stepwell.nodes, stepwell.size_hints, stepwell.checks, stepwell.arena}}
module attributes {stepwell.input = []} {}

// -----

// expected-error @below {{attribute 'stepwell.kernel' must be nothing but its name, got 1 : i64}}
func.func private @kernel() attributes {stepwell.kernel = 1 : i64}

// -----

// expected-error @below {{attribute 'stepwell.scratch_bytes' is for a kernel, which has the attribute 'stepwell.kernel'}}
func.func private @no_kernel() attributes {stepwell.scratch_bytes = 64 : i64}

// -----

// expected-error @below {{attribute 'stepwell.in_place': there is no result 1, the kernel has 1}}
func.func private @two() attributes {stepwell.kernel, stepwell.in_place = array<i64: 0, 1>}

// -----

// expected-error @below {{attribute 'stepwell.in_place' must be pairs of whole numbers from 0 as array<i64: ...>, got array<i64: 0>}}
func.func private @half() attributes {stepwell.kernel, stepwell.in_place = array<i64: 0>}

// -----

// expected-error @below {{'func.func': argument 1: attribute 'stepwell.bytes' must be a whole number from 0, got "many"}}
func.func private @main(memref<?xi8>, memref<?xi8> {stepwell.bytes = "many"})

// -----

// expected-error @below {{'func.func': result 0: there is no attribute 'stepwell.nam'; expected stepwell.name, stepwell.bytes, stepwell.symbols here}}
func.func private @main() -> (tensor<4xf32> {stepwell.nam = "y"})

// -----

func.func private @view(%scratch: memref<64xi8>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{attribute 'stepwell.slice': field 'bytes' is missing, expected a whole number}}
  %t = memref.view %scratch[%c0][] {stepwell.slice = {loops = 1 : i64, run = 1 : i64, chunks = 1 : i64}} : memref<64xi8> to memref<16xf32>
  return
}
