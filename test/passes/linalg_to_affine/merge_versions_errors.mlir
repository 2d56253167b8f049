// RUN: not stepwell-opt %s --merge-versions --split-input-file 2>&1 | FileCheck %s

// CHECK: 'k.few' is a version of 'k', but there is no such kernel
func.func private @k.few(%x: memref<?xf32>) attributes {stepwell.kernel, stepwell.sizes = ["n"], stepwell.version = {of = "k", size = "n", most = 2}} {
  return
}
