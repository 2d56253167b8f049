// RUN: stepwell-opt %s --attach-target --target x86-64-v2 | FileCheck %s
// RUN: stepwell-opt %s --attach-target --target host | FileCheck %s --check-prefix=HOST

// CHECK: target.description = #target.description<{caches = {l1d = {{.*}}cpu = "x86-64-v2", features = ["popcnt", "sse2", "sse4.2"], fma = false, name = "x86-64-v2"
// HOST: target.description = #target.description<{{.*}}name = "host"
module {}
