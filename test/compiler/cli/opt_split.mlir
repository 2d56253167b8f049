// The pieces of a split file are modules of their own: the same name twice is no conflict.
// RUN: stepwell-opt %s --split-input-file --load %S/Inputs/plugin.py --count-ops | FileCheck %s
// RUN: not stepwell-opt %s 2>&1 | FileCheck %s --check-prefix=WHOLE

// CHECK: test.count = 1
// CHECK: @a
// CHECK: // -----
// CHECK: test.count = 2
// CHECK: @a
// CHECK: @b
// WHOLE: opt_split.mlir:16:1: error: redefinition of symbol named 'a'
func.func private @a()

// -----

func.func private @a()
func.func private @b()
