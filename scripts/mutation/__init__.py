"""Mutation testing: which faults are planted, which tests are asked, how a fault is tried."""
