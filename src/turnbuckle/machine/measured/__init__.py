"""Outputs of benchmarks, read as parameters of a machine."""
