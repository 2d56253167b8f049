"""Loops whose rounds run on threads, native: results, memory, and what cannot run so."""

from collections.abc import Callable

import guarded
import numpy as np
import pytest
from importing import context, floats

import stepwell
from stepwell.dialects.core.mlir import ir, ops_below, parse_module
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import PassState
from stepwell.passes.linalg.parallel_rounds import parallel_loops, rounds_of
from stepwell.passes.linalg_to_affine.lower_to_affine import LowerToAffine

ROUNDS, ROWS, COLUMNS = 7, 3, 40
OWN, ALL = f"tensor<{ROWS}x{COLUMNS}xf32>", f"tensor<{ROUNDS * ROWS}x{COLUMNS}xf32>"


def less_its_mean(result: str, first: str, to: str = "") -> str:
    """`first` less the mean of its row, the mean in memory between two ops; into a tensor of its own or `to` one."""
    own = "" if to else f"%{result}_to = tensor.empty() : {OWN}"
    return f"""{own}
      %{result}_e = tensor.empty() : tensor<{ROWS}xf32>
      %{result}_f = linalg.fill ins(%zero : f32) outs(%{result}_e : tensor<{ROWS}xf32>) -> tensor<{ROWS}xf32>
      %{result}_s = linalg.generic {{indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}}
        ins({first} : {OWN}) outs(%{result}_f : tensor<{ROWS}xf32>) {{
      ^bb0(%p: f32, %o: f32):
        %v = arith.addf %o, %p : f32
        linalg.yield %v : f32
      }} -> tensor<{ROWS}xf32>
      %{result} = linalg.generic {{indexing_maps = [#id, #id, #row, #id], iterator_types = ["parallel", "parallel"]}}
        ins({first}, %own, %{result}_s : {OWN}, {OWN}, tensor<{ROWS}xf32>) outs({to or f"%{result}_to"} : {OWN}) {{
      ^bb0(%p: f32, %q: f32, %s: f32, %o: f32):
        %m = arith.divf %s, %count : f32
        %d = arith.subf %p, %m : f32
        %v = arith.addf %d, %q : f32
        linalg.yield %v : f32
      }} -> {OWN}"""


def text(before: str, body: str) -> str:
    """A kernel whose rounds take some rows of %x, %own, and insert %made of each; `before` comes before the loop."""
    return f"""
    #id = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    func.func private @rows(%x: {ALL}, %out: {ALL}) -> {ALL} attributes {{stepwell.kernel}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c5 = arith.constant 5 : index
      %rows = arith.constant {ROWS} : index
      %rounds = arith.constant {ROUNDS} : index
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %count = arith.constant {COLUMNS}.0 : f32
      {before}
      %e = tensor.empty() : {ALL}
      %y = scf.for %i = %c0 to %rounds step %c1 iter_args(%all = %e) -> ({ALL}) {{
        %first = arith.muli %i, %rows : index
        %own = tensor.extract_slice %x[%first, 0] [{ROWS}, {COLUMNS}] [1, 1] : {ALL} to {OWN}
        {body}
        %next = tensor.insert_slice %made into %all[%first, 0] [{ROWS}, {COLUMNS}] [1, 1] : {OWN} into {ALL}
        scf.yield %next : {ALL}
      }} {{sched.parallel}}
      return %y : {ALL}
    }}
    func.func @main(%x: {ALL} {{stepwell.name = "x"}}) -> ({ALL} {{stepwell.name = "y"}}) {{
      %e = tensor.empty() : {ALL}
      %0 = call @rows(%x, %e) : ({ALL}, {ALL}) -> {ALL}
      return %0 : {ALL}
    }}"""


FILLED = f"""%se = tensor.empty() : {OWN}
      %start = linalg.fill ins(%one : f32) outs(%se : {OWN}) -> {OWN}"""
STEPS = f"""%made = scf.for %k = %c0 to %c5 step %c1 iter_args(%h = %start) -> ({OWN}) {{
      {less_its_mean("n", "%h")}
      scf.yield %n : {OWN}
      }}"""
X = floats(ROUNDS * ROWS, COLUMNS)


def mean_taken(a: np.ndarray, own: np.ndarray) -> np.ndarray:
    return a - a.mean(axis=1, keepdims=True) + own


def stepped(x: np.ndarray) -> np.ndarray:
    h = np.ones_like(x)
    for _ in range(5):
        h = mean_taken(h, x)
    return h


CASES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "what lies between two ops of a round": (text("", less_its_mean("made", "%own")), lambda x: mean_taken(x, x)),
    "memory made before the loop": (text(f"%to = tensor.empty() : {OWN}", less_its_mean("made", "%own", "%to")), lambda x: mean_taken(x, x)),
    "a state that each round begins with": (text("", FILLED + STEPS), stepped),
    "a state that all rounds begin with": (text(FILLED, STEPS), stepped),
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_results(case: str, threads: int) -> None:
    source, want = CASES[case]
    made = stepwell.compile_ir(source, "graph-opt", WeightTable(), threads=threads)
    for _ in range(20):  # threads meet in other ways each time
        got = guarded.run(made, {"x": X}, 0)["y"]
        np.testing.assert_allclose(got, want(X), rtol=1e-5, atol=1e-5)


def test_each_round_has_scratch_of_its_own() -> None:
    source, _ = CASES["what lies between two ops of a round"]
    memory = stepwell.compile_ir(source, "graph-opt", WeightTable(), threads=1).memory
    assert memory.workspace_bytes == ROUNDS * 64  # a few sums, in a cache line of their own
    one = source.replace("{sched.parallel}", "")
    assert stepwell.compile_ir(one, "graph-opt", WeightTable(), threads=1).memory.workspace_bytes == 64


def test_nothing_inside_a_round_runs_on_threads() -> None:
    """However much it has to do, as an op that runs on threads by itself without such a loop around it."""
    source = CASES["a state that each round begins with"][0].replace(f"{COLUMNS}xf32", "40000xf32").replace(f", {COLUMNS}]", ", 40000]")
    loops = {}
    for name, given in (("rounds", source), ("steps", source.replace("{sched.parallel}", ""))):
        lowered = stepwell.descend(stepwell.read_ir(given, "graph-opt", WeightTable()), "affine")
        found = ops_below(lowered.module.operation, "affine.parallel")
        loops[name] = [[around.name for around in parents(loop)] for loop in found]
    assert loops["rounds"] == [["func.func"]]
    assert len(loops["steps"]) > 1
    assert all("scf.for" in around for around in loops["steps"])


def parents(op: ir.Operation) -> list[ir.Operation]:
    """What is around an op in its module, from inside out."""
    found = []
    while (parent := op.parent) is not None and parent.operation.name != "builtin.module":
        op = parent.operation
        found.append(op)
    return found


def test_what_hands_something_on_cannot_run_on_threads() -> None:
    kernel = """
    func.func private @sum(%o: memref<8xf32>, %x: f32) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %s = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %x) -> (f32) {
        %b = arith.addf %a, %x : f32
        memref.store %b, %o[%i] : memref<8xf32>
        scf.yield %b : f32
      } {sched.parallel}
      return
    }"""
    module = parse_module(kernel, context())
    [function] = ops_below(module.operation, "func.func")
    with context(), pytest.raises(PassError, match=r"'scf.for' at .*: rounds that run on threads cannot hand anything from one to the next"):
        LowerToAffine().run(function, PassState())


def test_a_loop_that_passes_made_unfit_is_refused() -> None:
    with context():
        module = parse_module(CASES["a state that each round begins with"][0], context())
        [loop] = parallel_loops(module.operation)
        assert rounds_of(loop) == ROUNDS
        loop.operands[0] = loop.operands[2]
        with pytest.raises(PassError, match=r"'scf.for' at .* must count from 0 to a constant in steps of 1"):
            rounds_of(loop)
