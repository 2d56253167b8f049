"""What quantisation costs on real data: a module for each task (`digits`, `mnist`, `ocr`, `magika`), and what quantises, runs and compares.

Each task gives trials: a network of floats, samples that calibrate it, others that judge it, and how to read its outputs (`trial`).
"""

TASKS = ("digits", "mnist", "ocr", "magika")
"""The tasks by the names of their modules, each of which has a function `trials(folds, say)`."""
