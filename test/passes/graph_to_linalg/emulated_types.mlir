// RUN: not stepwell-opt %s --convert-graph-to-linalg 2>&1 | FileCheck %s
// RUN: stepwell-opt %s --pass-pipeline='emulate-floats,convert-graph-to-linalg' | FileCheck %s --check-prefix=EMULATED

// CHECK: 'graph.add' at loc("sum"
// CHECK-SAME: it computes with elements that are only bytes here; run emulate-floats before
// EMULATED-LABEL: func.func private @k
// EMULATED-SAME: tensor<4xi8>
// EMULATED: arith.addf {{.*}} : f32
// EMULATED: arith.trunci {{.*}} : i32 to i8
func.func private @k(%x: tensor<4xf8E4M3FN>, %o: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> attributes {stepwell.kernel} {
  %r = "graph.add"(%x, %x) : (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> loc(#sum)
  return %r : tensor<4xf8E4M3FN>
}
#sum = loc("sum"("model.onnx":1:0))
