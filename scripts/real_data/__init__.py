"""The loss of quantisation on real data: a module for each task (`digits`, `mnist`, `ocr`, `magika`), and the quantisers, engines and comparison.

Each task yields trials: a float network, samples that calibrate it, others that judge it, and a reader of its outputs (`trial`).
"""

TASKS = ("digits", "mnist", "ocr", "magika")
"""The tasks by the names of their modules, each of which has a function `trials(folds, say)`."""
