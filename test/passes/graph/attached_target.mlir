// RUN: stepwell-opt %s --attach-target | FileCheck %s
// RUN: stepwell-opt %s --attach-target --target x86-64-v2 | FileCheck %s

// What IR says stays, whatever the sizes of caches and the number of cores are now.
// CHECK: cores = 77 : i64
// CHECK-SAME: name = "x86-64-v2"
module attributes {target.description = #target.description<{
  caches = {l1d = 1 : i64, l2 = 2 : i64, l3 = 3 : i64}, cores = 77 : i64, cpu = "x86-64-v2", features = ["popcnt", "sse2", "sse4.2"],
  fma = false, name = "x86-64-v2", pipes = {fmas = 2.0 : f64, latency = 4 : i64, loads = 2.0 : f64},
  triple = "x86_64-unknown-linux-gnu", vector_bits = 128 : i64, vector_registers = 16 : i64}>} {}
