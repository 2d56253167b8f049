"""Small modules written by hand and lowered to the llvm dialect, for the tests of what comes below it."""

from stepwell.backends.llvm_cpu.objects import make_engine_context, split_module
from stepwell.backends.llvm_cpu.pool import compile_units
from stepwell.dialects.core.mlir import ir, passmanager
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner
from stepwell.runtime.loader import LoadedCode, load

PIPELINE = """builtin.module(
  lower-affine,convert-scf-to-openmp,canonicalize,convert-scf-to-cf,convert-vector-to-llvm,expand-strided-metadata,lower-affine,
  convert-math-to-libm,finalize-memref-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},convert-openmp-to-llvm,
  convert-arith-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts,
  ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly})"""

NODES = ("first/erf", 'second "mul"')

# Two kernels (one with a table of constants, parallel, calling libm) and a main that keeps what is between them in the workspace.
SOURCE = """
memref.global "private" constant @table : memref<4xf32> = dense<[1.5, -2.0, 3.25, 4.0]> {alignment = 64 : i64}
func.func @erf_ab12(%x: memref<64x8xf32>, %y: memref<64x8xf32>) attributes {llvm.no_inline} {
  %t = memref.get_global @table : memref<4xf32>
  affine.parallel (%i) = (0) to (64) {
    affine.for %j = 0 to 8 {
      %v = affine.load %x[%i, %j] : memref<64x8xf32> loc(#erf)
      %e = math.erf %v : f32 loc(#erf)
      %w = affine.load %t[%j mod 4] : memref<4xf32> loc(#mul)
      %m = arith.mulf %e, %w : f32 loc(#mul)
      affine.store %m, %y[%i, %j] : memref<64x8xf32> loc(#mul)
    } loc(#erf)
  } loc(#erf)
  return loc(#mul)
} loc(#start)
func.func @add_cd34(%x: memref<64x8xf32>, %w: memref<8xf32>, %y: memref<64x8xf32>) attributes {llvm.no_inline} {
  affine.for %i = 0 to 64 {
    affine.for %j = 0 to 8 {
      %v = affine.load %x[%i, %j] : memref<64x8xf32> loc(#mul)
      %b = affine.load %w[%j] : memref<8xf32> loc(#mul)
      %s = arith.addf %v, %b : f32 loc(#mul)
      affine.store %s, %y[%i, %j] : memref<64x8xf32> loc(#mul)
    } loc(#mul)
  } loc(#mul)
  return loc(#mul)
} loc(#start)
func.func @main(%x: memref<64x8xf32>, %y: memref<64x8xf32>, %weights: memref<96xi8>, %workspace: memref<2048xi8>) {
  %c0 = arith.constant 0 : index loc(#start)
  %c64 = arith.constant 64 : index loc(#start)
  %t = memref.view %workspace[%c0][] : memref<2048xi8> to memref<64x8xf32> loc(#start)
  %w = memref.view %weights[%c64][] : memref<96xi8> to memref<8xf32> loc(#start)
  func.call @erf_ab12(%x, %t) : (memref<64x8xf32>, memref<64x8xf32>) -> () loc(#erf)
  func.call @add_cd34(%t, %w, %y) : (memref<64x8xf32>, memref<8xf32>, memref<64x8xf32>) -> () loc(#mul)
  return loc(#start)
} loc(#start)
#start = loc("model.onnx":0:0)
#erf = loc("first/erf"("model.onnx":1:0))
#mul = loc("second \\22mul\\22"("model.onnx":2:0))
"""


def lower(source: str = SOURCE) -> ir.Module:
    """The module of `source` in the llvm dialect, with debug information, in a context of its own."""
    context = make_engine_context()
    with context:
        module = ir.Module.parse(source)
        passmanager.PassManager.parse(PIPELINE).run(module.operation)
    return module


def llvm_module(source: str) -> ir.Module:
    """The module of `source`, which is in the llvm dialect already."""
    return ir.Module.parse(source, make_engine_context())


def compile_and_load(source: str, exports: tuple[str, ...] = ("main",), *, packed: bool = False) -> LoadedCode:
    """Lower, compile in this process, link; `packed` is whether @main is to take its arguments as a `CompiledModel` hands them over."""
    module = lower(source)
    if packed:
        PassRunner(PassState()).run(module, "pack-arguments")
    return load(compile_units(split_module(module), jobs=0), exports)
