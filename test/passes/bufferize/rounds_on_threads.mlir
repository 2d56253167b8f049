// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' | FileCheck %s

// What a loop writes over is an input, which is copied to the destination once.

// CHECK-LABEL: func.func private @scatter(
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<16xf32>, %[[PLACES:[a-z0-9]+]]: memref<4xindex>, %[[OUT:[a-z0-9]+]]: memref<16xf32> {llvm.noalias})
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<16xf32>) outs(%[[OUT]] : memref<16xf32>)
// CHECK: scf.for %[[I:.*]] = %c0 to %c4 step %c1 {
// CHECK-NEXT: %[[P:.*]] = memref.load %[[PLACES]][%[[I]]]
// CHECK-NEXT: %[[V:.*]] = memref.load %[[X]][%[[I]]]
// CHECK-NEXT: memref.store %[[V]], %[[OUT]][%[[P]]]
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func private @scatter(%x: tensor<16xf32>, %places: tensor<4xindex>, %out: tensor<16xf32>) -> tensor<16xf32> attributes {stepwell.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%all = %x) -> (tensor<16xf32>) {
    %p = tensor.extract %places[%i] : tensor<4xindex>
    %v = tensor.extract %x[%i] : tensor<16xf32>
    %next = tensor.insert %v into %all[%p] : tensor<16xf32>
    scf.yield %next : tensor<16xf32>
  }
  return %y : tensor<16xf32>
}

// Each of four rounds has its own part of the scratch, 1600 bytes behind that of the round before; the results are written where they belong.
// Ops in a round stay on its thread, however much they have to do.

// CHECK-LABEL: func.func private @rows(
// CHECK-SAME: %[[X:.*]]: memref<8x200xf32>, %[[OUT:.*]]: memref<8x200xf32> {llvm.noalias}, %[[SCRATCH:.*]]: memref<6400xi8>
// CHECK: scf.for %[[I:.*]] = %c0 to %c4 step %c1 {
// CHECK: %[[APART:.*]] = arith.muli %[[I]], %c1600
// CHECK-NEXT: %[[AT:.*]] = arith.addi %{{.*}}, %[[APART]]
// CHECK-NEXT: %[[OWN:.*]] = memref.view %[[SCRATCH]][%[[AT]]][] : memref<6400xi8> to memref<2x200xf32>
// CHECK: %[[TO:.*]] = memref.subview %[[OUT]]
// CHECK: linalg.generic {{.*}} outs(%[[OWN]] : memref<2x200xf32>) {{.*}} parallel = 0 : i64
// CHECK: linalg.generic {{.*}} ins(%[[OWN]] : memref<2x200xf32>) outs(%[[TO]] : {{.*}} parallel = 0 : i64
// CHECK: } {sched.parallel}
// CHECK-NEXT: return
func.func private @rows(%x: tensor<8x200xf32>, %out: tensor<8x200xf32>) -> tensor<8x200xf32> attributes {stepwell.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %e = tensor.empty() : tensor<8x200xf32>
  %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%all = %e) -> (tensor<8x200xf32>) {
    %first = arith.muli %i, %c2 : index
    %own = tensor.extract_slice %x[%first, 0] [2, 200] [1, 1] : tensor<8x200xf32> to tensor<2x200xf32>
    %e0 = tensor.empty() : tensor<2x200xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%own : tensor<2x200xf32>) outs(%e0 : tensor<2x200xf32>) {
    ^bb0(%a: f32, %o: f32):
      %v = math.exp %a : f32
      linalg.yield %v : f32
    } -> tensor<2x200xf32>
    %e1 = tensor.empty() : tensor<2x200xf32>
    %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, -j + 199)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<2x200xf32>) outs(%e1 : tensor<2x200xf32>) {
    ^bb0(%a: f32, %o: f32):
      linalg.yield %a : f32
    } -> tensor<2x200xf32>
    %next = tensor.insert_slice %1 into %all[%first, 0] [2, 200] [1, 1] : tensor<2x200xf32> into tensor<8x200xf32>
    scf.yield %next : tensor<8x200xf32>
  } {sched.parallel}
  return %y : tensor<8x200xf32>
}
func.func @main(%x: tensor<8x200xf32>, %weights: memref<?xi8>) -> tensor<8x200xf32> {
  %e = tensor.empty() : tensor<8x200xf32>
  %0 = call @rows(%x, %e) : (tensor<8x200xf32>, tensor<8x200xf32>) -> tensor<8x200xf32>
  return %0 : tensor<8x200xf32>
}
