"""Execution traces of MLCommons Chakra and of PyTorch."""
