"""Random operands and attributes for every op of the graph dialect, for tests that hold for all of them."""

from op_cases import contraction, elementwise, indexing, movement, recurrence, reduction, selection, trees  # noqa: F401  (fill the table)
from op_cases.drawing import LEFT_OUT, case_of, cases, cases_and_random, legal_dtypes, with_cases

__all__ = ["LEFT_OUT", "case_of", "cases", "cases_and_random", "legal_dtypes", "with_cases"]
