"""Writes digits and their labels to an .npz file, for `stepwell quantize`: python examples/digits/samples.py FILE.npz"""

import argparse

import numpy as np
from data import split

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the held-out digits as an .npz file: image, f32[450, 1, 8, 8], and label.")
    parser.add_argument("file", metavar="FILE.npz")
    images, labels = split()[1]
    np.savez(parser.parse_args().file, image=images, label=labels)
