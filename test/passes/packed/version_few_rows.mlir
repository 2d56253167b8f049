// RUN: stepwell-opt %s --target x86-64-v3 --version-few-rows | FileCheck %s
// RUN: stepwell-opt %s --target x86-64-v3 --pass-pipeline='version-few-rows,convert-graph-to-linalg' | FileCheck %s --check-prefix=LINALG

// A product of a free number of rows gets a version for few of them; one of a known number, and a kernel without such a product, do not.
// CHECK-LABEL: func.func private @free.few(
// CHECK-SAME: stepwell.kernel_hints = {n = 1 : i64}
// CHECK-SAME: stepwell.version = {most = 8 : i64, of = "free", size = "2*n"}
// CHECK-LABEL: func.func private @free(
// CHECK-NOT: stepwell.version
// CHECK-LABEL: func.func private @known(
// CHECK-NOT: func.func

// Few rows: sums of blocks of words, panel by panel, on threads.
// LINALG-LABEL: func.func private @free.few(
// LINALG: scf.for %{{.*}} = %c0 to %c3
// LINALG: ins({{.*}}tensor<2x4x8xi32>) outs({{.*}} : tensor<2x?x2x8xf32>)
// LINALG: sched.parallel
// Many: all panels in floats.
// LINALG-LABEL: func.func private @free(
// LINALG: outs({{.*}} : tensor<3x2x4x8x8xf32>)
// LINALG: linalg.generic {{.*}} ins({{.*}} : tensor<2x?x64xf32>, tensor<3x64x8xf32>) outs({{.*}} : tensor<2x?x3x8xf32>)
// LINALG-NOT: sched.parallel
func.func private @free(%x: tensor<2x?x64xf32, "n">, %w: tensor<3x2x4x8xui32>, %s: tensor<3x2x8xf32>, %z: tensor<ui8>, %out: tensor<2x?x3x8xf32, "n">) -> tensor<2x?x3x8xf32, "n"> attributes {stepwell.kernel} {
  %0 = "packed.low_bit_matmul"(%x, %w, %s, %z) {bits = 4 : i64} : (tensor<2x?x64xf32, "n">, tensor<3x2x4x8xui32>, tensor<3x2x8xf32>, tensor<ui8>) -> tensor<2x?x3x8xf32, "n">
  return %0 : tensor<2x?x3x8xf32, "n">
}
func.func private @known(%x: tensor<20x64xf32>, %w: tensor<3x2x32x8xi8>, %s: tensor<3x2x8xf32>, %z: tensor<3x2x8xi8>, %out: tensor<20x3x8xf32>) -> tensor<20x3x8xf32> attributes {stepwell.kernel} {
  %0 = "packed.low_bit_matmul"(%x, %w, %s, %z) {bits = 8 : i64} : (tensor<20x64xf32>, tensor<3x2x32x8xi8>, tensor<3x2x8xf32>, tensor<3x2x8xi8>) -> tensor<20x3x8xf32>
  return %0 : tensor<20x3x8xf32>
}
