// RUN: stepwell-opt %s --convert-graph-to-linalg --split-input-file | FileCheck %s

// The index is read along its own loops, wrapped if negative, kept inside, and the element is extracted.
// CHECK: #[[I:map[0-9]*]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-LABEL: func.func private @gather
// CHECK: linalg.generic {indexing_maps = [#[[I]], #{{.*}}], {{.*}} ins(%arg1 : tensor<4xi64>)
// CHECK: %[[B:[0-9]+]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: arith.cmpi slt, %[[B]]
// CHECK: %[[P:[0-9]+]] = arith.minui
// CHECK: tensor.extract %arg0[%{{.*}}, %[[P]], %{{.*}}] : tensor<3x5x2xf32>
func.func private @gather(%x: tensor<3x5x2xf32>, %i: tensor<4xi64>, %o: tensor<3x4x2xf32>) -> tensor<3x4x2xf32> attributes {stepwell.kernel} {
  %r = "graph.gather"(%x, %i) {axis = 1 : i64} : (tensor<3x5x2xf32>, tensor<4xi64>) -> tensor<3x4x2xf32>
  return %r : tensor<3x4x2xf32>
}

// -----

// A scatter copies, then combines one update after the other, f16 in f32.
// CHECK-LABEL: func.func private @scatter
// CHECK: %[[COPY:[0-9]+]] = linalg.generic {{.*}} ins(%arg0 : tensor<5xf16>) outs(%{{.*}} : tensor<5xf32>)
// CHECK: scf.for {{.*}} iter_args(%[[T:[a-z_0-9]+]] = %[[COPY]])
// CHECK: tensor.extract %[[T]]
// CHECK: arith.addf {{.*}} : f32
// CHECK: tensor.insert
// CHECK: arith.truncf %{{.*}} : f32 to f16
func.func private @scatter(%x: tensor<5xf16>, %i: tensor<2xi64>, %u: tensor<2xf16>, %o: tensor<5xf16>) -> tensor<5xf16> attributes {stepwell.kernel} {
  %r = "graph.scatter_elements"(%x, %i, %u) {from_start = false, axis = 0 : i64, reduction = "add"} : (tensor<5xf16>, tensor<2xi64>, tensor<2xf16>) -> tensor<5xf16>
  return %r : tensor<5xf16>
}

// -----

// One pass without branches writes each place behind those found so far; the count moves on past those that stay.
// CHECK-LABEL: func.func private @places
// CHECK: %[[OUT:[0-9]+]] = tensor.empty() : tensor<1x5xi64>
// CHECK: %[[R:[0-9]+]]:2 = scf.for {{.*}} iter_args(%[[P:.*]] = %[[OUT]], %[[N:.*]] = %{{.*}}) -> (tensor<1x5xi64>, index)
// CHECK: tensor.insert %{{.*}} into %[[P]][%{{.*}}, %[[N]]]
// CHECK-NOT: scf.if
// CHECK: %[[SET:[0-9]+]] = arith.cmpf une
// CHECK: %[[ONE:[0-9]+]] = arith.index_castui %[[SET]] : i1 to index
// CHECK: arith.addi %[[N]], %[[ONE]]
// CHECK: arith.index_cast %[[R]]#1 : index to i64
func.func private @places(%x: tensor<5xf32>, %o: tensor<1x5xi64>, %n: tensor<1xi64>) -> (tensor<1x5xi64>, tensor<1xi64>) attributes {stepwell.kernel} {
  %p, %c = "graph.non_zero_places"(%x) : (tensor<5xf32>) -> (tensor<1x5xi64>, tensor<1xi64>)
  return %p, %c : tensor<1x5xi64>, tensor<1xi64>
}

// -----

// One fold for the greatest, by codes that order as unsigned integers do, and one for the first place that has it.
// CHECK-LABEL: func.func private @arg_max
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} {{.*}} outs(%{{.*}} : tensor<4xi32>)
// CHECK: arith.maxui
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} {{.*}} outs(%{{.*}} : tensor<4xi32>)
// CHECK: arith.cmpi eq
// CHECK: linalg.index 1
// CHECK: arith.min{{[su]}}i
func.func private @arg_max(%x: tensor<4x5xi32>, %o: tensor<4xi64>) -> tensor<4xi64> attributes {stepwell.kernel} {
  %r = "graph.arg_max"(%x) {axis = 1 : i64, keepdims = false, select_last = false} : (tensor<4x5xi32>) -> tensor<4xi64>
  return %r : tensor<4xi64>
}

// -----

// Enlarging by whole factors is a map.
// CHECK: #[[X:map[0-9]*]] = affine_map<(d0, d1) -> (d0, d1 floordiv 2)>
// CHECK-LABEL: func.func private @resize
// CHECK: linalg.generic {indexing_maps = [#[[X]], #{{.*}}]
// CHECK-NOT: tensor.extract
// CHECK: return
func.func private @resize(%x: tensor<3x4xf32>, %o: tensor<3x8xf32>) -> tensor<3x8xf32> attributes {stepwell.kernel} {
  %r = "graph.resize"(%x) {sizes = array<i64: 3, 8>, scales = [1.0, 2.0], mode = "nearest", coordinates = "asymmetric", rounding = "floor",
     cubic_coefficient = -0.75 : f64, exclude_outside = false, antialias = false, roi = [], extrapolation = 0.0 : f64} : (tensor<3x4xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// -----

// So is leaving out all but each third element, from the second on.
// CHECK: #[[X:map[0-9]*]] = affine_map<(d0, d1) -> (d0, d1 * 3 + 1)>
// CHECK-LABEL: func.func private @resize_down
// CHECK: linalg.generic {indexing_maps = [#[[X]], #{{.*}}]
// CHECK-NOT: tensor.extract
// CHECK: return
func.func private @resize_down(%x: tensor<3x12xf32>, %o: tensor<3x4xf32>) -> tensor<3x4xf32> attributes {stepwell.kernel} {
  %r = "graph.resize"(%x) {sizes = array<i64: 3, 4>, scales = [1.0, 0.3333333432674408], mode = "nearest", coordinates = "half_pixel", rounding = "round_prefer_floor",
     cubic_coefficient = -0.75 : f64, exclude_outside = false, antialias = false, roi = [], extrapolation = 0.0 : f64} : (tensor<3x12xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// A slice that begins at a place known only at run time is read from a view that begins there.
// CHECK-LABEL: func.func private @slice_from
// CHECK-SAME: %[[X:.*]]: tensor<9x12xf32>, %[[K:.*]]: index, %{{.*}}: tensor<4x5xf32>
// CHECK: %[[V:.*]] = tensor.extract_slice %[[X]][%[[K]], 0] [4, 12] [1, 1] : tensor<9x12xf32> to tensor<4x12xf32>
// CHECK: linalg.generic {{.*}} ins(%[[V]] : tensor<4x12xf32>)
func.func private @slice_from(%x: tensor<9x12xf32>, %k: index, %o: tensor<4x5xf32>) -> tensor<4x5xf32>
    attributes {stepwell.kernel, stepwell.size_arguments = ["k"]} {
  %r = "graph.slice"(%x) {starts = ["k", 1], sizes = array<i64: 4, 5>, steps = array<i64: 1, 2>} : (tensor<9x12xf32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}
