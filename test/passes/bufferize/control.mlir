// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' --split-input-file | FileCheck %s

#id = affine_map<(a) -> (a)>

// The functions of regions take where their results go, the weights, their own workspace, that of @main, and the table; they give a status, 0 to go on.
// Their workspace is scratch of the conditional: as much as the larger of the two needs. A region that needs none is given no more than a byte.
// CHECK: stepwell.workspace_bytes = 320
// CHECK: func.func @main(%[[C:.*]]: memref<i1>, %[[X:.*]]: memref<40xf32>, %[[Y:.*]]: memref<40xf32>, %[[W:.*]]: memref<?xi8> {stepwell.bytes = 0 : i64}, %[[WS:.*]]: memref<?xi8> {stepwell.bytes = 320 : i64}, %[[T:.*]]: memref<2xi64>) -> i64
// CHECK: %[[INNER:.*]] = memref.view %[[WS]][%c0{{[_0-9]*}}][] : memref<?xi8> to memref<320xi8>
// CHECK: %[[NONE:.*]] = memref.reinterpret_cast %[[WS]] {{.*}} to memref<1xi8>
// CHECK: %[[IF:.*]] = memref.load %[[C]][] : memref<i1>
// CHECK: cf.cond_br %[[IF]], ^[[THEN:.*]], ^[[ELSE:.*]]
// CHECK: ^[[ELSE]]:
// CHECK: %[[BASE:.*]] = memref.reinterpret_cast %[[WS]]
// CHECK: %[[S:.*]] = call @main.else(%[[X]], %[[Y]], %{{.*}}, %[[NONE]], %[[BASE]], %[[T]])
// CHECK: cf.br ^[[JOINED:.*]](%[[S]] : i64)
// CHECK: ^[[THEN]]:
// CHECK: %[[S:.*]] = call @main.then(%[[X]], %[[Y]], %{{.*}}, %[[INNER]], %{{.*}}, %[[T]])
// CHECK: cf.br ^[[JOINED]](%[[S]] : i64)
// CHECK: ^[[JOINED]](%[[S:.*]]: i64):
// CHECK: %[[GOOD:.*]] = arith.cmpi eq, %[[S]], %c0_i64
// CHECK: cf.cond_br %[[GOOD]], ^[[REST:.*]], ^[[END:.*]](%[[S]] : i64)
// CHECK: ^[[REST]]:
// CHECK: call @exp(%[[Y]], %[[Y]])
// CHECK: func.func private @main.then(%[[A:.*]]: memref<40xf32>, %[[B:.*]]: memref<40xf32>, %{{.*}}: memref<1xi8>, %[[OWN:.*]]: memref<320xi8>, %{{.*}}: memref<1xi8>, %{{.*}}: memref<2xi64>) -> i64 attributes {stepwell.region}
// CHECK: call @exp(%[[A]], %{{.*}})
// CHECK: %[[P:.*]] = memref.view %[[OWN]][%c160{{[_0-9]*}}][]
// CHECK: call @exp(%[[A]], %[[P]])
// CHECK: call @last(%{{.*}}, %[[B]])
// CHECK: return %c0_i64
// What a branch only passes on is copied: it is one value's memory no more than the other's.
// CHECK: func.func private @main.else(%[[A:.*]]: memref<40xf32>, %[[B:.*]]: memref<40xf32>, %{{.*}}: memref<1xi8>, %{{.*}}: memref<1xi8>
// CHECK-NEXT: call @copy_40xf32(%[[A]], %[[B]])
func.func private @exp(%x: tensor<40xf32>, %out: tensor<40xf32>) -> tensor<40xf32> attributes {stepwell.kernel} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<40xf32>) outs(%out : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<40xf32>
  return %0 : tensor<40xf32>
}
func.func private @last(%x: tensor<80xf32>, %out: tensor<40xf32>) -> tensor<40xf32> attributes {stepwell.kernel} {
  %half = tensor.extract_slice %x[40] [40] [1] : tensor<80xf32> to tensor<40xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%half : tensor<40xf32>) outs(%out : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<40xf32>
  return %0 : tensor<40xf32>
}
func.func @main(%c: tensor<i1>, %x: tensor<40xf32>, %weights: memref<?xi8>) -> tensor<40xf32> {
  %e1 = tensor.empty() : tensor<40xf32>
  %1 = "flow.if"(%c, %x, %e1) {then = "main.then", otherwise = "main.else", destinations = 1 : i64}
    : (tensor<i1>, tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  %e2 = tensor.empty() : tensor<40xf32>
  %2 = call @exp(%1, %e2) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  return %2 : tensor<40xf32>
}
func.func private @main.then(%x: tensor<40xf32>) -> tensor<40xf32> attributes {stepwell.region} {
  %e0 = tensor.empty() : tensor<40xf32>
  %0 = call @exp(%x, %e0) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  %e1 = tensor.empty() : tensor<40xf32>
  %1 = call @exp(%x, %e1) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  %both = tensor.concat dim(0) %0, %1 : (tensor<40xf32>, tensor<40xf32>) -> tensor<80xf32>
  %e2 = tensor.empty() : tensor<40xf32>
  %2 = call @last(%both, %e2) : (tensor<80xf32>, tensor<40xf32>) -> tensor<40xf32>
  return %2 : tensor<40xf32>
}
func.func private @main.else(%x: tensor<40xf32>) -> tensor<40xf32> attributes {stepwell.region} {
  return %x : tensor<40xf32>
}

// -----

#id = affine_map<(a) -> (a)>

// A loop keeps addresses: of what a round reads, at first the initial value, of where it writes, at first the result, and of the other place, in
// its scratch. The parts that it collects are written where they belong. It asks the runtime in the rounds that the runtime has named.
// CHECK: func.func @main(%[[N:.*]]: memref<i64>, %[[C:.*]]: memref<i1>, %[[X:.*]]: memref<40xf32>, %[[B:.*]]: memref<40xf32>, %[[Y:.*]]: memref<40xf32>, %[[ALL:.*]]: memref<7x40xf32>, %{{.*}}: memref<?xi8> {stepwell.bytes = 0 : i64}, %[[WS:.*]]: memref<?xi8>{{.*}}, %[[T:.*]]: memref<2xi64>) -> i64
// CHECK: %[[ROUND:.*]] = memref.view %[[WS]][%c0{{[_0-9]*}}][] : memref<?xi8> to memref<i64>
// CHECK: %[[FLAG:.*]] = memref.view %[[WS]][%c64{{[_0-9]*}}][] : memref<?xi8> to memref<i1>
// CHECK: %[[NEXT:.*]] = memref.view %[[WS]][%c128{{[_0-9]*}}][] : memref<?xi8> to memref<i1>
// CHECK: %[[LIMIT:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: %[[FIRST:.*]] = memref.load %[[C]][]
// CHECK: %[[BEGIN:.*]] = memref.extract_aligned_pointer_as_index %[[X]]
// CHECK: %[[HOME:.*]] = memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK: %[[WSA:.*]] = memref.extract_aligned_pointer_as_index %[[WS]]
// CHECK: %[[SPARE:.*]] = arith.addi %[[WSA]], %c192
// CHECK: %[[PARTS:.*]] = memref.extract_aligned_pointer_as_index %[[ALL]]
// CHECK: %[[COUNT:.*]] = memref.view %[[WS]][%c384{{[_0-9]*}}][] : memref<?xi8> to memref<1xi64>
// CHECK: cf.br ^[[HEAD:bb[0-9]+]](%c0{{[_0-9]*}}, %c1{{[_0-9]*}}, %[[FIRST]], %[[BEGIN]], %[[HOME]], %[[SPARE]] :
// Behind the last round, their number is written, and what lies in the spare place is copied home.
// CHECK: memref.store %{{.*}}, %[[COUNT]]
// CHECK: %[[THERE:.*]] = arith.cmpi eq, %[[LAST:.*]], %[[HOME]]
// CHECK: cf.cond_br %[[THERE]], ^[[REST:.*]], ^[[COPY:.*]]
// CHECK: ^[[COPY]]:
// CHECK: call @copy_40xf32(
// CHECK: cf.br ^[[REST]]
// A round.
// CHECK: memref.store %{{.*}}, %[[ROUND]][]
// CHECK: memref.store %{{.*}}, %[[FLAG]][]
// CHECK: %[[AT:.*]] = arith.muli %[[I:.*]], %c160
// CHECK: arith.addi %[[PARTS]], %[[AT]]
// CHECK: %[[S:.*]] = call @main.body(%[[ROUND]], %[[FLAG]], %{{.*}}, %[[B]], %[[NEXT]],
// CHECK: %[[AGAIN:.*]] = memref.load %[[NEXT]][]
// CHECK: %[[J:.*]] = arith.addi %[[I]], %c1
// CHECK: %[[GOOD:.*]] = arith.cmpi eq, %[[S]], %c0_i64
// CHECK: cf.cond_br %[[GOOD]], ^[[HEAD]](%[[J]], %{{.*}}, %[[AGAIN]], %[[WRITTEN:.*]], %[[OTHER:.*]], %[[WRITTEN]] :
// Before a round that is due.
// CHECK: llvm.getelementptr %{{.*}}[1]
// CHECK: llvm.getelementptr %{{.*}}[1]
// CHECK: llvm.call
// CHECK: ^[[HEAD]](%[[I]]: index, %[[DUE:.*]]: index, %[[GOES:.*]]: i1, %[[LAST]]: index, %[[WRITTEN]]: index, %[[OTHER]]: index):
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[I]], %[[LIMIT]]
// CHECK: %[[ON:.*]] = arith.andi %[[GOES]], %[[MORE]]
// CHECK: cf.cond_br %[[ON]]
func.func private @exp(%x: tensor<40xf32>, %out: tensor<40xf32>) -> tensor<40xf32> attributes {stepwell.kernel} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<40xf32>) outs(%out : tensor<40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<40xf32>
  return %0 : tensor<40xf32>
}
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<40xf32>, %w: tensor<40xf32>, %weights: memref<?xi8>) -> (tensor<40xf32>, tensor<7x40xf32>) {
  %e1 = tensor.empty() : tensor<40xf32>
  %e2 = tensor.empty() : tensor<7x40xf32>
  %e3 = tensor.empty() : tensor<1xi64>
  %1:3 = "flow.loop"(%n, %c, %x, %w, %e1, %e2, %e3) {body = "main.body", carried = 1 : i64, destinations = 3 : i64}
    : (tensor<i64>, tensor<i1>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<7x40xf32>, tensor<1xi64>) -> (tensor<40xf32>, tensor<7x40xf32>, tensor<1xi64>)
  return %1#0, %1#1 : tensor<40xf32>, tensor<7x40xf32>
}
func.func private @main.body(%i: tensor<i64>, %go: tensor<i1>, %x: tensor<40xf32>, %w: tensor<40xf32>) -> (tensor<i1>, tensor<40xf32>, tensor<40xf32>) attributes {stepwell.region} {
  %e0 = tensor.empty() : tensor<40xf32>
  %0 = call @exp(%x, %e0) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  %e1 = tensor.empty() : tensor<40xf32>
  %1 = call @exp(%0, %e1) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  return %go, %1, %0 : tensor<i1>, tensor<40xf32>, tensor<40xf32>
}
