"""Every rewrite pattern on graphs in which it matches: a sample. scripts/check_patterns.py tries many more."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import check_patterns
import numpy as np
import pytest
import z3
from every import every
from op_cases import case_of
from op_cases.drawing import accepts
from op_random import type_of_array
from op_sweep import Row
from pattern_net.graphs import Argument, Graph, Node, Ref, run
from pattern_net.growing import Small
from pattern_net.net import SAMPLE, Effort, examined, is_of_memory, patterns
from pattern_net.record import NEVER_MATCHED, grown_before, read
from pattern_net.terms import LINEAR, NoTermError, Terms

from stepwell.dialects.core.types import type_of
from stepwell.dialects.graph import AddOp, ExpandOp, MulOp, ReluOp, TransposeOp, op_class
from stepwell.dialects.graph.callbacks import inferred_types
from stepwell.passes.framework.rewriting import NoMatch, Pattern, pattern
from stepwell.passes.graph.matching import producer, splat_of, stored

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "pattern.py"
OURS = {p: names for p, names in patterns().items() if p.rewrite.__module__.startswith("stepwell.")}
TRIED = {p: names for p, names in OURS.items() if not is_of_memory(p)}
PARTS = 12
FEW = Effort(tries=8, matches=2, proofs=0, attempts=0, rlimit=0, scalars=1)
RECORD = {entry["name"]: entry for entry in read()}


@pytest.mark.parametrize("part", range(PARTS))
def test_patterns(part: int) -> None:
    wrong: list[str] = []
    for p, names in list(TRIED.items())[part::PARTS]:
        outcome = examined(p, names, SAMPLE, grown_before(p.label))
        wrong += [f"{p.label}: {problem}" for problem in outcome.problems]
        if bool(outcome.matched) == (p.label in NEVER_MATCHED):
            wrong.append(f"{p.label}: it matched {outcome.matched} graphs" + (", and is listed as one that never does" if outcome.matched else ""))
        if RECORD[p.label]["by_day"] and not outcome.proven:
            wrong.append(f"{p.label}: it was proven, and is not: {outcome.unproven.most_common(1)}")
    assert not wrong, "\n".join(wrong)


# --- the record, and the page made of it (test/project/test_docs.py holds that one)


def test_record_has_every_pattern() -> None:
    assert set(RECORD) == {p.label for p in TRIED}, "run scripts/check_patterns.py --record"
    assert len({p.label for p in OURS}) == len(OURS), "two patterns have the same name and root"
    assert set(NEVER_MATCHED) <= set(RECORD)


# --- that wrong patterns are seen


def wrong_pattern(root: Any) -> Callable[[Callable[..., Any]], Pattern]:
    return pattern(root)


@wrong_pattern(AddOp)
def of_wrong_sign(op: Any, rw: Any) -> Any:
    """rewrite: (x + a) + b -> x + (a - b)"""
    inner = producer(op.lhs, "add")
    a, b = (None, None) if inner is None else (stored(inner.rhs, rw.weights), stored(op.rhs, rw.weights))
    return NoMatch("no") if a is None or b is None or inner is None else rw.add(inner.lhs, rw.literal(np.asarray(a - b, a.dtype)))


@wrong_pattern(MulOp)
def of_finite_floats(op: Any, rw: Any) -> Any:
    """rewrite: x * 0 -> 0   exact"""
    return op.rhs if splat_of(op.rhs, rw) == 0 and op.rhs.type == op.result.type else NoMatch("no")


@wrong_pattern(TransposeOp)
def of_places(op: Any, rw: Any) -> Any:
    """rewrite: transpose(x) -> reshape(x)"""
    return rw.reshape(op.x, shape=type_of(op.result).shape) if type_of(op.x).is_static else NoMatch("no")


@wrong_pattern(ReluOp)
def of_floats(op: Any, rw: Any) -> Any:
    """rewrite: relu(abs(x)) -> abs(x)   exact"""
    return op.x if producer(op.x, "abs") is not None else NoMatch("no")


@wrong_pattern(TransposeOp)
def of_other_type(op: Any, rw: Any) -> Any:
    """rewrite: transpose(x) -> x"""
    return op.x


@wrong_pattern(ExpandOp)
def of_no_value(op: Any, rw: Any) -> Any:
    """rewrite: expand(x) -> nothing"""
    return None


@every("p, said", [
    (of_wrong_sign, "result 0"), (of_finite_floats, "nan"), (of_places, "result 0"), (of_floats, "and was np.int8(0)"),
    (of_other_type, "to replace result 0"), (of_no_value, "it raises"),
])  # fmt: skip
def test_wrong_pattern_is_seen(p: Pattern, said: str) -> None:
    outcome = examined(p, ["simplify-algebra", "remove-identities"], FEW)
    assert outcome.matched or outcome.problems
    assert any(said in problem for problem in outcome.problems), outcome.problems


# --- that terms mean what the references say

SPELLED_OUT = [*LINEAR, *(name.removeprefix("op_") for name in dir(Terms) if name.startswith("op_")), "max_pool", "reduce_max", "reduce_min",
               "reduce_prod", "transpose", "slice", "pad", "concat", "expand", "tile", "gather", "reshape", "pixel_shuffle"]  # fmt: skip


@every("mnemonic", sorted(set(SPELLED_OUT) - {"packed.winograd_conv"}))
def test_terms_are_what_references_give(mnemonic: str) -> None:
    done = 0
    for seed in range(20):
        dtype = next(t for t in ("f32", "ui8", "i1") if accepts(mnemonic, Row(0, t, 2, (), False)))
        case = case_of(mnemonic, Small(Row(seed, dtype, 1 + seed % 3, (2, 1 + seed % 2, 2), False)))
        flat = [a for g in case.operands if g is not None for a in (g if isinstance(g, list) else [g])]
        flat = [np.asarray(np.round(a * 4) / 4).astype(a.dtype) if a.dtype.kind == "f" else a for a in flat]
        if any(not 0 < a.size <= 48 or (a.dtype.kind == "f" and not np.isfinite(a).all()) for a in flat):
            continue
        numbered = iter(range(len(flat)))
        operands = [None if g is None else [Ref(next(numbered)) for _ in g] if isinstance(g, list) else Ref(next(numbered)) for g in case.operands]
        kinds = [type_of_array(a) for a in flat]
        types = [None if g is None else [kinds[r.entry] for r in g] if isinstance(g, list) else kinds[g.entry] for g in operands]
        node = Node(mnemonic, operands, case.attributes, tuple(inferred_types(op_class(mnemonic), types, case.attributes)))
        graph = Graph((*map(Argument, kinds), node), (Ref(len(flat)),))
        try:
            terms = Terms()
            (found,) = terms.returned(graph)
        except NoTermError:
            continue
        (want,) = run(graph, flat, {})
        check_terms(terms, found, flat, want)
        done += 1
        break
    assert done or mnemonic in ("gather", "sqrt", "rsqrt", "batch_norm"), "no case has terms"


def check_terms(terms: Terms, found: np.ndarray, arrays: list[np.ndarray], want: np.ndarray) -> None:
    """The terms, with numbers in the place of the unknowns, are the numbers that the reference gives; functions are not asked."""
    pairs = []
    for symbols, array in zip(terms.arguments, arrays, strict=True):
        for place in np.ndindex(array.shape):
            symbol, value = symbols[place], array[place]
            if z3.is_bool(symbol):
                pairs.append((symbol, z3.BoolVal(bool(value))))
            elif z3.is_to_real(symbol):
                pairs.append((symbol.arg(0), z3.IntVal(int(value))))
            else:
                pairs.append((symbol, z3.RealVal(str(float(value)))))
    for place in np.ndindex(want.shape):
        value = z3.simplify(z3.substitute(found[place], *pairs))
        if z3.is_rational_value(value):
            assert float(value.as_fraction()) == pytest.approx(float(want[place]), rel=1e-5, abs=1e-6), (place, value)
        elif z3.is_true(value) or z3.is_false(value):
            assert z3.is_true(value) == bool(want[place])


# --- the script


def test_the_script_tries_patterns_of_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_patterns.main(["--load", str(PLUGIN), "--only", "merge_exponentials", "--only", "merge_slices", "--sample"]) == 0
    said = capsys.readouterr().out
    assert "merge_exponentials(mul): " in said
    assert "2 patterns of 2" in said
    with pytest.raises(SystemExit):
        check_patterns.main(["--only", "no_such_pattern"])
