// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v2 --pass-pipeline='func.func(lower-to-affine),canonicalize,cse' | FileCheck %s --check-prefix=TWO

// A fill, a convolution and its epilogue over one buffer become one nest: accumulators live in registers from the fill's value to the
// epilogue, the output is stored once, and the remainder of the tile (7 = 2 x 3 + 1) has a loop of its own.

#x = affine_map<(n, f, h, w, c, y, z) -> (n, c, h + y, w + z)>
#w = affine_map<(n, f, h, w, c, y, z) -> (f, c, y, z)>
#o = affine_map<(n, f, h, w, c, y, z) -> (n, f, h, w)>
#b = affine_map<(n, f, h, w) -> (f)>
#id = affine_map<(n, f, h, w) -> (n, f, h, w)>

// CHECK-LABEL: func.func private @convolution
// CHECK-SAME: %[[X:arg[0-9]+]]: memref<1x3x10x12xf32>, %[[W:arg[0-9]+]]: memref<7x3x3x3xf32>, %[[B:arg[0-9]+]]: memref<7xf32>, %[[O:arg[0-9]+]]: memref<1x7x8x10xf32>
// CHECK: %[[ZERO:[a-z0-9_]+]] = arith.constant dense<0.000000e+00> : vector<8xf32>
// CHECK: affine.parallel (%[[F:arg[0-9]+]]) = (0) to (6) step (3)
// CHECK-NEXT: affine.for %[[H:arg[0-9]+]] = 0 to 8
// CHECK-NEXT: %[[ACC:[0-9]+]]:3 = affine.for %[[C:arg[0-9]+]] = 0 to 3 iter_args({{.*}} = %[[ZERO]]
// CHECK: affine.for %[[Y:arg[0-9]+]] = 0 to 3
// CHECK: affine.for %[[Z:arg[0-9]+]] = 0 to 3
// One load of the image serves the three filters of the tile.
// CHECK-NEXT: %[[V:[0-9]+]] = affine.vector_load %[[X]][0, %[[C]], %[[H]] + %[[Y]], %[[Z]]] : memref<1x3x10x12xf32>, vector<8xf32>
// CHECK-NEXT: affine.load %[[W]][%[[F]], %[[C]], %[[Y]], %[[Z]]]
// CHECK: affine.load %[[W]][%[[F]] + 1, %[[C]], %[[Y]], %[[Z]]]
// CHECK: affine.load %[[W]][%[[F]] + 2, %[[C]], %[[Y]], %[[Z]]]
// CHECK-NEXT: vector.broadcast
// CHECK-NEXT: math.fma %[[V]], {{.*}} fastmath<nsz> : vector<8xf32>
// CHECK: affine.load %[[B]][%[[F]]]
// CHECK: arith.addf %[[ACC]]#0
// CHECK: arith.maximumf
// CHECK-COUNT-3: affine.vector_store {{.*}}, %[[O]][0, %[[F]]{{.*}}, %[[H]], 0]
// The two columns that eight lanes leave over.
// CHECK: affine.vector_load %[[X]]{{.*}} + 8] : memref<1x3x10x12xf32>, vector<2xf32>
// CHECK: affine.vector_store {{.*}}, %[[O]][0, %[[F]], %[[H]], 8] : memref<1x7x8x10xf32>, vector<2xf32>
// The seventh filter.
// CHECK: affine.for %[[H2:arg[0-9]+]] = 0 to 8
// CHECK: affine.load %[[W]][6,
// CHECK: affine.vector_store {{.*}}, %[[O]][0, 6, %[[H2]], 0]
// CHECK-NOT: linalg.
// Without such an instruction it is two, which nothing later may make one of.
// TWO: %[[P:[0-9]+]] = arith.mulf %{{.*}} : vector<8xf32>
// TWO-NEXT: arith.addf %{{.*}}, %[[P]] fastmath<nsz> : vector<8xf32>
// TWO-NOT: contract
func.func private @convolution(%x: memref<1x3x10x12xf32>, %w: memref<7x3x3x3xf32>, %b: memref<7xf32>, %o: memref<1x7x8x10xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%o : memref<1x7x8x10xf32>)
  linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"],
    sched.nest = #sched.nest<{order = array<i64: 0, 1, 2, 3>, parallel = 2 : i64, unroll = array<i64: 1, 3, 1, 1, 1, 1, 1>, vector = 3 : i64, width = 8 : i64}>}
    ins(%x, %w : memref<1x3x10x12xf32>, memref<7x3x3x3xf32>) outs(%o : memref<1x7x8x10xf32>) {
  ^bb0(%i: f32, %j: f32, %acc: f32):
    %m = arith.mulf %i, %j fastmath<contract> : f32
    %s = arith.addf %acc, %m fastmath<nsz,contract> : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#b, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b : memref<7xf32>) outs(%o : memref<1x7x8x10xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %s = arith.addf %acc, %i : f32
    %r = arith.maximumf %s, %zero : f32
    linalg.yield %r : f32
  }
  return
}
