"""Kernels with their data in host memory, in device memory, or moved on demand."""
