// RUN: stepwell-opt %s --pass-pipeline='func.func(use-destinations,canonicalize)' --split-input-file | FileCheck %s

#id = affine_map<(i) -> (i)>

// The chain writes into the kernel's last argument, the element-wise op in place over the fill.
// CHECK-LABEL: func.func private @chain
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<8xf32>, %[[OUT:arg[0-9]+]]: tensor<8xf32>
// CHECK-NOT: tensor.empty
// CHECK: %[[FILL:[0-9]+]] = linalg.fill {{.*}} outs(%[[OUT]] : tensor<8xf32>)
// CHECK-NEXT: %[[R:[0-9]+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<8xf32>) outs(%[[FILL]] : tensor<8xf32>)
// CHECK: return %[[R]]
func.func private @chain(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {stepwell.kernel} {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%f, %x : tensor<8xf32>, tensor<8xf32>) outs(%e1 : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// A pad: the source is computed in the slice of the padded destination.
// CHECK-LABEL: func.func private @pad
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<8xf32>, %[[OUT:arg[0-9]+]]: tensor<10xf32>
// CHECK: %[[FILL:[0-9]+]] = linalg.fill {{.*}} outs(%[[OUT]] : tensor<10xf32>)
// CHECK: %[[SLICE:[a-z_0-9]+]] = tensor.extract_slice %[[FILL]][1] [8] [1]
// CHECK: %[[R:[0-9]+]] = linalg.generic {{.*}} outs(%[[SLICE]] : tensor<8xf32>)
// CHECK: tensor.insert_slice %[[R]] into %[[FILL]][1] [8] [1]
func.func private @pad(%x: tensor<8xf32>, %out: tensor<10xf32>) -> tensor<10xf32> attributes {stepwell.kernel} {
  %e1 = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e1 : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<10xf32>) -> tensor<10xf32>
  %p = tensor.insert_slice %r into %f[1] [8] [1] : tensor<8xf32> into tensor<10xf32>
  return %p : tensor<10xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// A value with a second use must keep its own buffer.
// CHECK-LABEL: func.func private @second_use
// CHECK: %[[A:[0-9]+]] = linalg.generic {{.*}} outs(%{{[0-9]+}} : tensor<8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[A]] : tensor<8xf32>, tensor<8xf32>) outs(%arg1 : tensor<8xf32>)
func.func private @second_use(%x: tensor<8xf32>, %out: tensor<8xf32>) -> tensor<8xf32> attributes {stepwell.kernel} {
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.exp %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#id, affine_map<(i) -> (-i + 7)>, #id], iterator_types = ["parallel"]} ins(%a, %a : tensor<8xf32>, tensor<8xf32>) outs(%e1 : tensor<8xf32>) {
  ^bb0(%v: f32, %u: f32, %o: f32):
    %s = arith.mulf %v, %u : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#both = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Of several results each goes to its own argument: those of one op with two outputs, and what a loop carries.
// CHECK-LABEL: func.func private @several
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<8x4xf32>, %[[SUM:arg[0-9]+]]: tensor<8xf32>, %[[TOP:arg[0-9]+]]: tensor<8xf32>, %[[LOOP:arg[0-9]+]]: tensor<4xf32>
// CHECK-NOT: tensor.empty
// CHECK-DAG: %[[A:[a-z_0-9]+]] = linalg.fill {{.*}} outs(%[[SUM]] : tensor<8xf32>)
// CHECK-DAG: %[[B:[a-z_0-9]+]] = linalg.fill {{.*}} outs(%[[TOP]] : tensor<8xf32>)
// CHECK: %[[R:[0-9]+]]:2 = linalg.generic {{.*}} outs(%[[A]], %[[B]] : tensor<8xf32>, tensor<8xf32>)
// CHECK: %[[L:[a-z_0-9]+]] = scf.for {{.*}} iter_args(%{{[a-z_0-9]+}} = %[[LOOP]])
// CHECK: return %[[R]]#0, %[[R]]#1, %[[L]]
func.func private @several(%x: tensor<8x4xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>)
    attributes {stepwell.kernel} {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<8xf32>) -> tensor<8xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %r:2 = linalg.generic {indexing_maps = [#both, #row, #row], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<8x4xf32>) outs(%f0, %f1 : tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%v: f32, %s: f32, %m: f32):
    %s1 = arith.addf %s, %v : f32
    %m1 = arith.maximumf %m, %v : f32
    linalg.yield %s1, %m1 : f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>)
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %e2 = tensor.empty() : tensor<4xf32>
  %l = scf.for %i = %c0 to %c4 step %c1 iter_args(%t = %e2) -> tensor<4xf32> {
    %v = tensor.extract %x[%c0, %i] : tensor<8x4xf32>
    %n = tensor.insert %v into %t[%i] : tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }
  return %r#0, %r#1, %l : tensor<8xf32>, tensor<8xf32>, tensor<4xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// What a loop carries is written over, and a slice at a place that depends on the round is computed where it is.
// CHECK-LABEL: func.func private @rounds
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<8xf32>, %[[ALL:arg[0-9]+]]: tensor<5x8xf32>, %[[LAST:arg[0-9]+]]: tensor<8xf32>
// CHECK-NOT: tensor.empty
// CHECK: scf.for %[[I:[a-z_0-9]+]] = {{.*}} iter_args(%[[A:[a-z_0-9]+]] = %[[ALL]], %[[L:[a-z_0-9]+]] = %{{[0-9]+}})
// CHECK: %[[T:[0-9]+]] = arith.subi %{{[a-z_0-9]+}}, %[[I]]
// CHECK: %[[PART:[a-z_0-9]+]] = tensor.extract_slice %[[A]][%[[T]], 0] [1, 8] [1, 1]
// CHECK-NOT: tensor.empty
// CHECK: linalg.generic {{.*}} outs(%[[L]], %[[PART]] : tensor<8xf32>, tensor<8xf32>)
// CHECK: tensor.insert_slice %{{[0-9]+}}#1 into %[[A]][%[[T]], 0]
func.func private @rounds(%x: tensor<8xf32>, %all: tensor<5x8xf32>, %last: tensor<8xf32>) -> (tensor<5x8xf32>, tensor<8xf32>) attributes {stepwell.kernel} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %e0 = tensor.empty() : tensor<5x8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %r:2 = scf.for %i = %c0 to %c5 step %c1 iter_args(%a = %e0, %l = %f) -> (tensor<5x8xf32>, tensor<8xf32>) {
    %e2 = tensor.empty() : tensor<8xf32>
    %e3 = tensor.empty() : tensor<8xf32>
    %n:2 = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %l : tensor<8xf32>, tensor<8xf32>) outs(%e2, %e3 : tensor<8xf32>, tensor<8xf32>) {
    ^bb0(%v: f32, %before: f32, %o: f32, %p: f32):
      %s = arith.addf %v, %before : f32
      linalg.yield %s, %s : f32, f32
    } -> (tensor<8xf32>, tensor<8xf32>)
    %t = arith.subi %c4, %i : index
    %put = tensor.insert_slice %n#1 into %a[%t, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<5x8xf32>
    scf.yield %put, %n#0 : tensor<5x8xf32>, tensor<8xf32>
  }
  return %r#0, %r#1 : tensor<5x8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(i) -> (i)>

// What a round begins with and was made outside of the loop is not written over: the next round begins with it, too.
// CHECK-LABEL: func.func private @begins_outside
// CHECK: %[[START:[a-z_0-9]+]] = linalg.fill
// CHECK: scf.for
// CHECK: scf.for {{.*}} iter_args(%{{[a-z_0-9]+}} = %[[START]])
func.func private @begins_outside(%x: tensor<8xf32>, %all: tensor<5x8xf32>) -> tensor<5x8xf32> attributes {stepwell.kernel} {
  %one = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %e0 = tensor.empty() : tensor<5x8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %start = linalg.fill ins(%one : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %r = scf.for %i = %c0 to %c5 step %c1 iter_args(%a = %e0) -> tensor<5x8xf32> {
    %h = scf.for %k = %c0 to %i step %c1 iter_args(%b = %start) -> tensor<8xf32> {
      %e2 = tensor.empty() : tensor<8xf32>
      %n = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %b : tensor<8xf32>, tensor<8xf32>) outs(%e2 : tensor<8xf32>) {
      ^bb0(%v: f32, %before: f32, %o: f32):
        %s = arith.addf %v, %before : f32
        linalg.yield %s : f32
      } -> tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    %next = tensor.insert_slice %h into %a[%i, 0] [1, 8] [1, 1] : tensor<8xf32> into tensor<5x8xf32>
    scf.yield %next : tensor<5x8xf32>
  }
  return %r : tensor<5x8xf32>
}

// The destination of what has merged dimensions is split as they were, into sizes that are known only at run time too.
// CHECK-LABEL: func.func private @merged
// CHECK: tensor.expand_shape %arg1 {{\[}}[0, 1]] output_shape [%{{[a-z_0-9]+}}, 4] : tensor<?xf32> into tensor<?x4xf32>
// CHECK-NOT: tensor.empty
// CHECK: linalg.generic
func.func private @merged(%x: tensor<?x4xf32>, %out: tensor<?xf32>) -> tensor<?xf32> attributes {stepwell.kernel, stepwell.sizes = ["n // 2", "4*(n // 2)"]} {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4xf32>
  %e = tensor.empty(%rows) : tensor<?x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %t = arith.negf %v : f32
    linalg.yield %t : f32
  } -> tensor<?x4xf32>
  %r = tensor.collapse_shape %y [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>

// The zeros around an image come first, although their size is asked of what goes inside: what computes that stays beside its reader.
// CHECK-LABEL: func.func private @around
// CHECK: %[[N:[a-z_0-9]+]] = tensor.dim %arg0
// CHECK-NOT: linalg.generic
// CHECK: %[[ZEROS:[a-z_0-9]+]] = linalg.fill {{.*}} outs(%arg1 : tensor<?x10xf32>)
// CHECK: tensor.extract_slice %[[ZEROS]][0, 1] [%[[N]], 8] [1, 1]
// CHECK: %[[A:[a-z_0-9]+]] = linalg.generic
// CHECK-NOT: linalg.fill
// CHECK: linalg.generic {{.*}} ins(%[[A]] :
// CHECK: tensor.insert_slice %{{[a-z_0-9]+}} into %[[ZEROS]][0, 1] [%[[N]], 8] [1, 1]
func.func private @around(%x: tensor<?x8xf32>, %out: tensor<?x10xf32>) -> tensor<?x10xf32> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 7 - j)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %t = math.absf %v : f32
    linalg.yield %t : f32
  } -> tensor<?x8xf32>
  %m = tensor.dim %a, %c0 : tensor<?x8xf32>
  %e1 = tensor.empty(%m) : tensor<?x8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, 7 - j)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<?x8xf32>) outs(%e1 : tensor<?x8xf32>) {
  ^bb0(%v: f32, %o: f32):
    %t = arith.negf %v : f32
    linalg.yield %t : f32
  } -> tensor<?x8xf32>
  %e2 = tensor.empty(%m) : tensor<?x10xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x10xf32>) -> tensor<?x10xf32>
  %r = tensor.insert_slice %b into %zeros[0, 1] [%m, 8] [1, 1] : tensor<?x8xf32> into tensor<?x10xf32>
  return %r : tensor<?x10xf32>
}
