"""Transfers over CXL and PCIe, and chains of accelerators."""
