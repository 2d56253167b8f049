// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='func.func(use-destinations,assign-schedules),bufferize' --split-input-file | FileCheck %s

#id = affine_map<(a) -> (a)>

// What waits for a size: its segment says which nodes ask for it, where its numbers begin in the table, and the buffers that get memory then,
// the second above the first (0), and which of them is an output. The table has an entry for each number and each buffer, for the bytes of the block
// and of the output, and for its size, then one for where the runtime is, and one for the answer.
// CHECK: stepwell.segments = [{nodes = "where and when", outputs = array<i64: 2, 0>, shapes = ["n"], sizes = ["n", 5], slots = [["4*n"], ["4*n", 0], ["4*n"]], start = 0 : i64}]
// CHECK-SAME: stepwell.table_entries = 10
// CHECK: func.func private @sizes_0(%[[T:.*]]: memref<10xi64>) -> i64
// CHECK: %[[N:.*]] = memref.load %[[T]][%c0
// CHECK: %[[FIVE:.*]] = memref.load %[[T]][%c1
// CHECK: arith.cmpi ne, %[[FIVE]], %c5_i64
// CHECK: func.func @main(%[[X:.*]]: memref<7xf32>, %[[Y:.*]]: memref<?xf32>, %{{.*}}: memref<?xi8> {stepwell.bytes = 0 : i64}, %[[W:.*]]: memref<?xi8> {stepwell.bytes = 128 : i64}, %[[T:.*]]: memref<10xi64>) -> i64
// There must be a runtime, of this version; else 11 is the status.
// CHECK: memref.load %[[T]][%c8
// CHECK: cf.cond_br %{{.*}}, ^[[THERE:.*]], ^[[END:bb[0-9]+]](%c11_i64
// CHECK: ^[[END]](%[[STATUS:.*]]: i64):
// CHECK-NEXT: return %[[STATUS]]
// CHECK: ^[[THERE]]:
// CHECK: %[[VERSION:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i64
// CHECK: arith.cmpi eq, %[[VERSION]], %c1_i64
// CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[END]](%c11_i64
// CHECK: call @count(%[[X]], %[[N:[a-z_0-9]+]])
// CHECK: call @count(%[[X]], %[[M:[a-z_0-9]+]])
// Both numbers go to the table, and then the program asks once.
// CHECK-NOT: llvm.call
// CHECK: %[[A:.*]] = memref.load %[[N]][
// CHECK: memref.store %[[A]], %[[T]][%c0{{[_0-9]*}}]
// CHECK: %[[B:.*]] = memref.load %[[M]][
// CHECK: memref.store %[[B]], %[[T]][%c1{{[_0-9]*}}]
// The code looks at them, and says what they ask for.
// CHECK: %[[WRONG:.*]] = call @sizes_0(%[[T]])
// CHECK: arith.cmpi eq, %[[WRONG]], %c0_i64
// CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[END]](%[[WRONG]] : i64)
// The first function of the runtime takes memory.
// CHECK: memref.store %c0_i64{{[_0-9]*}}, %[[T]][%c9{{[_0-9]*}}]
// CHECK: %[[R:.*]] = llvm.inttoptr
// CHECK: %[[F:.*]] = llvm.getelementptr %[[R]][1] : (!llvm.ptr) -> !llvm.ptr, i64
// CHECK: %[[P:.*]] = llvm.getelementptr %[[F]][0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK: %[[ENTER:.*]] = llvm.load %[[P]]
// CHECK: %[[I:.*]] = memref.extract_aligned_pointer_as_index %[[T]]
// CHECK: llvm.call %[[ENTER]](%[[R]], %{{.*}}, %c0_i64{{[_0-9]*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64) -> ()
// CHECK: %[[S:.*]] = memref.load %[[T]][%c9{{[_0-9]*}}]
// CHECK: %[[GOOD:.*]] = arith.cmpi ne, %[[S]], %c0_i64
// CHECK: cf.cond_br %[[GOOD]], ^[[ON:.*]], ^[[END]](%c10_i64
// CHECK: ^[[ON]]:
// CHECK: memref.load %[[T]][%c0{{[_0-9]*}}]
// CHECK: memref.load %[[T]][%c2{{[_0-9]*}}]
// CHECK: %[[FIRST:.*]] = memref.view %[[W]][%{{.*}}][%{{.*}}] : memref<?xi8> to memref<?xf32>
// CHECK: call @first(%[[X]], %[[FIRST]])
// CHECK: memref.load %[[T]][%c3{{[_0-9]*}}]
// CHECK: %[[SECOND:.*]] = memref.view %[[W]]
// CHECK: call @reverse(%[[FIRST]], %[[SECOND]])
// CHECK: memref.load %[[T]][%c4{{[_0-9]*}}]
// CHECK: %[[OUT:.*]] = memref.view %[[W]]
// CHECK: call @reverse(%[[SECOND]], %[[OUT]])
// CHECK: return %c0_i64
func.func private @count(%x: tensor<7xf32>, %out: tensor<1xi64>) -> tensor<1xi64> attributes {stepwell.kernel} {
  %three = arith.constant 3 : i64
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%out : tensor<1xi64>) {
  ^bb0(%o: i64):
    linalg.yield %three : i64
  } -> tensor<1xi64>
  return %0 : tensor<1xi64>
}
func.func private @first(%x: tensor<7xf32>, %out: tensor<?xf32, "n">) -> tensor<?xf32, "n"> attributes {stepwell.kernel, stepwell.sizes = ["", "n"]} {
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%out : tensor<?xf32, "n">) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %v = tensor.extract %x[%i] : tensor<7xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32, "n">
  return %0 : tensor<?xf32, "n">
}
func.func private @reverse(%x: tensor<?xf32, "n">, %out: tensor<?xf32, "n">) -> tensor<?xf32, "n"> attributes {stepwell.kernel, stepwell.sizes = ["n", "n"]} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = tensor.dim %x, %zero : tensor<?xf32, "n">
  %last = arith.subi %n, %one : index
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%out : tensor<?xf32, "n">) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = arith.subi %last, %i : index
    %v = tensor.extract %x[%j] : tensor<?xf32, "n">
    linalg.yield %v : f32
  } -> tensor<?xf32, "n">
  return %0 : tensor<?xf32, "n">
}
func.func @main(%x: tensor<7xf32>, %weights: memref<?xi8>) -> tensor<?xf32, "n"> {
  %e0 = tensor.empty() : tensor<1xi64>
  %n = call @count(%x, %e0) : (tensor<7xf32>, tensor<1xi64>) -> tensor<1xi64>
  %e1 = tensor.empty() : tensor<1xi64>
  %m = call @count(%x, %e1) : (tensor<7xf32>, tensor<1xi64>) -> tensor<1xi64>
  %s = "flow.bind_sizes"(%n) {sizes = ["n"]} : (tensor<1xi64>) -> index loc("where")
  %e2 = tensor.empty(%s) : tensor<?xf32, "n">
  %t = "flow.bind_sizes"(%m) {sizes = array<i64: 5>} : (tensor<1xi64>) -> index loc("when")
  %0 = call @first(%x, %e2) : (tensor<7xf32>, tensor<?xf32, "n">) -> tensor<?xf32, "n">
  %e3 = tensor.empty(%s) : tensor<?xf32, "n">
  %1 = call @reverse(%0, %e3) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
  %e4 = tensor.empty(%s) : tensor<?xf32, "n">
  %2 = call @reverse(%1, %e4) : (tensor<?xf32, "n">, tensor<?xf32, "n">) -> tensor<?xf32, "n">
  return %2 : tensor<?xf32, "n">
}

// -----

#id = affine_map<(a) -> (a)>

// A launch between two sizes makes two segments of them; a buffer waits for the last size in its own. The entries of the second come behind those
// of the first. What is given twice has memory for each: the second output is a copy.
// CHECK: stepwell.segments = [
// CHECK-SAME: {nodes = "one", outputs = array<i64>, sizes = ["n"], slots = [], start = 0 : i64},
// CHECK-SAME: {nodes = "two", outputs = array<i64: 0, 0, 1, 1>, shapes = ["m*n", "m*n"], sizes = ["m"], slots = [["4*m*n"], ["4*m*n"{{.*}}]], start = 2 : i64}]
// CHECK-SAME: stepwell.table_entries = 12
// CHECK: func.func @main(
// CHECK: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %c0_i64{{[_0-9]*}}) :
// CHECK: call @count(
// CHECK: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %c1_i64{{[_0-9]*}}) :
// CHECK: call @zeros(%[[OUT:[a-z_0-9]+]])
// CHECK: %[[SECOND:.*]] = memref.view
// CHECK: call @copy_anyxf32(%[[OUT]], %[[SECOND]])
// CHECK: return %c0_i64
func.func private @count(%x: tensor<7xf32>, %out: tensor<1xi64>) -> tensor<1xi64> attributes {stepwell.kernel} {
  %three = arith.constant 3 : i64
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%out : tensor<1xi64>) {
  ^bb0(%o: i64):
    linalg.yield %three : i64
  } -> tensor<1xi64>
  return %0 : tensor<1xi64>
}
func.func private @zeros(%out: tensor<?xf32, "n*m">) -> tensor<?xf32, "n*m"> attributes {stepwell.kernel, stepwell.sizes = ["n*m"]} {
  %zero = arith.constant 0.0 : f32
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%out : tensor<?xf32, "n*m">) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<?xf32, "n*m">
  return %0 : tensor<?xf32, "n*m">
}
func.func @main(%x: tensor<7xf32>, %weights: memref<?xi8>) -> (tensor<?xf32, "n*m">, tensor<?xf32, "n*m">) {
  %e0 = tensor.empty() : tensor<1xi64>
  %n = call @count(%x, %e0) : (tensor<7xf32>, tensor<1xi64>) -> tensor<1xi64>
  %e1 = tensor.empty() : tensor<1xi64>
  %s = "flow.bind_sizes"(%n) {sizes = ["n"]} : (tensor<1xi64>) -> index loc("one")
  %m = call @count(%x, %e1) : (tensor<7xf32>, tensor<1xi64>) -> tensor<1xi64>
  %t = "flow.bind_sizes"(%m) {sizes = ["m"]} : (tensor<1xi64>) -> index loc("two")
  %size = arith.muli %s, %t : index
  %e2 = tensor.empty(%size) : tensor<?xf32, "n*m">
  %0 = call @zeros(%e2) : (tensor<?xf32, "n*m">) -> tensor<?xf32, "n*m">
  return %0, %0 : tensor<?xf32, "n*m">, tensor<?xf32, "n*m">
}
