"""Groves et al. 2022, PMBS: tightly integrated and disaggregated accelerators."""
