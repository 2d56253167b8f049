#!/usr/bin/env python3
"""Fit the polynomials of the vector math functions and write passes/affine_to_llvm/vector_math/coefficients.py. `--check` only compares.

Every function is written as exact terms plus `x^n * P(x)`; P is the minimax polynomial for the relevant error, found by the exchange algorithm of E.
Ya. Remez (1934; J.-M. Muller, "Elementary Functions", 3rd ed., section 3.4) on a fine grid. Rounding all coefficients at the end would lose accuracy,
so each is rounded as soon as it is known, from the lowest degree up, and the others are fitted again to the remainder (N. Brisebarre, J.-M. Muller
and A. Tisserand, 2006, state the problem). Constants for argument reduction are split into parts whose products are exact (W. J. Cody and W. Waite,
1980).
"""

import argparse
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import environment
import numpy as np

if __name__ == "__main__":
    environment.need(__doc__, "dev", "mpmath", for_help=("mpmath",))

from mpmath import mp, mpf

FILE = Path(__file__).resolve().parent.parent / "passes" / "affine_to_llvm" / "vector_math" / "coefficients.py"
DIGITS = 70  # decimal digits of all computations; repeated division by x near 0 loses many of them
GRID = 600  # number of points at which the error is evaluated
ROUNDS = 60
SLACK = mpf("1.001")  # how much above the least possible the largest error may be
WIDTH = 150  # columns

Function = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """A polynomial to fit: `target` on `interval` in powers 0 … `degree`, with errors multiplied by `weight`."""

    name: str
    meaning: str
    target: Function
    weight: Function
    interval: tuple[mpf, mpf]
    degree: int
    bits: int = 24  # significant bits of a coefficient: 24 for f32, 53 for f64


def rounded(value: mpf, bits: int) -> mpf:
    """`value` rounded to the nearest number with `bits` significant bits."""
    if value == 0:
        return value
    exponent = int(mp.floor(mp.log(abs(value), 2))) - bits + 1
    return mp.ldexp(mp.nint(mp.ldexp(value, -exponent)), exponent)


def remez(xs: list[mpf], target: list[mpf], weight: list[mpf], degree: int) -> list[mpf]:
    """The polynomial's coefficients that minimise `max |weight * (target - P)|` over the points `xs`, in ascending order."""
    count = degree + 2
    chosen = [round(i * (len(xs) - 1) / (count - 1)) for i in range(count)]
    for _ in range(ROUNDS):
        system, right = mp.matrix(count, count), mp.matrix(count, 1)
        for row, i in enumerate(chosen):
            for power in range(degree + 1):
                system[row, power] = xs[i] ** power
            system[row, degree + 1] = (-1) ** row / weight[i]
            right[row] = target[i]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[i] for i in range(degree + 1)]
        level = abs(solution[degree + 1])
        errors = [w * (t - mp.polyval(coefficients[::-1], x)) for x, t, w in zip(xs, target, weight, strict=True)]
        if max(map(abs, errors)) <= level * SLACK:
            return coefficients
        chosen = exchange(errors, count)
    raise ValueError(f"no convergence at degree {degree}")


def exchange(errors: list[mpf], count: int) -> list[int]:
    """The positions of `count` extremes with alternating signs, including the largest of all."""
    extremes: list[int] = []
    for i, error in enumerate(errors):
        if extremes and (error > 0) == (errors[extremes[-1]] > 0):
            if abs(error) > abs(errors[extremes[-1]]):
                extremes[-1] = i
        else:
            extremes.append(i)
    size = [abs(errors[i]) for i in extremes]
    while len(extremes) > count:
        # An extreme at an end is removed alone, one inside together with its smaller neighbour; otherwise two with equal signs would be adjacent.
        least = min(range(len(extremes)), key=size.__getitem__)
        if len(extremes) == count + 1:
            gone = {0 if size[0] < size[-1] else len(extremes) - 1}
        elif least in (0, len(extremes) - 1):
            gone = {least}
        else:
            gone = {least, min(least - 1, least + 1, key=size.__getitem__)}
        extremes = [e for i, e in enumerate(extremes) if i not in gone]
        size = [s for i, s in enumerate(size) if i not in gone]
    if len(extremes) < count:
        raise ValueError(f"the error has {len(extremes)} extremes, expected {count}: its degree is too high for the grid")
    return extremes


def fit(job: Fit) -> tuple[list[mpf], mpf]:
    """The rounded coefficients, lowest degree first, and the largest remaining weighted error."""
    low, high = job.interval
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * GRID)) for i in reversed(range(GRID))]  # an even number of nodes, so that none is the middle itself
    xs = [(low + high) / 2 + (high - low) / 2 * node for node in nodes]
    target = [job.target(x) for x in xs]
    weight = [abs(job.weight(x)) for x in xs]
    rest, left, out = list(target), list(weight), []
    for degree in range(job.degree, -1, -1):
        out.append(rounded(remez(xs, rest, left, degree)[0], job.bits))
        rest = [(t - out[-1]) / x for t, x in zip(rest, xs, strict=True)]
        left = [w * abs(x) for w, x in zip(left, xs, strict=True)]
    error = max(w * abs(t - mp.polyval(out[::-1], x)) for x, t, w in zip(xs, target, weight, strict=True))
    return out, error


def fits() -> list[Fit]:
    """All polynomials."""
    e, log, ln2, sqrt, pi = mp.exp, mp.log, mp.log(2), mp.sqrt, mp.pi
    half_ln2 = (-ln2 / 2 * mpf("1.0002"), ln2 / 2 * mpf("1.0002"))  # the quotient is rounded, so the remainder may be a little larger
    square = (mpf(0), (ln2 / 2 * mpf("1.0002")) ** 2)
    octant = (pi / 4 + mpf("0.0005")) ** 2
    mantissa = (1 / sqrt(2) - 1, sqrt(2) - 1)
    slow = 1 - 1 / sqrt(2)

    def logarithm(base: mpf) -> tuple[Function, Function]:
        """log_b(1 + f) = f / ln b + f^2 P(f), fitted for relative error."""
        return lambda f: (log(1 + f) - f) / log(base) / f**2, lambda f: f**2 * log(base) / log(1 + f)

    def erfc_exponent(t: mpf) -> mpf:
        return log(mp.erfc(t)) / ln2

    return [
        Fit("EXP", "e^r = 1 + r + r^2 P(r), |r| <= ln(2) / 2", lambda r: (e(r) - 1 - r) / r**2, lambda r: r**2 / e(r), half_ln2, 4),
        Fit("EXPM1", "e^r - 1 = r + r^2 P(r), |r| <= ln(2) / 2", lambda r: (e(r) - 1 - r) / r**2, lambda r: r**2 / mp.expm1(r), half_ln2, 5),
        Fit("EXP2", "2^r = 1 + r P(r), |r| <= 1/2", lambda r: mp.expm1(r * ln2) / r, lambda r: r / 2**r, (mpf(-0.5), mpf(0.5)), 5),
        Fit("SINH", "sinh r = r + r^3 P(r^2), |r| <= ln(2) / 2", lambda s: (mp.sinh(sqrt(s)) / sqrt(s) - 1) / s, lambda s: s, square, 2),
        Fit("COSH", "cosh r = 1 + r^2 P(r^2), |r| <= ln(2) / 2", lambda s: (mp.cosh(sqrt(s)) - 1) / s, lambda s: s, square, 2),
        Fit("TANH", "tanh x = x + x^3 P(x^2), |x| <= 0.625", lambda s: (mp.tanh(sqrt(s)) / sqrt(s) - 1) / s, lambda s: s, (mpf(0), mpf("0.391")), 4),
        Fit("LOG", "log(1 + f) = f + f^2 P(f), sqrt(1/2) <= 1 + f <= sqrt(2)", *logarithm(mp.e), mantissa, 8),
        Fit("LOG2", "log2(1 + f) = f / ln(2) + f^2 P(f), on the same", *logarithm(mpf(2)), mantissa, 8),
        Fit("LOG10", "log10(1 + f) = f / ln(10) + f^2 P(f), on the same", *logarithm(mpf(10)), mantissa, 8),
        Fit(
            "LOG2_WIDE", "log2((1 + s) / (1 - s)) = s P(s^2), |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)",
            lambda s: 2 * mp.atanh(sqrt(s)) / ln2 / sqrt(s), lambda s: sqrt(s) / mp.atanh(sqrt(s)), (mpf(0), (slow / (2 - slow)) ** 2), 4, 53,
        ),
        Fit(
            "ERF_NEAR", "erf x = x + x P(x^2), |x| <= 1",
            lambda s: mp.erf(sqrt(s)) / sqrt(s) - 1, lambda s: sqrt(s) / mp.erf(sqrt(s)), (mpf(0), mpf(1)), 6,
        ),
        Fit("ERF_FAR", "erfc x = 2^P(x), 1 <= x <= 4", erfc_exponent, lambda t: mp.erfc(t) * ln2, (mpf(1), mpf(4)), 6),
        Fit("SIN", "sin r = r + r^3 P(r^2), |r| <= pi / 4", lambda s: (mp.sin(sqrt(s)) / sqrt(s) - 1) / s, lambda s: s, (mpf(0), octant), 2),
        Fit(
            "COS", "cos r = 1 - r^2 / 2 + r^4 P(r^2), |r| <= pi / 4",
            lambda s: (mp.cos(sqrt(s)) - 1 + s / 2) / s**2, lambda s: s**2, (mpf(0), octant), 2,
        ),
        Fit("TAN", "tan r = r + r^3 P(r^2), |r| <= pi / 4", lambda s: (mp.tan(sqrt(s)) / sqrt(s) - 1) / s, lambda s: s, (mpf(0), octant), 6),
        Fit("ASIN", "asin x = x + x^3 P(x^2), |x| <= 1/2", lambda s: (mp.asin(sqrt(s)) / sqrt(s) - 1) / s, lambda s: s, (mpf(0), mpf(0.25)), 4),
        Fit("ATAN", "atan x = x + x^3 P(x^2), |x| <= 1", lambda s: (mp.atan(sqrt(s)) / sqrt(s) - 1) / s, lambda s: s, (mpf(0), mpf(1)), 8),
    ]  # fmt: skip


def parts(value: mpf, *bits: int) -> list[mpf]:
    """`value` as a sum of numbers with the given numbers of bits, largest first."""
    out = []
    for count in bits:
        out.append(rounded(value, count))
        value -= out[-1]
    return out


def constants() -> list[tuple[str, str, list[mpf], int]]:
    """Constants as (name, meaning, values, bits): those for f32 (24) and for f64 (53)."""
    ln2, ln10 = mp.log(2), mp.log(10)
    turns = []
    for j in range(5):
        quadrants = mp.ldexp(2 / mp.pi, 24 * j)
        turns += parts(quadrants if j == 0 else quadrants - 4 * mp.floor(quadrants / 4), 29, 29, 53)
    return [
        ("LOG2_E", "1 / ln(2), in two parts", parts(1 / ln2, 24, 24), 24),
        ("LOG10_E", "1 / ln(10), in two parts", parts(1 / ln10, 24, 24), 24),
        ("LN2", "ln(2): a multiple of the first part by 8 bits is exact", parts(ln2, 16, 24), 24),
        ("LOG10_2", "log10(2), likewise", parts(ln2 / ln10, 16, 24), 24),
        ("HALF_PI", "pi / 2, in three parts", parts(mp.pi / 2, 24, 24, 24), 24),
        ("PI", "pi, in two parts", parts(mp.pi, 24, 24), 24),
        ("TWO_OVER_PI", "2 / pi", parts(2 / mp.pi, 24), 24),
        ("QUADRANTS", "2^(24 j) * 2 / pi modulo 4 for j = 0 … 4, each in parts of 29, 29 and 53 bits", turns, 53),
        ("HALF_PI_WIDE", "pi / 2", parts(mp.pi / 2, 53), 53),
    ]  # fmt: skip


def literal(value: mpf, bits: int) -> str:
    """The shortest decimal number that rounds to `value` in f32 or f64."""
    return str(np.float32(float(value)) if bits == 24 else float(value))


def entry(name: str, meaning: str, values: list[mpf], bits: int) -> str:
    """One table of the file."""
    numbers = [literal(v, bits) for v in values]
    if len(numbers) == 1:
        return f"# {meaning}\n{name} = {numbers[0]}\n"
    line = f"{name} = ({', '.join(numbers)})\n"
    if len(line) > WIDTH:
        line = f"{name} = (\n{textwrap.fill(', '.join(numbers), WIDTH, initial_indent='    ', subsequent_indent='    ')},\n)\n"
    return f"# {meaning}\n{line}"


def page() -> str:
    """The file's text; the remaining errors are printed to standard error."""
    mp.dps = DIGITS
    text = '"""Coefficients of the vector maths, lowest degree first, and constants of argument reduction; by scripts/fit_polynomials.py."""\n'
    for name, meaning, values, bits in constants():
        text += "\n" + entry(name, meaning, values, bits)
    for job in fits():
        coefficients, error = fit(job)
        print(f"{job.name:10} degree {job.degree}: error 2^{float(mp.log(error, 2)):.1f}", file=sys.stderr)
        text += "\n" + entry(job.name, job.meaning, coefficients, job.bits)
    return text


def main() -> int:
    """Write the file, or compare it with the existing one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the file is what this script writes")
    options = parser.parse_args()
    text = page()
    if not options.check:
        FILE.write_text(text, encoding="utf-8")
        return 0
    if FILE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{FILE.name} is not what scripts/fit_polynomials.py writes")
    return 1


if __name__ == "__main__":
    sys.exit(main())
