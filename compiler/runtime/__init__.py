"""Compiled models in memory: loading their code, buffers, threads, runs."""
