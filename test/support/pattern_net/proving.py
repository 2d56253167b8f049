"""Proofs over the reals: that no values of its arguments make a graph give something else after a pattern than before."""

from dataclasses import dataclass
from typing import Any

import z3
from pattern_net.comparing import Match
from pattern_net.terms import NoTermError, Terms

TERMS = 600  # elements of the results of one graph


@dataclass(frozen=True)
class Proof:
    """What became of an attempt."""

    holds: bool
    why_not: str = ""


def proven(match: Match, effort: int) -> Proof:
    """Whether the results are equal for all real numbers (and whole ones in the range of their type) for which those before are defined.

    A proof is for the shapes and the constants of the graph. What z3 refutes is no fault by itself: constants are rounded, and of functions it
    knows little. `effort` bounds the work on one element, in units of z3 (rlimit), which do not depend on the machine.
    """
    terms = Terms()
    try:
        before = terms.returned(match.before)
        conditions = list(terms.conditions)
        after = terms.returned(match.after)
    except NoTermError as error:
        return Proof(False, str(error))
    known = [*conditions, *terms.axioms, *terms.products_of_powers()]
    if sum(a.size for a in before) > TERMS:
        return Proof(False, "it has many results")
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old.reshape(-1), new.reshape(-1), strict=True):
            verdict = equal(a, b, known, effort)
            if verdict:
                return Proof(False, verdict)
    return Proof(True)


def equal(a: Any, b: Any, known: list[Any], effort: int) -> str:
    """Why two terms are not known to be equal; nothing if they are."""
    if z3.is_bool(a) != z3.is_bool(b):
        return "a boolean becomes a number"
    if a.eq(b):
        return ""
    if z3.simplify(a, som=True).eq(z3.simplify(b, som=True)):
        return ""
    if not z3.is_bool(a):
        rest = z3.simplify(a - b, som=True)
        if z3.is_rational_value(rest):
            return "" if rest.numerator_as_long() == 0 else "the results differ by a number: a constant is rounded"
    solver = z3.Solver()
    solver.set("rlimit", effort)
    solver.set("random_seed", 0)
    solver.add(*known, a != b)
    found = solver.check()
    if found == z3.unsat:
        return ""
    return "z3 refutes it: a constant is rounded, or it needs more than is known of a function" if found == z3.sat else "z3 does not decide it"
