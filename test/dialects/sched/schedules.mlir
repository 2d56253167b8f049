// RUN: stepwell-opt %s --verify-diagnostics --split-input-file

// What a schedule says is checked when it is read: each knob by its name.
func.func private @sound(%zero: f32, %o: memref<4xf32>) {
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>,
    sched.fused = #sched.fused<[{loop = "rows", dim = 0 : i64, step = 2 : i64, chunks = 2 : i64}]>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  return
}

// -----

func.func private @unknown(%zero: f32, %o: memref<4xf32>) {
  // expected-error @below {{'linalg.fill': attribute 'sched.nest': there is no knob 'paralel', expected order, parallel, unroll, vector, width, intrinsic, block, prefetch, along, in #sched.nest}}
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, paralel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  return
}

// -----

func.func private @missing(%zero: f32, %o: memref<4xf32>) {
  // expected-error @below {{attribute 'sched.nest': knob 'width' is missing, expected a whole number}}
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64}>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  return
}

// -----

func.func private @types(%zero: f32, %o: memref<4xf32>) {
  // expected-error @below {{knob 'unroll' must be integers as array<i64: ...>, got 1 : i64}}
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = 1 : i64, vector = 0 : i64, width = 4 : i64}>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{knob 'parallel' must be a whole number, got true}}
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, parallel = true, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{knob 'intrinsic' must be a string, got 3 : i64}}
  linalg.fill {sched.nest = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64, intrinsic = 3 : i64}>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{attribute 'sched.nest' must be a #sched.nest, got "fast"}}
  linalg.fill {sched.nest = "fast"} ins(%zero : f32) outs(%o : memref<4xf32>)
  return
}

// -----

func.func private @names(%zero: f32, %o: memref<4xf32>) {
  // expected-error @below {{a #sched.nest is the attribute 'sched.nest', not 'sched'}}
  linalg.fill {sched = #sched.nest<{order = array<i64: 0>, parallel = 0 : i64, unroll = array<i64: 1>, vector = 0 : i64, width = 4 : i64}>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{a #sched.fused is the attribute 'sched.fused', not 'shared'}}
  linalg.fill {shared = #sched.fused<[]>} ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{there is no attribute 'sched.nset'; expected sched.nest, sched.versions, sched.fused, sched.part here}}
  linalg.fill {sched.nset = 1 : i64} ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{'func.return': attribute 'sched.nest' is for a structured op (linalg)}}
  return {sched.nest = 1 : i64}
}

// -----

func.func private @loops(%zero: f32, %o: memref<4xf32>) {
  // expected-error @below {{attribute 'sched.fused': loop 1: there is no field 'steps', expected loop, dim, step, chunks}}
  linalg.fill {sched.fused = #sched.fused<[{loop = "a", dim = 0 : i64, step = 1 : i64, chunks = 1 : i64}, {loop = "b", dim = 0 : i64, steps = 1 : i64}]>}
    ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{attribute 'sched.fused': loop 0: field 'dim' is missing, expected a whole number}}
  linalg.fill {sched.fused = #sched.fused<[{loop = "a", step = 1 : i64}]>} ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{dim and prefetch must be 0 or more, step and chunks 1 or more}}
  linalg.fill {sched.fused = #sched.fused<[{loop = "a", dim = 0 : i64, step = 0 : i64, chunks = 1 : i64}]>} ins(%zero : f32) outs(%o : memref<4xf32>)
  return
}

// -----

func.func private @versions(%zero: f32, %o: memref<4xf32>) {
  // expected-error @below {{attribute 'sched.versions': field 'nest' must be a #sched.nest, got "fast"}}
  linalg.fill {sched.versions = [{dim = 0 : i64, count = 1 : i64, nest = "fast"}]} ins(%zero : f32) outs(%o : memref<4xf32>)
  // expected-error @below {{attribute 'sched.versions': expected versions for different counts of one dimension}}
  linalg.fill {sched.versions = []} ins(%zero : f32) outs(%o : memref<4xf32>)
  return
}
